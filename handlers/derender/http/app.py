"""The HTTP application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Response
from starlette.routing import Route

from derender import __version__
from derender.telemetry.request_ids import HEADER

from .compression import CompressionMiddleware
from .faults import EXCEPTION_HANDLERS, FaultMiddleware
from .observation import ObservationMiddleware
from .request_id import RequestIdMiddleware
from .routes import core_operations
from .workers import INLINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from derender.models.model import Models
    from derender.telemetry.observation import Observe

    from .operation import Operation
    from .workers import Run

    Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[dict[str, Any]]]
    """Runs while the application runs. The values become attributes of `request.state`."""

__all__ = ["create_app"]

_ABOUT: Final = """\
A generate server of a disaggregated deployment has no tokenizer: it returns token ids, and logprobs that name
tokens by id. Post what it returned, with the client's request if there is one, and get the OpenAI response.

Errors use OpenAI's envelope, `{"error": {"message", "type", "param", "code"}}`, also for an unknown path (404)
or method (405); the message says what to change. Request bodies may be gzipped (`Content-Encoding: gzip`).
Large responses are gzipped if the client accepts it. Integers must be written without a fraction: `1`, not
`1.0`.

With `"stream": true`, post each event of the generate server's stream as `generate_chunk`, together with the
`stream_state` of the last answer (null first), and get a chunk of the OpenAI stream. Or post several events as
`generate_chunks` and get as many chunks, as server-sent events if the client accepts those.
"""
_PREFLIGHT_SECONDS: Final = 3600
"""Seconds for which a browser may keep the answer to a preflight request."""


def create_app(
    models: Models,
    *,
    max_body_bytes: int,
    allowed_origins: Sequence[str] = (),
    loopback: bool = False,
    run: Run = INLINE,
    operations: Iterable[Operation] = (),
    lifespan: Lifespan | None = None,
    observe: Observe | None = None,
) -> FastAPI:
    """Create the application that derenders.

    Args:
        models: The models served.
        max_body_bytes: Maximum size of a request body, after decompression.
        allowed_origins: Origins of the web pages that may call from a browser (CORS); `*` for all.
        loopback: Whether only this machine can reach the application, so that other pages must not.
        run: Runs the work on a request.
        operations: More operations to serve.
        lifespan: Opens what these operations need, and closes it at the end.
        observe: Called with an observation of each request once its answer is complete.
    """
    app = _Application(
        [*core_operations(models, max_body_bytes=max_body_bytes, run=run), *operations], lifespan
    )
    # Each middleware wraps those added before.
    app.add_middleware(CompressionMiddleware)
    if loopback:
        # Imported here: functions can be reached.
        from .origins import LoopbackMiddleware

        app.add_middleware(LoopbackMiddleware, allowed_origins=allowed_origins)
    app.add_middleware(FaultMiddleware)
    if allowed_origins:
        # Imported here: most processes serve no browsers.
        from starlette.middleware.cors import CORSMiddleware

        app.add_middleware(
            CORSMiddleware,
            allow_origins=allowed_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=("retry-after", HEADER),
            max_age=_PREFLIGHT_SECONDS,
        )
    if observe is not None:
        endpoints = {route.path for route in app.routes if isinstance(route, Route)}
        app.add_middleware(ObservationMiddleware, endpoints=endpoints, observe=observe)
    app.add_middleware(RequestIdMiddleware)
    return app


class _Application(FastAPI):
    """FastAPI, with operations that read and write bodies themselves.

    Handlers take the raw request and return a response, because msgspec and orjson read and write large bodies
    faster than FastAPI does. Operations therefore describe their bodies for the OpenAPI document, too.
    """

    def __init__(self, operations: Sequence[Operation], lifespan: Lifespan | None) -> None:
        super().__init__(
            title="derender",
            version=__version__,
            summary="Token ids into OpenAI responses.",
            description=_ABOUT,
            redirect_slashes=False,
            lifespan=lifespan,
            exception_handlers=dict(EXCEPTION_HANDLERS),
        )
        self._operations = operations
        for operation in operations:
            self.add_api_route(
                operation.path,
                operation.handle,
                methods=[operation.method],
                name=operation.name,
                operation_id=operation.name,
                tags=[operation.tag],
                summary=operation.summary,
                description=operation.description,
                response_class=Response,
            )

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, made when a client first asks for it."""
        if self.openapi_schema is None:
            # Imported here: most processes are never asked for the document.
            from .openapi import describe

            describe(super().openapi(), self._operations)
        assert self.openapi_schema is not None
        return self.openapi_schema
