"""Streams of small vocabularies, without the HTTP around them."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from derender.answers.chat import derender_chat
from derender.answers.completions import derender_completion
from derender.errors import DerenderError
from derender.parsing import load_parsers
from derender.protocol.derender import ChatDerenderRequest, CompletionDerenderRequest
from derender.protocol.reading import read_either
from derender.protocol.stream import ChatStreamRequest, CompletionStreamRequest
from derender.protocol.writing import dumps
from derender.streaming import derender_chat_stream, derender_completion_stream

from ..parsing.support import encoded, markers_of, with_markers
from ..support import CHAT, COMPLETIONS, served

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.models.model import ServedModel
    from derender.settings import ToolCallDeltas

ASKED: Final = {CHAT: "chat_request", COMPLETIONS: "completion_request"}
CREATED: Final = 1_795_967_522
TOOLS: Final = [{"type": "function", "function": {"name": "get_weather"}}]
CALL: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'


def chunk(token_ids: Sequence[int] | None = (), finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A generate chunk of one choice."""
    token_ids = None if token_ids is None else list(map(int, token_ids))
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": finish, **fields}
    return {"request_id": "gen-1", "choices": [choice]}


def logprobs(token_ids: Sequence[int], *candidates: int) -> dict[str, Any]:
    """Log probabilities of some tokens, each with these candidates."""
    others = [{"token_id": int(token_id), "logprob": -1.5, "rank": 2} for token_id in candidates]
    entries = []
    for token_id in map(int, token_ids):
        sampled = {"token_id": token_id, "logprob": -0.5, "rank": 1}
        entries.append({**sampled, "top_logprobs": [sampled, *others] if others else []})
    return {"content": entries}


class Local:
    """Answers requests as the application does, at one time."""

    def __init__(self, model: ServedModel) -> None:
        self.model = model

    def post(self, path: str, body: object) -> tuple[int, Any]:
        """The status and the parsed body."""
        content = json.dumps(body).encode()
        answered: object
        try:
            if path == CHAT:
                chat = read_either(ChatDerenderRequest, ChatStreamRequest, content)
                if isinstance(chat, ChatDerenderRequest):
                    answered = derender_chat(chat, self.model, CREATED)
                else:
                    answered = _answer(derender_chat_stream(chat, self.model, CREATED), chat.generate_chunks)
            else:
                text = read_either(CompletionDerenderRequest, CompletionStreamRequest, content)
                if isinstance(text, CompletionDerenderRequest):
                    answered = derender_completion(text, self.model, CREATED)
                else:
                    derendered = derender_completion_stream(text, self.model, CREATED)
                    answered = _answer(derendered, text.generate_chunks)
        except DerenderError as error:
            return error.status, error.message
        return 200, json.loads(dumps(answered))


def _answer(derendered: Any, several: object) -> dict[str, Any]:
    if several is None:
        return {"chunk": derendered.chunks[0], "stream_state": derendered.state}
    return {"chunks": derendered.chunks, "stream_state": derendered.state}


def parsing(deltas: ToolCallDeltas = "fragments") -> ServedModel:
    """Serves bytes and the markers of Hermes and Qwen3, with their parsers."""
    vocabulary = with_markers(sorted(markers_of("hermes", "qwen3")))
    model = served(vocabulary, max_model_len=4096)
    return dataclasses.replace(
        model, parsers=load_parsers(vocabulary, "hermes", "qwen3"), tool_call_deltas=deltas
    )


def ids(model: ServedModel, text: str) -> list[int]:
    """Text as ids of `parsing`."""
    return encoded(model.vocabulary, text)
