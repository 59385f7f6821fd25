"""The state of a stream on its way through the client: packed, bounded, versioned, authenticated."""

from __future__ import annotations

import binascii
import zlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from derender.errors import BadRequest
from derender.parsing import dump_state, load_state
from derender.protocol.stream import StreamState

from .state import ChoiceState, GenerationState

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from derender.models.model import StateSeal
    from derender.parsing import Parser

__all__ = ["VERSION", "open_state", "seal_state"]

VERSION: Final = 2
"""Of what `data` holds. It changes with the fields of the states, and with what they mean."""
MAX_DATA: Final = 4 * 1024 * 1024
"""Longest `data`, and most bytes that are packed in it: an open call of a million tokens."""
_PACKED_FROM: Final = 512
"""Bytes from which on a state is compressed."""
_PLAIN, _PACKED = b"\0", b"\1"


def seal_state(seal: StateSeal, endpoint: str, parser: Parser | None, state: GenerationState) -> StreamState:
    """Pack a state.

    Args:
        seal: The model's.
        endpoint: What the state is for: one endpoint's means nothing to another.
        parser: What parses the generation.
        state: The state.

    Raises:
        BadRequest: It is too large: a call that is kept until it is complete is very long.
    """
    content = msgspec.msgpack.encode(
        (
            seal.model,
            endpoint,
            state.request_id,
            state.created,
            state.counted,
            _dumped(parser, state.beginning),
            [(index, _dumped(parser, choice)) for index, choice in state.choices.items()],
        )
    )
    form = _PLAIN
    if len(content) >= _PACKED_FROM and len(content) <= MAX_DATA:
        form, content = _PACKED, zlib.compress(content, 1)
    data = binascii.b2a_base64(form + content, newline=False)
    if len(data) > MAX_DATA:
        raise BadRequest(
            f"the state would be longer than {MAX_DATA} bytes: an open tool call is kept until it is complete; "
            "set DERENDER_TOOL_CALL_DELTAS to fragments",
            param="stream_state",
        )
    signature = _signature(seal.keys[0], data) if seal.keys else None
    return StreamState(version=VERSION, data=data.decode(), signature=signature)


def open_state(seal: StateSeal, endpoint: str, parser: Parser | None, sealed: StreamState) -> GenerationState:
    """The state again.

    Raises:
        BadRequest: It is of another version, model or endpoint, not authentic, damaged, or too large.
    """
    if sealed.version != VERSION:
        raise _refusal(f"is of version {sealed.version}, not {VERSION}; begin the stream again", ".version")
    if len(sealed.data) > MAX_DATA:
        raise _refusal(f"is longer than {MAX_DATA} bytes", ".data")
    data = sealed.data.encode(errors="replace")
    if seal.keys and not _authentic(seal.keys, data, sealed.signature):
        raise _refusal("is not authentic: its signature is missing or wrong", ".signature")
    damaged = _refusal("is damaged; send it back as it came", ".data")
    try:
        model, of_endpoint, request_id, created, counted, beginning, choices = msgspec.msgpack.decode(
            _unpacked(data),
            type=tuple[int, str, str, int, bool, dict[str, Any], list[tuple[int, dict[str, Any]]]],
        )
    except (ValueError, binascii.Error, zlib.error, msgspec.MsgspecError, RecursionError):
        raise damaged from None
    if model != seal.model or of_endpoint != endpoint:
        raise _refusal("was made for another model, another parser or another endpoint", "")
    try:
        return msgspec.convert(
            {
                "request_id": request_id,
                "created": created,
                "counted": counted,
                "beginning": _loaded(seal, parser, beginning),
                "choices": {index: _loaded(seal, parser, choice) for index, choice in choices},
            },
            GenerationState,
        )
    except (BadRequest, ValueError, msgspec.MsgspecError, RecursionError):
        raise damaged from None


def _dumped(parser: Parser | None, choice: ChoiceState) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(choice, builtin_types=(bytes,))
    if parser is not None and choice.parsing is not None:
        values["parsing"] = dump_state(parser, choice.parsing)
    return values


def _loaded(seal: StateSeal, parser: Parser | None, values: dict[str, Any]) -> ChoiceState:
    parsing = values.pop("parsing", None)
    choice = msgspec.convert(values, ChoiceState)
    markers: Container[int] = () if parser is None else parser.markers
    output = choice.output
    token_ids = (*output.detokenizer.window, *choice.logprob_context, output.held_token or 0)
    if max(token_ids) >= seal.size or any(
        isinstance(piece, int) and piece not in markers for piece in output.held
    ):
        raise ValueError("ids that there are not")
    if (parser is None) != (parsing is None):
        raise ValueError("parsed, or not")
    return choice if parser is None else replace(choice, parsing=load_state(parser, parsing))


def _unpacked(data: bytes) -> bytes:
    content = binascii.a2b_base64(data, strict_mode=True)
    form, content = content[:1], content[1:]
    if form == _PLAIN:
        return content
    if form != _PACKED:
        raise ValueError("no such form")
    member = zlib.decompressobj()
    content = member.decompress(content, MAX_DATA)
    if not member.eof or member.unused_data:
        raise ValueError("more than there may be, or less")
    return content


def _authentic(keys: Sequence[bytes], data: bytes, signature: str | None) -> bool:
    if signature is None:
        return False
    # Only those who authenticate pay for the import.
    from hmac import compare_digest

    given = signature.encode(errors="replace")
    return any(compare_digest(_signature(key, data).encode(), given) for key in keys)


def _signature(key: bytes, data: bytes) -> str:
    from hmac import digest

    return digest(key, b"%d\0%b" % (VERSION, data), "sha256").hex()


def _refusal(problem: str, field: str) -> BadRequest:
    return BadRequest(f"stream_state {problem}", param=f"stream_state{field}")
