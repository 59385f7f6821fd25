"""What parsing gives out: text as soon as it may be shown, calls once they are known to be calls."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Final, Literal
from zlib import adler32, crc32

from derender.parsing.arguments.notation import escape

from .events import CallArguments, CallStart, Content, Event, Reasoning
from .format import Yields
from .state import MOST_KEYS, MOST_SPACE, Call, OpenCalls

if TYPE_CHECKING:
    from .machine import Parser
    from .state import ParserState

__all__ = ["Output"]

SPACE: Final = " \t\r\n"
_CALL_SIZE: Final = 30
MOST_KEPT: Final = 1000
"""Bytes of the state that later calls may take where calls are given as they come."""


class _Open:
    """`OpenCalls`, while they are written."""

    __slots__ = ("began", "broken", "kept", "key", "keys", "muted", "name", "raw", "status", "written")

    def __init__(self, state: OpenCalls) -> None:
        self.status: Literal["kept", "given", "text"] = state.status
        self.began = state.began
        self.raw = [state.raw]
        self.kept = [(call.name, call.written_id, [call.arguments]) for call in state.kept]
        self.name, self.key = state.name, state.key
        self.muted, self.broken = state.muted, state.broken
        self.written = state.written
        self.keys = list(state.keys)

    def state(self) -> OpenCalls:
        return OpenCalls(
            status=self.status,
            began=self.began,
            raw="".join(self.raw),
            kept=tuple(Call(name, written_id, "".join(parts)) for name, written_id, parts in self.kept),
            name=self.name,
            muted=self.muted,
            broken=self.broken,
            written=self.written,
            keys=tuple(self.keys),
            key=self.key,
        )


def _size(calls: _Open) -> int:
    """About how long what is kept is as JSON."""
    kept = [part for name, written_id, parts in calls.kept for part in (name, written_id, *parts)]
    return len(dumps("".join([*calls.raw, *kept]))) + _CALL_SIZE * len(calls.kept)


class Output:
    """The events of one run, and what is not given out yet.

    Where calls are given as they come, the first one is given from its name on. A later one is kept while it is
    short: if the output is cut in it, the client has complete calls only.
    """

    __slots__ = ("answered", "calls", "events", "number", "parser", "reasoned", "space")

    def __init__(self, parser: Parser, state: ParserState) -> None:
        self.parser = parser
        self.answered, self.reasoned, self.space = state.answered, state.reasoned, state.space
        self.number = state.number
        self.calls = _Open(state.calls) if state.calls else None
        self.events: list[Event] = []

    # Text

    def content(self, text: str) -> None:
        """Text of the answer."""
        if text := self._begun(text, self.answered):
            self.answered = True
            self.events.append(Content(text))

    def reasoning(self, text: str) -> None:
        """Text of the reasoning."""
        if text := self._begun(text, self.reasoned):
            self.reasoned = True
            self.events.append(Reasoning(text))

    def _begun(self, text: str, begun: bool) -> str:
        """What can be shown: white space that comes first waits for what follows, which may be a marker."""
        if begun:
            return text
        text = self.space + text
        waits = not text.strip(SPACE) and len(text) <= MOST_SPACE
        self.space = text if waits else ""
        return "" if waits else text

    def only_space(self) -> None:
        """An output of nothing but white space."""
        self.events.append(Content(self.space))
        self.space = ""

    def raw(self, text: str) -> None:
        """Text inside the markup of calls, as the model wrote it."""
        calls = self.calls
        if calls is None:
            return
        if calls.status == "kept" and not calls.muted:
            calls.raw.append(text)
            self._keep_short()
        elif calls.status == "text":
            self._give_back(self._as_text(text))

    def _as_text(self, text: str) -> str:
        """Text of what is no call: as the model wrote it, but without markers where no calls are wanted."""
        grammar = self.parser.grammar
        return grammar.with_markers(text) if self.parser.calls_wanted else grammar.without_tokens(text)

    # Calls

    def kept_length(self) -> int:
        """How long the text of the calls is that is kept."""
        return sum(map(len, self.calls.raw)) if self.calls else 0

    def kept_text(self, begin: int) -> str | None:
        """That text, from a place on; None where none is kept."""
        kept = self.calls is not None and self.calls.status == "kept"
        return "".join(self.calls.raw)[begin:] if self.calls and kept else None

    def begin(self, region: str) -> None:
        """The markup of calls begins, in a region. Its text is `raw`."""
        if self.calls is None:
            self.calls = _Open(OpenCalls("kept" if self.parser.calls_wanted else "text", began=region))

    def _give_back(self, text: str) -> None:
        """Text of markup that is no call, to where the markup began."""
        regions = self.parser.grammar.regions
        if self.calls and regions[self.calls.began].yields is Yields.REASONING:
            self.reasoning(text)
        else:
            self.content(text)

    def open(self, name: str, written_id: str) -> bool:
        """A call begins. Returns whether it is one that there may be."""
        calls = self.calls
        if calls is None or calls.status == "text":
            return True
        if self.parser.grammar.offered_only and name not in self.parser.tools:
            self.refuse()
            return False
        calls.name, calls.written, calls.keys, calls.key = name, "", [], ""
        calls.muted = self.parser.one_call and self.number + len(calls.kept) > 0
        if calls.status == "given":
            calls.status = "kept"
        if not calls.muted:
            calls.kept.append((name, written_id, []))
        if not self.parser.whole_calls and not self.number:
            self._give_begun()
        return True

    def _keep_short(self) -> None:
        """Give a later call as it comes, once it is long."""
        calls = self.calls
        if calls and calls.kept and not self.parser.whole_calls and _size(calls) > MOST_KEPT:
            self._give_begun()

    def _give_begun(self) -> None:
        """Give what is kept, though it is not complete."""
        if self.calls is not None:
            self.give()
            self.calls.status = "given"

    def arguments(self, json: str) -> None:
        """More of the open call's arguments."""
        calls = self.calls
        if not json or calls is None or calls.muted or calls.broken:
            return
        calls.written = calls.written or "begun"
        if calls.status == "kept" and calls.kept:
            calls.kept[-1][2].append(json)
            self._keep_short()
        elif calls.status == "given":
            self.events.append(CallArguments(self.number - 1, json))

    def parameter(self, key: str) -> None:
        """A parameter of the open call begins."""
        calls = self.calls
        if calls is None or calls.status == "text":
            return
        written = key.encode(errors="replace")
        checksum = crc32(written) << 32 | adler32(written)
        if checksum in calls.keys:
            calls.key = None
            return
        if self.parser.whole_calls or len(calls.keys) < MOST_KEYS:
            calls.keys.append(checksum)
        before = ", " if calls.written else "{"
        calls.key, calls.written = key, "parameters"
        self.arguments(f'{before}"{escape(key)}": ')

    def end_arguments(self) -> None:
        """The open call's arguments end."""
        calls = self.calls
        if calls is None or calls.status == "text" or not calls.name:
            return
        if not calls.written:
            self.arguments("{}")
        elif calls.written == "parameters":
            self.arguments("}")
        calls.written = "begun"

    def give(self) -> None:
        """What is kept is complete."""
        calls = self.calls
        if calls is None:
            return
        for name, written_id, parts in calls.kept:
            self.events.append(CallStart(self.number, name, written_id))
            if json := "".join(parts):
                self.events.append(CallArguments(self.number, json))
            self.number += 1
        calls.kept = []
        if calls.status != "text":
            calls.status, calls.raw = "kept", []

    def close(self) -> None:
        """The markup of calls ends, and is complete."""
        self.give()
        self.calls = None

    def refuse(self) -> None:
        """What seemed to be a call is none: its text goes back to where it began, if none of it was given."""
        calls = self.calls
        if calls is None:
            return
        calls.broken = True
        if calls.muted:
            # Of those before it nothing is wrong.
            self.give()
        elif calls.status == "kept":
            text, calls.status = "".join(calls.raw), "text"
            calls.raw, calls.kept = [], []
            self._give_back(self._as_text(text))

    def end(self) -> None:
        """The output ends, and what is open is not complete.

        Where no call was given its text goes back to where it began; beside calls, which a client acts on, it
        is left out.
        """
        calls = self.calls
        if calls is not None and calls.status == "kept" and not self.number:
            self._give_back(self.parser.grammar.without_markers("".join(calls.raw)))
        self.calls = None
