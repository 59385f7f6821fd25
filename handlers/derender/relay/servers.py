"""The servers that the relay calls, as an operator names them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

__all__ = ["RENDER", "Server", "Upstream", "read_server", "read_upstreams"]

_NAME: Final = re.compile(r"[\w./:-]{1,100}")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_URL: Final = re.compile(r"[\x21-\x7e]+")
_HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]*:[0-9a-f:.]*")
RENDER: Final = "render"
"""The name of render services in log lines."""
_MIN_SECRET: Final = 8
"""Minimum characters of a secret. A shorter word of a header may occur in any message."""
_OWN_HEADERS: Final = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type"),
        *("te", "trailer", "transfer-encoding", "upgrade", "x-request-id"),
    }
)
"""Headers that the relay sets itself."""


@dataclass(frozen=True)
class Server:
    """A server that the relay calls: a render service, unless it is a generate server.

    Attributes:
        title: What messages call it.
        name: The name that log lines use, and clients for a generate server.
        url: The base URL, without a slash at its end.
        headers: Headers to send with each request. They may be secrets.
        served_model_name: What the server calls the model. If None, it is asked.
    """

    title: ClassVar[str] = "the render service"

    name: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    served_model_name: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Strings that no message to a client may contain: the host, and the words of the headers."""
        words = (word for _, value in self.headers for word in value.split())
        host = urlsplit(self.url).hostname or ""
        return (host, *(word for word in words if len(word) >= _MIN_SECRET))


@dataclass(frozen=True)
class Upstream(Server):
    """A generate server.

    Attributes:
        model: The only model that it serves, by the name of its vocabulary; None if it serves all of them.
        render: The render service of its own, which turns clients' requests into generate requests.
        transfer_params: Whether clients may say where it fetches caches.
    """

    title: ClassVar[str] = "the generate server"

    model: str | None = None
    render: Server | None = None
    transfer_params: bool = False


def read_server(name: str, text: str, environment: Mapping[str, str]) -> Server:
    """Read a URL, or a JSON object of url, headers and served_model_name.

    Args:
        name: The name of the server.
        text: The URL or the JSON.
        environment: The variables that `${NAME}` refers to in the values of headers.

    Raises:
        ValueError: The text is invalid. The message is one line that contains no URL and no value of a header.
    """
    value = (
        _read_object(text, f"must be a URL, or a JSON object of {_list(_SERVER)}") if text[:1] == "{" else text
    )
    return Server(name, **_fields(value, _SERVER, environment))


def read_upstreams(text: str, environment: Mapping[str, str]) -> tuple[Upstream, ...]:
    """Read a JSON object: name → a URL, or an object of the fields of an upstream.

    Args:
        text: The JSON.
        environment: The variables that `${NAME}` refers to in the values of headers.

    Raises:
        ValueError: As for `read_server`.
    """
    items = _read_object(
        text, f"must be a JSON object of name to URL, or of name to an object of {_list(_UPSTREAM)}"
    )
    if not items:
        raise ValueError("must name at least one upstream")
    upstreams: dict[str, Upstream] = {}
    for name, value in items:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:100]!r} is not a valid name; use up to 100 letters, digits and . _ / : -")
        if name in upstreams:
            raise ValueError(f"the name {name} occurs twice")
        try:
            upstream = Upstream(name, **_fields(value, _UPSTREAM, environment))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        render = upstream.render and replace(upstream.render, name=f"{name}/{RENDER}")
        upstreams[name] = replace(upstream, render=render)
    return tuple(upstreams.values())


class _Object(list[tuple[str, Any]]):
    """The fields of a JSON object, including duplicates."""


def _read_object(text: str, problem: str) -> _Object:
    try:
        content = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, _Object):
        raise ValueError(problem)  # noqa: TRY004 - the JSON is wrong, not the type of an argument
    return content


def _fields(value: object, readers: Mapping[str, _Reader], environment: Mapping[str, str]) -> dict[str, Any]:
    """Read a URL, or an object of the fields that have readers."""
    if isinstance(value, str):
        return {"url": _url(value, environment)}
    if not isinstance(value, _Object):
        raise ValueError(f"must be a URL, or an object of {_list(readers)}")  # noqa: TRY004
    fields = dict(value)
    if len(fields) < len(value) or not fields.keys() <= readers.keys():
        raise ValueError(f"the object may only have {_list(readers)}, each once")
    return {name: readers[name](item, environment) for name, item in ({"url": None} | fields).items()}


def _list(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}"


def _url(url: object, _: Mapping[str, str]) -> str:
    problem = "the URL must be http://HOST or https://HOST, optionally with a port and a path"
    if not isinstance(url, str) or not _URL.fullmatch(url):
        raise ValueError(problem)
    try:
        parts = urlsplit(url)
        host = _HOST.fullmatch(parts.hostname or "")
        usable = parts.scheme in ("http", "https") and host and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(problem)
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ValueError("the URL may have no credentials, query or fragment; send secrets as headers")
    return url.rstrip("/")


def _headers(headers: object, environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    if not isinstance(headers, _Object) or not all(isinstance(value, str) for _, value in headers):
        raise ValueError("headers must be an object of strings")
    return tuple((_header_name(name), _header_value(name, value, environment)) for name, value in headers)


def _name(name: object, _: Mapping[str, str]) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError("the name of a model must be a string that is not empty")
    return name


def _flag(value: object, _: Mapping[str, str]) -> bool:
    if not isinstance(value, bool):
        raise ValueError("transfer_params must be true or false")  # noqa: TRY004 - the JSON is wrong
    return value


def _render(value: object, environment: Mapping[str, str]) -> Server:
    try:
        return Server(RENDER, **_fields(value, _SERVER, environment))
    except ValueError as error:
        raise ValueError(f"render: {error}") from None


def _header_name(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name[:100]!r} is not a valid header name")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"the relay sets the header {name} itself; leave it out")
    return name


def _header_value(name: str, value: str, environment: Mapping[str, str]) -> str:
    def expand(match: re.Match[str]) -> str:
        if not environment.get(match[1]):
            raise ValueError(f"the header {name} needs the variable {match[1][:100]!r}, which is not set")
        return environment[match[1]].strip()

    expanded = _VARIABLE.sub(expand, value)
    if not _HEADER_VALUE.fullmatch(expanded):
        raise ValueError(f"the value of the header {name} must consist of printable ASCII characters")
    return expanded


_Reader = Callable[[object, "Mapping[str, str]"], object]
"""Reads a field: `(value, environment)`."""
_SERVER: Final[Mapping[str, _Reader]] = {"url": _url, "headers": _headers, "served_model_name": _name}
_UPSTREAM: Final[Mapping[str, _Reader]] = {
    **_SERVER,
    "model": _name,
    "render": _render,
    "transfer_params": _flag,
}
