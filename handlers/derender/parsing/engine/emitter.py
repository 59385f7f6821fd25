"""What parsing emits: text as soon as it may be shown, calls once they are known to be calls."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Final
from zlib import adler32, crc32

from derender.parsing.arguments.literals import escape
from derender.parsing.arguments.values import ValueState
from derender.parsing.characters import WHITESPACE, decode_markers

from .events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning, ReasoningTokens
from .format import Arguments, CallObjects, Shows, Text
from .lifecycle import TRANSITIONS, Effect, Status, Step
from .state import MAX_LEADING_SPACE, Call, OpenCall, OpenCalls

if TYPE_CHECKING:
    from .parser import Parser
    from .state import ParserState

__all__ = ["Emitter"]

MAX_KEYS: Final = 48
"""Maximum number of parameters of a call whose names are remembered when calls are streamed."""
MAX_IDS: Final = 16
"""Maximum number of calls of an answer that keep the ids that the model wrote."""
MAX_BUFFERED: Final = 1000
"""Maximum bytes of the state that a call may take that is kept when calls are streamed."""
_BEGUN: Final = 2
_KEPT: Final = (Status.BUFFERED, Status.WAITING)


class Emitter:
    """Collects the events of one run, and keeps account of them in the state.

    When calls are streamed, the first call is emitted once its arguments have begun.
    """

    __slots__ = ("events", "parser", "state")

    def __init__(self, parser: Parser, state: ParserState) -> None:
        self.parser, self.state = parser, state
        self.events: list[Event] = []

    # Text.

    def emit_text(self, shows: Shows, text: str) -> None:
        """Emit text. White space that comes first waits for what follows, which may be a marker. Text of
        another message goes on in a new line, so that words don't run together."""
        state = self.state
        begins = state.shown != shows
        if begins or state.leading_space:
            text = state.leading_space + text
            waits = len(text) <= MAX_LEADING_SPACE and not text.strip(WHITESPACE)
            state.leading_space = text if waits else ""
            if waits:
                return
        if not text:
            return
        if begins:
            if (state.answered if shows is Shows.CONTENT else state.reasoned) and text[0] not in WHITESPACE:
                text = f"\n{text}"
            state.shown = shows.value
        if shows is Shows.CONTENT:
            state.answered = True
            self.events.append(Content(text))
        else:
            state.reasoned = True
            self.events.append(Reasoning(text))

    def end_text(self, *, goes_on: bool) -> None:
        """End text before a marker. White space that still waits is left out, if not between words.

        Args:
            goes_on: Whether the text goes on after the marker. Otherwise another begins.
        """
        if not goes_on:
            self.state.shown = ""
        if not self.state.shown:
            self.state.leading_space = ""

    def keep_space(self, space: str) -> None:
        """Keep white space after a call that has no end marker. It is the answer's if the answer goes on."""
        if self.state.shown == Shows.CONTENT.value and not self.state.leading_space:
            self.state.leading_space = space[:MAX_LEADING_SPACE]

    def emit_leading_space(self) -> None:
        """Emit the white space of an output that has nothing else."""
        self.events.append(Content(self.state.leading_space))

    def count_reasoning(self, tokens: int) -> None:
        """Count tokens of the reasoning."""
        if tokens:
            self.events.append(ReasoningTokens(tokens))

    # Markup of calls.

    def begin_markup(self, origin: str) -> OpenCalls:
        """Begin markup of calls, unless it has begun.

        Args:
            origin: The region it begins in.
        """
        if self.state.calls is None:
            status = Status.BUFFERED if self.parser.calls_wanted else Status.TEXT
            self.state.calls = OpenCalls(status, origin)
        return self.state.calls

    def add_markup(self, calls: OpenCalls, text: str, tokens: int) -> None:
        """Take text of the markup, as the model wrote it, in which that many tokens begin."""
        if calls.status in _KEPT:
            calls.tokens += tokens
            if text:
                calls.raw.append(text)
                self._stream_if_begun(calls)
        elif calls.status is Status.TEXT:
            self._emit_as_text(calls, text, tokens)

    def step(self, calls: OpenCalls, step: Step) -> None:
        """Move the markup to its next status."""
        effect, status = TRANSITIONS.get((calls.status, step), (Effect.NONE, calls.status))
        match effect:
            case Effect.EMIT:
                self._emit(calls)
            case Effect.RESTORE:
                # Of a streamed call, a value may be kept to see what it is.
                kept = calls.reading.kept if isinstance(calls.reading, ValueState) else ""
                text = "".join(calls.raw) if calls.status in _KEPT else kept
                calls.raw, calls.kept, calls.call, calls.reading = [], [], None, None
                self._emit_as_text(calls, text, calls.tokens)
            case Effect.SALVAGE if not self.state.called:
                self._emit_as_text(calls, "".join(calls.raw), calls.tokens)
            case _:
                pass
        if status is None:
            self.state.calls = None
        else:
            calls.status = status

    def emit_preface(self, calls: OpenCalls, start: int) -> None:
        """Emit the text before the first call of a section, which begins there in the markup, in a new line."""
        if calls.status is Status.BUFFERED:
            self.end_text(goes_on=False)
            text, calls.raw = "".join(calls.raw)[start:], []
            self._emit_as_text(calls, text, calls.tokens)
            calls.tokens = 0

    def give_up(self, calls: OpenCalls, text: str, tokens: int) -> None:
        """End markup that is no call.

        Args:
            calls: The markup.
            text: Text of it that was not taken yet.
            tokens: How many tokens begin in it.
        """
        self.step(calls, Step.REJECT)
        self.add_markup(calls, text, tokens)
        self.step(calls, Step.CLOSE)

    def _emit_as_text(self, calls: OpenCalls, text: str, tokens: int) -> None:
        origin = self.parser.grammar.regions[calls.origin]
        self.emit_text(
            origin.shows if isinstance(origin, Text) else Shows.CONTENT,
            decode_markers(text, self.parser.grammar.texts),
        )
        self.count_reasoning(tokens)

    def _emit(self, calls: OpenCalls) -> None:
        """Emit the calls that are kept, and the open call as far as it is there."""
        if calls.unended:
            self.events.append(CallArguments(self.state.emitted - 1, "}"))
            self._end_call()
            calls.unended = False
        if calls.kept or calls.call:
            self._keep_space(calls)
        for call in calls.kept:
            self._begin_call(call.name, call.written_id, call.arguments)
            self._end_call()
        if calls.call is not None:
            self._begin_call(calls.call.name, calls.call.written_id, "".join(calls.call.arguments))
            calls.call.arguments = []
        calls.raw, calls.kept, calls.tokens = [], [], 0

    def _keep_space(self, calls: OpenCalls) -> None:
        """Keep the white space before a call. It is the answer's if the answer goes on."""
        goes_on = self.state.shown == Shows.CONTENT.value
        if not (goes_on and self.state.leading_space):
            before = calls.raw[0] if goes_on and calls.raw else ""
            space = before[: len(before) - len(before.lstrip(WHITESPACE))]
            self.state.leading_space = space[:MAX_LEADING_SPACE]

    def _begin_call(self, name: str, written_id: str, arguments: str) -> None:
        state, checksum = self.state, crc32(written_id.encode(errors="replace"))
        if checksum in state.written_ids or len(state.written_ids) >= MAX_IDS:
            written_id = ""
        elif written_id:
            state.written_ids.add(checksum)
        call = CallStart(state.emitted, name, written_id, state.lead)
        self.events += [call, CallArguments(call.index, arguments)]
        if (number := call.written_number) is not None:
            state.lead = max(state.lead, number - call.index)
        state.emitted += 1

    def _end_call(self) -> None:
        self.events.append(CallEnd(self.state.emitted - 1))
        self.state.called = True

    def _stream_if_begun(self, calls: OpenCalls) -> None:
        """Stream the open call if its arguments have begun, and it is the first or long.

        A call in the reasoning may be quoted, one that must stand alone may have text behind it, and a later
        call may be cut, so they are kept while they are short.
        """
        call, grammar = calls.call, self.parser.grammar
        # Text before a call's name may be long, and is not looked at again with each piece.
        if self.parser.whole_calls or not (call or calls.kept):
            return
        if call is None:
            if calls.origin not in grammar.quotes and self._is_long(calls):
                self.step(calls, Step.COMPLETE)
            return
        # One character may begin anything.
        if len("".join(call.arguments).strip()) < _BEGUN:
            return
        region = grammar.regions[self.state.region]
        waits = calls.origin in grammar.quotes or (isinstance(region, Arguments | CallObjects) and region.alone)
        if not (self.state.emitted or calls.kept or waits) or self._is_long(calls):
            self.step(calls, Step.STREAM)

    def _is_long(self, calls: OpenCalls) -> bool:
        kept = [part for each in calls.kept for part in (each.name, each.written_id, each.arguments)]
        arguments = calls.call.arguments if calls.call else []
        # About its size as JSON.
        return len(dumps("".join([*calls.raw, *kept, *arguments]))) > MAX_BUFFERED

    # The open call.

    def open_call(self, calls: OpenCalls, name: str, written_id: str, *, offered: bool = False) -> bool:
        """Open a call. Returns whether there may be a call of that name.

        Args:
            calls: The markup.
            name: The tool's name, as the model wrote it. In quotes, it must be that of an offered tool.
            written_id: The id that the model wrote.
            offered: Whether the client must have offered the tool.
        """
        if calls.status is Status.TEXT:
            return True
        self.end_call(calls)
        written, name = name, self.parser.tools.name(name)
        if not self.parser.may_call(name, offered=offered or name != written):
            self.step(calls, Step.REJECT)
            return False
        if self.parser.one_call and (self.state.called or calls.kept or calls.unended):
            self.step(calls, Step.SKIP)
        else:
            calls.call = OpenCall(name, written_id)
        return True

    def begin_parameter(self, calls: OpenCalls, key: str) -> None:
        """Begin a parameter of the open call."""
        call = calls.call
        if call is None:
            return
        key = self.parser.tools.key(call.name, key)
        written = key.encode(errors="replace")
        checksum = crc32(written) << 32 | adler32(written)
        if checksum in call.keys:
            call.key = None
            return
        if self.parser.whole_calls or len(call.keys) < MAX_KEYS:
            call.keys.add(checksum)
        opening = ", " if call.started else "{"
        call.key, call.parameters = key, True
        self.add_arguments(calls, f'{opening}"{escape(key)}": ')

    def add_value(self, calls: OpenCalls, json: str) -> None:
        """Take more of the open parameter's value."""
        if calls.call is not None and calls.call.key is not None:
            self.add_arguments(calls, json)

    def add_arguments(self, calls: OpenCalls, json: str) -> None:
        """Take more of the open call's arguments."""
        call = calls.call
        if call is None or not json:
            return
        call.started = True
        if calls.status is Status.BUFFERED:
            call.arguments.append(json)
            self._stream_if_begun(calls)
        else:
            self.events.append(CallArguments(self.state.emitted - 1, json))

    def end_call(self, calls: OpenCalls, *, listed: bool = False) -> None:
        """End the open call, which is complete.

        Args:
            calls: The markup.
            listed: Whether it counts only once its list has closed.
        """
        if (call := calls.call) is None:
            return
        if not call.started:
            self.add_arguments(calls, "{}")
        elif call.parameters:
            self.add_arguments(calls, "}")
        quotes = calls.origin in self.parser.grammar.quotes
        if calls.status is Status.BUFFERED and (listed or (quotes and not self._is_long(calls))):
            calls.kept.append(Call(call.name, call.written_id, "".join(call.arguments)))
        else:
            self.step(calls, Step.COMPLETE)
            self._end_call()
        calls.call = None

    def end_listed_call(self, calls: OpenCalls) -> None:
        """End the open call of a list, which counts once the list has closed. Its last brace is missing."""
        call, calls.call = calls.call, None
        if call is not None and calls.status is Status.BUFFERED:
            calls.kept.append(Call(call.name, call.written_id, "".join([*call.arguments, "}"])))
        elif call is not None:
            calls.unended = True
            self.step(calls, Step.COMPLETE)
