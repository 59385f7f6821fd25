"""How a format is declared: regions of an output, and the edges between them.

The engine is always in one region. Its `yields` say what text in it is; where one of its edges' patterns is
read, the engine goes on in the region that the edge leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from .patterns import ANYTHING, SPACE, ahead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.parsing.arguments.notation import Notation, NotationState
    from derender.parsing.arguments.values import Written

    from .patterns import Pattern, Regular
    from .state import Call

__all__ = ["NO_CALL", "Act", "Edge", "Format", "FormatError", "Ids", "Reader", "Region", "Yields", "section"]


class Yields(StrEnum):
    """What the text in a region is."""

    CONTENT = "content"
    REASONING = "reasoning"
    NOTHING = "nothing"
    """Markup: it is left out."""
    VALUE = "value"
    """The bare text of a parameter."""
    ARGUMENTS = "arguments"
    """A call's arguments, in the region's notation. The region ends with them."""
    CALLS = "calls"
    """Calls as JSON objects, which hold their names. The region ends with them."""
    BODY = "body"
    """Calls that the region's reader reads when the region ends."""


class Act(StrEnum):
    """What an edge does besides leading to a region."""

    NONE = "none"
    NAME = "name"
    """The pattern captures the `name` of a call that will begin."""
    OPEN = "open"
    """A call begins. The pattern captures its `name`, and its `id` where the model writes one."""
    BEGIN = "begin"
    """Markup of calls begins; the names come later."""
    PARAMETER = "parameter"
    """A parameter of the call begins. The pattern captures its `key`."""
    CLOSE = "close"
    """What was opened or begun ends, and is complete."""
    OPEN_CLOSE = "open and close"
    """A call without arguments."""


class FormatError(ValueError):
    """A format that can't be made for a vocabulary; one line."""


Reader = Callable[[str, Mapping[str, str], Mapping[str, object]], "Sequence[Call] | None"]
"""Text of calls, what the patterns around it captured, and the tools offered (name → JSON schema of the
parameters) → the calls; None where it is none."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a pattern is read, the engine goes to another region."""

    pattern: Pattern | Regular
    to: str
    act: Act = Act.NONE
    name: str = ""
    """The name of the call that begins, where the pattern captures none."""
    entities: bool = False
    """Whether quotes and such are written as entities of XML in a captured key."""


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of an output."""

    yields: Yields
    edges: tuple[Edge, ...] = ()
    """Of two whose patterns begin at one place, the first is taken."""
    then: str = "content"
    """Where arguments or calls end: the region that follows them."""
    otherwise: str = ""
    """Where they are at fault: the region that follows them, if not the same."""
    notation: Notation | None = None
    """Of arguments: how they are written."""
    begins: NotationState | None = None
    """Of arguments whose opening brace is behind them: where their notation is."""
    written: Written | None = None
    """Of a value: what the model wrote of its type. Else the schema says it."""
    closes: bool = False
    """Of arguments or calls: whether nothing that ends the call follows them."""
    ends: bool = False
    """Whether an output that ends here by itself, not cut, has completed the call."""
    reader: Reader | None = None
    """Of a body: what reads it."""


NO_CALL: Final = Edge((ahead(ANYTHING),), "content")
"""The last edge of markup in which any other text means that it is no call."""


class Ids(StrEnum):
    """How a call's id looks."""

    OPENAI = "call_"
    """`call_` and 24 characters."""
    KIMI = "functions."
    """`functions.NAME:N`, N counted over the conversation."""
    MISTRAL = "nine"
    """Nine letters and digits."""


@dataclass(frozen=True, slots=True)
class Format:
    """A tool-call format, a reasoning format, or both.

    Attributes:
        markers: Control tokens of the format. Where the vocabulary has one as a token, only that token is
            it, and text that looks like it is text.
        first: Edges that are there only where the answer begins.
        content: Edges out of the answer's text.
        reasoning: Edges out of the reasoning.
        regions: Regions besides `content` and `reasoning`.
        start: The region an output begins in where nothing is known of the prompt.
        start_thinking: Where the client switched thinking on.
        start_answering: Where the client switched it off.
        turn: The marker that begins a message, where that is read as part of the output.
        whole: Whether the format describes whole messages, reasoning and calls together: it then goes with
            no other.
        offered_only: Whether only tools that the client offered are called: in formats without markers, all
            else is text.
        uncut: Whether the output is read as it was generated: what ends a generation, stop strings and stop
            tokens, is read too, and a character that is cut is shown as U+FFFD.
        plain: Whether control tokens are read as the text that they are written as.
        after_prompt: Region that a prompt ends in → the one that its output begins in, if not the same.
        anchors: What begins the model's message in a prompt; else its last control token does.
        ids: How ids of calls look.
    """

    markers: tuple[str, ...] = ()
    first: tuple[Edge, ...] = ()
    content: tuple[Edge, ...] = ()
    reasoning: tuple[Edge, ...] = ()
    regions: Mapping[str, Region] = field(default_factory=dict)
    start: str = "answer"
    start_thinking: str = "answer"
    start_answering: str = "answer"
    turn: str | None = None
    whole: bool = False
    offered_only: bool = False
    uncut: bool = False
    plain: bool = False
    after_prompt: Mapping[str, str] = field(default_factory=dict)
    anchors: tuple[Pattern | Regular, ...] = ()
    ids: Ids = Ids.OPENAI


def section(call: Edge, ends: str, *more: Edge) -> dict[str, Region]:
    """The regions of a section of calls: `section`, where it begins, and `calls`, after a call in it.

    In a section that has calls, text that is no call is left out. One without any is text, unless it is empty.

    Args:
        call: Where a call begins.
        ends: What ends the section.
        more: Where calls of other forms begin.
    """
    calls = (call, *more)
    return {
        "section": Region(
            Yields.NOTHING,
            (
                *calls,
                Edge((SPACE, ends), "content", Act.CLOSE),
                Edge((ahead(ANYTHING),), "no call yet"),
            ),
        ),
        "no call yet": Region(Yields.NOTHING, (*calls, Edge((ends,), "content"))),
        "calls": Region(Yields.NOTHING, (*calls, Edge((ends,), "content"))),
    }
