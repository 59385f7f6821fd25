"""The HTTP application: routes, and the error envelope."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from derender import __version__
from derender.endpoints import ENDPOINTS, answer
from derender.errors import DerenderError
from derender.protocol.envelope import error_response
from derender.protocol.openai import Error, ErrorResponse, Model, ModelList, Version
from derender.protocol.stream import StreamRequest
from derender.protocol.writing import dumps
from derender.streaming import Derendered
from derender.telemetry.facts import answer_facts
from derender.telemetry.faults import client_error
from derender.telemetry.observation import Facts

from .body import read_body
from .compression import compress
from .observing import follow, note, note_fault
from .sse import DONE, EVENT_STREAM, event

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from derender.endpoints import Answer, Endpoint
    from derender.models.model import Models
    from derender.relay import Relay
    from derender.telemetry.observation import Observe

__all__ = ["create_app"]


def create_app(
    models: Models, *, max_body_bytes: int, relay: Relay | None = None, observe: Observe | None = None
) -> FastAPI:
    """The application that serves some models.

    Args:
        models: The models.
        max_body_bytes: Largest request body, after decompression.
        relay: What is relayed, and from where; None for no relay.
        observe: Told of each request when its answer is complete; None where nobody wants to know.
    """
    lifespan = None
    if relay is not None:
        # Only who relays pays for an HTTP client.
        from derender.relay.routes import add_routes, client_lifespan

        lifespan = client_lifespan(relay)
    app = FastAPI(
        title="derender",
        version=__version__,
        summary="Token ids into OpenAI responses.",
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.add_middleware(compress)
    app.add_middleware(_guard)
    app.add_exception_handler(DerenderError, _derender_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _client_left)

    def openapi() -> dict[str, Any]:
        # Only who asks for the document pays for making it.
        from .openapi import describe

        app.openapi_schema = app.openapi_schema or describe(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

    def add(endpoint: Endpoint) -> None:
        async def derender(request: Request) -> Response:
            body = await read_body(request, max_body_bytes)
            answered = answer(endpoint, models, body, int(time.time()))
            note(request.scope, lambda: answer_facts(answered))
            return _derendered(request, answered)

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
    # Last, so that it is the outermost.
    endpoints = {route.path for route in app.routes if isinstance(route, Route)}
    app.add_middleware(follow, endpoints=endpoints, observe=observe)
    return app


def _json(content: object, status: int = 200) -> Response:
    return Response(dumps(content), status, media_type="application/json")


def _derendered(request: Request, answered: Answer) -> Response:
    """An answer as JSON, or as events where several chunks are to be such."""
    wanted, _, content = answered
    if not isinstance(content, Derendered):
        return _json(content)
    chunks, state, finished, _ = content
    if isinstance(wanted, StreamRequest) and wanted.generate_chunks is None:
        return _json({"chunk": chunks[0], "stream_state": state})
    if EVENT_STREAM not in request.headers.get("accept", ""):
        return _json({"chunks": chunks, "stream_state": state})
    events = [*map(event, chunks), DONE if finished else event(state, "stream_state")]
    return Response(b"".join(events), media_type=EVENT_STREAM, headers={"cache-control": "no-store"})


def _guard(app: ASGIApp) -> ASGIApp:
    """An application of whose own faults nothing is told, or logged, but what `client_error` says."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await app(scope, receive, sending)
        except Exception as error:
            fault = client_error(error)
            if started:
                raise fault from None
            note_fault(scope, fault)
            await _error(fault)(scope, receive, send)

    return guarded


async def _derender_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, DerenderError)
    note_fault(request.scope, error)
    return _error(error)


async def _client_left(_: Request, __: Exception) -> Response:
    return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody reads it


def _error(error: DerenderError) -> Response:
    response = _json(error_response(error), error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = error.retry_after
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name = HTTPStatus(error.status_code).phrase.replace(" ", "")
    note(request.scope, lambda: Facts(error=name))
    kind = name.removesuffix("Error") + "Error"
    content = Error(message=str(error.detail), type=kind, param=None, code=error.status_code)
    response = _json(ErrorResponse(error=content), error.status_code)
    response.headers.update(error.headers or {})
    return response
