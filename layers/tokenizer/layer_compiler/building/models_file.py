"""The models of a layer, as `models.toml` lists them."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from derender.parsing import REASONING_PARSERS, TOOL_CALL_PARSERS
from derender.vocabulary import MAX_LENGTH
from layer_compiler.errors import LayerError, first_line, shorten
from layer_compiler.inference import AUTO, NO_PARSER
from layer_compiler.model_files.reading import first_problem
from layer_compiler.sources.hub import COMMIT
from layer_compiler.sources.kinds import find_kind

from .names import MAX_CHARACTERS, check_name, file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

__all__ = ["FieldError", "Model", "make_model", "read_models"]

_ALIAS: Final = re.compile(r"[^\s,=\x00-\x20\x7f]{1,200}")
"""DERENDER_SERVED_MODEL_NAME separates names with commas and pairs them with equals signs."""
_COMPILED_FIELDS: Final = frozenset({"name", "source", "aliases"})
"""The fields that a model may have if its source is compiled already."""


class FieldError(LayerError):
    """A field of a model that can't be used.

    Attributes:
        field: The field's name, empty if it is the whole model.
        problem: What is wrong.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


def _check_alias(alias: str) -> str:
    if not _ALIAS.fullmatch(alias):
        raise ValueError(
            f"{alias[:MAX_CHARACTERS]!r}: a name has no spaces, commas or equals signs, "
            f"and at most {MAX_CHARACTERS} characters"
        )
    return alias


def _check_parser(known: Collection[str]) -> Callable[[str], str]:
    def check(parser: str) -> str:
        if parser not in (AUTO, NO_PARSER, *known):
            raise ValueError(
                f"{shorten(parser)!r} does not exist; use {AUTO}, {NO_PARSER}, {', '.join(sorted(known))}"
            )
        return parser

    return check


class Model(BaseModel):
    """A model of a layer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(check_name)]
    """The model's name, as clients send it."""
    source: str
    """A folder or a compiled vocabulary, relative to the list; `org/name` on the Hub; `s3://bucket/prefix`."""
    revision: str | None = None
    """A repository's commit, or the digest of the source's files."""
    aliases: tuple[Annotated[str, AfterValidator(_check_alias)], ...] = ()
    """Other names that clients may send."""
    tool_call_parser: Annotated[str, AfterValidator(_check_parser(TOOL_CALL_PARSERS))] = AUTO
    reasoning_parser: Annotated[str, AfterValidator(_check_parser(REASONING_PARSERS))] = AUTO
    max_model_len: Annotated[int, Field(ge=1, le=MAX_LENGTH, strict=True)] | None = None
    """The longest sequence, if the source doesn't give it or the generate server uses another."""
    licence: str | None = None
    origin: str | None = None
    """Where the tokenizer came from, for people; the default is the source."""


def make_model(values: object, base: Path, *, pinned: bool = False) -> Model:
    """Convert the fields of a model, and look for its source.

    Args:
        values: The fields.
        base: The folder that relative sources start from.
        pinned: Require a commit of a repository. A branch moves, and the same list would build another layer.

    Raises:
        FieldError: A field can't be used.
    """
    try:
        model = Model.model_validate(values)
    except ValidationError as error:
        raise FieldError(*first_problem(error)) from error
    try:
        kind = find_kind(model.source, base)
    except LayerError as error:
        raise FieldError("source", str(error)) from error
    if kind == "compiled" and (extra := sorted(model.model_fields_set - _COMPILED_FIELDS)):
        raise FieldError(extra[0], f"{model.source} is compiled already, with its parsers and limits")
    if kind == "hub" and pinned and not COMMIT.fullmatch(model.revision or ""):
        raise FieldError(
            "revision",
            f"{model.source} is not a folder, and a repository needs a commit of 40 hexadecimal digits; "
            f"derender layer build {model.source} --out DIR shows the current one",
        )
    return model


def read_models(path: Path) -> tuple[Model, ...]:
    """Read a list of models.

    Raises:
        LayerError: The list can't be used. The message names the file, the model and the field.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LayerError(f"{path}: can't be read: {error.strerror}") from error
    except ValueError as error:
        raise LayerError(f"{path}: not TOML: {first_line(error)}") from error
    except RecursionError as error:
        raise LayerError(f"{path}: not TOML: nested too deeply") from error
    tables = content.pop("model", None)
    if content:
        raise LayerError(f"{path}: {shorten(next(iter(content)))}: unknown; a list holds [[model]] tables")
    if not isinstance(tables, list) or not tables:
        raise LayerError(f"{path}: lists no [[model]]")
    models = tuple(_read_model(path, number, table) for number, table in enumerate(tables, 1))
    _check_names(path, models)
    return models


def _read_model(path: Path, number: int, table: Any) -> Model:
    try:
        return make_model(table, path.parent, pinned=True)
    except FieldError as error:
        name = table.get("name") if isinstance(table, dict) and error.field != "name" else None
        raise LayerError(f"{path}: {name or f'model {number}'}: {error}") from error


def _check_names(path: Path, models: tuple[Model, ...]) -> None:
    names: dict[str, str] = {}
    files: dict[str, str] = {}
    for model in models:
        for name in (model.name, *model.aliases):
            if name in names:
                raise LayerError(f"{path}: {model.name}: {name} is also a name of {names[name]}")
            names[name] = model.name
        file = file_name(model.name)
        if file in files:
            raise LayerError(f"{path}: {model.name}: name: its file would be that of {files[file]}")
        files[file] = model.name
