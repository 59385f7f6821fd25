"""The chunks of a generation, read from events, checked, and ended at stop strings. Does no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson
from msgspec.structs import replace

from derender.errors import BadGateway, DerenderError, UpstreamFailed
from derender.protocol.generate import GenerateChunk
from derender.protocol.limits import Limits, check_chunk, check_length
from derender.protocol.reading import read

from .generate_requests import TRANSFER_PARAMS
from .upstream.errors import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.decoding.output import OutputDecoder, OutputState
    from derender.protocol.generate import ChunkChoice, GenerateChoice

    from .generate_requests import PreparedRequest

__all__ = ["NOT_FOR_CLIENTS", "ChunkReader", "first_tokens", "unusable_event"]

NOT_FOR_CLIENTS: Final[dict[str, None]] = dict.fromkeys(TRANSFER_PARAMS)
"""Fields that are left out of answers."""


class ChunkReader:
    """Reads the chunks of one generation.

    The generate server does not look for stop strings. The reader ends a choice with the token that completes
    one, as a server does that looks for them, and skips what the server generates of the choice after it.

    Attributes:
        stopped: Whether a stop string has ended a choice.
    """

    def __init__(
        self, request: PreparedRequest, decoder: OutputDecoder, limits: Limits, *, secrets: Sequence[str] = ()
    ) -> None:
        """Read nothing yet.

        Args:
            request: The request to the generate server.
            decoder: Decodes the outputs. Its stop rule has the stop strings.
            limits: The limits of the model.
            secrets: Strings that no message to the client may contain.
        """
        self.stopped = False
        self._n = request.n
        self._decoder = replace(decoder, raw=False) if decoder.stop.strings else None
        self._beginning = decoder.start(request.token_ids)
        self._outputs: dict[int, OutputState] = {}
        self._limits = limits
        self._secrets = secrets
        self._upstream_id: str | None = None  # servers may choose another id than the requested one
        self._received: dict[int, int] = {}
        self._finished: set[int] = set()

    @property
    def ended(self) -> bool:
        """Whether all choices have their finish reason."""
        return len(self._finished) == self._n

    def read(self, data: bytes) -> GenerateChunk | None:
        """Read the next event.

        Args:
            data: The data of the event.

        Returns:
            The chunk, unless its choice was ended before.

        Raises:
            BadGateway: The event is not a generate chunk, or can't follow those before.
            UpstreamRefusal: The event is an error that the client may see.
        """
        chunk = self._read(data)
        if not chunk.choices:
            return chunk
        (choice,) = chunk.choices
        output = self._outputs.get(choice.index, self._beginning)
        if output.stop_string is not None:
            return None
        self._check_order(choice)
        if self._decoder is not None and (cut := self._end_at_stop_string(self._decoder, output, choice)):
            # Usage in the chunk counts all of its tokens.
            chunk, choice = chunk.model_copy(update={"choices": [cut], "usage": None}), cut
        if choice.finish_reason is not None:
            self._finished.add(choice.index)
        return chunk

    def _read(self, data: bytes) -> GenerateChunk:
        try:
            chunk = read(GenerateChunk, data).model_copy(update=NOT_FOR_CLIENTS)
            check_chunk("chunk", chunk, self._limits)
        except DerenderError as error:
            raise _reported_error(data, self._secrets) or unusable_event(error) from None
        self._upstream_id = self._upstream_id or chunk.request_id
        if chunk.request_id not in (None, self._upstream_id):
            raise BadGateway("the generate server sent an event of another generation: its request_id differs")
        return chunk

    def _check_order(self, choice: ChunkChoice) -> None:
        if not 0 <= choice.index < self._n:
            raise BadGateway(
                "the generate server sent a choice that was not requested",
                quoting=f"choice {choice.index} of {self._n}",
            )
        if choice.index in self._finished:
            raise BadGateway("the generate server sent more of a choice after its finish_reason")
        received = self._received.get(choice.index, 0) + len(choice.token_ids or ())
        self._received[choice.index] = received
        try:
            check_length("token_ids", received, self._limits)
        except DerenderError as error:
            raise unusable_event(error) from None

    def _end_at_stop_string(
        self, decoder: OutputDecoder, output: OutputState, choice: ChunkChoice
    ) -> ChunkChoice | None:
        """Return what ends a choice with a stop string, if it completes one."""
        decoded, output = decoder.decode_delta(
            output, choice.token_ids or [], choice.finish_reason, choice.stop_reason
        )
        self._outputs[choice.index] = output
        if output.stop_string is None:
            return None
        self.stopped = True
        ended = {"finish_reason": "stop", "stop_reason": output.stop_string}
        return choice.model_copy(update={**first_tokens(choice, decoded.visible_tokens), **ended})


def first_tokens(choice: GenerateChoice, count: int | None) -> dict[str, object]:
    """Return the ids and logprobs of a choice's first tokens; those of all for None."""
    logprobs = choice.logprobs
    if logprobs is not None and logprobs.content is not None:
        logprobs = logprobs.model_copy(update={"content": logprobs.content[:count]})
    return {"token_ids": (choice.token_ids or [])[:count], "logprobs": logprobs}


def unusable_event(error: DerenderError) -> BadGateway:
    """Return the error for an event that derender refuses."""
    return BadGateway("the generate server sent an event that can't be derendered", quoting=error.message)


def _reported_error(data: bytes, secrets: Sequence[str]) -> DerenderError | None:
    """Return the error that an event reports, if it reports one."""
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(content, dict) or "error" not in content:
        return None
    error = content["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return refusal(code, content, secrets=secrets) or UpstreamFailed("the generate server reported an error")
