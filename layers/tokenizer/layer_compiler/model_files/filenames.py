"""The files of a model's folder that are read: never weights, never code.

Fetching, digests, formats and parser inference all use this list.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from layer_compiler.errors import LayerError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "MISTRAL_SENTENCE_PIECE",
    "PATTERNS",
    "SENTENCE_PIECE",
    "TEKKEN",
    "TEMPLATE_FOLDER",
    "TIKTOKEN",
    "is_model_file",
    "list_files",
    "match_names",
]

TEMPLATE_FOLDER: Final = "additional_chat_templates"
TEKKEN: Final = ("tekken*.json",)
TIKTOKEN: Final = ("*.tiktoken", "tiktoken.model")
MISTRAL_SENTENCE_PIECE: Final = tuple(
    f"*.model.v{version}{images}"
    for version in ("[0-9]", "[0-9][0-9]")
    for images in ("", "m[0-9]", "m[0-9][0-9]")
)
"""mistral-common's names: the version of the instruction format, then of the image format."""
SENTENCE_PIECE: Final = ("*.model", *MISTRAL_SENTENCE_PIECE)
PATTERNS: Final = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("config.json", "generation_config.json", "params.json"),
    *("chat_template.jinja", "chat_template.json", f"{TEMPLATE_FOLDER}/*.jinja"),
    *dict.fromkeys((*TEKKEN, *TIKTOKEN, *SENTENCE_PIECE)),
)
"""Paths within the folder. A pattern has at most one wildcard, which never matches a slash."""
_NEVER_IN_NAMES: Final = frozenset("/\\\0")


def match_names(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Return the names that match one of the patterns."""
    patterns = tuple(patterns)
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def is_model_file(path: str) -> bool:
    """Return whether a path within a model's folder is read. Paths that lead out of the folder are not."""
    name = path.removeprefix(f"{TEMPLATE_FOLDER}/")
    return not _NEVER_IN_NAMES & set(name) and bool(match_names([path], PATTERNS))


def list_files(folder: Path) -> list[str]:
    """Return the sorted paths of the files in a folder that are read.

    Raises:
        LayerError: The folder can't be read.
    """
    try:
        templates = folder / TEMPLATE_FOLDER
        found = [*folder.iterdir(), *(templates.iterdir() if templates.is_dir() else ())]
        paths = {path.relative_to(folder).as_posix(): path for path in found}
        return sorted(name for name, path in paths.items() if is_model_file(name) and path.is_file())
    except (OSError, ValueError) as error:
        raise LayerError(f"{folder}: can't be read: {error}") from error
