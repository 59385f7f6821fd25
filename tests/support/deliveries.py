"""The three ways an answer is delivered: whole, as a stream of complete calls, as a stream of fragments."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final, Literal

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

__all__ = ["DELIVERIES", "Chat", "Delivery"]

Delivery = Literal["whole", "complete", "fragments"]
DELIVERIES: Final[tuple[Delivery, ...]] = ("whole", "complete", "fragments")
_CREATED: Final = 1_795_967_522


class Chat:
    """Answers one client's request, through the derender endpoint.

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
        self._model = dataclasses.replace(served(vocabulary, max_model_len=100_000), parsers=parsers)
        self._request = {"chat_request": dict(client), "prompt_token_ids": prompt and list(prompt)}

    def whole(self, ids: Sequence[int], finish_reason: str) -> Added:
        """Return the whole answer."""
        choice = {"index": 0, "token_ids": list(ids), "finish_reason": finish_reason}
        response = {"request_id": "gen-1", "choices": [choice]}
        (added,) = whole(self._post(self._model, {"generate_response": response})).values()
        return added

    def streamed(self, delivery: Delivery, chunks: Sequence[Sequence[int]], finish_reason: str) -> Added:
        """Return what a stream adds up to."""
        assert delivery != "whole"
        model = dataclasses.replace(self._model, tool_call_deltas=delivery)
        state, answered = None, []
        for number, ids in enumerate(chunks, 1):
            ends = finish_reason if number == len(chunks) else None
            choice = {"index": 0, "token_ids": list(ids), "finish_reason": ends}
            generated = {"request_id": "gen-1", "choices": [choice]}
            written = self._post(model, {"stream": True, "generate_chunk": generated, "stream_state": state})
            state = written["stream_state"]
            answered.append(written["chunk"])
        (added,) = added_up(answered).values()
        return added

    def _post(self, model: ServedModel, body: dict[str, Any]) -> Any:
        _, _, content = answer(CHAT, alone(model), json.dumps({**self._request, **body}).encode(), _CREATED)
        if isinstance(content, Derendered):
            return json.loads(dumps({"chunk": content.chunks[0], "stream_state": content.state}))
        return json.loads(dumps(content))
