"""Read a model's files within limits, because anyone may have written them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from layer_compiler.errors import LayerError, shorten

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["first_problem", "parse_json", "read_config", "read_file", "read_json", "validate"]

MAX_BYTES: Final = 1 << 27
"""Four times the largest file known, Gemma 3's tokenizer.json."""
MAX_VALUES: Final = 1 << 23
"""Values in a JSON document. An empty list takes three bytes in the file and sixty in memory."""
_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a whole file.

    Raises:
        LayerError: The file can't be read, is too large, or is a Git LFS pointer.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise LayerError(f"{path}: can't be read: {error}") from error
    if len(content) > max_bytes:
        raise LayerError(f"{path}: larger than {max_bytes >> 20} MB")
    if content.startswith(_LFS_POINTER):
        raise LayerError(f"{path}: a Git LFS pointer, not the file; fetch the file with: git lfs pull")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        LayerError: The file can't be read, or is not an object.
    """
    return parse_json(path, read_file(path))


def parse_json(path: Path, content: bytes) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        LayerError: The content is not an object, or has too many values.
    """
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise LayerError(f"{path}: more than {MAX_VALUES:,} values")
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise LayerError(f"{path}: can't be read: {error}") from error
    if not isinstance(value, dict):
        raise LayerError(f"{path}: not a JSON object")
    return value


def read_config(model: type[ModelT], path: Path) -> ModelT | None:
    """Read a configuration file, or return None if there is none.

    Raises:
        LayerError: The file can't be read, or a field has the wrong type.
    """
    if not path.is_file():
        return None
    values = read_json(path)
    # Multimodal models nest the language model's configuration.
    language_model = values.get("text_config")
    return validate(model, path, {**values, **language_model} if isinstance(language_model, dict) else values)


def validate(model: type[ModelT], path: Path, values: object) -> ModelT:
    """Convert a file's values to a pydantic model.

    Raises:
        LayerError: A field has the wrong type. The message names it.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise LayerError(f"{path}: {field}: {problem}") from error


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Return the first field that pydantic refuses, and why."""
    problem = error.errors(include_url=False, include_input=False)[0]
    message = str(problem["ctx"]["error"]) if problem["type"] == "value_error" else problem["msg"]
    return shorten(".".join(map(str, problem["loc"]))), message
