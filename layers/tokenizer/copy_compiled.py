"""Copy the vocabularies that a models.toml lists if all are compiled already, for `sam build`.

    python3 layers/tokenizer/copy_compiled.py MODELS OUT

This runs on any Python from 3.11 on, without installed packages. What needs the compiler is refused.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

__all__ = ["CopyError", "copy_compiled"]

SUFFIX: Final = ".vocab"
FIELDS: Final = frozenset({"name", "source", "aliases"})
"""The fields that a model with a compiled source may have."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")
MAX_CHARACTERS: Final = 200


class CopyError(ValueError):
    """The list can't be packaged by copying. The message says why, in one line."""


def copy_compiled(models: Path, out: Path) -> None:
    """Copy the listed vocabularies, each under its model's name.

    Args:
        models: The list. Sources are relative to it.
        out: An existing folder to write to.

    Raises:
        CopyError: The list is invalid, or needs the compiler; nothing was written.
    """
    try:
        content = tomllib.loads(models.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CopyError(f"{models}: can't be read: {error}") from error
    tables = content.pop("model", None)
    if content:
        raise _needs_compiler(
            str(models), f"{_shorten(next(iter(content)))}: unknown; a list holds [[model]] tables"
        )
    if not isinstance(tables, list) or not tables:
        raise CopyError(f"{models}: lists no [[model]]")
    sources: dict[str, Path] = {}
    for number, table in enumerate(tables, 1):
        place = f"{models}: model {number}"
        name, source = _read_model(place, table, models.parent)
        if name in sources:
            raise CopyError(f"{place}: name: {name} is listed twice")
        sources[name] = source
    for name, source in sources.items():
        shutil.copyfile(source, out / name)


def _read_model(place: str, table: Any, base: Path) -> tuple[str, Path]:
    """Return the name of a model's file, and the file to copy."""
    if not isinstance(table, dict):
        raise _needs_compiler(place, "not a table")
    for field in table:
        if field not in FIELDS:
            raise _needs_compiler(place, _shorten(field))
    name, source, aliases = table.get("name"), table.get("source"), table.get("aliases", [])
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > MAX_CHARACTERS:
        raise _needs_compiler(place, f"name {_shorten(name)}")
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise _needs_compiler(place, f"aliases {_shorten(aliases)}")
    if not isinstance(source, str) or not source.endswith(SUFFIX):
        raise _needs_compiler(place, f"source {_shorten(source)}")
    try:
        if not (base / source).is_file():
            raise _needs_compiler(place, f"source {_shorten(source)}: no such file")
    except OSError as error:
        raise CopyError(f"{place}: source {_shorten(source)}: {error.strerror}") from error
    return name.replace("/", "--") + SUFFIX, base / source


def _needs_compiler(place: str, problem: str) -> CopyError:
    return CopyError(
        f"{place}: {problem}: needs the compiler: run make setup, or set PYTHON to a Python that has it"
    )


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


if __name__ == "__main__":
    try:
        copy_compiled(Path(sys.argv[1]), Path(sys.argv[2]))
    except (CopyError, OSError) as error:
        sys.exit(" ".join(str(error).split()))
