"""The HTTP application: routes, and the error envelope."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect

from . import __version__
from .body import read_body
from .chat import derender_chat
from .completions import derender_completion
from .errors import DerenderError, unexpected
from .events import DONE, EVENT_STREAM, dumps, event
from .protocol.derender import ChatDerenderRequest, CompletionDerenderRequest
from .protocol.openai import Error, ErrorResponse, Model, ModelList, Version
from .protocol.reading import read_either
from .protocol.stream import ChatStreamRequest, CompletionStreamRequest
from .streaming import derender_chat_stream, derender_completion_stream
from .vocabulary import is_panic

if TYPE_CHECKING:
    from collections.abc import Callable

    from .model import Models, ServedModel
    from .protocol.base import WireModel
    from .protocol.stream import StreamRequest
    from .relay import Relay
    from .streaming import Derendered

__all__ = ["create_app"]

GZIP_FROM: Final = 16 * 1024
"""Responses from this many bytes on are compressed where the client accepts it."""
GZIP_LEVEL: Final = 1
"""JSON of logprobs is repetitive: higher levels cost several times as much for a tenth of the size."""

RequestT = TypeVar("RequestT", bound="ChatDerenderRequest | CompletionDerenderRequest")
StreamT = TypeVar("StreamT", bound="StreamRequest")


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

    async def answer(
        request: Request,
        complete: type[RequestT],
        derender: Callable[[RequestT, ServedModel, int], WireModel],
        streamed: type[StreamT],
        derender_stream: Callable[[StreamT, ServedModel, int], Derendered[WireModel]],
    ) -> Response:
        try:
            wanted = read_either(complete, streamed, await read_body(request, max_body_bytes))
            model, created = models.find(wanted.model, wanted.client_model), int(time.time())
            if isinstance(wanted, streamed):
                return _chunks(request, wanted, derender_stream(wanted, model, created))
            assert isinstance(wanted, complete)
            return _json(derender(wanted, model, created))
        except DerenderError:
            raise
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody reads it
        except BaseException as error:
            if isinstance(error, Exception) or is_panic(error):
                raise unexpected(error) from None
            raise

    @app.post("/v1/chat/completions/derender", summary="Derender a chat completion")
    async def chat_completions(request: Request) -> Response:
        return await answer(
            request, ChatDerenderRequest, derender_chat, ChatStreamRequest, derender_chat_stream
        )

    @app.post("/v1/completions/derender", summary="Derender a text completion")
    async def completions(request: Request) -> Response:
        return await answer(
            request,
            CompletionDerenderRequest,
            derender_completion,
            CompletionStreamRequest,
            derender_completion_stream,
        )

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


def _chunks(request: Request, wanted: StreamRequest, derendered: Derendered[WireModel]) -> Response:
    """What a streamed request is answered with: JSON, or events where several chunks are to be such."""
    chunks, state, finished = derendered
    if wanted.generate_chunks is None:
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
