"""Errors become responses in OpenAI's envelope."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Route

from derender.protocol.envelope import error_response
from derender.protocol.openai.errors import Error, ErrorResponse
from derender.telemetry.faults import client_error

from .observation import note_error, note_fault
from .responses import json_response

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from derender.errors import DerenderError

    ExceptionHandler = Callable[[Request, Any], Coroutine[Any, Any, Response]]

__all__ = ["EXCEPTION_HANDLERS", "FaultMiddleware"]


class FaultMiddleware:
    """Answers with the error that a request ends in.

    An unexpected exception is logged and answered as an internal error (`derender.telemetry.faults`), so the
    server never logs its message, which may contain generated text.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request (ASGI).

        Raises:
            DerenderError: The request failed after its response had started.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except Exception as error:
            fault = client_error(error)
            note_fault(scope, fault)
            if started:
                raise fault from None
            await _response(fault)(scope, receive, send)


async def _answer_http_error(request: Request, error: HTTPException) -> Response:
    """Answer a request that no route answers."""
    name = HTTPStatus(error.status_code).phrase.replace(" ", "")
    note_error(request.scope, name)
    kind = name.removesuffix("Error") + "Error"
    content = Error(message=str(error.detail), type=kind, param=None, code=error.status_code)
    response = json_response(ErrorResponse(error=content), error.status_code)
    response.headers.update(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["allow"] = ", ".join(sorted(_allowed_methods(request)))
    return response


def _allowed_methods(request: Request) -> Iterator[str]:
    """Yield the methods of all routes with the path. The framework names those of the first."""
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            yield from route.methods or ()


async def _answer_left_client(_: Request, __: ClientDisconnect) -> Response:
    return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody reads it


EXCEPTION_HANDLERS: Final[Mapping[int | type[Exception], ExceptionHandler]] = {
    HTTPException: _answer_http_error,
    ClientDisconnect: _answer_left_client,
}
"""Handlers of the exceptions that the framework raises."""


def _response(error: DerenderError) -> Response:
    response = json_response(error_response(error), error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = error.retry_after
    return response
