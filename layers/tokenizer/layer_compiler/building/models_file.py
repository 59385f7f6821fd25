"""The models that a layer carries, as a TOML file lists them (`models.toml`).

    read_models(path) → (Model(name, source, …), …)

A model is compiled from its source, or is a vocabulary that is compiled already (`source = "….vocab"`).
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from derender.parsing import REASONING_PARSERS, TOOL_CALL_PARSERS
from derender.vocabulary import SUFFIX
from layer_compiler.errors import BuildError, OriginError
from layer_compiler.inference.choice import AUTO, NO_PARSER
from layer_compiler.sources.hub import COMMIT
from layer_compiler.sources.source import kind_of

from .names import NAME, file_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

__all__ = ["Model", "ModelsFileError", "check_parsers", "read_models"]


_NAME: Final = re.compile(r"[^\s,=\x00-\x20\x7f]{1,200}")
"""What a setting can list: names are separated by commas, and paired by equals signs."""
_S3: Final = "s3://"
_LONGEST_SOURCE: Final = 1024
_SHOWN: Final = 200
_ABSENT: Final = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_WRONG: Final = re.compile(r"E(xpected .*?)(?: - at `\$\.?([^`]*)`)?", re.DOTALL)
"""What msgspec says of a value, and where it is."""


class ModelsFileError(BuildError):
    """A list of models that can't be used; one line that names the file, the model and the field."""


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model of a layer."""

    name: str
    """What clients call it, and what its vocabulary is named."""
    source: str
    """A folder or a compiled vocabulary, relative to the list; `org/name` on the Hub; `s3://bucket/prefix`."""
    revision: str | None = None
    """Which version of the source: a commit of a repository, else the digest of its files."""
    aliases: tuple[str, ...] = ()
    """What else clients may call it."""
    tool_call_parser: str = AUTO
    reasoning_parser: str = AUTO
    max_model_len: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The longest sequence, where the source does not say it, or the GPU side serves another length."""
    licence: str | None = None
    origin: str | None = None
    """Where it came from, for people, if the source does not say it."""

    @property
    def is_compiled(self) -> bool:
        """Whether its source is a vocabulary, which is taken as it is."""
        return self.source.endswith(SUFFIX)


def read_models(path: Path) -> tuple[Model, ...]:
    """Read a list of models.

    Raises:
        ModelsFileError: It can't be read, or something in it can't be used.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelsFileError(f"{path}: can't be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelsFileError(f"{path}: no TOML: {error}") from error
    tables = content.pop("model", None)
    if content:
        raise ModelsFileError(f"{path}: {next(iter(content))}: unknown; a list holds [[model]] tables")
    if not isinstance(tables, list) or not tables:
        raise ModelsFileError(f"{path}: it lists no [[model]]")
    models = tuple(_model(path, number, table) for number, table in enumerate(tables, 1))
    _check_names(path, models)
    return models


def check_parsers(tool_call_parser: str, reasoning_parser: str) -> Iterator[tuple[str, str]]:
    """What is wrong with the names of parsers: the field, and the problem."""
    known: Collection[str]
    for field, name, known in (
        ("tool_call_parser", tool_call_parser, TOOL_CALL_PARSERS),
        ("reasoning_parser", reasoning_parser, REASONING_PARSERS),
    ):
        if name not in (AUTO, NO_PARSER, *known):
            yield field, f"{name!r} does not exist; it may be {AUTO}, {NO_PARSER}, {', '.join(sorted(known))}"


def _model(path: Path, number: int, table: object) -> Model:
    name = table.get("name") if isinstance(table, dict) else None
    # One that is no line, or a long one, is none of a message either.
    is_shown = isinstance(name, str) and name.isprintable() and 0 < len(name) <= _SHOWN
    where = f"{path}: {name if is_shown else f'model {number}'}"
    try:
        model = msgspec.convert(table, Model)
    except msgspec.ValidationError as error:
        raise ModelsFileError(f"{where}: {_problem(str(error))}") from error
    for field, problem in _problems(path, model, table):
        raise ModelsFileError(f"{where}: {field}: {problem}")
    return model


def _problem(message: str) -> str:
    """What msgspec says, the field first."""
    if absent := _ABSENT.fullmatch(message):
        return f"{absent[1]}: is missing"
    if unknown := _UNKNOWN.fullmatch(message):
        fields = ", ".join(Model.__struct_fields__)
        return f"{unknown[1]}: unknown; a model may have {fields}"
    wrong = _WRONG.fullmatch(message)
    if wrong is None:
        return message
    problem = f"e{wrong[1]}".replace("`", "").replace(" | null", "")
    return f"{wrong[2]}: {problem}" if wrong[2] else problem


def _problems(path: Path, model: Model, table: Any) -> Iterator[tuple[str, str]]:
    for field, names in (("name", (model.name,)), ("aliases", model.aliases)):
        for name in names:
            if not _NAME.fullmatch(name):
                rule = f"a name has no spaces, commas or equals signs, and {_SHOWN} characters at most"
                yield field, f"{_cut(name)}: {rule}"
    if not NAME.fullmatch(model.name):
        yield "name", f"{model.name!r}: a model's name has letters, digits and ._:@+- in parts divided by /"
    yield from check_parsers(model.tool_call_parser, model.reasoning_parser)
    try:
        yield from _source_problems(path.parent, model, table)
    except OSError as error:
        # A part of a path may be too long, or closed to who asks.
        yield "source", f"{_cut(model.source)}: can't be read: {error.strerror}"


def _source_problems(base: Path, model: Model, table: Any) -> Iterator[tuple[str, str]]:
    source = model.source
    if len(source) > _LONGEST_SOURCE or not source.isprintable():
        yield "source", f"{_cut(source)}: a source has {_LONGEST_SOURCE:,} printable characters at most"
    if model.is_compiled:
        if source.startswith(_S3):
            problem = (
                f"{source}: a compiled vocabulary is not fetched: copy it beside the list, and name it here; "
                "of S3 a source is the prefix (s3://bucket/prefix) that the tokenizer's files are under"
            )
            yield "source", problem
        if not (base / source).is_file():
            yield "source", f"{source}: no such file"
        for field in [each for each in table if each not in ("name", "source", "aliases")]:
            yield field, f"{source} is compiled already; its parsers and limits are in it"
        return
    try:
        kind = kind_of(source, base)
    except OriginError as error:
        yield "source", str(error)
        return
    # A branch or a tag moves, and the same list would give another layer.
    if kind == "hub" and not COMMIT.fullmatch(model.revision or ""):
        problem = (
            f"{source} is no folder here, and a repository of the Hub needs a commit, of 40 hexadecimal "
            f"digits; the current one is what this shows: derender layer build {source} --out DIR"
        )
        yield "revision", problem


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _check_names(path: Path, models: tuple[Model, ...]) -> None:
    seen: dict[str, str] = {}
    files: dict[str, str] = {}
    for model in models:
        for name in (model.name, *model.aliases):
            if name in seen:
                raise ModelsFileError(f"{path}: {model.name}: {name} is also a name of {seen[name]}")
            seen[name] = model.name
        file = file_name(model.name)
        if file in files:
            raise ModelsFileError(f"{path}: {model.name}: name: it would have the file of {files[file]}")
        files[file] = model.name
