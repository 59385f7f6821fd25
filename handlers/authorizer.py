"""The authorizer function: checks API keys, which HTTP APIs don't support by themselves.

Clients send a key as OpenAI's clients do, `Authorization: Bearer KEY`. API Gateway itself refuses requests
without this header, and caches an answer for five minutes. The function knows only digests of keys, and logs
nothing.
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
"""SHA-256 of each key, in hexadecimal. Keys are random and long, so a plain hash hides them."""
NAME_LENGTH: Final = 8
"""Digits of a digest that name its key, in answers and access logs."""


def handler(event: Mapping[str, Any], _: object) -> dict[str, Any]:
    """Authorize a request.

    Args:
        event: API Gateway's event: of an HTTP API (payload format 2.0), or of a REST API, which has no version.

    Returns:
        A simple response for an HTTP API, a policy for a REST API. Both name a known key.
    """
    name = find_name(read_bearer_token(event.get("headers") or {}))
    if event.get("version") == "2.0":
        return {"isAuthorized": True, "context": {"key": name}} if name else {"isAuthorized": False}
    # API Gateway caches the answer for other methods and paths, too, so it covers the whole stage.
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


def read_bearer_token(headers: Mapping[str, str]) -> str | None:
    """Return the token of the Authorization header, if it is a bearer token."""
    for header, value in headers.items():
        if header.lower() == "authorization":
            scheme, _, token = value.strip().partition(" ")
            return token.strip() if scheme.lower() == "bearer" else None
    return None


def find_name(key: str | None) -> str | None:
    """Return the name of a key, or None if the key is unknown. Takes the same time for all keys."""
    digest = hashlib.sha256((key or "").encode(errors="surrogatepass")).hexdigest()
    # A list, not a generator: the key is compared with every digest.
    known = any([hmac.compare_digest(digest, each) for each in DIGESTS])  # noqa: C419
    return digest[:NAME_LENGTH] if key and known else None
