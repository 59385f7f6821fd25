"""The machine that runs any format.

    events, state = parse(parser, state, pieces)     # as often as pieces come
    events = finish(parser, state, cut=False)

A whole output is one piece to the same machine, so any split of an output gives the same events, joined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from derender.parsing.arguments.call_objects import CallArgumentsRead, CallEnd, CallName, CallsState, read_calls
from derender.parsing.arguments.notation import NotationState, read
from derender.parsing.arguments.schema import ANY, parameter_types
from derender.parsing.arguments.values import begin_value, end_value, read_value

from .format import Act, Yields
from .output import SPACE, Output
from .state import BodyState, ParserState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.decoding.pieces import Piece

    from .events import Event
    from .format import Edge, Region
    from .grammar import Grammar
    from .patterns import Found

__all__ = ["Parser", "end", "finish", "parse"]


@dataclass(frozen=True, slots=True)
class Parser:
    """How the outputs for one request are parsed.

    Attributes:
        grammar: The formats.
        start: The region an output begins in, where its prompt does not say.
        tools: Name → JSON schema of the parameters, of the tools offered.
        calls_wanted: Whether there may be calls; else they are text, without the markers.
        one_call: Whether only the first call is kept.
        whole_calls: Whether a call is given once it is complete; else as it comes.
    """

    grammar: Grammar
    start: str
    tools: Mapping[str, object]
    calls_wanted: bool
    one_call: bool
    whole_calls: bool

    @property
    def markers(self) -> Mapping[int, str]:
        """Ids of markers, each with the character that stands for it."""
        return self.grammar.markers


def parse(parser: Parser, state: ParserState, pieces: Sequence[Piece]) -> tuple[list[Event], ParserState]:
    """The events that more of an output brings.

    Args:
        parser: How it is parsed.
        state: Where what came before has led.
        pieces: Text, and ids of markers.
    """
    markers = parser.grammar.markers
    machine = _Machine(parser, state)
    machine.run(
        "".join([state.held, *[piece if isinstance(piece, str) else markers[piece] for piece in pieces]]),
        final=False,
    )
    return machine.output.events, machine.state()


def finish(parser: Parser, state: ParserState, *, cut: bool) -> list[Event]:
    """The events that the end of an output brings.

    Args:
        parser: How it is parsed.
        state: Where it has led.
        cut: Whether it was cut at a length, so that what is open is not complete.
    """
    events, _ = end(parser, state, cut=cut)
    return events


def end(parser: Parser, state: ParserState, *, cut: bool) -> tuple[list[Event], bool]:
    """The same, and whether the end cuts a call of which some was given."""
    machine = _Machine(parser, state, cut=cut)
    machine.run(state.held, final=True)
    machine.end()
    return machine.output.events, machine.cuts_call


class _Machine:
    """One run over one text."""

    __slots__ = (
        "arguments",
        "behind",
        "body",
        "cut",
        "cuts_call",
        "grammar",
        "held",
        "marked",
        "named",
        "objects",
        "output",
        "parser",
        "region",
        "value",
    )

    def __init__(self, parser: Parser, state: ParserState, *, cut: bool = False) -> None:
        self.cut, self.cuts_call = cut, False
        self.parser, self.grammar = parser, parser.grammar
        self.region, self.held, self.behind = state.region, "", state.behind
        self.marked, self.named = state.marked, state.named
        self.value, self.arguments, self.objects = state.value, state.arguments, state.objects
        self.body = state.body
        self.output = Output(parser, state)

    def state(self) -> ParserState:
        output = self.output
        return ParserState(
            region=self.region,
            held=self.held,
            space=output.space,
            answered=output.answered,
            reasoned=output.reasoned,
            marked=self.marked,
            named=self.named,
            number=output.number,
            calls=output.calls.state() if output.calls else None,
            value=self.value,
            arguments=self.arguments,
            objects=self.objects,
            body=self.body,
            behind=self.behind,
        )

    def run(self, text: str, *, final: bool) -> None:
        text, at, still = f"{self.behind}{text}", len(self.behind), 0
        while True:
            region = self.grammar.regions[self.region]
            match region.yields:
                # What is cut may be the beginning of more.
                case Yields.ARGUMENTS:
                    end, more = self._read_arguments(region, text, at, final=final and not self.cut)
                case Yields.CALLS:
                    end, more = self._read_calls(region, text, at, final=final and not self.cut)
                case _:
                    end, more = self._scan(region, text, at, final=final)
            if not more:
                self.held = text[end:]
                self.behind = text[max(end - self.grammar.looks_back, 0) : end]
                return
            still = still + 1 if end == at else 0
            if still > len(self.grammar.regions):
                # Patterns of no width that lead in a circle.
                self._text(self.grammar.regions[self.region], text[at : at + 1])
                end, still = at + 1, 0
            if end > len(text):
                return
            at = end

    def end(self) -> None:
        """The output ends."""
        region, output = self.grammar.regions[self.region], self.output
        if output.calls is not None:
            # No arguments at all are none that a call lacks.
            over = region.ends or (region.closes and self.arguments == NotationState())
            if over and not self.cut and not output.calls.broken:
                self._read_body(region, {})
                output.end_arguments()
                output.close()
            else:
                self.cuts_call = output.calls.status == "given" and not output.calls.muted
                output.raw(self.held)
                output.end()
        elif output.space and region.yields is Yields.CONTENT and not (self.marked or output.number):
            output.only_space()

    # A region that is text, and its edges.

    def _scan(self, region: Region, text: str, at: int, *, final: bool) -> tuple[int, bool]:
        found = self.grammar.scanners[self.region].search(text, at, final=final, cut=self.cut)
        if found is None:
            self._text(region, self._shown(text[at:]))
            return len(text), False
        if found.start > at:
            self._text(region, text[at : found.start])
        if found.pattern is None:
            return found.start, False
        self._take(region, region.edges[found.pattern], found, text[found.start : found.end])
        return found.end, True

    def _shown(self, text: str) -> str:
        """What is shown at the end of the output: of a marker that nothing follows, nothing."""
        places = [text.find(marker) for marker in self.grammar.marker_texts if marker in text]
        if not places or self.output.calls is not None:
            return text
        place = min(places)
        rest = self.grammar.without_markers(text[place:])
        if not rest.strip(SPACE) or self.output.number:
            return text[:place].rstrip(SPACE)
        return f"{text[:place]}{rest}" if self.cut else text

    def _text(self, region: Region, text: str) -> None:
        output = self.output
        if output.calls is not None:
            output.raw(text)
        match region.yields:
            case Yields.CONTENT:
                output.content(self.grammar.with_markers(text))
            case Yields.REASONING:
                output.reasoning(self.grammar.with_markers(text))
            case Yields.VALUE if self.value is not None:
                got = read_value(
                    self.value, text, self._types(), self.grammar.texts, keep=self.parser.whole_calls
                )
                self.value = got.state
                self._parameter_text(got.json)
            case _:
                pass

    def _take(self, region: Region, edge: Edge, found: Found, text: str) -> None:
        output = self.output
        if region.yields is Yields.VALUE and self.value is not None:
            self._end_value(region)
        self._read_body(region, found.captures)
        if text:
            self.marked, output.space = True, ""
        if edge.act in (Act.BEGIN, Act.OPEN, Act.OPEN_CLOSE):
            output.begin(self.region if region.yields is Yields.REASONING else "content")
        output.raw(text)
        match edge.act:
            case Act.NAME:
                self.named = found.captures["name"]
            case Act.OPEN | Act.OPEN_CLOSE:
                name = found.captures.get("name") or edge.name or self.named
                if not output.open(name, found.captures.get("id", "")):
                    self._go("content")
                    return
            case Act.PARAMETER:
                key = found.captures["key"]
                output.parameter(_unescaped(key) if edge.entities else key)
            case _:
                pass
        if edge.act in (Act.CLOSE, Act.OPEN_CLOSE):
            output.end_arguments()
            output.close()
        self._go(edge.to)
        if self.grammar.regions[edge.to].yields is Yields.BODY:
            self.body = BodyState(output.kept_length(), found.captures)

    def _go(self, name: str) -> None:
        """Enter a region."""
        region = self.grammar.regions[name]
        if region.yields is Yields.CONTENT and self.output.calls is not None:
            # Markup that comes to no end is none: what it began in goes on.
            self.output.refuse()
            name = self.output.calls.began
            self.output.calls = None
        self.region = name
        match region.yields:
            case Yields.VALUE:
                got = begin_value(self._types(), region.written)
                self.value = got.state
                self._parameter_text(got.json)
            case Yields.ARGUMENTS:
                self.arguments = region.begins or NotationState()
                if region.begins is not None:
                    self.output.arguments("{")
            case Yields.CALLS:
                self.objects = CallsState()
            case _:
                pass

    # Calls that are read when they end.

    def _read_body(self, region: Region, captures: Mapping[str, str]) -> None:
        output, body, self.body = self.output, self.body, None
        if region.reader is None or body is None or (text := output.kept_text(body.begins)) is None:
            return
        calls = region.reader(self.grammar.with_markers(text), {**captures, **body.captures}, self.parser.tools)
        if calls is None:
            output.refuse()
        for call in calls or ():
            output.open(call.name, call.written_id)
            output.arguments(call.arguments)
            output.end_arguments()

    # The bare text of a parameter.

    def _types(self) -> frozenset[str]:
        calls = self.output.calls
        if calls is None or calls.key is None or calls.name not in self.parser.tools:
            return ANY
        return parameter_types(self.parser.tools[calls.name], calls.key)

    def _parameter_text(self, json: str) -> None:
        if self.output.calls is not None and self.output.calls.key is not None:
            self.output.arguments(json)

    def _end_value(self, region: Region) -> None:
        assert self.value is not None
        rest = end_value(self.value, self._types(), region.written)
        self.value = None
        if rest is None:
            self.output.refuse()
        else:
            self._parameter_text(rest)

    # Arguments, and calls, that have an end of their own.

    def _read_arguments(self, region: Region, text: str, at: int, *, final: bool) -> tuple[int, bool]:
        assert region.notation is not None
        state, output = self.arguments or NotationState(), self.output
        if state == NotationState():
            space = text[at:][: -len(text[at:].lstrip(SPACE)) or None]
            output.raw(space)
            at += len(space)
            if at == len(text):
                return at, False
            if text[at] != "{":
                # A marker in place of arguments means that there are none.
                return self._leave(region, at, fault=text[at] not in self.grammar.texts)
        got = read(region.notation, state, text, at, markers=self.grammar.texts, final=final)
        self.arguments = got.state
        output.raw(text[at : got.end])
        output.arguments(got.json)
        if got.state.phase in ("done", "bad"):
            return self._leave(region, got.end, fault=got.state.phase == "bad")
        return got.end, False

    def _read_calls(self, region: Region, text: str, at: int, *, final: bool) -> tuple[int, bool]:
        output = self.output
        got = read_calls(
            self.objects or CallsState(),
            text,
            at,
            markers=self.grammar.texts,
            known_keys=self.grammar.offered_only,
            final=final,
        )
        self.objects = got.state
        output.raw(text[at : got.end])
        for found in got.found:
            match found:
                case CallName(name, written_id):
                    if not output.open(name, written_id):
                        return self._leave(region, got.end, fault=True)
                case CallArgumentsRead(json):
                    output.arguments(json)
                case CallEnd():
                    output.end_arguments()
                    if region.closes:
                        output.give()
        if got.state.phase in ("done", "bad"):
            return self._leave(region, got.end, fault=got.state.phase == "bad")
        return got.end, bool(got.found) and not isinstance(got.found[-1], CallArgumentsRead)

    def _leave(self, region: Region, end: int, *, fault: bool) -> tuple[int, bool]:
        self.arguments = self.objects = None
        if fault:
            self.output.refuse()
        elif region.closes:
            self.output.end_arguments()
            self.output.close()
        self._go(region.otherwise or region.then if fault else region.then)
        return end, True


_ENTITIES: Final = (("&quot;", '"'), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def _unescaped(text: str) -> str:
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text
