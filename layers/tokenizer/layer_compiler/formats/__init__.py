"""Formats of tokenizers: which one a folder holds, and one module for each.

A format's module has two functions: `find(folder, names)` gives the path of its file, or None, and
`read(path, configuration)` what is in it. A format is read without its library; the library is the authority
that the reading is proven against.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from layer_compiler.errors import BuildError
from layer_compiler.model_files.configuration import read_configuration
from layer_compiler.model_files.filenames import wanted
from layer_compiler.model_files.reading import names

from . import sentence_piece, tekken, tiktoken_ranks, tokenizer_json
from .parsed import source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from layer_compiler.model_files.configuration import Configuration

    from .parsed import Source, Tokens

__all__ = ["FORMATS", "Format", "read_folder"]


class Format(Protocol):
    """A format's module."""

    def find(self, folder: Path, names: Sequence[str]) -> Path | None:
        """The file of the format among the names of a folder's files."""

    def read(self, path: Path, configuration: Configuration) -> Tokens:
        """What the file says."""


FORMATS: Final[tuple[Format, ...]] = (tokenizer_json, tekken, tiktoken_ranks, sentence_piece)
"""The first that a folder holds is taken: what the model's authors made last comes first."""


def read_folder(folder: Path) -> Source:
    """Read the tokenizer in a folder, and the configuration files that are there.

    Raises:
        BuildError: There is none, a file is malformed, or the format's library refuses it.
    """
    files = [name for name in names(folder) if wanted(name)]
    found = [(each, path) for each in FORMATS if (path := each.find(folder, files)) is not None]
    if not found:
        raise BuildError(f"{folder}: no tokenizer: no tokenizer.json, tekken.json, *.tiktoken or *.model")
    taken, path = found[0]
    configuration = read_configuration(folder)
    passed_over = ", ".join(other.name for _, other in found[1:])
    read = source(taken.read(path, configuration), configuration)
    if not passed_over:
        return read
    return replace(read, unknown=(f"{path.name} was read, {passed_over} not", *read.unknown))
