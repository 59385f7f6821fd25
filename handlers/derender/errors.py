"""What can be wrong with a request, or with who is asked for it, each with its HTTP status.

protocol/README.md, "Errors"; relay/README.md, "Faults".
"""

from __future__ import annotations

import logging
import traceback
from http import HTTPStatus
from typing import Final

__all__ = [
    "BadGateway",
    "BadRequest",
    "DerenderError",
    "GatewayTimeout",
    "InternalError",
    "InvalidRequest",
    "ModelNotFound",
    "RequestTooLarge",
    "ResponseTooLarge",
    "UnsupportedEncoding",
    "UpstreamBusy",
    "UpstreamFailed",
    "UpstreamLost",
    "UpstreamNotFound",
    "UpstreamRefusal",
    "UpstreamUnreachable",
    "fault_of",
    "is_panic",
    "unexpected",
]

logger = logging.getLogger("derender")


class DerenderError(Exception):
    """A request that can't be answered. The message says what to change and holds no generated content."""

    status: HTTPStatus
    type: str
    retry_after: str | None = None
    """When to ask again, as the header of that name says it."""

    def __init__(self, message: str, *, param: str | None = None, quoting: str = "") -> None:
        """Say what is wrong.

        Args:
            message: What may be logged.
            param: The field.
            quoting: What follows in the message, for the client alone: it may hold what was sent.
        """
        self.message = f"{message}: {quoting}" if quoting else message
        super().__init__(self.message)
        self.unquoted = message
        self.param = param


class BadRequest(DerenderError):  # noqa: N818 - the name is the status
    """Well formed, but out of bounds or without sense."""

    status = HTTPStatus.BAD_REQUEST
    type = "BadRequestError"


class InvalidRequest(DerenderError):  # noqa: N818
    """Not of the protocol's form: a field is missing or of another type. vLLM names this kind so."""

    status = HTTPStatus.BAD_REQUEST
    type = "Bad Request"


class ModelNotFound(DerenderError):  # noqa: N818
    """No such model here."""

    status = HTTPStatus.NOT_FOUND
    type = "NotFoundError"


class UpstreamNotFound(DerenderError):  # noqa: N818
    """No such upstream here."""

    status = HTTPStatus.NOT_FOUND
    type = "NotFoundError"


class RequestTooLarge(DerenderError):  # noqa: N818
    """More bytes than are accepted."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    type = "RequestTooLargeError"


class ResponseTooLarge(DerenderError):  # noqa: N818
    """The answer to what is asked has more bytes than can be returned."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    type = "ResponseTooLargeError"


class UnsupportedEncoding(DerenderError):  # noqa: N818
    """A content encoding other than gzip."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    type = "UnsupportedMediaTypeError"


class InternalError(DerenderError):
    """A fault of derender's own."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR
    type = "InternalServerError"


class BadGateway(DerenderError):  # noqa: N818
    """An upstream says what can't be understood, or too much."""

    status = HTTPStatus.BAD_GATEWAY
    type = "BadGatewayError"


class UpstreamUnreachable(BadGateway):
    """It can't be connected to."""


class UpstreamLost(BadGateway):
    """It ends, or its connection does, before its answer is complete."""


class UpstreamFailed(BadGateway):
    """It answers with a status that is not passed on, or reports an error of its own."""


class GatewayTimeout(DerenderError):  # noqa: N818
    """An upstream is silent for too long."""

    status = HTTPStatus.GATEWAY_TIMEOUT
    type = "GatewayTimeoutError"


class UpstreamRefusal(DerenderError):  # noqa: N818
    """An upstream refuses the request for a reason that is the client's to know."""

    TYPES: Final = {
        HTTPStatus.BAD_REQUEST: BadRequest.type,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: RequestTooLarge.type,
        HTTPStatus.UNPROCESSABLE_ENTITY: "UnprocessableEntityError",
        HTTPStatus.TOO_MANY_REQUESTS: "RateLimitError",
    }
    """The statuses that are passed on, and the types of error that they are."""

    def __init__(self, status: HTTPStatus, message: str, *, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.type = self.TYPES[status]
        self.retry_after = retry_after


class UpstreamBusy(UpstreamRefusal):
    """It takes no more requests for now."""


def fault_of(error: BaseException) -> DerenderError:
    """What a client is told of an error. What is none, but ends a task or the process, is raised again."""
    if isinstance(error, DerenderError):
        return error
    if isinstance(error, Exception) or is_panic(error):
        return unexpected(error)
    raise error


def is_panic(error: BaseException) -> bool:
    """Whether an error is a panic of the `tokenizers` library: what it raises for a fault of its own, and no
    Exception.
    """
    return type(error).__name__ == "PanicException"


def unexpected(error: BaseException) -> InternalError:
    """What a client is told of a fault of derender's own; where it happened is logged."""
    # Only where: the message, and what the lines work on, may be what was generated.
    places = "".join(traceback.format_tb(error.__traceback__))
    logger.error("unexpected %s\n%s", type(error).__name__, places)
    return InternalError("internal error")
