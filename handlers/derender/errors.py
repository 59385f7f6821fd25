"""The exceptions of derender: each has the HTTP status and the error type that the client gets.

    DerenderError
      + BadRequest             400  a value is out of bounds or makes no sense
      + InvalidRequest         400  a field is missing or has the wrong type
      + ModelNotFound          404
      + UpstreamNotFound       404
      + RequestTooLarge        413
      + ResponseTooLarge       413
      + ForeignOrigin          403
      + UnsupportedEncoding    415
      + UnsupportedType        415
      + InternalError          500  a fault of derender's own
      + BadGateway             502  an upstream sent something unusable
        x UpstreamUnreachable       it can't be connected to
        x UpstreamLost              it broke off before the end of its response
        x UpstreamFailed            it reported an error of its own
      + GatewayTimeout         504  an upstream was silent for too long
      + UpstreamRefusal        4xx  an upstream refused the client's request
        x UpstreamBusy         429, 503

protocol/README.md ("Errors") and docs/relay.md ("When something fails") describe them for clients.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

__all__ = [
    "BadGateway",
    "BadRequest",
    "DerenderError",
    "ForeignOrigin",
    "GatewayTimeout",
    "InternalError",
    "InvalidRequest",
    "ModelNotFound",
    "RequestTooLarge",
    "ResponseTooLarge",
    "UnsupportedEncoding",
    "UnsupportedType",
    "UpstreamBusy",
    "UpstreamFailed",
    "UpstreamLost",
    "UpstreamNotFound",
    "UpstreamRefusal",
    "UpstreamUnreachable",
]

# ruff: noqa: N818 - the classes are named after HTTP statuses


class DerenderError(Exception):
    """Base class of the errors that a client sees.

    The message says what was wrong and what to change. It contains no generated text.

    Attributes:
        status: The HTTP status.
        type: The error's `type` in the envelope.
        retry_after: Value of the `Retry-After` header.
        message: What the client is told.
        unquoted: The part of the message that may be logged.
        param: Path of the field that is wrong.
    """

    status: HTTPStatus
    type: str
    retry_after: str | None = None

    def __init__(self, message: str, *, param: str | None = None, quoting: str = "") -> None:
        """Create an error.

        Args:
            message: What was wrong, and what to change.
            param: Path of the field that is wrong.
            quoting: Text for the client only, appended to the message. It may repeat what was sent.
        """
        self.message = f"{message}: {quoting}" if quoting else message
        super().__init__(self.message)
        self.unquoted = message
        self.param = param


class BadRequest(DerenderError):
    """A well-formed request with a value that is out of bounds or makes no sense."""

    status = HTTPStatus.BAD_REQUEST
    type = "BadRequestError"


class InvalidRequest(DerenderError):
    """A request with a missing field or a field of the wrong type. vLLM uses this `type` for it."""

    status = HTTPStatus.BAD_REQUEST
    type = "Bad Request"


class ModelNotFound(DerenderError):
    """The request names a model that is not served."""

    status = HTTPStatus.NOT_FOUND
    type = "NotFoundError"


class UpstreamNotFound(DerenderError):
    """The request names an upstream that is not configured."""

    status = HTTPStatus.NOT_FOUND
    type = "NotFoundError"


class RequestTooLarge(DerenderError):
    """The request body exceeds the limit."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    type = "RequestTooLargeError"


class ResponseTooLarge(DerenderError):
    """The response exceeds the limit, or what Lambda can return."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    type = "ResponseTooLargeError"


class UnsupportedEncoding(DerenderError):
    """The request body has a content encoding other than gzip."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    type = "UnsupportedMediaTypeError"


class UnsupportedType(DerenderError):
    """The request body is not said to be JSON."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    type = "UnsupportedMediaTypeError"


class ForeignOrigin(DerenderError):
    """The request comes from a web page that may not call."""

    status = HTTPStatus.FORBIDDEN
    type = "ForbiddenError"


class InternalError(DerenderError):
    """A fault of derender's own."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR
    type = "InternalServerError"


class BadGateway(DerenderError):
    """An upstream sent something that can't be understood, or too much of it."""

    status = HTTPStatus.BAD_GATEWAY
    type = "BadGatewayError"


class UpstreamUnreachable(BadGateway):
    """An upstream can't be connected to."""


class UpstreamLost(BadGateway):
    """An upstream or its connection ended before the response was complete."""


class UpstreamFailed(BadGateway):
    """An upstream reported an error of its own, or returned a status that is not passed on."""


class GatewayTimeout(DerenderError):
    """An upstream was silent for too long."""

    status = HTTPStatus.GATEWAY_TIMEOUT
    type = "GatewayTimeoutError"


class UpstreamRefusal(DerenderError):
    """An upstream refused the request for a reason that concerns the client."""

    TYPES: Final = {
        HTTPStatus.BAD_REQUEST: BadRequest.type,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: RequestTooLarge.type,
        HTTPStatus.UNPROCESSABLE_ENTITY: "UnprocessableEntityError",
        HTTPStatus.TOO_MANY_REQUESTS: "RateLimitError",
        HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailableError",
    }
    """The statuses that are passed on, each with its error type."""

    def __init__(
        self, status: HTTPStatus, message: str, *, param: str | None = None, retry_after: str | None = None
    ) -> None:
        super().__init__(message, param=param)
        self.unquoted = f"responded with status {status}"
        self.status = status
        self.type = self.TYPES[status]
        self.retry_after = retry_after


class UpstreamBusy(UpstreamRefusal):
    """An upstream accepts no more requests for now."""
