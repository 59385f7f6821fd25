"""From models and their sources to a layer's folder: all of them, or nothing is written."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from derender.parsing import ParserError
from derender.vocabulary import MAX_LENGTH, SUFFIX, VocabularyError, load
from layer_compiler.errors import BuildError
from layer_compiler.inference.choice import choose_parsers
from layer_compiler.sources.source import kind_of, obtained

from .names import check_replaced, file_name
from .restating import restate
from .vocabulary import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from derender.vocabulary import Manifest

    from .models_file import Model
    from .proof import Proof

__all__ = ["Compiled", "check_length", "compile_layer"]


@dataclass(frozen=True)
class Compiled:
    """A model's vocabulary, in its place."""

    model: Model
    path: Path
    manifest: Manifest
    proof: Proof | None
    """What was proven; None where the `tokenizers` library decodes, or the source was compiled already."""
    warnings: tuple[str, ...] = ()
    """What could not be told, and what follows."""


def compile_layer(
    models: Sequence[Model],
    out: Path,
    *,
    base: Path = Path(),
    exclusive: bool = False,
    step: Callable[[str], None] = lambda _: None,
) -> tuple[Compiled, ...]:
    """Compile models into one folder.

    Args:
        models: The models.
        out: Folder to write to, made if need be.
        base: What relative sources are relative to.
        exclusive: Refuse a folder that holds other vocabularies too.
        step: Is told what is done next.

    Raises:
        BuildError: One can't be compiled; the folder is as it was.
    """
    try:
        _check_out(models, out, exclusive=exclusive)
        # Within the folder, so that a rename is all it takes in the end.
        with _made(out), tempfile.TemporaryDirectory(dir=out, prefix=".unfinished-") as work:
            compiled = [_named(model, Path(work), base, step, alone=len(models) == 1) for model in models]
            placed = tuple(_placed(each, out) for each in compiled)
    except OSError as error:
        raise BuildError(f"{out}: can't be written: {error.strerror}") from error
    return placed


@contextmanager
def _made(out: Path) -> Iterator[None]:
    """Make a folder. Where what follows fails, those above it that were made for it are taken away, and
    it: nobody asked for them. Alone, it stays."""
    new = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        if len(new) > 1:
            # Not what something else was put into.
            with suppress(OSError):
                for folder in new:
                    folder.rmdir()
        raise


def _check_out(models: Sequence[Model], out: Path, *, exclusive: bool) -> None:
    if not out.is_dir():
        return
    names = {file_name(model.name): model.name for model in models}
    for path in sorted(path for path in out.iterdir() if path.suffix == SUFFIX):
        if path.name in names:
            check_replaced(path, names[path.name])
        elif exclusive:
            raise BuildError(
                f"{path}: is none of the models that are listed; remove it, or build into another folder"
            )


def _placed(compiled: Compiled, out: Path) -> Compiled:
    # Lambda's user is another than who builds.
    compiled.path.chmod(0o644)
    path = compiled.path.replace(out / compiled.path.name)
    return Compiled(compiled.model, path, compiled.manifest, compiled.proof, compiled.warnings)


def _named(model: Model, out: Path, base: Path, step: Callable[[str], None], *, alone: bool) -> Compiled:
    """Compile a model; what is wrong says of which."""
    try:
        if model.max_model_len is not None:
            check_length(model.max_model_len)
        return _compiled(model, out, base, step)
    except BuildError as error:
        if alone:
            raise
        raise BuildError(f"{model.name}: {error}") from error


def check_length(tokens: int) -> None:
    """Refuse a longest sequence that no manifest can hold.

    Raises:
        BuildError: It is too short or too long.
    """
    if not 1 <= tokens <= MAX_LENGTH:
        raise BuildError(f"max_model_len: from 1 on, and {MAX_LENGTH:,} at most")


def _compiled(model: Model, out: Path, base: Path, step: Callable[[str], None]) -> Compiled:
    """Compile a model; of what can't be read the source is named, not the folder that is written to."""
    try:
        return _compile(model, out, base, step)
    except OSError as error:
        if error.filename is None or Path(error.filename).is_relative_to(out):
            raise
        raise BuildError(f"{model.source}: can't be read: {error.strerror}") from error


def _compile(model: Model, out: Path, base: Path, step: Callable[[str], None]) -> Compiled:
    if model.is_compiled:
        step(f"{model.name}: checking {model.source}")
        return _taken(model, base / model.source, out)
    step(f"{model.name}: reading {model.source}")
    with obtained(model.source, model.revision, base=base) as origin:
        step(f"{model.name}: compiling and proving")
        built = build(
            origin.folder,
            model.name,
            out,
            licence=model.licence,
            origin=origin.source if model.origin is None else model.origin,
            revision=origin.revision,
        )
        vocabulary = load(built.path)
        try:
            choice = choose_parsers(
                origin.folder,
                # A repository's name says more than what clients call the model.
                origin.source if kind_of(model.source, base) == "hub" else model.name,
                vocabulary,
                tool_call_parser=model.tool_call_parser,
                reasoning_parser=model.reasoning_parser,
            )
        except ParserError as error:
            raise BuildError(str(error)) from error
    fields: dict[str, Any] = {**choice.parsers}
    origins = {**vocabulary.manifest.origins, **choice.origins}
    if model.max_model_len is not None:
        fields["max_model_len"], origins["max_model_len"] = model.max_model_len, "given"
    vocabulary = restate(built.path, vocabulary, **fields, origins=dict(sorted(origins.items())))
    return Compiled(model, built.path, vocabulary.manifest, built.proof, (*built.unknown, *choice.warnings))


def _taken(model: Model, source: Path, out: Path) -> Compiled:
    """A vocabulary that is compiled already, as it is."""
    try:
        manifest = load(source).manifest
    except VocabularyError as error:
        raise BuildError(str(error)) from error
    if manifest.name != model.name:
        raise BuildError(f"{source}: is the vocabulary of {manifest.name}, not of {model.name}")
    path = out / file_name(model.name)
    shutil.copyfile(source, path)
    return Compiled(model, path, manifest, None)
