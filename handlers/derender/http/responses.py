"""JSON responses, and errors in OpenAI's envelope."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import Response

from derender.protocol.envelope import error_response
from derender.protocol.openai import Error, ErrorResponse
from derender.protocol.writing import dumps

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException

    from derender.errors import DerenderError

__all__ = ["error_name", "http_error", "json_response", "refuse"]


def json_response(content: object, status: int = 200) -> Response:
    """Return a response with a JSON body."""
    return Response(dumps(content), status, media_type="application/json")


def refuse(error: DerenderError) -> Response:
    """Return an error as a response."""
    response = json_response(error_response(error), error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = error.retry_after
    return response


def error_name(error: HTTPException) -> str:
    """Return the name of an HTTP error, such as `NotFound`."""
    return HTTPStatus(error.status_code).phrase.replace(" ", "")


def http_error(error: HTTPException) -> Response:
    """Return a response to a request that no route answers."""
    kind = error_name(error).removesuffix("Error") + "Error"
    content = Error(message=str(error.detail), type=kind, param=None, code=error.status_code)
    response = json_response(ErrorResponse(error=content), error.status_code)
    response.headers.update(error.headers or {})
    return response
