"""How a format is declared: regions of an output, and the edges between them.

The engine is always in one region. The region's kind says what its text is. Where the pattern of one of its
edges matches, the engine moves to the region that the edge leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final

from msgspec import Struct

from derender.parsing.arguments.notation import START, Notation, NotationState
from derender.parsing.arguments.values import DeclaredType
from derender.parsing.patterns import ANYTHING, SPACE, Pattern, Regex, ahead

from .state import Call

__all__ = [
    "NO_CALL",
    "Act",
    "Arguments",
    "Body",
    "CallObjects",
    "Edge",
    "Format",
    "FormatError",
    "Ids",
    "Markup",
    "Reader",
    "Region",
    "Shows",
    "Text",
    "Thoughts",
    "Value",
    "section",
]


class FormatError(ValueError):
    """A format can't be made for a vocabulary. The message is one line."""


class Act(StrEnum):
    """What an edge does besides leading to a region."""

    NONE = ""
    NAME = "name"
    """Captures the `name` of a call that will begin, if calls are wanted. Leads `otherwise` if not."""
    OPEN = "open"
    """A call begins. Captures its `name`, and its `id` if the model writes one."""
    BEGIN = "begin"
    """Markup of calls begins. The names come later."""
    PARAMETER = "parameter"
    """A parameter of the call begins. Captures its `key`."""
    CLOSE = "close"
    """The markup that was begun or opened ends, and is complete."""
    OPEN_CLOSE = "open and close"
    """A call without arguments."""


class Edge(Struct, frozen=True):
    """Where a pattern matches, the engine moves to another region."""

    pattern: Pattern | Regex
    to: str
    act: Act = Act.NONE
    name: str = ""
    """The name of the call that begins, if the pattern captures none."""
    entities: bool = False
    """Whether a captured key has XML entities for quotes and the like."""
    offered: bool = False
    """Whether the call that will begin must be of a tool that the client offered."""
    otherwise: str = ""
    """The region that follows if the call that is named will not begin."""
    origin: str = ""
    """The region that goes on if the calls that begin turn out to be none, if not the one it leads out of."""


NO_CALL: Final = Edge((ahead(ANYTHING),), "content")
"""The last edge of markup in which any other text means that it is no call."""


class Shows(StrEnum):
    """What emitted text is part of."""

    CONTENT = "content"
    REASONING = "reasoning"


class Text(Struct, frozen=True):
    """Text that is emitted.

    If several edges match at one place, here and in other regions, the first is taken.
    """

    shows: Shows
    edges: tuple[Edge, ...] = ()


class Markup(Struct, frozen=True):
    """Text that is left out."""

    edges: tuple[Edge, ...] = ()
    ends: bool = False
    """Whether an output that ends here, and was not cut, has completed the call."""


class Value(Struct, frozen=True):
    """The bare text of a parameter."""

    edges: tuple[Edge, ...]
    declared: DeclaredType | None = None
    """The type that the model declares for it. Otherwise the tool's schema tells."""


class Body(Struct, frozen=True):
    """Text of calls that a reader reads once the region ends."""

    edges: tuple[Edge, ...]
    reader: Reader


class Arguments(Struct, frozen=True):
    """A call's arguments. The region ends with them."""

    edges: ClassVar[tuple[Edge, ...]] = ()
    notation: Notation
    then: str = "content"
    """The region that follows."""
    otherwise: str = ""
    """The region that follows a fault, if not the same."""
    closes: bool = False
    """Whether the markup ends with the region: no marker follows."""
    start: NotationState = START
    """Where reading starts: behind the opening brace, if the edge has read it."""


class CallObjects(Struct, frozen=True):
    """Calls as JSON objects, which contain their names. The region ends with them."""

    edges: ClassVar[tuple[Edge, ...]] = ()
    then: str = "content"
    otherwise: str = ""
    closes: bool = False


Region = Text | Markup | Value | Body | Arguments | CallObjects
"""A stretch of an output."""

Reader = Callable[[str, Mapping[str, str], Mapping[str, object]], Sequence[Call] | None]
"""Reads calls: their text, what the patterns around it captured, and the tools offered (name → JSON schema of
the parameters) → the calls; None if it is no call."""


class Ids(StrEnum):
    """How a call's id looks."""

    OPENAI = "call_"
    """`call_` and 24 characters."""
    KIMI = "functions."
    """`functions.NAME:N`, N counted over the conversation."""
    MISTRAL = "nine"
    """Nine letters and digits."""


class Thoughts(Struct, frozen=True):
    """The markers around reasoning."""

    begins: str
    ends: str
    region: str = "reasoning"
    """The region between them."""


class Format(Struct, frozen=True):
    """A tool-call format, a reasoning format, or both.

    Attributes:
        markers: Control tokens of the format. If the vocabulary has one as a token, only that token is the
            marker, and text that looks like it is text.
        first: Edges that exist only where the answer begins.
        content: Edges out of the answer's text.
        reasoning: Edges out of the reasoning.
        regions: Regions besides `content` and `reasoning`.
        start: The region an output begins in if nothing is known of the prompt.
        start_thinking: The same, if the client switched thinking on.
        start_answering: The same, if the client switched thinking off.
        thoughts: The markers around reasoning. If the one that ends it is the first of them in a whole output,
            the prompt has begun the reasoning.
        turn: The marker that begins a message, if it is read as part of the output.
        whole: Whether the format describes whole messages, reasoning and calls together. It then combines
            with no other.
        offered_only: Whether only tools that the client offered can be called. In formats without markers,
            all else is text.
        uncut: Whether the output is read as it was generated: stop strings and stop tokens that end a
            generation are read too, and a character that is cut is shown as U+FFFD.
        plain: Whether control tokens are read as the text that they are written as.
        after_prompt: The region that a prompt ends in → the region that its output begins in, if not the same.
        anchors: What begins the model's message in a prompt. Otherwise its last control token does.
        joins: What joins the texts of two messages. Markup between two texts separates messages.
        ids: How ids of calls look.
    """

    markers: tuple[str, ...] = ()
    first: tuple[Edge, ...] = ()
    content: tuple[Edge, ...] = ()
    reasoning: tuple[Edge, ...] = ()
    regions: Mapping[str, Region] = {}
    start: str = "answer"
    start_thinking: str = "answer"
    start_answering: str = "answer"
    thoughts: tuple[Thoughts, ...] = ()
    turn: str | None = None
    whole: bool = False
    offered_only: bool = False
    uncut: bool = False
    plain: bool = False
    after_prompt: Mapping[str, str] = {}
    anchors: tuple[Pattern | Regex, ...] = ()
    joins: str = ""
    ids: Ids = Ids.OPENAI


def section(call: Edge, ends: str, *more: Edge) -> dict[str, Region]:
    """Return the regions of a section of calls: `section`, where it begins, and `calls`, after a call in it.

    A section without calls is text, unless it is empty. In a section with calls, text that is no call is left
    out.

    Args:
        call: The edge where a call begins.
        ends: The marker that ends the section.
        more: Edges where calls of other forms begin.
    """
    calls = (call, *more)
    return {
        "section": Markup(
            (*calls, Edge((SPACE, ends), "content", Act.CLOSE), Edge((ahead(ANYTHING),), "no call yet"))
        ),
        "no call yet": Markup((*calls, Edge((ends,), "content"))),
        "calls": Markup((*calls, Edge((ends,), "content"))),
    }
