"""The layer: the models that its vocabularies are, each mapped when it is first asked for."""

from __future__ import annotations

import logging
import zlib
from functools import cache, partial
from typing import TYPE_CHECKING

from derender.errors import InternalError
from derender.logprobs.writer import LogprobWriter
from derender.parsing import ParserError, load_parsers
from derender.protocol.limits import Limits
from derender.settings import SettingsError
from derender.vocabulary import VocabularyError, files, load, read_manifest

from .model import ModelEntry, Models, ServedModel, StateSeal
from .serving import plan_serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from derender.settings import Settings
    from derender.vocabulary import Manifest

    from .serving import ServingPlan

__all__ = ["load_models"]

logger = logging.getLogger("derender")


def load_models(settings: Settings) -> Models:
    """The models of the layer that the settings name.

    The default one is mapped now: what is wrong with it ends the start. Of the others the manifests are read.

    Raises:
        SettingsError: There is none, one can't be used, or the settings don't fit them.
    """
    found = _find(settings.layer)
    plans, default = plan_serving(settings, {root: manifest for root, (_, manifest) in found.items()})
    entries = []
    for plan in plans:
        model = cache(partial(_load, found[plan.root][0], plan, settings))
        if plan.root == default:
            model()
        load_model = partial(_answer, plan.root, model)
        entries.append(ModelEntry(plan.names, plan.root, plan.max_model_len, load_model))
    return Models(tuple(entries), entries[0] if default else None)


def _find(folder: Path) -> dict[str, tuple[Path, Manifest]]:
    """What each vocabulary calls itself → where it is, and what else it says."""
    found: dict[str, tuple[Path, Manifest]] = {}
    try:
        for path in files(folder):
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


def _load(path: Path, plan: ServingPlan, settings: Settings) -> ServedModel:
    try:
        vocabulary = load(path)
    except VocabularyError as error:
        raise SettingsError(f"DERENDER_LAYER: {error}") from error
    try:
        parsers = load_parsers(vocabulary, plan.tool_call_parser, plan.reasoning_parser)
    except ParserError as error:
        raise SettingsError(f"DERENDER_TOOL_CALL_PARSER, DERENDER_REASONING_PARSER: {error}") from error
    size = vocabulary.manifest.size
    return ServedModel(
        names=plan.names,
        vocabulary=vocabulary,
        limits=Limits(
            vocabulary_size=size,
            max_model_len=plan.max_model_len,
            max_logprobs=settings.max_logprobs,
            max_sequences=settings.max_sequences,
        ),
        logprobs=LogprobWriter(vocabulary, settings.logprob_bytes),
        parsers=parsers,
        seal=StateSeal(
            model=_checksum(
                vocabulary.manifest,
                plan.tool_call_parser,
                plan.reasoning_parser,
                settings.tool_call_deltas,
            ),
            size=size,
            keys=tuple(key.encode() for key in settings.state_keys),
        ),
        tool_call_deltas=settings.tool_call_deltas,
    )


def _checksum(manifest: Manifest, *served: str | None) -> int:
    """Tells models apart, and ways to serve them."""
    identity = manifest.fingerprint or manifest.source_sha256
    told = (manifest.name, identity, manifest.rule, manifest.size, *served)
    return zlib.crc32("\0".join(map(str, told)).encode())


def _answer(root: str, model: Callable[[], ServedModel]) -> ServedModel:
    """A model, for a request."""
    try:
        return model()
    except SettingsError as error:
        # Where the file is, is for the operator alone.
        logger.error("model %s can't be loaded: %s", root, error)  # noqa: TRY400 - one line
        raise InternalError(f"The model `{root}` can't be loaded.", param="model") from None
