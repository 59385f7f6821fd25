"""The layer: the models of its vocabularies, each mapped into memory when a request first needs it."""

from __future__ import annotations

import logging
import zlib
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from derender.errors import InternalError
from derender.logprobs.writer import LogprobWriter
from derender.parsing import ParserError, load_parsers
from derender.protocol.limits import Limits
from derender.settings import SettingsError
from derender.vocabulary import VocabularyError, find_files, load, read_manifest

from .model import ModelEntry, Models, ServedModel, StateSeal
from .model_settings import combine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from derender.settings import Settings
    from derender.vocabulary import Manifest

    from .model_settings import ModelSettings

__all__ = ["load_models"]

logger = logging.getLogger("derender")


def load_models(settings: Settings) -> Models:
    """Load the models of the layer that the settings name.

    Maps the default model now and reads the manifests of the others.

    Raises:
        SettingsError: The layer has no model, the default one can't be used, or the settings don't fit them.
    """
    found = _find(settings.layer)
    models, default = combine(settings, {root: manifest for root, (_, manifest) in found.items()})
    entries = []
    for each in models:
        load_model = cache(partial(_load, found[each.root][0], each, settings))
        if each.root == default:
            load_model()
        entries.append(ModelEntry(each, partial(_load_for_request, each.root, load_model)))
    return Models(tuple(entries), entries[0] if default else None)


def _find(folder: Path) -> dict[str, tuple[Path, Manifest]]:
    """Find the vocabularies of a layer: their files and manifests, by name."""
    found: dict[str, tuple[Path, Manifest]] = {}
    try:
        for path in find_files(folder):
            manifest = read_manifest(path)
            name = manifest.name
            if name in found:
                raise SettingsError(
                    f"DERENDER_LAYER: {found[name][0]} and {path} are both named {name}; remove one"
                )
            found[name] = path, manifest
    except VocabularyError as error:
        raise SettingsError(f"DERENDER_LAYER: {error}") from error
    return found


def _load(path: Path, model: ModelSettings, settings: Settings) -> ServedModel:
    try:
        vocabulary = load(path, check_order=False)
        parsers = load_parsers(vocabulary, model.tool_call_parser, model.reasoning_parser)
    except VocabularyError as error:
        raise SettingsError(f"DERENDER_LAYER: {error}") from error
    except ParserError as error:
        raise SettingsError(f"DERENDER_TOOL_CALL_PARSER, DERENDER_REASONING_PARSER: {error}") from error
    if parsers is not None:
        parsers = replace(parsers, default_chat_template_kwargs=model.default_chat_template_kwargs)
    size = vocabulary.manifest.size
    return ServedModel(
        vocabulary=vocabulary,
        limits=Limits(
            vocabulary_size=size,
            max_model_len=model.max_model_len,
            max_logprobs=settings.max_logprobs,
            max_sequences=settings.max_sequences,
            max_answer_bytes=settings.max_answer_bytes,
        ),
        logprobs=LogprobWriter(vocabulary, settings.logprob_bytes),
        parsers=parsers,
        seal=StateSeal(
            model=_checksum(
                vocabulary.manifest,
                model.tool_call_parser,
                model.reasoning_parser,
                settings.tool_call_deltas,
            ),
            size=size,
            keys=tuple(key.encode() for key in settings.state_key),
        ),
        tool_call_deltas=settings.tool_call_deltas,
    )


def _checksum(manifest: Manifest, *served: str | None) -> int:
    """Return a checksum that differs between models, and between ways to serve one."""
    identity = manifest.fingerprint or manifest.source_sha256
    parts = (manifest.name, identity, manifest.rule, manifest.size, *served)
    return zlib.crc32("\0".join(map(str, parts)).encode())


def _load_for_request(root: str, load_model: Callable[[], ServedModel]) -> ServedModel:
    try:
        return load_model()
    except SettingsError as error:
        # Only the operator may know the path of the file.
        logger.error("model %s can't be loaded: %s", root, error)  # noqa: TRY400 - one line
        raise InternalError(f"The model `{root}` can't be loaded.", param="model") from None
