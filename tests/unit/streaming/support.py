"""Streams of small vocabularies, without the HTTP around them."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from derender.endpoints import ENDPOINTS, answer
from derender.errors import DerenderError
from derender.parsing import load_parsers
from derender.protocol.writing import dumps
from derender.streaming import Derendered
from tests.support.api_client import CHAT, COMPLETIONS
from tests.support.models import alone, served

from ..parsing.support import encode, marked_vocabulary, marker_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.models.model import ServedModel
    from derender.settings import ToolCallDeltas

ASKED: Final = {CHAT: "chat_request", COMPLETIONS: "completion_request"}
CREATED: Final = 1_795_967_522
TOOLS: Final = [{"type": "function", "function": {"name": "get_weather"}}]
CALL: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'


def chunk(token_ids: Sequence[int] | None = (), finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a generate chunk of one choice."""
    token_ids = None if token_ids is None else list(map(int, token_ids))
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": finish, **fields}
    return {"request_id": "gen-1", "choices": [choice]}


def logprobs(token_ids: Sequence[int], *candidates: int) -> dict[str, Any]:
    """Return logprobs of tokens, each with these candidates."""
    others = [{"token_id": int(token_id), "logprob": -1.5, "rank": 2} for token_id in candidates]
    entries = []
    for token_id in map(int, token_ids):
        sampled = {"token_id": token_id, "logprob": -0.5, "rank": 1}
        entries.append({**sampled, "top_logprobs": [sampled, *others] if others else []})
    return {"content": entries}


class Local:
    """Answers requests like the application, without HTTP and at a fixed time."""

    def __init__(self, model: ServedModel) -> None:
        self.model = model

    def post(self, path: str, body: object) -> tuple[int, Any]:
        """Return the status and the parsed body."""
        try:
            request, _, content = answer(ENDPOINTS[path], alone(self.model), json.dumps(body).encode(), CREATED)
        except DerenderError as error:
            return error.status, error.message
        if not isinstance(content, Derendered):
            return 200, json.loads(dumps(content))
        chunks = (
            {"chunks": content.chunks}
            if getattr(request, "generate_chunks", None)
            else {"chunk": content.chunks[0]}
        )
        return 200, json.loads(dumps({**chunks, "stream_state": content.state}))


def parsing(deltas: ToolCallDeltas = "fragments") -> ServedModel:
    """Return a model of bytes and the markers of Hermes and Qwen3, with their parsers."""
    vocabulary = marked_vocabulary(sorted(marker_texts("hermes", "qwen3")))
    model = served(vocabulary, max_model_len=4096)
    return dataclasses.replace(
        model, parsers=load_parsers(vocabulary, "hermes", "qwen3"), tool_call_deltas=deltas
    )


def ids(model: ServedModel, text: str) -> list[int]:
    """Return the ids of a text."""
    return encode(model.vocabulary, text)
