"""How a format is declared: regions of an output, and the edges between them.

The engine is always in one region. The region's kind says what its text is. Where the pattern of one of its
edges matches, the engine moves to the region that the edge leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from derender.parsing.arguments.notation import START, Notation, NotationState
from derender.parsing.arguments.schema import Tools
from derender.parsing.arguments.values import DeclaredType
from derender.parsing.patterns import OTHER_TEXT, SPACE, Part, Pattern, Regex, ahead, some

from .state import Call

__all__ = [
    "BEGINNING",
    "NO_CALL",
    "UNREAD",
    "Act",
    "Arguments",
    "Body",
    "CallObjects",
    "Edge",
    "Format",
    "FormatError",
    "Ids",
    "Markup",
    "Preface",
    "Reader",
    "Region",
    "Section",
    "Shows",
    "Slip",
    "Text",
    "Thoughts",
    "Value",
    "section",
    "twice",
    "with_neighbours",
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


UNREAD: Final = "unread"
"""The region of text that is not read, because a regular expression takes too long. It is the answer's."""
BEGINNING: Final = (Act.BEGIN, Act.OPEN, Act.OPEN_CLOSE)
"""What begins markup of calls, unless it has begun."""


class Slip(StrEnum):
    """What models write amiss, if it can mean one thing only.

    An edge that reads a slip leads to where the edge without it would have led. If a call begins at such an
    edge, it has to name a tool that the client offered: an edge to calls as JSON objects leads to a region that
    is `offered`.
    """

    NO_END = "an end is missing"
    """The end of a name, a value, a call or a section, before the next beginning or the end of the output."""
    TWICE = "a marker is written twice"
    NO_SECTION = "a call without its section"
    """Or without the marker that begins it."""
    OTHER_NOTATION = "a call in another notation"
    """In the notation of a neighbour: JSON for elements, other quotes, another order of attributes."""
    BEHIND_TEXT = "a call behind text or in a code block"
    """In formats without markers. Nothing else may follow it."""
    NO_NAME = "a number in place of the name"
    """The arguments tell which tool is called."""
    STRAY = "a marker without a call"


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
    slip: Slip | None = None
    """What it reads generously."""


NO_CALL: Final = Edge(OTHER_TEXT, "content")
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


class Preface(Struct, frozen=True):
    """Text in a section before its first call. It is the message's if a call follows."""

    edges: tuple[Edge, ...]


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
    listed: bool = False
    """Whether the call counts only once the list that it stands in has closed."""
    alone: bool = False
    """Whether what follows tells if it is a call: it is kept while it is short, until its markup closes."""
    start: NotationState = START
    """Where reading starts: behind the opening brace, if the edge has read it."""


class CallObjects(Struct, frozen=True):
    """Calls as JSON objects, which contain their names. The region ends with them. Fields as of `Arguments`."""

    edges: ClassVar[tuple[Edge, ...]] = ()
    then: str = "content"
    otherwise: str = ""
    closes: bool = False
    alone: bool = False
    """As of `Arguments`. Only objects with no other keys than calls have count."""
    offered: bool = False
    """Whether only tools that the client offered count."""


Region = Text | Markup | Value | Body | Preface | Arguments | CallObjects
"""A stretch of an output."""


Reader = Callable[[str, Mapping[str, str], Tools], Sequence[Call] | None]
"""Reads calls: their text, what the patterns around it captured, and the tools offered (name → JSON schema of
the parameters) → the calls; None if it is no call. Raises a `TimeoutError` if that takes too long to know."""


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
        between: Edges that exist where the answer begins, and after a call.
        called: Edges that exist after a call.
        content: Edges out of the answer's text, wherever it is.
        reasoning: Edges out of the reasoning.
        regions: Regions besides those of all formats: `answer`, where the answer begins, `content`, where it
            goes on, `called`, where it goes on after a call, `reasoning`, and `prompt`, where the prompt's end
            is read.
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
        ids: How ids of calls look.
        uncalled: The format of whole messages in which markup of calls is text. If there is none, calls that
            are not wanted are read.
    """

    markers: tuple[str, ...] = ()
    first: tuple[Edge, ...] = ()
    between: tuple[Edge, ...] = ()
    called: tuple[Edge, ...] = ()
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
    ids: Ids = Ids.OPENAI
    uncalled: Format | None = None

    def without_calls(self) -> Format:
        """Return the format for requests that want no calls: their markup is text."""
        if self.whole:
            return self.uncalled or self
        return replace(self, first=(), between=(), called=(), content=(), reasoning=(), regions={})


def twice(edge: Edge, *markers: str, to: str = "") -> tuple[Edge, ...]:
    """Return an edge, and before it an edge for each of some markers in its pattern, written more than once.

    Args:
        edge: The edge.
        markers: The markers.
        to: The region that the edges before it lead to, if not the same.
    """

    def repeat(marker: str) -> Edge:
        pattern: list[Part | str] = [
            some(part, least=2 if part == marker else 1) if isinstance(part, str) and part in markers else part
            for part in edge.pattern
        ]
        return replace(edge, pattern=tuple(pattern), to=to or edge.to, slip=Slip.TWICE)

    return (*map(repeat, markers), edge)


def with_neighbours(own: Format, *others: Format) -> Format:
    """Return a family's format that reads calls in the notations of its neighbours, too, of tools that the
    client offered.

    Args:
        own: The family's own format.
        others: Formats whose calls stand between the same markers. No two have regions of one name.
    """
    content = tuple(
        replace(edge, slip=Slip.OTHER_NOTATION)
        for other in others
        for edge in other.content
        if edge.slip is None
    )
    regions = {
        name: replace(region, offered=True) if isinstance(region, CallObjects) else region
        for other in others
        for name, region in other.regions.items()
    }
    return replace(
        own,
        content=(*own.content, *content),
        reasoning=(*own.reasoning, *content),
        regions={**own.regions, **regions},
    )


class Section(NamedTuple):
    """Edges into a section of calls, and its regions."""

    content: tuple[Edge, ...]
    reasoning: tuple[Edge, ...]
    called: tuple[Edge, ...]
    regions: dict[str, Region]


def section(
    begins: Pattern,
    ends: Part | str,
    call_begins: str,
    call_ends: str,
    calls: Sequence[Edge],
    *,
    besides: tuple[Edge, ...] = (),
    preface: bool = True,
) -> Section:
    """Return the parts of a format whose calls stand in a section.

    The section's markers are markup if it has a call, or is empty. Text beside its calls is the message's. A
    call without the section is a slip. Calls end in `call ended`.

    Args:
        begins: What begins the section.
        ends: What ends the section.
        call_begins: What all calls begin with, behind white space.
        call_ends: The marker that ends a call.
        calls: Edges where calls begin.
        besides: Other edges out of the text among the calls.
        preface: Whether text before the first call is the message's, too. Otherwise it is left out.
    """
    alone = tuple(replace(each, slip=Slip.NO_SECTION) for each in calls)
    before_call = (*begins, ahead(SPACE, call_begins))
    among = (
        *calls,
        Edge(before_call, "calls", slip=Slip.TWICE),
        Edge((SPACE, ends), "called"),
        *besides,
    )
    # A broken call is no such text.
    no_call_yet = (*calls, Edge((ends,), "content"), Edge((SPACE, ahead(call_begins)), "calls"))
    return Section(
        content=(Edge(before_call, "calls"), Edge(begins, "section", Act.BEGIN), *alone),
        # Models quote the marker in their reasoning.
        reasoning=(Edge(before_call, "section", Act.BEGIN), *alone),
        called=(Edge((SPACE, ends), "called", slip=Slip.TWICE),),
        regions={
            "section": Markup(
                (
                    *calls,
                    Edge(begins, "section", slip=Slip.TWICE),
                    Edge((SPACE, ends), "called", Act.CLOSE),
                    Edge(OTHER_TEXT, "no call yet"),
                )
            ),
            "no call yet": Preface(no_call_yet) if preface else Markup(no_call_yet),
            "calls": Text(Shows.CONTENT, among),
            "call ended": Text(
                Shows.CONTENT,
                (
                    Edge((SPACE, call_ends), "call ended", slip=Slip.TWICE),
                    *among,
                    Edge(OTHER_TEXT, "calls"),
                ),
            ),
        },
    )
