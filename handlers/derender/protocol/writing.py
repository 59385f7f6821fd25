"""Write responses as JSON."""

from __future__ import annotations

import orjson

__all__ = ["dumps"]


def dumps(content: object) -> bytes:
    """Return a response as JSON. Models are written from their fields; logprobs are JSON already."""
    return orjson.dumps(content, default=vars)
