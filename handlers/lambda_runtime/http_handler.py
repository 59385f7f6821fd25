"""The handler of HTTP events: events of API Gateway and function URLs → responses of an ASGI application."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from mangum import Mangum
from msgspec.structs import replace

from derender.errors import InternalError, InvalidRequest, ResponseTooLarge
from derender.protocol.envelope import error_response
from derender.protocol.writing import dumps
from derender.telemetry.faults import log_unexpected

from .invocation import begin_invocation
from .response_size import MAX_RESPONSE, excess_size, writes_ascii

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mangum.types import ASGI

    from derender.errors import DerenderError
    from derender.telemetry.observation import Observation, Observe

    from .response_size import Response

__all__ = ["HttpHandler"]


class HttpHandler:
    """A Lambda handler that answers HTTP events with an ASGI application.

    It never raises: Lambda would show the exception and its traceback to the caller. And it never returns more
    than Lambda does: the gateway would answer with 502 and no explanation.
    """

    def __init__(
        self,
        create_app: Callable[[Observe], ASGI],
        observe: Observe,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Create the application.

        Args:
            create_app: Returns the application, which calls its argument with an observation of each request.
            observe: Called with the observation of what is returned.
            environment: The variables. They tell how the runtime writes responses.
        """
        self._observations: list[Observation] = []
        self._adapter = Mangum(create_app(self._observations.append), lifespan="off")
        self._observe = observe
        self._ascii_only = writes_ascii(environment)

    def __call__(self, event: object, context: object) -> Response:
        """Answer an event.

        Args:
            event: The event.
            context: Lambda's context of the invocation.
        """
        try:
            return self._answer(event, context)
        except Exception as error:
            with suppress(Exception):
                log_unexpected(error)
            return dict(_INTERNAL_ERROR)

    def _answer(self, event: Any, context: Any) -> Response:
        request_context = event.get("requestContext") if isinstance(event, dict) else None
        begin_invocation(getattr(context, "aws_request_id", None), request_context=request_context)
        self._observations.clear()
        try:
            response = self._adapter(event, context)
        except Exception as error:
            # The adapter catches what the application raises, so it is the event that it can't read.
            log_unexpected(error)
            return dict(_UNREADABLE_EVENT)
        size = excess_size(response, ascii_only=self._ascii_only)
        if size is not None:
            response = _replace_body(response, _too_large(response, size))
        for observation in self._observations:
            self._observe(observation if size is None else _observe_too_large(observation, response))
        return response


def _observe_too_large(observation: Observation, response: Response) -> Observation:
    return replace(
        observation,
        status=response["statusCode"],
        error=ResponseTooLarge.__name__,
        response_bytes=len(response["body"]),
    )


def _too_large(response: Response, size: int) -> ResponseTooLarge:
    is_compressed = "content-encoding" in response.get("headers", {})
    advice = "" if is_compressed else "accept gzip (Accept-Encoding: gzip), "
    return ResponseTooLarge(
        f"Lambda returns at most {MAX_RESPONSE} bytes, and the answer has {size} bytes; {advice}ask for fewer "
        "candidates or fewer choices, send fewer generations at once, or use a batch"
    )


def _replace_body(response: Response, error: DerenderError) -> Response:
    """Return a response with an error in place of its body. Headers that don't describe the body stay."""
    body = dumps(error_response(error)).decode()
    headers = {
        **{name: value for name, value in response.get("headers", {}).items() if name != "content-encoding"},
        "content-type": "application/json",
        "content-length": str(len(body.encode())),
    }
    return {
        **response,
        "statusCode": int(error.status),
        "headers": headers,
        "body": body,
        "isBase64Encoded": False,
    }


_INTERNAL_ERROR: Final = _replace_body({}, InternalError("internal error"))
_UNREADABLE_EVENT: Final = _replace_body(
    {}, InvalidRequest("the event is no HTTP request of API Gateway or of a function URL")
)
