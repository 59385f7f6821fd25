"""The relay's settings: whom it calls for which model, and its timeouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from derender.errors import BadRequest, UpstreamNotFound
from derender.settings import Settings, SettingsError

from .servers import RENDER, Server, Upstream, read_server, read_upstreams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from derender.models.model import Models

__all__ = ["RelaySettings", "read_relay_settings"]


@dataclass(frozen=True)
class RelaySettings:
    """The upstreams and the limits of the relay.

    Attributes:
        upstreams: The generate servers. The first that serves a model is the model's default.
        render: The render service of generate servers that have none of their own.
        timeout: Seconds without a byte after which to give an upstream up.
        generation_timeout: The same for a generation that does not stream, which sends nothing until its end.
        connect_timeout: Seconds after which to give a connection attempt up.
        keep_alive: Seconds of silence after which to send a comment to a client that reads a stream.
        max_event_bytes: Maximum size of an event from a generate server.
    """

    upstreams: tuple[Upstream, ...]
    render: Server | None = None
    timeout: float = Settings.upstream_timeout
    generation_timeout: float = Settings.generation_timeout
    connect_timeout: float = Settings.upstream_connect_timeout
    keep_alive: float = 15
    max_event_bytes: int = 16 * 1024 * 1024

    @property
    def renders(self) -> bool:
        """Whether there is a render service."""
        return self.render is not None or any(upstream.render is not None for upstream in self.upstreams)

    def find_upstream(self, name: str | None, model: str) -> Upstream:
        """Return the generate server with a name, or else the default one of a model.

        Args:
            name: The name, if the request has one.
            model: The name of the model's vocabulary.

        Raises:
            UpstreamNotFound: No generate server has the name, or none serves the model.
            BadRequest: The generate server serves another model.
        """
        if name is not None:
            return self._find_named(name, model)
        for wanted in (model, None):
            for upstream in self.upstreams:
                if upstream.model == wanted:
                    return upstream
        raise UpstreamNotFound(f"No upstream serves the model `{model}`.", param="model")

    def find_render(self, upstream: Upstream) -> Server:
        """Return the render service for a generate server.

        Raises:
            UpstreamNotFound: There is none.
        """
        render = upstream.render or self.render
        if render is None:
            raise UpstreamNotFound(
                f"The upstream `{upstream.name}` has no render service; send a generate request", param="model"
            )
        return render

    def check_models(self, models: Models) -> None:
        """Refuse generate servers of models that are not served.

        Raises:
            SettingsError: The message names the generate server and the models.
        """
        known = [entry.settings.root for entry in models.entries]
        for upstream in self.upstreams:
            if upstream.model not in (None, *known):
                raise SettingsError(
                    f"DERENDER_UPSTREAMS: {upstream.name}: names the model {upstream.model!r}; the layer has "
                    f"{', '.join(sorted(known))}"
                )

    def _find_named(self, name: str, model: str) -> Upstream:
        for upstream in self.upstreams:
            if upstream.name == name:
                if upstream.model not in (None, model):
                    raise BadRequest(
                        f"The upstream `{name}` serves the model `{upstream.model}`, not `{model}`.",
                        param="model",
                    )
                return upstream
        names = ", ".join(upstream.name for upstream in self.upstreams)
        raise UpstreamNotFound(
            f"The upstream `{name[:100]}` does not exist. Valid names: {names}.", param="upstream"
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
        upstreams = read_upstreams(settings.upstreams, environment)
        if settings.render_url is not None:
            variable = "DERENDER_RENDER_URL"
            render = read_server(RENDER, settings.render_url, environment)
    except ValueError as error:
        raise SettingsError(f"{variable}: {error}") from None
    return RelaySettings(
        upstreams,
        render,
        timeout=settings.upstream_timeout,
        generation_timeout=settings.generation_timeout,
        connect_timeout=settings.upstream_connect_timeout,
    )
