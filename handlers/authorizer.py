"""Whether a caller's API key is known: a Lambda authorizer, since HTTP APIs have no keys of their own.

A key is sent as OpenAI's clients send theirs, `Authorization: Bearer KEY`. API Gateway itself refuses requests
without that header, and asks again for the same one only after five minutes. Only digests of keys are known
here, and nothing of a request is logged.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["handler"]

DIGESTS: Final = [each.strip() for each in os.environ.get("API_KEY_DIGESTS", "").split(",") if each.strip()]
"""SHA-256 of each key, in hexadecimal. Keys are random and long, so that a plain hash hides them."""
NAMED_BY: Final = 8
"""Digits of a digest that name its key, in answers and access logs."""


def handler(event: Mapping[str, Any], _: object) -> dict[str, Any]:
    """Answer an event of API Gateway.

    Args:
        event: A request: of an HTTP API (payload format 2.0), or of a REST API, which names no version.

    Returns:
        To an HTTP API a simple response, to a REST API a policy. Both name the key, where it is known.
    """
    name = name_of(bearer_token(event.get("headers") or {}))
    if event.get("version") == "2.0":
        return {"isAuthorized": True, "context": {"key": name}} if name else {"isAuthorized": False}
    # The answer is kept, and used for other methods and paths too. So it is about the whole stage.
    api, stage, *_rest = event["methodArn"].split("/")
    statement = {
        "Action": "execute-api:Invoke",
        "Effect": "Allow" if name else "Deny",
        "Resource": f"{api}/{stage}/*",
    }
    return {
        "principalId": name or "unknown",
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": {"key": name} if name else {},
    }


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """What is sent in the Authorization header, if that is a bearer token."""
    for header, value in headers.items():
        if header.lower() == "authorization":
            scheme, _, token = value.strip().partition(" ")
            return token.strip() if scheme.lower() == "bearer" else None
    return None


def name_of(key: str | None) -> str | None:
    """What a key is called; None where it is unknown. It takes the same time for all keys."""
    digest = hashlib.sha256((key or "").encode(errors="surrogatepass")).hexdigest()
    # A list, not a generator: each digest is looked at, whichever it is.
    known = any([hmac.compare_digest(digest, each) for each in DIGESTS])  # noqa: C419
    return digest[:NAMED_BY] if key and known else None
