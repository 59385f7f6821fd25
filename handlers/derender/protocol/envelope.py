"""OpenAI's error envelope: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .openai.errors import Error, ErrorResponse

if TYPE_CHECKING:
    from derender.errors import DerenderError

__all__ = ["error_response"]


def error_response(error: DerenderError) -> ErrorResponse:
    """Write an exception in the error envelope."""
    return ErrorResponse(
        error=Error(message=error.message, type=error.type, param=error.param, code=error.status)
    )
