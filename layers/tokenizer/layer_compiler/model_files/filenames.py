"""Which files of a model's folder are read: what a layer is compiled from, never weights or code.

It is said here once: what is fetched, what a digest is of, and what the formats and the search for parsers find
are all of these names.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "PATTERNS",
    "RANKS",
    "SENTENCE_PIECE",
    "TEKKEN",
    "TEMPLATES",
    "VERSIONED",
    "files_read",
    "matching",
    "wanted",
]

TEMPLATES: Final = "additional_chat_templates"
"""The folder of a model's chat templates, besides the one at its top."""
TEKKEN: Final = ("tekken*.json",)
RANKS: Final = ("*.tiktoken", "tiktoken.model")
VERSIONED: Final = tuple(
    f"*.model.v{version}{images}"
    for version in ("[0-9]", "[0-9][0-9]")
    for images in ("", "m[0-9]", "m[0-9][0-9]")
)
"""How mistral-common names its SentencePiece models: the version of its instructions, and of its images."""
SENTENCE_PIECE: Final = ("*.model", *VERSIONED)
PATTERNS: Final = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("config.json", "generation_config.json", "params.json"),
    *("chat_template.jinja", "chat_template.json", f"{TEMPLATES}/*.jinja"),
    *dict.fromkeys((*TEKKEN, *RANKS, *SENTENCE_PIECE)),
)
"""Paths in a model's folder. A wildcard, of which there is one at most, is no slash."""
_NOT_IN_A_NAME: Final = frozenset("/\\\0")


def matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The names that fit one of the patterns."""
    patterns = tuple(patterns)
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def wanted(path: str) -> bool:
    """Whether a file at this path in a model's folder is read. A path that leads elsewhere is none."""
    name = path.removeprefix(f"{TEMPLATES}/")
    return not _NOT_IN_A_NAME & set(name) and bool(matching([path], PATTERNS))


def files_read(folder: Path) -> list[str]:
    """The paths of files in a model's folder that are read, in order.

    Raises:
        OSError: The folder can't be read.
    """
    inner = folder / TEMPLATES
    paths = [*folder.iterdir(), *(inner.iterdir() if inner.is_dir() else ())]
    return sorted(
        name for path in paths if wanted(name := path.relative_to(folder).as_posix()) and path.is_file()
    )
