"""Reading the request in a line. Its body stays JSON, and is cut only where it refers to an object."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec import Raw

from derender.batch.errors import LineError
from derender.batch.job import is_s3_uri
from derender.batch.stores.store import TooLarge
from derender.endpoints import ENDPOINTS
from derender.errors import InvalidRequest, RequestTooLarge
from derender.protocol.gunzip import gunzip
from derender.protocol.json_errors import JSON_ERRORS, describe_json_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from derender.endpoints import Endpoint

__all__ = ["BatchRequest", "Reference", "read_content", "read_request"]

_REFERENCE: Final = b'"s3:'
"""Start of a reference: a string in place of a generate response."""
_GZIP: Final = b"\x1f\x8b"


class Reference(str):
    """`s3://bucket/key` of an object that holds JSON."""

    __slots__ = ()


class BatchRequest(NamedTuple):
    """The request in a line."""

    custom_id: str
    endpoint: Endpoint
    body: tuple[bytes | Reference, ...]
    """The JSON of the body, cut into bytes and references."""

    @property
    def references(self) -> list[Reference]:
        """The references in the body, in order."""
        return [part for part in self.body if isinstance(part, Reference)]

    def complete_body(self, contents: Iterable[bytes]) -> bytes:
        """Return the body as JSON, with these contents in place of its references."""
        rest = iter(contents)
        return b"".join(next(rest) if isinstance(part, Reference) else part for part in self.body)


_ABSENT: Final = Raw()


class _Line(msgspec.Struct):
    custom_id: Raw = _ABSENT
    method: Raw = _ABSENT
    url: Raw = _ABSENT
    body: Raw = _ABSENT


_line = msgspec.json.Decoder(_Line)
_text = msgspec.json.Decoder(str)
_fields = msgspec.json.Decoder(dict[str, Raw])
_items = msgspec.json.Decoder(list[Raw])
_value = msgspec.json.Decoder(Raw)


def read_request(line: bytes) -> BatchRequest:
    """Return the request in a line.

    Raises:
        LineError: The line can't be run.
    """
    with _line_errors(None):
        fields = _line.decode(line)
    custom_id = _read_string(fields.custom_id)
    if custom_id is None:
        raise LineError("invalid_custom_id", "custom_id must be a string")
    if _read_string(fields.method) != "POST":
        raise LineError("invalid_method", 'method must be "POST"', custom_id)
    endpoint = ENDPOINTS.get(_read_string(fields.url) or "")
    if endpoint is None:
        raise LineError("invalid_url", f"url must be {' or '.join(ENDPOINTS)}", custom_id)
    body = bytes(fields.body)
    if not body:
        raise LineError("missing_body", "body is missing; it must hold the request", custom_id)
    with _line_errors(custom_id):
        return BatchRequest(custom_id, endpoint, tuple(_cut(body)))


def read_content(content: bytes, max_bytes: int) -> bytes:
    """Return the JSON that an object holds.

    Args:
        content: The object, gzipped or not.
        max_bytes: Maximum bytes of the JSON.

    Raises:
        TooLarge: There are more bytes.
        LineError: The object holds something else.
    """
    if content.startswith(_GZIP):
        try:
            content = gunzip(content, max_bytes)
        except InvalidRequest:
            raise LineError(
                "invalid_reference", "a referenced object starts like gzip, but is no gzip file of one member"
            ) from None
        except RequestTooLarge as error:
            raise TooLarge from error
    if len(content) > max_bytes:
        raise TooLarge
    try:
        # One complete value, or it could end the value that it is put into.
        return bytes(_value.decode(content))
    except JSON_ERRORS:
        raise LineError("invalid_reference", "a referenced object is not JSON") from None


@contextmanager
def _line_errors(custom_id: str | None) -> Iterator[None]:
    """Turn errors into errors of the line."""
    try:
        yield
    except LineError as error:
        raise LineError(error.code, error.message, custom_id) from None
    except msgspec.ValidationError:
        raise LineError("invalid_json_line", "the line is not a JSON object", custom_id) from None
    except JSON_ERRORS as error:
        reason = describe_json_error(error)
        raise LineError("invalid_json_line", f"the line is not JSON: {reason}", custom_id) from None


def _read_string(value: Raw) -> str | None:
    try:
        return _text.decode(value)
    except JSON_ERRORS:
        return None


def _cut(body: bytes) -> Iterator[bytes | Reference]:
    """Cut a body at its references."""
    # Decoding the JSON only to find references would cost a tenth of derendering it.
    if _REFERENCE not in body:
        yield body
    elif body.startswith(_REFERENCE):
        yield _read_reference(body)
    elif not body.startswith(b"{"):
        yield body
    else:
        separator = b"{"
        for name, value in _fields.decode(body).items():
            yield separator + msgspec.json.encode(name) + b":"
            yield from _cut_field(name, bytes(value))
            separator = b","
        yield b"}"


def _cut_field(name: str, value: bytes) -> Iterator[bytes | Reference]:
    if name in ("generate_response", "generate_responses") and value.startswith(_REFERENCE):
        yield _read_reference(value)
    elif name == "generate_responses" and value.startswith(b"[") and _REFERENCE in value:
        separator = b"["
        for item in map(bytes, _items.decode(value)):
            yield separator
            yield _read_reference(item) if item.startswith(_REFERENCE) else item
            separator = b","
        yield b"]"
    else:
        yield value


def _read_reference(value: bytes) -> Reference:
    name = _read_string(Raw(value))
    if name is None or not is_s3_uri(name):
        raise LineError("invalid_reference", "a reference must be s3://bucket/key")
    return Reference(name)
