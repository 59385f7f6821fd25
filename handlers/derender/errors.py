"""What can be wrong with a request, each with its HTTP status (protocol/README.md, "Errors")."""

from __future__ import annotations

from http import HTTPStatus
from typing import ClassVar

__all__ = [
    "BadRequest",
    "DerenderError",
    "InvalidRequest",
    "ModelNotFound",
    "RequestTooLarge",
    "UnsupportedEncoding",
]


class DerenderError(Exception):
    """A request that can't be answered. The message says what to change and holds no generated content."""

    status: ClassVar[HTTPStatus]
    type: ClassVar[str]

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
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


class RequestTooLarge(DerenderError):  # noqa: N818
    """More bytes than are accepted."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    type = "RequestTooLargeError"


class UnsupportedEncoding(DerenderError):  # noqa: N818
    """A content encoding other than gzip."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    type = "UnsupportedMediaTypeError"
