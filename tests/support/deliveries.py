"""How answers are delivered: whole, in a stream of complete calls, or in a stream of fragments."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from derender.endpoints import CHAT, answer
from derender.protocol.writing import dumps
from derender.streaming import Derendered

from .models import alone, served
from .streams import Added, added_up, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.models.model import ServedModel
    from derender.parsing import Parsers
    from derender.vocabulary import Vocabulary

__all__ = ["DELIVERIES", "Chat", "Delivered", "Delivery"]

Delivery = Literal["whole", "complete", "fragments"]
DELIVERIES: Final[tuple[Delivery, ...]] = ("whole", "complete", "fragments")
_CREATED: Final = 1_795_967_522


class Delivered(NamedTuple):
    """What a client gets."""

    message: Added
    usage: dict[str, Any]


class Chat:
    """Answers one client's request through the derender endpoint.

    Args:
        vocabulary: The vocabulary.
        parsers: The parsers.
        client: The client's request.
        prompt: The prompt's ids, if they are known.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        parsers: Parsers | None,
        client: Mapping[str, Any],
        prompt: Sequence[int] | None,
    ) -> None:
        model = dataclasses.replace(served(vocabulary, max_model_len=100_000), parsers=parsers)
        self._models = {
            "complete": dataclasses.replace(model, tool_call_deltas="complete"),
            "fragments": dataclasses.replace(model, tool_call_deltas="fragments"),
        }
        self._request = {"chat_request": dict(client), "prompt_token_ids": prompt and list(prompt)}

    def whole(self, ids: Sequence[int], finish_reason: str) -> Delivered:
        """Return the whole answer to ids."""
        choice = {"index": 0, "token_ids": list(ids), "finish_reason": finish_reason}
        response = {"request_id": "gen-1", "choices": [choice], "usage": _usage(ids)}
        answered = self._post(self._models["complete"], {"generate_response": response})
        (message,) = whole(answered).values()
        return Delivered(message, answered["usage"])

    def streamed(self, delivery: Delivery, chunks: Sequence[Sequence[int]], finish_reason: str) -> Delivered:
        """Return what a stream adds up to. Each chunk of ids is a request of its own."""
        model, state, answered = self._models[delivery], None, []
        for number, ids in enumerate(chunks, 1):
            choice: dict[str, Any] = {"index": 0, "token_ids": list(ids)}
            chunk: dict[str, Any] = {"request_id": "gen-1", "choices": [choice]}
            if number == len(chunks):
                choice["finish_reason"] = finish_reason
                chunk["usage"] = _usage([each for ids in chunks for each in ids])
            written = self._post(model, {"stream": True, "generate_chunk": chunk, "stream_state": state})
            state = written["stream_state"]
            answered.append(written["chunk"])
        (message,) = added_up(answered).values()
        return Delivered(message, answered[-1]["usage"])

    def _post(self, model: ServedModel, body: Mapping[str, Any]) -> Any:
        _, _, content = answer(CHAT, alone(model), json.dumps({**self._request, **body}).encode(), _CREATED)
        if isinstance(content, Derendered):
            return json.loads(dumps({"chunk": content.chunks[0], "stream_state": content.state}))
        return json.loads(dumps(content))


def _usage(ids: Sequence[int]) -> dict[str, int]:
    return {"prompt_tokens": 7, "completion_tokens": len(ids), "total_tokens": 7 + len(ids)}
