"""Responses of functions, and how Lambda's runtime writes them."""

from __future__ import annotations

from typing import Any, Final

import pytest
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller  # type: ignore[import-untyped]

__all__ = ["ESCAPED", "UNESCAPED", "make_response", "written"]

ESCAPED: Final = "AWS_Lambda_python3.11"
"""A runtime that escapes everything beyond ASCII."""
UNESCAPED: Final = "AWS_Lambda_python3.13"
"""A runtime that does not: the one that the template uses."""


def make_response(body: str, **changes: Any) -> dict[str, Any]:
    """Return what the adapter returns."""
    headers = {"content-type": "application/json", "content-length": str(len(body.encode()))}
    response = {"statusCode": 200, "body": body, "headers": headers, "isBase64Encoded": False}
    return {**response, **changes}


def written(response: dict[str, Any], runtime: str) -> bytes:
    """Return a response as the runtime writes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_EXECUTION_ENV", runtime)
        content, _ = LambdaMarshaller().marshal_response(response)
    assert isinstance(content, str)
    return content.encode()
