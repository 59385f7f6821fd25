"""The HTTP application: routes, and the error envelope."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect

from . import __version__
from .body import read_body
from .endpoints import ENDPOINTS, answer
from .errors import DerenderError, fault_of
from .events import DONE, EVENT_STREAM, dumps, event
from .protocol.openai import Error, ErrorResponse, Model, ModelList, Version
from .protocol.stream import StreamRequest
from .streaming import Derendered

if TYPE_CHECKING:
    from .endpoints import Answer, Endpoint
    from .model import Models
    from .relay import Relay

__all__ = ["create_app"]

GZIP_FROM: Final = 16 * 1024
"""Responses from this many bytes on are compressed where the client accepts it."""
GZIP_LEVEL: Final = 1
"""JSON of logprobs is repetitive: higher levels cost several times as much for a tenth of the size."""


def create_app(models: Models, *, max_body_bytes: int, relay: Relay | None = None) -> FastAPI:
    """The application that serves some models.

    Args:
        models: The models.
        max_body_bytes: Largest request body, after decompression.
        relay: What is relayed, and from where; None for no relay.
    """
    lifespan = None
    if relay is not None:
        # Only who relays pays for an HTTP client.
        from .relay.routes import add_routes, client_lifespan

        lifespan = client_lifespan(relay)
    app = FastAPI(
        title="derender",
        version=__version__,
        summary="Token ids into OpenAI responses.",
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.add_middleware(GZipMiddleware, minimum_size=GZIP_FROM, compresslevel=GZIP_LEVEL)
    app.add_exception_handler(DerenderError, _derender_error)
    app.add_exception_handler(HTTPException, _http_error)

    def openapi() -> dict[str, Any]:
        # Only who asks for the document pays for making it.
        from .openapi import describe

        app.openapi_schema = app.openapi_schema or describe(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

    def add(endpoint: Endpoint) -> None:
        async def derender(request: Request) -> Response:
            try:
                body = await read_body(request, max_body_bytes)
                return _derendered(request, answer(endpoint, models, body, int(time.time())))
            except ClientDisconnect:
                return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody reads it
            except BaseException as error:
                raise fault_of(error) from None

        app.add_api_route(
            endpoint.path, derender, methods=["POST"], summary=endpoint.summary, name=endpoint.path
        )

    for endpoint in ENDPOINTS.values():
        add(endpoint)

    @app.get("/v1/models", name="models", summary="List the names that requests may use")
    async def list_models() -> Response:
        created = int(time.time())
        return _json(
            ModelList(
                data=[
                    Model(id=name, created=created, root=entry.root, max_model_len=entry.max_model_len)
                    for entry in models.entries
                    for name in entry.names
                ]
            )
        )

    @app.get("/health", summary="Say that requests are answered", response_class=Response)
    async def health() -> Response:
        return Response()

    @app.get("/version", summary="Say the version")
    async def version() -> Response:
        return _json(Version(version=__version__))

    if relay is not None:
        add_routes(app, models, relay, max_body_bytes=max_body_bytes)
    return app


def _json(content: object, status: int = 200) -> Response:
    return Response(dumps(content), status, media_type="application/json")


def _derendered(request: Request, answered: Answer) -> Response:
    """An answer as JSON, or as events where several chunks are to be such."""
    wanted, _, content = answered
    if not isinstance(content, Derendered):
        return _json(content)
    chunks, state, finished = content
    if isinstance(wanted, StreamRequest) and wanted.generate_chunks is None:
        return _json({"chunk": chunks[0], "stream_state": state})
    if EVENT_STREAM not in request.headers.get("accept", ""):
        return _json({"chunks": chunks, "stream_state": state})
    events = [*map(event, chunks), DONE if finished else event(state, "stream_state")]
    return Response(b"".join(events), media_type=EVENT_STREAM, headers={"cache-control": "no-store"})


async def _derender_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, DerenderError)
    response = _json(error.envelope, error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = error.retry_after
    return response


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = HTTPStatus(error.status_code).phrase.replace(" ", "").removesuffix("Error") + "Error"
    content = Error(message=str(error.detail), type=kind, param=None, code=error.status_code)
    response = _json(ErrorResponse(error=content), error.status_code)
    response.headers.update(error.headers or {})
    return response
