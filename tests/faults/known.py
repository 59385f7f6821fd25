"""Cases that are not right yet."""

from __future__ import annotations

from typing import Final

__all__ = ["KNOWN"]

KNOWN: Final[frozenset[str]] = frozenset(
    {
        "quoted-think",
        "quoted-close",
        "quoted-think-r1",
        "broken-hermes",
        "broken-kimi",
        "repair-brace",
        "dsml-next-invoke",
        "coder-next-call",
        "glm-next-key",
        "glm-no-end",
        "hermes-text-after",
        "close-twice-gemma",
        "close-twice-hermes",
        "open-twice-hermes",
        "close-twice-coder",
        "close-twice-glm-value",
        "think-twice",
        "kimi-bare",
        "dsml-bare",
        "dsml-json-body",
        "gemma-open-string",
        "indent-answer",
        "indent-no-think",
        "mid-think",
        "type-str",
        "anyof-root",
        "kimi-counter",
        "llama-list",
        "llama-prose-first",
        "blanks",
        "cut-debris",
        "quoted-call-in-reasoning",
    }
)
