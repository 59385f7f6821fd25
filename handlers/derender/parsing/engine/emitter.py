"""What parsing emits: text as soon as it may be shown, calls once they are known to be calls."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Final
from zlib import adler32, crc32

from derender.parsing.arguments.literals import escape
from derender.parsing.characters import WHITESPACE, decode_markers, drop_markers

from .events import CallArguments, CallStart, Content, Event, Reasoning
from .format import Shows, Text
from .lifecycle import TRANSITIONS, Effect, Status, Step
from .state import MAX_LEADING_SPACE, Call, OpenCall, OpenCalls

if TYPE_CHECKING:
    from .parser import Parser
    from .state import ParserState

__all__ = ["Emitter"]

MAX_KEYS: Final = 48
"""Maximum number of parameters of a call whose names are remembered when calls are streamed."""
MAX_BUFFERED: Final = 1000
"""Maximum bytes of the state that later calls may take when calls are streamed."""
_CALL_SIZE: Final = 30


class Emitter:
    """Collects the events of one run, and keeps account of them in the state.

    When calls are streamed, the first call is emitted from its name on. A later call is kept while it is
    short: if the output is cut in it, the client has complete calls only.
    """

    __slots__ = ("events", "parser", "state")

    def __init__(self, parser: Parser, state: ParserState) -> None:
        self.parser, self.state = parser, state
        self.events: list[Event] = []

    # Text.

    def emit_text(self, shows: Shows, text: str) -> None:
        """Emit text. White space that comes first waits for what follows, which may be a marker."""
        state = self.state
        if shows is Shows.CONTENT:
            first, joins = not state.answered, state.answer_joins
        else:
            first, joins = not state.reasoned, state.reasoning_joins
        if first or joins:
            text = state.leading_space + text
            waits = len(text) <= MAX_LEADING_SPACE and not text.strip(WHITESPACE)
            state.leading_space = text if waits else ""
            if waits:
                return
        if not text:
            return
        if joins:
            text = f"{self.parser.grammar.joins}{text}"
        if shows is Shows.CONTENT:
            state.answered, state.answer_joins = True, False
            self.events.append(Content(text))
        else:
            state.reasoned, state.reasoning_joins = True, False
            self.events.append(Reasoning(text))

    def end_message(self) -> None:
        """End a message. Text that follows is another's, and joined to the text before."""
        self.state.answer_joins, self.state.reasoning_joins = self.state.answered, self.state.reasoned

    def emit_leading_space(self) -> None:
        """Emit the white space of an output that has nothing else."""
        self.events.append(Content(self.state.leading_space))

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

    def add_markup(self, calls: OpenCalls, text: str) -> None:
        """Take text of the markup, as the model wrote it."""
        if calls.status is Status.BUFFERED:
            if text:
                calls.raw.append(text)
                self._stream_if_long(calls)
        elif calls.status is Status.TEXT:
            self._restore(calls, text)

    def step(self, calls: OpenCalls, step: Step) -> None:
        """Move the markup to its next status."""
        effect, status = TRANSITIONS.get((calls.status, step), (Effect.NONE, calls.status))
        match effect:
            case Effect.EMIT:
                self._emit(calls)
            case Effect.RESTORE:
                self._restore(calls, "".join(calls.raw))
                calls.raw, calls.kept, calls.call = [], [], None
            case Effect.SALVAGE if not self.state.emitted:
                self._emit_as_text(calls, self.parser.grammar.remove_markers("".join(calls.raw)))
            case _:
                pass
        if status is None:
            self.state.calls = None
        else:
            calls.status = status

    def _restore(self, calls: OpenCalls, text: str) -> None:
        """Emit markup as the text it is: as the model wrote it, or without markers if no calls are wanted."""
        if self.parser.calls_wanted:
            self._emit_as_text(calls, decode_markers(text, self.parser.grammar.texts))
        else:
            self._emit_as_text(calls, drop_markers(text))

    def _emit_as_text(self, calls: OpenCalls, text: str) -> None:
        origin = self.parser.grammar.regions[calls.origin]
        self.emit_text(origin.shows if isinstance(origin, Text) else Shows.CONTENT, text)

    def _emit(self, calls: OpenCalls) -> None:
        """Emit the calls that are kept, and the open call as far as it is there."""
        for call in calls.kept:
            self._emit_call(call.name, call.written_id, call.arguments)
        if calls.call is not None:
            self._emit_call(calls.call.name, calls.call.written_id, "".join(calls.call.arguments))
            calls.call.arguments = []
        calls.raw, calls.kept = [], []

    def _emit_call(self, name: str, written_id: str, arguments: str) -> None:
        self.events.append(CallStart(self.state.emitted, name, written_id))
        if arguments:
            self.events.append(CallArguments(self.state.emitted, arguments))
        self.state.emitted += 1

    def _stream_if_long(self, calls: OpenCalls) -> None:
        if self.parser.whole_calls or not (calls.kept or calls.call):
            return
        kept = [part for call in calls.kept for part in (call.name, call.written_id, call.arguments)]
        count = len(calls.kept)
        if calls.call is not None:
            kept += (calls.call.name, calls.call.written_id, *calls.call.arguments)
            count += 1
        # About its size as JSON.
        if len(dumps("".join([*calls.raw, *kept]))) + _CALL_SIZE * count > MAX_BUFFERED:
            self.step(calls, Step.STREAM)

    # The open call.

    def open_call(self, calls: OpenCalls, name: str, written_id: str) -> bool:
        """Open a call. Returns whether there may be a call of that name."""
        if calls.status is Status.TEXT:
            return True
        self.end_call(calls)
        if self.parser.grammar.offered_only and name not in self.parser.tools:
            self.step(calls, Step.REJECT)
            return False
        if self.parser.one_call and self.state.emitted + len(calls.kept) > 0:
            self.step(calls, Step.SKIP)
            return True
        self.step(calls, Step.OPEN)
        calls.call = OpenCall(name, written_id)
        if not self.parser.whole_calls and not self.state.emitted:
            self.step(calls, Step.STREAM)
        return True

    def begin_parameter(self, calls: OpenCalls, key: str) -> None:
        """Begin a parameter of the open call."""
        call = calls.call
        if call is None:
            return
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
            self._stream_if_long(calls)
        elif calls.status is Status.STREAMED:
            self.events.append(CallArguments(self.state.emitted - 1, json))

    def end_call(self, calls: OpenCalls) -> None:
        """End the open call."""
        if (call := calls.call) is None:
            return
        if not call.started:
            self.add_arguments(calls, "{}")
        elif call.parameters:
            self.add_arguments(calls, "}")
        if calls.status is Status.BUFFERED:
            calls.kept.append(Call(call.name, call.written_id, "".join(call.arguments)))
        calls.call = None
