"""The machine that runs any format.

    events, state = parse(parser, state, pieces)     # as often as pieces arrive
    events = finish(parser, state, cut=False)

A whole output is one piece to the same machine, so any split of an output gives the same events, joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from derender.decoding.token_places import TokenPlaces
from derender.parsing.arguments.call_objects import (
    CallObjectsState,
    ObjectArguments,
    ObjectName,
    read_call_objects,
)
from derender.parsing.arguments.notation import START, NotationState, read_notation
from derender.parsing.arguments.schema import ANY_TYPE
from derender.parsing.arguments.values import ValueState, begin_value, end_value, read_value
from derender.parsing.characters import WHITESPACE, decode_markers, skip_space
from derender.parsing.patterns import Match

from .emitter import Emitter
from .format import BEGINNING, UNREAD, Act, Arguments, Body, CallObjects, Markup, Preface, Shows, Text, Value
from .lifecycle import Status, Step
from .state import MAX_LEADING_SPACE, BodyState, compact_state, copy_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.decoding.pieces import Piece
    from derender.decoding.token_places import TokenRun

    from .events import Event
    from .format import Edge, Region
    from .parser import Parser
    from .state import OpenCalls, ParserState

__all__ = ["finish", "parse"]


def parse(
    parser: Parser, state: ParserState, pieces: Sequence[Piece], runs: Sequence[TokenRun] = ()
) -> tuple[list[Event], ParserState]:
    """Parse more of an output.

    Args:
        parser: How it is parsed.
        state: The state after the pieces before.
        pieces: Text, and ids of markers.
        runs: The tokens that they come from, if those of the reasoning are to be counted.

    Returns:
        The events, and the next state.
    """
    machine = _Machine(parser, state, parser.grammar.encode(pieces), runs)
    machine.run()
    return machine.emitter.events, compact_state(machine.state)


def finish(parser: Parser, state: ParserState, *, cut: bool) -> list[Event]:
    """Parse the end of an output.

    Args:
        parser: How it is parsed.
        state: The state after the last piece.
        cut: Whether the output was cut at a length, so that what is open is not complete.
    """
    machine = _Machine(parser, state, "", final=True, cut=cut)
    machine.run()
    machine.end()
    return machine.emitter.events


_CLOSING: Final = (Act.CLOSE, Act.OPEN_CLOSE)
_TEXT_BEGINS: Final = ("answer", "reasoning")
"""Regions in which another text begins after a marker."""
_ENTITIES: Final = (("&quot;", '"'), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


class _Machine:
    """One run over one text."""

    __slots__ = (
        "before_reasoning_end",
        "cut",
        "emitter",
        "final",
        "grammar",
        "output",
        "parser",
        "reasoning_end",
        "state",
        "text",
        "timed_out",
        "tokens",
    )

    def __init__(
        self,
        parser: Parser,
        state: ParserState,
        text: str,
        runs: Sequence[TokenRun] = (),
        *,
        final: bool = False,
        cut: bool = False,
    ) -> None:
        self.parser, self.grammar, self.final, self.cut = parser, parser.grammar, final, cut
        self.output = self.text = f"{state.lookbehind}{state.held}{text}"
        self.tokens: TokenPlaces | None = None
        if runs or state.token_places:
            held = len(state.lookbehind)
            places = state.token_places and [held + place for place in state.token_places]
            self.tokens = TokenPlaces(self.grammar.vocabulary, places, runs, held + len(state.held))
        self.timed_out = False
        self.reasoning_end, self.before_reasoning_end = Match(0, 0, None, {}), ""
        self.state = copy_state(state)
        self.emitter = Emitter(parser, self.state)

    def run(self) -> None:
        """Read the text as far as it can be decided. The rest is held."""
        grammar, state, text = self.grammar, self.state, self.text
        at, still = len(state.lookbehind), 0
        while True:
            try:
                ends_reasoning = self._look_for_reasoning_end(at)
                end, more = self._read(grammar.regions[state.region], at)
            except TimeoutError:
                self.timed_out, ends_reasoning, end, more = True, False, at, True
            if self.timed_out:
                self._stop_reading()
            if not more and ends_reasoning and (calls := state.calls) is not None:
                state.region, end, more = calls.origin, self._end_quoted(calls, end), True
            if not more:
                state.held = text[end:]
                state.lookbehind = text[max(end - grammar.lookbehind, 0) : end]
                state.token_places = self.tokens.after(end) if self.tokens else []
                return
            still = still + 1 if end == at else 0
            if still > len(grammar.regions):
                # Patterns of no width lead in a circle.
                self._add_text(grammar.regions[state.region], text[at : at + 1], self._count(at, at + 1))
                end, still = at + 1, 0
            if end > len(text):
                return
            at = end

    def _stop_reading(self) -> None:
        """Take the rest of the output as text."""
        self.text, self.timed_out = self.output, False
        if self.state.calls is not None:
            self.emitter.give_up(self.state.calls, "", 0)
        self.state.region = UNREAD

    def _look_for_reasoning_end(self, at: int) -> bool:
        """Limit the text that may be quoted in the reasoning. Returns whether the reasoning ends there."""
        calls, output = self.state.calls, self.output
        if calls is None or calls.status is Status.WAITING or calls.origin not in self.grammar.quotes:
            self.text = output
            return False
        if at >= self.reasoning_end.end:
            found = self.grammar.reasoning_ends.search(output, at, final=self.final, cut=self.cut)
            self.reasoning_end = found or Match(len(output), len(output), None, {})
            self.before_reasoning_end = output[: self.reasoning_end.start]
        self.text = self.before_reasoning_end
        return self.reasoning_end.pattern is not None

    def _end_quoted(self, calls: OpenCalls, end: int) -> int:
        """End what began as a call in the reasoning, which ends: it was quoted if it is not complete.

        Returns:
            Where reading stopped.
        """
        region = self.grammar.regions[self.state.region]
        if calls.kept and not self.text[end:].strip(WHITESPACE) and isinstance(region, Markup) and region.ends:
            self.emitter.step(calls, Step.CLOSE)
            return end
        self.emitter.give_up(calls, self.text[end:], self._count(end, len(self.text)))
        return len(self.text)

    def end(self) -> None:
        """End the output."""
        state, emitter = self.state, self.emitter
        region, calls = self.grammar.regions[state.region], state.calls
        if calls is None:
            if _shows(region) is Shows.CONTENT and state.leading_space and not (state.marked or state.emitted):
                emitter.emit_leading_space()
        elif not state.held.strip(WHITESPACE) and _is_complete(region, calls, cut=self.cut):
            self._end_reading(region, calls, {})
            emitter.end_call(calls)
            emitter.step(calls, Step.CLOSE)
        else:
            tokens = self._count(len(self.text) - len(state.held), len(self.text))
            if calls.status is Status.BUFFERED:
                emitter.add_markup(calls, state.held, tokens)
                emitter.step(calls, Step.END)
            else:
                emitter.give_up(calls, state.held, tokens)

    def _count(self, begin: int, end: int) -> int:
        """Count the tokens that begin in text that is reasoning, or may turn out to be."""
        if self.tokens is None:
            return 0
        calls = self.state.calls
        region = self.state.region if calls is None else calls.origin
        return self.tokens.count(begin, end) if region in self.grammar.reasoning else 0

    def _read(self, region: Region, at: int) -> tuple[int, bool]:
        """Read a region from a place on. Returns where reading stopped, and whether to go on in the next
        region."""
        if (calls := self.state.calls) is not None:
            match region, calls.reading:
                case Arguments(), NotationState() as arguments:
                    return self._read_arguments(region, calls, arguments, at)
                case CallObjects(), CallObjectsState() as objects:
                    return self._read_objects(region, calls, objects, at)
                case _:
                    pass
        return self._scan(region, at)

    # Regions with edges.

    def _scan(self, region: Region, at: int) -> tuple[int, bool]:
        text = self.text
        match = self.grammar.scanners[self.state.region].search(text, at, final=self.final, cut=self.cut)
        calls = self.state.calls
        if calls is not None and calls.status is Status.WAITING:
            if self._decide(region, calls, match, at):
                return at, True
            if match is None or match.pattern is None:
                return at, False
        if match is None:
            if isinstance(region, Markup):
                # The beginning of more markup.
                return at, False
            rest = self._without_begun_call(text, at)
            self._add_text(region, rest, self._count(at, at + len(rest)))
            return len(text), False
        if match.pattern is None:
            if match.start > at:
                self._add_text(region, text[at : match.start], self._count(at, match.start))
            return match.start, False
        matched = text[match.start : match.end]
        marker, space = match.start, match.end
        if self.tokens is not None:
            # White space next to a marker in the reasoning is the reasoning's, too.
            marker += len(matched) - len(matched.lstrip(WHITESPACE)) if self.state.calls is None else 0
            space -= len(matched) - len(matched.rstrip(WHITESPACE))
        if marker > at:
            self._add_text(region, text[at : match.start], self._count(at, marker))
        self._follow(region, region.edges[match.pattern], match.captures, matched, match.start)
        if space < match.end:
            self.emitter.count_reasoning(self._count(space, match.end))
        return match.end, True

    def _decide(self, region: Region, calls: OpenCalls, match: Match | None, at: int) -> bool:
        """Decide what calls in the reasoning are, if what follows them tells: text means that they were quoted.
        They count if other calls, another message or the end of the output follow.

        Returns:
            Whether it is decided.
        """
        text = self.text[at : match.start if match else len(self.text)]
        space = len(text) - len(text.lstrip(WHITESPACE))
        edge = None if match is None or match.pattern is None else region.edges[match.pattern]
        if space > MAX_LEADING_SPACE or (space == len(text) and edge is not None and self._begins_other(edge)):
            self.emitter.step(calls, Step.CLOSE)
            return True
        if space < len(text):
            self.emitter.give_up(calls, "", 0)
            self.state.region = calls.origin
            return True
        return False

    def _begins_other(self, edge: Edge) -> bool:
        to = self.grammar.regions[edge.to]
        return edge.act in BEGINNING or edge.to in _TEXT_BEGINS or _shows(to) is Shows.REASONING

    def _without_begun_call(self, text: str, at: int) -> str:
        """Return the end of an output without a call that begins there: a lone marker, or a call after others.
        An output that is read as it was generated keeps a marker that ends it."""
        rest = text[at:]
        if (
            not self.parser.calls_wanted
            or self.state.calls is not None
            or (self.grammar.uncut and not self.cut)
        ):
            return rest
        held = self.grammar.scanners[self.state.region].search(text, at)
        begun = text[held.start :] if held else ""
        markers = [marker for marker in self.grammar.marker_texts if marker in begun]
        if markers and (self.state.called or begun.strip(WHITESPACE) in markers):
            return rest.removesuffix(begun)
        return rest

    def _add_text(self, region: Region, text: str, tokens: int) -> None:
        calls = self.state.calls
        if calls is not None:
            self.emitter.add_markup(calls, text, tokens)
            if isinstance(region, Value) and isinstance(calls.reading, ValueState):
                result = read_value(
                    calls.reading, text, self._types(calls), self.grammar.texts, whole=self.parser.whole_calls
                )
                calls.reading = result.state
                self.emitter.add_value(calls, result.json)
                if result.state.is_broken:
                    self.emitter.step(calls, Step.REJECT)
                    calls.reading = ValueState("string")
        elif isinstance(region, Text):
            self.emitter.emit_text(region.shows, decode_markers(text, self.grammar.texts))
            self.emitter.count_reasoning(tokens)

    def _follow(self, region: Region, edge: Edge, captures: Mapping[str, str], text: str, at: int) -> None:
        """Follow an edge.

        Args:
            region: The region it leads out of.
            edge: The edge.
            captures: What its pattern captured.
            text: What its pattern matched.
            at: Where.
        """
        state, emitter = self.state, self.emitter
        if state.calls is not None:
            self._end_reading(region, state.calls, captures)
            if edge.act in BEGINNING and isinstance(state.calls.reading, BodyState):
                emitter.emit_preface(state.calls, state.calls.reading.start)
        state.marked |= bool(text)
        if edge.act in BEGINNING:
            origin = edge.origin or state.region
            emitter.begin_markup(
                origin if _shows(self.grammar.regions[origin]) is Shows.REASONING else "content"
            )
        elif text and state.calls is None:
            shows = None if edge.to in _TEXT_BEGINS else _shows(self.grammar.regions[edge.to])
            emitter.end_text(goes_on=shows is not None and shows is _shows(region))
        to = edge.to
        if edge.act is Act.NAME:
            state.next_name = captures["name"]
            if not self.parser.may_call(state.next_name, offered=edge.offered):
                to = edge.otherwise
        if (calls := state.calls) is not None:
            emitter.add_markup(calls, text, self._count(at, at + len(text)))
            to = self._act(edge, calls, captures, text)
        self._enter(to, captures)

    def _act(self, edge: Edge, calls: OpenCalls, captures: Mapping[str, str], text: str) -> str:
        """Do what an edge does, whose pattern matched the text. Returns the region that follows."""
        emitter = self.emitter
        match edge.act:
            case Act.OPEN | Act.OPEN_CLOSE:
                name = captures.get("name") or edge.name or self.state.next_name
                if not emitter.open_call(calls, name, captures.get("id", ""), offered=edge.slip is not None):
                    return "content"
            case Act.PARAMETER:
                key = captures["key"]
                for entity, character in _ENTITIES if edge.entities else ():
                    key = key.replace(entity, character)
                emitter.begin_parameter(calls, key)
            case _:
                pass
        if edge.act in _CLOSING:
            is_text = calls.status is Status.TEXT
            emitter.end_call(calls)
            self._close(calls, edge.to)
            if not is_text and not text.strip(WHITESPACE):
                emitter.keep_space(text)
            if is_text and self.parser.calls_wanted and calls.origin in self.grammar.quotes:
                # The reasoning goes on.
                return calls.origin
        return edge.to

    def _close(self, calls: OpenCalls, to: str) -> None:
        """End markup behind which another region follows."""
        waits = (
            calls.kept and calls.origin in self.grammar.quotes and isinstance(self.grammar.regions[to], Text)
        )
        self.emitter.step(calls, Step.WAIT if waits else Step.CLOSE)

    def _enter(self, name: str, captures: Mapping[str, str]) -> None:
        """Enter a region."""
        region, calls = self.grammar.regions[name], self.state.calls
        if calls is not None:
            calls.reading = None
            match region:
                case Text() if calls.status is not Status.WAITING:
                    # Markup that comes to no end is none. What is quoted in the reasoning does not end it.
                    self.emitter.give_up(calls, "", 0)
                    if _shows(self.grammar.regions[calls.origin]) is Shows.REASONING:
                        name = calls.origin
                case Value():
                    result = begin_value(self._types(calls), region.declared)
                    calls.reading = result.state
                    self.emitter.add_value(calls, result.json)
                case Arguments():
                    calls.reading = region.start
                    if region.start.open:
                        self.emitter.add_arguments(calls, "{")
                case CallObjects():
                    calls.reading = CallObjectsState()
                case Body():
                    calls.reading = BodyState(sum(map(len, calls.raw)), dict(captures))
                case Preface():
                    calls.reading = BodyState(sum(map(len, calls.raw)))
                case _:
                    pass
        self.state.region = name

    def _end_reading(self, region: Region, calls: OpenCalls, captures: Mapping[str, str]) -> None:
        """End the value or the body that a region is."""
        reading = calls.reading
        if isinstance(region, Value) and isinstance(reading, ValueState):
            rest = end_value(reading, self._types(calls), region.declared)
            if rest is None:
                self.emitter.step(calls, Step.REJECT)
            else:
                self.emitter.add_value(calls, rest)
        elif isinstance(region, Body) and isinstance(reading, BodyState):
            self._read_body(region, reading, calls, captures)

    def _types(self, calls: OpenCalls) -> frozenset[str]:
        call = calls.call
        return ANY_TYPE if call is None or call.key is None else self.parser.tools.types(call.name, call.key)

    def _read_body(
        self, region: Body, reading: BodyState, calls: OpenCalls, captures: Mapping[str, str]
    ) -> None:
        if calls.status is not Status.BUFFERED:
            return
        text = decode_markers("".join(calls.raw)[reading.start :], self.grammar.texts)
        try:
            found = region.reader(text, {**captures, **reading.captures}, self.parser.tools)
        except TimeoutError:
            self.timed_out, found = True, None
        if found is None:
            self.emitter.step(calls, Step.REJECT)
        for call in found or ():
            self.emitter.open_call(calls, call.name, call.written_id)
            self.emitter.add_arguments(calls, call.arguments)
            self.emitter.end_call(calls)

    # Regions with an end of their own.

    @property
    def _whole(self) -> bool:
        """Whether the text is the end of an output that was not cut, which may be the beginning of more."""
        return self.final and not self.cut

    def _read_arguments(
        self, region: Arguments, calls: OpenCalls, reading: NotationState, at: int
    ) -> tuple[int, bool]:
        text, texts = self.text, self.grammar.texts
        if reading == START:
            begin = skip_space(text, at)
            self.emitter.add_markup(calls, text[at:begin], self._count(at, begin))
            at = begin
            if at == len(text):
                return at, False
            if text[at] != "{":
                # A marker in place of arguments means that there are none.
                return self._leave(region, calls, at, fault=text[at] not in texts)
        result = read_notation(
            region.notation,
            reading,
            text,
            at,
            markers=texts,
            ends=self.grammar.ends[self.state.region],
            final=self._whole,
        )
        calls.reading = result.state
        self.emitter.add_markup(calls, text[at : result.end], self._count(at, result.end))
        done = result.state.phase == "done"
        # A call in a list that is cut has no end.
        json = result.json.removesuffix("}") if done and region.listed else result.json
        self.emitter.add_arguments(calls, json)
        if done or result.state.phase == "bad":
            return self._leave(region, calls, result.end, fault=not done)
        return result.end, False

    def _read_objects(
        self, region: CallObjects, calls: OpenCalls, reading: CallObjectsState, at: int
    ) -> tuple[int, bool]:
        emitter, text, texts = self.emitter, self.text, self.grammar.texts
        result = read_call_objects(
            reading,
            text,
            at,
            markers=texts,
            known_keys=region.alone or self.grammar.offered_only,
            ends=self.grammar.marker_texts,
            final=self._whole,
        )
        calls.reading = result.state
        emitter.add_markup(calls, text[at : result.end], self._count(at, result.end))
        for found in result.found:
            match found:
                case ObjectName(name, written_id, offered):
                    if not emitter.open_call(calls, name, written_id, offered=offered or region.offered):
                        return self._leave(region, calls, result.end, fault=True)
                case ObjectArguments(json):
                    emitter.add_arguments(calls, json)
                case _:
                    emitter.end_call(calls, listed=region.alone)
        if result.state.phase in ("done", "bad"):
            return self._leave(region, calls, result.end, fault=result.state.phase == "bad")
        return result.end, bool(result.found) and not isinstance(result.found[-1], ObjectArguments)

    def _leave(
        self, region: Arguments | CallObjects, calls: OpenCalls, end: int, *, fault: bool
    ) -> tuple[int, bool]:
        if fault:
            self.emitter.step(calls, Step.REJECT)
        else:
            if isinstance(region, Arguments) and region.listed:
                self.emitter.end_listed_call(calls)
            else:
                self.emitter.end_call(calls, listed=region.alone)
            if region.closes:
                self._close(calls, region.then)
        self._enter(region.otherwise or region.then if fault else region.then, {})
        return end, True


def _shows(region: Region) -> Shows | None:
    return region.shows if isinstance(region, Text) else None


def _is_complete(region: Region, calls: OpenCalls, *, cut: bool) -> bool:
    """Return whether calls are complete if the output ends here."""
    match region:
        case Text():
            return calls.status is Status.WAITING
        case Markup(ends=ends):
            return ends and not (cut and (calls.call or calls.kept or calls.unended))
        case Body():
            return not cut
        case Arguments(closes=True):
            # A call may have no arguments at all.
            return calls.reading == START and not cut
        case _:
            return False
