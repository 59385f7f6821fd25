"""Build a layer from its models: all of them, or nothing is written."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from derender.vocabulary import SUFFIX, VocabularyError, load
from layer_compiler.errors import LayerError
from layer_compiler.sources.fetch import fetch_model
from layer_compiler.sources.kinds import find_kind

from .names import file_name, refuse_other_vocabulary
from .vocabulary import BuiltVocabulary, build, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .models_file import Model

__all__ = ["build_layer"]


def build_layer(
    models: Sequence[Model],
    out: Path,
    *,
    base: Path = Path(),
    exclusive: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[BuiltVocabulary, ...]:
    """Build the vocabularies of models into one folder.

    Args:
        models: The models.
        out: The folder to write to, created if needed.
        base: The folder that relative sources start from.
        exclusive: Refuse a folder that holds vocabularies of other models.
        report: Called with each step before it begins.

    Returns:
        The vocabularies in the order of the models.

    Raises:
        LayerError: A model can't be built. The message names it, and the folder is unchanged.
    """
    try:
        _check_folder(models, out, exclusive=exclusive)
        # In the same folder, so that moving the finished files can't fail halfway.
        with _create(out), tempfile.TemporaryDirectory(dir=out, prefix=".unfinished-") as work:
            built = [_build_model(model, Path(work), base, report) for model in models]
            for vocabulary in built:
                place(vocabulary.path, out / vocabulary.path.name)
    except OSError as error:
        raise LayerError(f"{out}: can't be written: {error.strerror}") from error
    return tuple(vocabulary._replace(path=out / vocabulary.path.name) for vocabulary in built)


@contextmanager
def _create(out: Path) -> Iterator[None]:
    """Create a folder. If the block fails, remove it again together with parents that were created for it."""
    new = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        # A folder that something else was put into stays.
        with suppress(OSError):
            for folder in new:
                folder.rmdir()
        raise


def _check_folder(models: Sequence[Model], out: Path, *, exclusive: bool) -> None:
    if not out.is_dir():
        return
    names = {file_name(model.name): model.name for model in models}
    for path in sorted(path for path in out.iterdir() if path.suffix == SUFFIX):
        if path.name in names:
            refuse_other_vocabulary(path, names[path.name])
        elif exclusive:
            raise LayerError(f"{path}: not a listed model; remove the file or build into another folder")


def _build_model(model: Model, out: Path, base: Path, report: Callable[[str], None]) -> BuiltVocabulary:
    try:
        kind = find_kind(model.source, base)
        if kind == "compiled":
            report(f"{model.name}: checking {model.source}")
            return _copy(model, base / model.source, out)
        report(f"{model.name}: reading {model.source}")
        with fetch_model(model.source, model.revision, base=base) as fetched:
            report(f"{model.name}: compiling and proving")
            return build(
                fetched.folder,
                model.name,
                out,
                licence=model.licence,
                origin=model.origin or fetched.source,
                revision=fetched.revision,
                max_model_len=model.max_model_len,
                tool_call_parser=model.tool_call_parser,
                reasoning_parser=model.reasoning_parser,
                repository=fetched.source if kind == "hub" else None,
            )
    except (LayerError, VocabularyError) as error:
        raise LayerError(f"{model.name}: {error}") from error


def _copy(model: Model, source: Path, out: Path) -> BuiltVocabulary:
    """Copy a compiled vocabulary, unchanged."""
    manifest = load(source).manifest
    if manifest.name != model.name:
        raise LayerError(f"{source}: the vocabulary of {manifest.name}, not of {model.name}")
    path = out / file_name(model.name)
    shutil.copyfile(source, path)
    return BuiltVocabulary(path, manifest)
