"""Parameters of template.yaml that tests combine."""

from __future__ import annotations

from typing import Final

from .stack import ACCOUNT, REGION

__all__ = [
    "API_KEY",
    "DIGEST",
    "FUNCTION_URL",
    "JWT",
    "KEY",
    "NETWORK",
    "OPEN",
    "REST_API",
    "TOPIC",
    "UPSTREAMS",
]

UPSTREAMS: Final = '{"gpu": "http://127.0.0.1:9"}'
"""Nobody listens there."""
DIGEST: Final = "0123456789abcdef" * 4
KEY: Final = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TOPIC: Final = f"arn:aws:sns:{REGION}:{ACCOUNT}:alarms"
JWT: Final = {"Authorization": "jwt", "JwtIssuer": "https://id.example", "JwtAudience": "derender,other"}
API_KEY: Final = {"Authorization": "api-key", "ApiKeyDigests": DIGEST}
OPEN: Final = {"Authorization": "open-to-everyone"}
FUNCTION_URL: Final = {"Relay": "function-url", "Upstreams": UPSTREAMS}
REST_API: Final = {"Relay": "rest-api", "Upstreams": UPSTREAMS}
NETWORK: Final = {
    "RelaySubnets": "subnet-0a1b2c3d,subnet-0a1b2c3d4e5f60718",
    "RelaySecurityGroups": "sg-4e5f6071",
}
