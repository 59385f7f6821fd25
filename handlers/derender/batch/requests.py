"""A line → the request in it. Its body stays JSON, and is cut only where it refers to something."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec import Raw

from derender.endpoints import ENDPOINTS
from derender.errors import InvalidRequest, RequestTooLarge
from derender.protocol.gunzip import gunzip
from derender.protocol.json_errors import JSON_ERRORS, reason_of

from .errors import LineError
from .job import is_uri
from .stores import TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from derender.endpoints import Endpoint

__all__ = ["BatchRequest", "Reference", "read_content", "read_request"]

_REFERENCE: Final = b'"s3:'
"""What a reference begins with: a string at the place of a generate response."""
_GZIP: Final = b"\x1f\x8b"


class Reference(str):
    """`s3://bucket/key`: where JSON is."""

    __slots__ = ()


class BatchRequest(NamedTuple):
    """A request."""

    custom_id: str
    endpoint: Endpoint
    body: tuple[bytes | Reference, ...]
    """Its body: what is there, and what is elsewhere, one after the other."""

    @property
    def references(self) -> list[Reference]:
        """What is to be put in, in order."""
        return [part for part in self.body if isinstance(part, Reference)]

    def complete(self, contents: Iterable[bytes]) -> bytes:
        """The body as JSON.

        Args:
            contents: What the references refer to.
        """
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
    """Read a line.

    Raises:
        LineError: It can't be run.
    """
    with _errors_of(None):
        fields = _line.decode(line)
    custom_id = _string(fields.custom_id)
    if custom_id is None:
        raise LineError("invalid_custom_id", "custom_id: a string is needed")
    if _string(fields.method) != "POST":
        raise LineError("invalid_method", 'method: "POST" is needed', custom_id)
    endpoint = ENDPOINTS.get(_string(fields.url) or "")
    if endpoint is None:
        raise LineError("invalid_url", f"url: it may be {' or '.join(ENDPOINTS)}", custom_id)
    body = bytes(fields.body)
    if not body:
        raise LineError("missing_body", "body: the request is needed", custom_id)
    with _errors_of(custom_id):
        return BatchRequest(custom_id, endpoint, tuple(_parts(body)))


@contextmanager
def _errors_of(custom_id: str | None) -> Iterator[None]:
    """Make what is found to be wrong with a line an error of that line."""
    try:
        yield
    except LineError as error:
        raise LineError(error.code, error.message, custom_id) from None
    except msgspec.ValidationError:
        raise LineError("invalid_json_line", "the line is no JSON object", custom_id) from None
    except JSON_ERRORS as error:
        raise LineError("invalid_json_line", f"the line is not JSON: {reason_of(error)}", custom_id) from None


def read_content(content: bytes, most: int) -> bytes:
    """What an object holds that is referred to, as JSON.

    Args:
        content: The object, gzipped or not.
        most: Most bytes that it may be.

    Raises:
        TooLarge: It is more.
        LineError: It is something else.
    """
    if content.startswith(_GZIP):
        try:
            content = gunzip(content, most)
        except InvalidRequest:
            raise LineError(
                "invalid_reference", "what is referred to begins as gzip does, but is no gzip of one member"
            ) from None
        except RequestTooLarge as error:
            raise TooLarge from error
    if len(content) > most:
        raise TooLarge
    try:
        # One value: it must not end the place that it is put in.
        return bytes(_value.decode(content))
    except JSON_ERRORS:
        raise LineError("invalid_reference", "what is referred to is not JSON") from None


def _string(value: Raw) -> str | None:
    try:
        return _text.decode(value)
    except JSON_ERRORS:
        return None


def _parts(body: bytes) -> Iterator[bytes | Reference]:
    """The body, cut where it refers to something."""
    # To look for references in JSON costs as much as a tenth of the derendering.
    if _REFERENCE not in body:
        yield body
    elif body.startswith(_REFERENCE):
        yield _reference(body)
    elif not body.startswith(b"{"):
        yield body
    else:
        before = b"{"
        for name, value in _fields.decode(body).items():
            yield before + msgspec.json.encode(name) + b":"
            yield from _value_parts(name, bytes(value))
            before = b","
        yield b"}"


def _value_parts(name: str, value: bytes) -> Iterator[bytes | Reference]:
    if name in ("generate_response", "generate_responses") and value.startswith(_REFERENCE):
        yield _reference(value)
    elif name == "generate_responses" and value.startswith(b"[") and _REFERENCE in value:
        before = b"["
        for item in map(bytes, _items.decode(value)):
            yield before
            yield _reference(item) if item.startswith(_REFERENCE) else item
            before = b","
        yield b"]"
    else:
        yield value


def _reference(value: bytes) -> Reference:
    name = _string(Raw(value))
    if name is None or not is_uri(name):
        raise LineError("invalid_reference", "a reference is s3://bucket/key")
    return Reference(name)
