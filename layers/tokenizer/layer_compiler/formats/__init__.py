"""One module for each tokenizer format.

Each has two functions: `find(folder, names)` returns the path of the format's file or None, and
`parse(path, configuration)` returns the tokenizer. The format is parsed here without its library, which is the
reference that the result is proven against.

Imports `model_files` and `errors`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from layer_compiler.errors import LayerError
from layer_compiler.model_files.filenames import list_files
from layer_compiler.model_files.model_config import read_configuration

from . import sentence_piece, tekken, tiktoken_ranks, tokenizer_json
from .parsed import add_configuration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from layer_compiler.model_files.model_config import Configuration

    from .parsed import ParsedModel, ParsedTokenizer

__all__ = ["FORMATS", "Format", "parse_folder"]


class Format(Protocol):
    """A format's module."""

    def find(self, folder: Path, names: Sequence[str]) -> Path | None:
        """Return the format's file among a folder's files."""

    def parse(self, path: Path, configuration: Configuration) -> ParsedTokenizer:
        """Parse the file."""


FORMATS: Final[tuple[Format, ...]] = (tokenizer_json, tekken, tiktoken_ranks, sentence_piece)
"""In order of preference: what authors add to a model last comes first."""


def parse_folder(folder: Path) -> ParsedModel:
    """Parse the tokenizer in a folder, and the configuration files beside it.

    Raises:
        LayerError: There is no tokenizer, a file is malformed, or the format's library refuses it.
    """
    names = list_files(folder)
    found = [(format_, path) for format_ in FORMATS if (path := format_.find(folder, names)) is not None]
    if not found:
        raise LayerError(f"{folder}: no tokenizer: add a tokenizer.json, tekken.json, *.tiktoken or *.model")
    (format_, path), *others = found
    configuration = read_configuration(folder)
    model = add_configuration(format_.parse(path, configuration), configuration)
    if not others:
        return model
    ignored = ", ".join(other.name for _, other in others)
    return replace(model, warnings=(f"read {path.name}, ignored {ignored}", *model.warnings))
