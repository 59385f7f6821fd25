"""Served models with small limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derender.logprobs.writer import LogprobWriter
from derender.models.model import ModelEntry, Models, ServedModel, StateSeal
from derender.models.model_settings import ModelSettings
from derender.protocol.limits import Limits

if TYPE_CHECKING:
    from derender.logprobs.writer import LogprobBytes
    from derender.parsing import Parsers
    from derender.vocabulary import Vocabulary

__all__ = ["alone", "served"]


def served(
    vocabulary: Vocabulary,
    *,
    logprob_bytes: LogprobBytes = "exact",
    parsers: Parsers | None = None,
    **limits: int,
) -> ServedModel:
    """Serve a vocabulary with small limits."""
    values = {"max_model_len": 64, "max_logprobs": 4, "max_sequences": 3, "max_answer_bytes": 1 << 26, **limits}
    return ServedModel(
        vocabulary=vocabulary,
        limits=Limits(vocabulary_size=vocabulary.manifest.size, **values),
        logprobs=LogprobWriter(vocabulary, logprob_bytes),
        parsers=parsers,
        seal=StateSeal(model=0, size=vocabulary.manifest.size),
    )


def alone(model: ServedModel) -> Models:
    """Return the models of an application that serves one model, named `tiny` and `small`."""
    root, length = model.vocabulary.manifest.name, model.limits.max_model_len
    entry = ModelEntry(ModelSettings(root, ("tiny", "small"), length), lambda: model)
    return Models((entry,), default=entry)
