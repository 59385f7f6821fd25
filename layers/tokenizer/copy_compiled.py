"""Copies what a models.toml lists, where all of it is compiled already: for `sam build` without the compiler.

    python3 layers/tokenizer/copy_compiled.py MODELS OUT

Any Python from 3.11 on will do, and nothing has to be installed. What only the compiler can read is refused.
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
KEYS: Final = frozenset({"name", "source", "aliases"})
"""What a model whose source is compiled may have."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")
SHOWN: Final = 200


class CopyError(ValueError):
    """The list can't be packaged so; one line that says what is in the way."""


def copy_compiled(models: Path, out: Path) -> None:
    """Copy the vocabularies that a list names, each under its model's name.

    Args:
        models: The list; sources are relative to it.
        out: Folder to write to, which is there.

    Raises:
        CopyError: Something in the list can't be used, or needs the compiler; nothing was written.
    """
    try:
        content = tomllib.loads(models.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CopyError(f"{models}: can't be read: {error}") from error
    tables = content.pop("model", None)
    if content:
        raise _needed(str(models), f"{next(iter(content))!r}: unknown; a list holds [[model]] tables")
    if not isinstance(tables, list) or not tables:
        raise CopyError(f"{models}: it lists no [[model]]")
    sources: dict[str, Path] = {}
    for number, table in enumerate(tables, 1):
        where = f"{models}: model {number}"
        name, source = _model(where, table, models.parent)
        if name in sources:
            raise CopyError(f"{where}: name: {name} is there twice")
        sources[name] = source
    for name, source in sources.items():
        shutil.copyfile(source, out / name)


def _model(where: str, table: Any, base: Path) -> tuple[str, Path]:
    """The name of a model's file, and what it is a copy of."""
    if not isinstance(table, dict):
        raise _needed(where, "it is no table")
    for key in table:
        if key not in KEYS:
            raise _needed(where, f"{key[:SHOWN]!r}")
    name, source, aliases = table.get("name"), table.get("source"), table.get("aliases", [])
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > SHOWN:
        raise _needed(where, f"name {_shown(name)}")
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise _needed(where, f"aliases {_shown(aliases)}")
    if not isinstance(source, str) or not source.endswith(SUFFIX):
        raise _needed(where, f"source {_shown(source)}")
    try:
        if not (base / source).is_file():
            raise _needed(where, f"source {_shown(source)}: no such file")
    except OSError as error:
        raise CopyError(f"{where}: source {_shown(source)}: {error.strerror}") from error
    return name.replace("/", "--") + SUFFIX, base / source


def _needed(where: str, what: str) -> CopyError:
    return CopyError(f"{where}: {what}: needs the compiler: make setup, or set PYTHON to a Python that has it")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


if __name__ == "__main__":
    try:
        copy_compiled(Path(sys.argv[1]), Path(sys.argv[2]))
    except (CopyError, OSError) as error:
        sys.exit(" ".join(str(error).split()))
