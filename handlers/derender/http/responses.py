"""JSON responses."""

from __future__ import annotations

from starlette.responses import Response

from derender.protocol.writing import dumps

__all__ = ["json_response"]


def json_response(content: object, status: int = 200) -> Response:
    """Return a response with a JSON body."""
    return Response(dumps(content), status, media_type="application/json")
