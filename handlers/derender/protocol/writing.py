"""Responses → JSON."""

from __future__ import annotations

import orjson

__all__ = ["dumps"]


def dumps(content: object) -> bytes:
    """A response as JSON. Models are written from their fields as they are; logprobs are JSON already."""
    return orjson.dumps(content, default=vars)
