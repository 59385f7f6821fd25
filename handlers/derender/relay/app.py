"""The application that derenders and relays."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from derender.http.app import create_app
from derender.http.operation import REQUEST_ERRORS, Operation
from derender.http.workers import INLINE
from derender.protocol.openai.errors import ErrorResponse

from .endpoints import RELAY_ENDPOINTS
from .routes import Routes
from .upstream.client import UpstreamClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from fastapi import FastAPI

    from derender.http.workers import Run
    from derender.models.model import Models
    from derender.telemetry.observation import Observe

    from .settings import RelaySettings

__all__ = ["create_relay_app"]

UPSTREAM_ERRORS: Final = {
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not said to be JSON, or is encoded otherwise than by gzip.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "An upstream refused the request; 400, 413, 429 and 503 may mean so, too.",
    HTTPStatus.TOO_MANY_REQUESTS: "An upstream accepts no more requests for now.",
    HTTPStatus.SERVICE_UNAVAILABLE: "An upstream is too busy, or not available for now.",
    HTTPStatus.BAD_GATEWAY: "An upstream is unreachable, failed, or sent something unexpected.",
    HTTPStatus.GATEWAY_TIMEOUT: "An upstream was silent for too long.",
}
_GENERATE_REQUEST: Final = {
    "request_id": "cmpl-7f3a",
    "token_ids": [151644, 872, 198],
    "sampling_params": {"max_tokens": 512},
}


def create_relay_app(
    models: Models,
    settings: RelaySettings,
    *,
    max_body_bytes: int,
    allowed_origins: Sequence[str] = (),
    loopback: bool = False,
    run: Run = INLINE,
    observe: Observe | None = None,
) -> FastAPI:
    """Create the application that derenders and relays.

    Args:
        models: The models served.
        settings: The relay's settings. Without a render service, the application has no OpenAI routes.
        max_body_bytes: Maximum size of a request body, and of an upstream's response that is not a stream.
        allowed_origins: Origins of the web pages that may call from a browser (CORS); `*` for all.
        loopback: Whether only this machine can reach the application, so that other pages must not.
        run: Runs the work on a request.
        observe: Called with an observation of each request once its answer is complete.

    Raises:
        SettingsError: An upstream serves a model that is not among them.
    """
    settings.check_models(models)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with UpstreamClient(settings) as client:
            yield {"upstream_client": client}

    return create_app(
        models,
        max_body_bytes=max_body_bytes,
        allowed_origins=allowed_origins,
        loopback=loopback,
        run=run,
        operations=_operations(models, settings, max_body_bytes, run),
        lifespan=lifespan,
        observe=observe,
    )


def _operations(models: Models, settings: RelaySettings, max_body_bytes: int, run: Run) -> Iterator[Operation]:
    for endpoint in RELAY_ENDPOINTS:
        routes = Routes(endpoint, models, settings, max_body_bytes, run)
        openai, request = endpoint.openai, endpoint.example
        name = openai.kind.replace(" ", "_")
        streamed = {**request, "stream": True}
        operation = partial(
            Operation,
            method="POST",
            tag="Relay",
            answers=(openai.response,),
            events=(("message", openai.chunk), ("message", ErrorResponse)),
            errors={**REQUEST_ERRORS, **UPSTREAM_ERRORS},
        )
        yield operation(
            path=f"{openai.derender_path}/relay",
            name=f"relay_{name}",
            summary=f"Generate and derender a {openai.kind}",
            handle=routes.relay,
            requests=(endpoint.relay_request,),
            examples={
                "complete": {"generate_request": _GENERATE_REQUEST, openai.client_field: request},
                "streamed": {"generate_request": _GENERATE_REQUEST, openai.client_field: streamed},
            },
        )
        if settings.renders:
            yield operation(
                path=openai.path,
                name=f"create_{name}",
                summary=f"Render, generate and derender a {openai.kind}",
                handle=routes.create,
                requests=(endpoint.client_request,),
                examples={"complete": request, "streamed": streamed},
            )
