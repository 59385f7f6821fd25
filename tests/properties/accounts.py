"""Account for what was written: find all of it in what came out, once and in order."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from derender.parsing import CallStart, Content, Reasoning
from derender.parsing.arguments.notation import JSON, START, read_notation
from tests.support.parsers import fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.parsing import Event

    from .broken import Broken

    Span = tuple[int, int]

__all__ = ["find_faults", "is_object"]

_SPACE: Final = " \t\r\n"


def find_faults(output: Broken, events: Sequence[Event], begun: str) -> list[str]:
    """Return what an output's events lose, double, invent or join.

    Args:
        output: The output.
        events: Its events, joined.
        begun: The end of the output that may begin a call. After complete calls it is left out.
    """
    written, markers = _read(output)
    faults = _find_faults(output, events, written, markers)
    begins = len(written) - len(begun)
    called = any(is_object(arguments) for _, arguments in fold(events).calls)
    if faults and called and written.endswith(begun):
        before = [span for span in markers if span[1] <= begins]
        faults = faults * bool(_find_faults(output, events, written[:begins], before))
    return faults


def _find_faults(output: Broken, events: Sequence[Event], written: str, markers: Sequence[Span]) -> list[str]:
    source, calls = output.source, fold(events).calls
    said = "".join(map(_say, events))
    headers = "".join([written[begin:end] for begin, end in _find(source.headers, written)])
    counts = {word: said.count(word) - (word in written) for word in output.words}
    left_out = f"{headers}{_beside_calls(written)}" if min(counts.values(), default=0) < 0 else ""
    faults = [
        f"{word} comes {count} times too often"
        for word, count in counts.items()
        if count and not (count < 0 and word in left_out)
    ]
    # White space after a marker of the prompt belongs to it, as does white space in a header that it begins.
    space = len(written) - len(written.lstrip(_SPACE))
    prompt = b"".join(source.vocabulary.pieces[each] for each in output.prompt).decode()
    marked = any(marker in prompt for marker in source.parsers.markers) or _find(source.tags, prompt)
    begin = [(0, end) for end in range(1, space + 1)] * bool(marked)
    if not _is_aligned(written, [*begin, *markers, *_find(source.tags, written)], events):
        faults.append("the text is not what was written, but for markup and the white space beside it")
    # Words that are joined are nowhere in the output, if not a call, or markers alone, stood between two.
    plain = " ".join(
        "".join([written[begin:end] for begin, end in _between(spans, len(written))])
        for spans in (markers, _find(source.tags, written))
    )
    texts = " ".join(
        "".join([each.text if isinstance(each, kind) else " " * isinstance(each, CallStart) for each in events])
        for kind in (Content, Reasoning)
    )
    new = {word for word in re.findall(r"\w+", texts) if word not in written and word not in plain}
    # Of a call that broke, a client has parts of words.
    if new and all(is_object(arguments) for _, arguments in calls):
        faults.append(f"new words: {new}")
    return faults


def is_object(arguments: str) -> bool:
    """Return whether arguments are a whole JSON object."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        return isinstance(json.loads(arguments, parse_constant=refuse), dict)
    except ValueError:
        return False


def _find(expressions: Sequence[str], text: str) -> list[Span]:
    """Find expressions: the last group of each, or all of it."""
    return [match.span(match.lastindex or 0) for each in expressions for match in re.finditer(each, text)]


def _between(spans: Sequence[Span], size: int) -> list[Span]:
    """Return the spans between spans."""
    begins = [0, *sorted(end for _, end in spans)]
    return list(zip(begins, [*sorted(begin for begin, _ in spans), size], strict=True))


def _beside_calls(written: str) -> str:
    """Return what objects that are calls have besides a name and arguments, which are first of their keys."""
    beside = ""
    for place in range(len(written)):
        if written[place] == "{":
            result = read_notation(JSON, START, written, place, markers={}, final=True)
            if result.state.phase == "done":
                members = json.loads(result.json, object_pairs_hook=list)
                keys = ["arguments" if key == "parameters" else key for key, _ in members]
                if {"name", "arguments"} <= {*keys}:
                    own = (keys.index("name"), keys.index("arguments"))
                    beside += str([member for number, member in enumerate(members) if number not in own])
    return beside


def _say(event: Event) -> str:
    return event.name + event.written_id if isinstance(event, CallStart) else getattr(event, "text", "")


def _read(output: Broken) -> tuple[str, list[Span]]:
    """Return an output with its markers as text, and where they are."""
    source = output.source
    texts = {character: marker for marker, character in source.markers.items()}
    written, spans = "", []
    for character in output.text:
        text = texts.get(character, character)
        if text is not character:
            spans.append((len(written), len(written) + len(text)))
        written += text
    for marker in source.parsers.markers - source.markers.keys():
        spans += [match.span() for match in re.finditer(re.escape(marker), written)]
    return written, spans


def _is_aligned(written: str, markup: Sequence[Span], events: Sequence[Event]) -> bool:
    """Return whether texts are what was written, in order, without markup and white space beside it.

    A call stands for any text. A line break may stand for markup, or begin the text after a call, as may the
    white space before it.
    """
    jumps = _jumps(written, markup)
    size = len(written)

    def jump(places: set[int]) -> set[int]:
        return set().union(*(jumps[place] for place in places))

    places: set[int] = {0}
    called: set[int] = set()
    moved: set[str] = set()
    for event in events:
        if isinstance(event, CallStart):
            before = min(places, default=size)
            # The white space before a call, or between calls.
            moved.add(written[before : size - len(written[before:].lstrip(_SPACE))])
            if called:
                braces = [place for place in range(size) if written[place] in "{["]
                begins = [begin for begin, _ in markup] + braces
                moved |= {written[len(written[:begin].rstrip(_SPACE)) : begin] for begin in begins}
            places = called = set(range(before + 1, size + 1))
        elif isinstance(event, Content | Reasoning):
            for character in event.text:
                landed = jump(places)
                places = {
                    place + 1 for place in {*places, *landed} if place < size and written[place] == character
                }
                if character == "\n":
                    places |= landed | called
                moved = {space[1:] for space in moved if space.startswith(character)}
                called = called if moved else set()
                places |= called
    return size in {*places, *jump(places)}


def _jumps(written: str, markup: Sequence[Span]) -> list[set[int]]:
    """Return for each place those that markup, with white space before and after it, leads to."""
    ends: dict[int, set[int]] = {}
    for begin, end in markup:
        if begin < end:
            ends.setdefault(begin, set()).add(end)
    jumps: list[set[int]] = [set() for _ in range(len(written) + 1)]
    for place in reversed(range(len(written))):
        found = jumps[place]
        if written[place] in _SPACE:
            found |= jumps[place + 1]
        for end in ends.get(place, ()):
            after = len(written) - len(written[end:].lstrip(_SPACE))
            for next_place in range(end, after + 1):
                found |= {next_place, *jumps[next_place]}
    return jumps
