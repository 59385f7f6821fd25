"""Choose the parsers that a vocabulary names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from derender.parsing import ParserError, load_parsers
from layer_compiler.errors import LayerError

from .decision import infer
from .evidence import read_evidence

if TYPE_CHECKING:
    from pathlib import Path

    from derender.vocabulary import Vocabulary

__all__ = ["AUTO", "NO_PARSER", "ParserChoice", "choose_parsers"]

AUTO: Final = "auto"
"""Infer the parser from the model's files."""
NO_PARSER: Final = "none"


@dataclass(frozen=True)
class ParserChoice:
    """The parsers of a model."""

    parsers: dict[str, str | None]
    """Field of the manifest → the parser's name."""
    origins: dict[str, str] = field(default_factory=dict)
    """Field of the manifest → "inferred", if its parser was."""
    warnings: tuple[str, ...] = ()
    """Doubts, and the observations behind them."""


def choose_parsers(
    folder: Path, name: str, vocabulary: Vocabulary, *, tool_call_parser: str, reasoning_parser: str
) -> ParserChoice:
    """Return the parsers that are given. Infer `auto` from the model's files, or set none if they don't tell.

    Args:
        folder: The model's files.
        name: The model's name, to choose between parsers that the files leave.
        vocabulary: The model's compiled vocabulary.
        tool_call_parser: The name of a parser, `none` or `auto`.
        reasoning_parser: The name of a parser, `none` or `auto`.

    Raises:
        LayerError: The given parsers don't exist, don't combine, or need tokens that the vocabulary lacks.
    """
    given = {"tool_call_parser": tool_call_parser, "reasoning_parser": reasoning_parser}
    fixed = {field: None if parser in (AUTO, NO_PARSER) else parser for field, parser in given.items()}
    try:
        load_parsers(vocabulary, **fixed)
    except ParserError as error:
        raise LayerError(str(error)) from error
    automatic = [field for field, parser in given.items() if parser == AUTO]
    if not automatic:
        return ParserChoice(fixed)
    evidence = read_evidence(folder, vocabulary.added_tokens(), vocabulary.manifest.response_template)
    inferred = infer(evidence, name)
    observed = tuple(f"  observed: {line}" for line in inferred.observations)
    chosen = {**fixed, **{field: getattr(inferred, field) for field in automatic}}
    try:
        load_parsers(vocabulary, **chosen)
    except ParserError as error:
        which = "" if len(automatic) > 1 else f"{automatic[0]}: "
        problem = f"{which}no parser is set, because the one inferred from the model's files fails: {error}"
        return ParserChoice(fixed, warnings=(problem, *observed))
    origins = {field: "inferred" for field in automatic if chosen[field]}
    if inferred.certain:
        return ParserChoice(chosen, origins)
    warnings = (_warn(field, chosen[field]) for field in automatic)
    return ParserChoice(chosen, origins, (*warnings, *observed))


def _warn(field: str, parser: str | None) -> str:
    reason = (
        f"{parser}, which the model's files alone don't settle"
        if parser
        else "no parser is set, because the model's files don't tell it"
    )
    return f"{field}: {reason}; name a parser or {NO_PARSER}"
