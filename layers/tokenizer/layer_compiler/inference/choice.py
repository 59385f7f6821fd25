"""Which parsers a model's vocabulary names: those that are given, or those that its own files tell of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from derender.parsing import ParserError, load_parsers

from . import infer_parsers

if TYPE_CHECKING:
    from pathlib import Path

    from derender.vocabulary import Vocabulary

__all__ = ["AUTO", "NO_PARSER", "ParserChoice", "choose_parsers"]

AUTO: Final = "auto"
"""The parser that the model's own files tell of."""
NO_PARSER: Final = "none"
INFERRED: Final = "inferred"


@dataclass(frozen=True)
class ParserChoice:
    """The parsers of one model."""

    parsers: dict[str, str | None]
    """Field of the manifest → the parser's name."""
    origins: dict[str, str] = field(default_factory=dict)
    """Field of the manifest → where its parser was inferred from."""
    warnings: tuple[str, ...] = ()
    """What the files don't tell, and what was seen."""


def choose_parsers(
    folder: Path, name: str | None, vocabulary: Vocabulary, *, tool_call_parser: str, reasoning_parser: str
) -> ParserChoice:
    """The parsers that are given; for `auto` what the model's files tell of, or none where they don't.

    Args:
        folder: Holds the model's files.
        name: The model's name, a hint.
        vocabulary: The model's.
        tool_call_parser: Name of a parser, `none` or `auto`.
        reasoning_parser: Likewise.

    Raises:
        ParserError: The vocabulary can't be parsed with what is given.
    """
    said = {"tool_call_parser": tool_call_parser, "reasoning_parser": reasoning_parser}
    given = {name: None if parser in (AUTO, NO_PARSER) else parser for name, parser in said.items()}
    load_parsers(vocabulary, **given)
    if AUTO not in said.values():
        return ParserChoice(given)
    inferred = infer_parsers(folder, name)
    told = {"tool_call_parser": inferred.tool_call_parser, "reasoning_parser": inferred.reasoning_parser}
    chosen = {name: told[name] if said[name] == AUTO else given[name] for name in said}
    seen = tuple(f"  seen: {line}" for line in inferred.seen)
    try:
        load_parsers(vocabulary, **chosen)
    except ParserError as error:
        left = [name for name in said if said[name] == AUTO]
        what = "no parser is chosen" if len(left) == len(said) else f"{left[0]}: none is chosen"
        warning = f"{what}: what the model's files tell of can't be used: {error}"
        return ParserChoice(given, warnings=(warning, *seen))
    origins = {name: INFERRED for name, parser in chosen.items() if parser and said[name] == AUTO}
    if inferred.certain:
        return ParserChoice(chosen, origins)
    warnings = tuple(
        f"{name}: "
        + (
            f"{chosen[name]}, which the model's files alone don't settle"
            if chosen[name]
            else "none is chosen: the model's files don't tell it"
        )
        + f"; name one, or {NO_PARSER}, and it is settled"
        for name, parser in said.items()
        if parser == AUTO
    )
    return ParserChoice(chosen, origins, (*warnings, *seen))
