"""Seal the state of a stream for its way through the client: packed, bounded, versioned and signed."""

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

VERSION: Final = 9
"""Version of `data`. It changes if the fields of a state, or their meanings, change."""
MAX_DATA: Final = 4 * 1024 * 1024
"""Maximum bytes of `data`, before and after compression: room for an open call of a million tokens."""
_MIN_DEFLATED: Final = 512
"""Compress states of at least this many bytes."""
_PLAIN, _DEFLATED = b"\0", b"\1"


def seal_state(seal: StateSeal, endpoint: str, parser: Parser | None, state: GenerationState) -> StreamState:
    """Seal a state.

    Args:
        seal: The model's seal.
        endpoint: The endpoint that the state is valid for.
        parser: The parser of the outputs.
        state: The state.

    Raises:
        BadRequest: The state is too large, because it holds a very long tool call until that is complete.
    """
    content = msgspec.msgpack.encode(
        (
            seal.model,
            endpoint,
            state.request_id,
            state.created,
            state.counted,
            state.seed,
            _dump(parser, state.beginning),
            [(index, _dump(parser, choice)) for index, choice in state.choices.items()],
        )
    )
    encoding = _PLAIN
    if len(content) >= _MIN_DEFLATED and len(content) <= MAX_DATA:
        encoding, content = _DEFLATED, zlib.compress(content, 1)
    data = binascii.b2a_base64(encoding + content, newline=False)
    if len(data) > MAX_DATA:
        raise BadRequest(
            f"the state would exceed {MAX_DATA} bytes: it holds an open tool call until that is complete; "
            "set DERENDER_TOOL_CALL_DELTAS to fragments",
            param="stream_state",
        )
    signature = _sign(seal.keys[0], data) if seal.keys else None
    return StreamState(version=VERSION, data=data.decode(), signature=signature)


def open_state(seal: StateSeal, endpoint: str, parser: Parser | None, sealed: StreamState) -> GenerationState:
    """Open a sealed state.

    Args:
        seal: The model's seal.
        endpoint: The endpoint that the state has to be valid for.
        parser: The parser of the outputs.
        sealed: The sealed state.

    Raises:
        BadRequest: The state is damaged, forged or too large, or it is of another version, model or endpoint.
    """
    if sealed.version != VERSION:
        raise _refusal(
            f"has version {str(sealed.version)[:100]}, expected {VERSION}; start the stream again", ".version"
        )
    if len(sealed.data) > MAX_DATA:
        raise _refusal(f"exceeds {MAX_DATA} bytes", ".data")
    data = sealed.data.encode(errors="replace")
    if seal.keys and not _is_authentic(seal.keys, data, sealed.signature):
        raise _refusal("has a missing or wrong signature; send it back unchanged", ".signature")
    damaged = _refusal("is damaged; send it back unchanged", ".data")
    try:
        model, of_endpoint, request_id, created, counted, seed, beginning, choices = msgspec.msgpack.decode(
            _unpack(data),
            type=tuple[int, str, str, int, bool, bytes, dict[str, Any], list[tuple[int, dict[str, Any]]]],
        )
    except (ValueError, binascii.Error, zlib.error, msgspec.MsgspecError, RecursionError):
        raise damaged from None
    if model != seal.model or of_endpoint != endpoint:
        raise _refusal("belongs to another model, parser or endpoint", "")
    try:
        states = {index: _load(seal, parser, choice) for index, choice in choices}
        return msgspec.convert(
            {
                "request_id": request_id,
                "created": created,
                "counted": counted,
                "seed": seed,
                "beginning": _load(seal, parser, beginning),
                "choices": states,
                "finished": sum(choice.finished for choice in states.values()),
                "reasoning_tokens": sum(choice.reasoning_tokens for choice in states.values()),
            },
            GenerationState,
        )
    except (BadRequest, ValueError, msgspec.MsgspecError, RecursionError):
        raise damaged from None


def _dump(parser: Parser | None, choice: ChoiceState) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(choice, builtin_types=(bytes,))
    if parser is not None and choice.parsing is not None:
        values["parsing"] = dump_state(parser, choice.parsing)
    return values


def _load(seal: StateSeal, parser: Parser | None, values: dict[str, Any]) -> ChoiceState:
    parsing = values.pop("parsing", None)
    choice = msgspec.convert(values, ChoiceState)
    markers: Container[int] = () if parser is None else parser.markers
    output = choice.output
    token_ids = (*output.detokenizer.window, *choice.logprob_context, output.held_token or 0)
    if max(token_ids) >= seal.size or any(
        isinstance(piece, int) and piece not in markers for piece in output.held
    ):
        raise ValueError("the state has ids that the vocabulary or the parser lacks")
    if (parser is None) != (parsing is None):
        raise ValueError("the state has a parser's state without a parser, or lacks it")
    return choice if parser is None else replace(choice, parsing=load_state(parser, parsing))


def _unpack(data: bytes) -> bytes:
    content = binascii.a2b_base64(data, strict_mode=True)
    encoding, content = content[:1], content[1:]
    if encoding == _PLAIN:
        return content
    if encoding != _DEFLATED:
        raise ValueError("unknown encoding")
    decompressor = zlib.decompressobj()
    content = decompressor.decompress(content, MAX_DATA)
    if not decompressor.eof or decompressor.unused_data:
        raise ValueError("too long, or cut short")
    return content


def _is_authentic(keys: Sequence[bytes], data: bytes, signature: str | None) -> bool:
    if signature is None:
        return False
    # Only deployments with keys pay for the import.
    from hmac import compare_digest

    given = signature.encode(errors="replace")
    return any(compare_digest(_sign(key, data).encode(), given) for key in keys)


def _sign(key: bytes, data: bytes) -> str:
    from hmac import digest

    return digest(key, b"%d\0%b" % (VERSION, data), "sha256").hex()


def _refusal(problem: str, field: str) -> BadRequest:
    return BadRequest(f"stream_state {problem}", param=f"stream_state{field}")
