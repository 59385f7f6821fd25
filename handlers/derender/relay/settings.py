"""The relay's settings: its upstreams, as an operator names them, and its timeouts."""

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

__all__ = ["RelaySettings", "Upstream", "read_relay_settings", "read_upstream"]

_NAME: Final = re.compile(r"[\w./:-]{1,100}")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_URL: Final = re.compile(r"[\x21-\x7e]+")
_HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]*:[0-9a-f:.]*")
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
class Upstream:
    """A server that the relay calls: a generate server or the render service.

    Attributes:
        name: The name that clients and log lines use.
        url: The base URL, without a slash at its end.
        headers: Headers to send with each request. They may be secrets.
    """

    name: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Strings that no message to a client may contain: the host, and the words of the headers."""
        words = (word for _, value in self.headers for word in value.split())
        host = urlsplit(self.url).hostname or ""
        return (host, *(word for word in words if len(word) >= _MIN_SECRET))


@dataclass(frozen=True)
class RelaySettings:
    """The upstreams and the limits of the relay.

    Attributes:
        upstreams: The generate servers. The first is the default.
        render: The render service, which turns clients' requests into generate requests.
        timeout: Seconds without a byte after which to give an upstream up.
        generation_timeout: The same for a generation that does not stream, which sends nothing until its end.
        connect_timeout: Seconds after which to give a connection attempt up.
        keep_alive: Seconds of silence after which to send a comment to a client that reads a stream.
        max_event_bytes: Maximum size of an event from a generate server.
    """

    upstreams: tuple[Upstream, ...]
    render: Upstream | None = None
    timeout: float = Settings.upstream_timeout
    generation_timeout: float = Settings.generation_timeout
    connect_timeout: float = Settings.upstream_connect_timeout
    keep_alive: float = 15
    max_event_bytes: int = 16 * 1024 * 1024

    def find_upstream(self, name: str | None) -> Upstream:
        """Return the generate server with a name, or the default one.

        Raises:
            UpstreamNotFound: No generate server has the name.
        """
        for upstream in self.upstreams:
            if name in (None, upstream.name):
                return upstream
        names = ", ".join(upstream.name for upstream in self.upstreams)
        raise UpstreamNotFound(
            f"The upstream `{name and name[:100]}` does not exist. Valid names: {names}.", param="upstream"
        )


def read_relay_settings(settings: Settings, environment: Mapping[str, str]) -> RelaySettings | None:
    """Read the relay's settings.

    Args:
        settings: The settings.
        environment: The variables that `${NAME}` refers to in the values of headers.

    Returns:
        The relay's settings, or None without `DERENDER_UPSTREAMS`.

    Raises:
        SettingsError: `DERENDER_UPSTREAMS` or `DERENDER_RENDER_URL` is invalid. The message is one line that
            contains no URL and no value of a header.
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
    return RelaySettings(
        upstreams,
        render,
        timeout=settings.upstream_timeout,
        generation_timeout=settings.generation_timeout,
        connect_timeout=settings.upstream_connect_timeout,
    )


def read_upstream(name: str, text: str, environment: Mapping[str, str]) -> Upstream:
    """Read a URL, or a JSON object of url and headers.

    Args:
        name: The name of the upstream.
        text: The URL or the JSON.
        environment: The variables that `${NAME}` refers to in the values of headers.

    Raises:
        ValueError: The text is invalid. The message is one line that contains no URL and no value of a header.
    """
    value = (
        _read_object(text, "must be a URL, or a JSON object of url and headers") if text[:1] == "{" else text
    )
    return _upstream(name, value, environment)


class _Object(list[tuple[str, Any]]):
    """The fields of a JSON object, including duplicates."""


def _read_upstreams(text: str, environment: Mapping[str, str]) -> tuple[Upstream, ...]:
    """Read a JSON object: name → a URL or an object of url and headers."""
    items = _read_object(
        text, "must be a JSON object of name to URL, or of name to an object of url and headers"
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
            upstreams[name] = _upstream(name, value, environment)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return tuple(upstreams.values())


def _read_object(text: str, problem: str) -> _Object:
    try:
        content = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, _Object):
        raise ValueError(problem)  # noqa: TRY004 - the JSON is wrong, not the type of an argument
    return content


def _upstream(name: str, value: object, environment: Mapping[str, str]) -> Upstream:
    if isinstance(value, str):
        return Upstream(name, _url(value))
    if not isinstance(value, _Object):
        raise ValueError("must be a URL, or an object of url and headers")  # noqa: TRY004
    fields = dict(value)
    if len(fields) < len(value) or not fields.keys() <= {"url", "headers"}:
        raise ValueError("the object may only have url and headers, each once")
    return Upstream(name, _url(fields.get("url")), _headers(fields.get("headers", _Object()), environment))


def _url(url: object) -> str:
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
