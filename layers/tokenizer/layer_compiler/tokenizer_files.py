"""Which files of a model's repository say what a layer is compiled from: those, and never weights or code."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

__all__ = ["PATTERNS", "wanted"]

PATTERNS: Final = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("config.json", "generation_config.json", "params.json"),
    *("chat_template.jinja", "chat_template.json"),
    *("tekken*.json", "*.tiktoken", "*.model", "tokenizer.model.v*"),
)
"""Names, with wildcards, of files at the top of a repository."""
_NOT_IN_A_NAME: Final = frozenset("/\\\0")


def wanted(name: str) -> bool:
    """Whether a file of this name is read. A name that leads elsewhere is none."""
    return not _NOT_IN_A_NAME & set(name) and any(fnmatchcase(name, pattern) for pattern in PATTERNS)
