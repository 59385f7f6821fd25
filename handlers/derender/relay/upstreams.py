"""The servers that the relay asks, as an operator names them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from derender.errors import UpstreamNotFound
from derender.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Relay", "Upstream", "read_relay", "read_upstream"]

_NAME: Final = re.compile(r"[\w./:-]{1,100}")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_URL: Final = re.compile(r"[\x21-\x7e]+")
_HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]*:[0-9a-f:.]*")
_LEAST_SECRET: Final = 8
_OWN_HEADERS: Final = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type"),
        *("te", "trailer", "transfer-encoding", "upgrade", "x-request-id"),
    }
)
"""What the relay says itself, of how it asks and reads."""


@dataclass(frozen=True)
class Upstream:
    """A server that is asked: a generate server, or the render service.

    Attributes:
        name: What clients call it.
        url: Where it is; paths are added to this.
        headers: What is sent along with each request. Secrets.
    """

    name: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message to a client may hold: where it is, and the words of its headers."""
        words = (word for _, value in self.headers for word in value.split())
        # A word of a few characters is no secret, and may be in any message.
        host = urlsplit(self.url).hostname or ""
        return (host, *(word for word in words if len(word) >= _LEAST_SECRET))


@dataclass(frozen=True)
class Relay:
    """Who is asked, and how long is waited for an answer.

    Attributes:
        upstreams: The generate servers; the first is the default.
        render: What makes generate requests of OpenAI requests, if anything does.
        timeout: Seconds without a byte after which an upstream is given up.
        generation_timeout: The same of a generation that is not streamed, of which nothing comes until its end.
        connect_timeout: Seconds in which a connection must be made.
        keep_alive: Seconds of silence after which a client that reads a stream is told that it is not dead.
        max_event_bytes: Largest event of an upstream's stream.
    """

    upstreams: tuple[Upstream, ...]
    render: Upstream | None = None
    timeout: float = Settings.upstream_timeout
    generation_timeout: float = Settings.generation_timeout
    connect_timeout: float = Settings.upstream_connect_timeout
    keep_alive: float = 15
    max_event_bytes: int = 16 * 1024 * 1024

    def upstream(self, name: str | None) -> Upstream:
        """The generate server of a name; the default where none is given.

        Raises:
            UpstreamNotFound: There is none of that name.
        """
        for upstream in self.upstreams:
            if name in (None, upstream.name):
                return upstream
        names = ", ".join(upstream.name for upstream in self.upstreams)
        raise UpstreamNotFound(
            f"The upstream `{name and name[:100]}` does not exist. Valid names: {names}.", param="upstream"
        )


def read_relay(settings: Settings, environment: Mapping[str, str]) -> Relay | None:
    """Read the relay's settings.

    Args:
        settings: The settings.
        environment: Variables that `${NAME}` stands for in the values of headers.

    Returns:
        The relay; None without `DERENDER_UPSTREAMS`.

    Raises:
        SettingsError: `DERENDER_UPSTREAMS` or `DERENDER_RENDER_URL` can't be used.
    """
    if settings.upstreams is None:
        if settings.render_url is not None:
            raise SettingsError("DERENDER_RENDER_URL needs DERENDER_UPSTREAMS, which is not set")
        return None
    variable, render = "DERENDER_UPSTREAMS", None
    try:
        upstreams = _read_upstreams(settings.upstreams, environment)
        if settings.render_url is not None:
            variable = "DERENDER_RENDER_URL"
            render = read_upstream("render", settings.render_url, environment)
    except ValueError as error:
        raise SettingsError(f"{variable}: {error}") from None
    return Relay(
        upstreams,
        render,
        timeout=settings.upstream_timeout,
        generation_timeout=settings.generation_timeout,
        connect_timeout=settings.upstream_connect_timeout,
    )


def _read_upstreams(text: str, environment: Mapping[str, str]) -> tuple[Upstream, ...]:
    """Read a JSON object of names and what `read_upstream` reads.

    Args:
        text: The JSON.
        environment: What `${NAME}` stands for, in the values of headers.

    Raises:
        ValueError: It is none; says why, in one line without URLs and values.
    """
    items = _object(text, "it must be a JSON object: name to URL, or to an object of url and headers")
    if not items:
        raise ValueError("it names no upstream")
    upstreams: dict[str, Upstream] = {}
    for name, value in items:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:100]!r} is no name; letters, digits and . _ / : - make one")
        if name in upstreams:
            raise ValueError(f"{name} is there twice")
        try:
            upstreams[name] = _upstream(name, value, environment)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return tuple(upstreams.values())


def read_upstream(name: str, text: str, environment: Mapping[str, str]) -> Upstream:
    """Read a URL, or a JSON object of `url` and `headers`.

    Args:
        name: What it is called.
        text: The URL or the JSON.
        environment: What `${NAME}` stands for, in the values of headers.

    Raises:
        ValueError: It is none; says why, in one line without URLs and values.
    """
    if not text.startswith("{"):
        return _upstream(name, text, environment)
    return _upstream(name, _object(text, "it must be a URL, or a JSON object of url and headers"), environment)


class _Object(list[tuple[str, Any]]):
    """The fields of a JSON object, also those that are there twice."""


def _object(text: str, otherwise: str) -> _Object:
    try:
        content = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        raise ValueError(otherwise) from None
    if not isinstance(content, _Object):
        raise ValueError(otherwise)  # noqa: TRY004 - of what was read
    return content


def _upstream(name: str, value: object, environment: Mapping[str, str]) -> Upstream:
    if isinstance(value, str):
        return Upstream(name, _url(value))
    if not isinstance(value, _Object):
        raise ValueError("it must be a URL, or an object of url and headers")  # noqa: TRY004
    fields = dict(value)
    unknown = [key for key in fields if key not in ("url", "headers")]
    if unknown or len(fields) < len(value):
        raise ValueError("it may have url and headers, each once, and nothing else")
    return Upstream(name, _url(fields.get("url")), _headers(fields.get("headers", _Object()), environment))


def _url(url: object) -> str:
    problem = "the URL must be http://HOST or https://HOST, perhaps with a port and a path"
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


def _header_name(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name[:100]!r} is no name of a header")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"the header {name} is the relay's own")
    return name


def _header_value(name: str, value: str, environment: Mapping[str, str]) -> str:
    def variable(match: re.Match[str]) -> str:
        if not environment.get(match[1]):
            raise ValueError(f"the header {name} needs the variable {match[1][:100]!r}, which is not set")
        return environment[match[1]].strip()

    expanded = _VARIABLE.sub(variable, value)
    if not _HEADER_VALUE.fullmatch(expanded):
        raise ValueError(f"the header {name} must be of printable ASCII characters")
    return expanded
