"""The files of a model's folder, read within limits: they come from anywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from layer_compiler.errors import BuildError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["checked", "names", "read", "read_model", "read_object"]

MAX_BYTES: Final = 1 << 27
"""Four times the largest tokenizer there is (Gemma 3's tokenizer.json)."""
MAX_VALUES: Final = 1 << 23
"""Values in a JSON document; an empty list takes three bytes in the file, and sixty in memory."""
_LFS: Final = b"version https://git-lfs.github.com/spec/"

ModelT = TypeVar("ModelT", bound=BaseModel)


def names(folder: Path) -> list[str]:
    """The files in a folder, by name; none where there is no folder."""
    try:
        return sorted(path.name for path in folder.iterdir() if path.is_file())
    except (OSError, ValueError):
        return []


def read(path: Path) -> bytes:
    """A whole file.

    Raises:
        BuildError: It can't be read, is larger than any tokenizer, or only points to one.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BuildError(f"{path}: can't be read: {error}") from error
    if len(content) > MAX_BYTES:
        raise BuildError(f"{path}: more than {MAX_BYTES >> 20} MB; no tokenizer is as large")
    if content.startswith(_LFS):
        raise BuildError(f"{path}: can't be read: a Git LFS pointer, not the file; fetch it with: git lfs pull")
    return content


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object.

    Raises:
        BuildError: It can't be read, or is none.
    """
    content = read(path)
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise BuildError(f"{path}: more than {MAX_VALUES:,} values; no tokenizer has as many")
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BuildError(f"{path}: can't be read: {error}") from error
    if not isinstance(value, dict):
        raise BuildError(f"{path}: no JSON object")
    return value


def read_model(model: type[ModelT], path: Path) -> ModelT | None:
    """A configuration file, or None where there is none.

    Raises:
        BuildError: It can't be read, or a field is of a wrong type.
    """
    if not path.is_file():
        return None
    values = read_object(path)
    # Multimodal models keep the language model's configuration within.
    inner = values.get("text_config")
    return checked(model, path, {**values, **inner} if isinstance(inner, dict) else values)


def checked(model: type[ModelT], path: Path, values: object) -> ModelT:
    """Values as a model describes them.

    Raises:
        BuildError: Names the field that is of a wrong type.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, problem["loc"]))
        raise BuildError(f"{path}: {field}: {problem['msg']}") from error
