"""Outputs that models write and their templates don't: markers that are missing, doubled, quoted or broken."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from derender.parsing import load_parsers
from tests.support.deliveries import DELIVERIES, Chat, Delivery
from tests.unit.parsing.support import encode, marked_vocabulary, marker_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Vocabulary
    from tests.support.streams import Added

__all__ = ["CASES", "Case", "Right", "find_faults"]

CONTROL: Final = ("<eos>", "<|im_start|>", "<｜Assistant｜>")
"""Special tokens that are no markers: what ends an output, and what begins the model's message."""


class Right(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What is right. What is None is not judged.

    Attributes:
        content: The content.
        reasoning: The reasoning.
        calls: Names and arguments of the calls. Those whose arguments are cut or broken don't count.
        finish_reason: The finish reason.
        kept: Words that a stream must not lose after it has sent the beginning of a call. Whole answers and
            streams of complete calls lose no word at all.
        words_apart: Whether every word of the output is a word of the message.
        as_written: Whether the content is the end of the output, to the letter, or empty.
        deliveries: Where it is judged.
    """

    content: str | None = None
    reasoning: str | None = None
    calls: list[tuple[str, dict[str, Any]]] | None = None
    finish_reason: str | None = None
    kept: list[str] | None = None
    words_apart: bool = False
    as_written: bool = False
    deliveries: tuple[Delivery, ...] = DELIVERIES


class Case(Struct, forbid_unknown_fields=True, kw_only=True, dict=True, omit_defaults=True):
    """An output, and what it must become.

    Attributes:
        id: The case's name.
        kind: What is odd about the output.
        parsers: Names of the tool-call and the reasoning parser.
        prompt: The end of the prompt, if it is known.
        request: The fields of the client's request that parsing depends on.
        output: The output. Each marker in it is a token.
        finish_reason: The generate server's finish reason.
        right: What it must become.
    """

    id: str
    kind: str
    parsers: tuple[str | None, str | None]
    prompt: str | None
    request: dict[str, Any]
    output: str
    finish_reason: str
    right: Right

    def answer(self, delivery: Delivery, sizes: Sequence[int] | None = None) -> Added:
        """Return what a client gets.

        Args:
            delivery: How it is delivered.
            sizes: Numbers of ids in the chunks of a stream. The last chunk has the rest. By default each chunk
                has one.
        """
        if delivery == "whole":
            return self._chat.whole(self.ids, self.finish_reason).message
        chunks, begin = [], 0
        for size in (*([1] * len(self.ids) if sizes is None else sizes), len(self.ids)):
            chunks.append(self.ids[begin : begin + size])
            begin += size
        return self._chat.streamed(delivery, chunks, self.finish_reason).message

    @cached_property
    def ids(self) -> list[int]:
        """The output's ids: bytes and markers."""
        return encode(self._vocabulary, self.output)

    @cached_property
    def unmarked(self) -> str:
        """The output with spaces in place of its markers."""
        return re.sub("|".join(map(re.escape, self._vocabulary.added_tokens())), " ", self.output)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return marked_vocabulary(sorted(marker_texts(*self.parsers)), CONTROL)

    @cached_property
    def _chat(self) -> Chat:
        prompt = None if self.prompt is None else encode(self._vocabulary, self.prompt)
        return Chat(self._vocabulary, load_parsers(self._vocabulary, *self.parsers), self.request, prompt)


def _read(line: str) -> Case:
    return msgspec.json.decode(line, type=Case)


CASES: Final = tuple(
    map(_read, Path(__file__).with_name("cases.jsonl").read_text(encoding="utf-8").splitlines())
)


def find_faults(case: Case, delivery: Delivery, answer: Added) -> list[str]:
    """Return what is wrong with an answer.

    Args:
        case: The case.
        delivery: How the answer was delivered.
        answer: The answer.
    """
    right, found = case.right, []
    calls = [(name, read) for _, name, arguments in answer.calls if (read := _object(arguments)) is not None]
    for field, value, expected in (
        ("content", answer.content, right.content),
        ("reasoning", answer.reasoning, right.reasoning),
        ("calls", _dumps(calls), None if right.calls is None else _dumps(right.calls)),
        ("finish_reason", answer.finish_reason, right.finish_reason),
    ):
        if expected is not None and value != expected:
            found.append(f"{field} is {value!r}, not {expected!r}")
    if delivery != "fragments" and len(calls) < len(answer.calls):
        found.append(f"a call is incomplete: {answer.calls}")
    said = _words(answer.content) + _words(answer.reasoning)
    if right.kept is not None:
        sent = said + _words(" ".join(each for call in answer.calls for each in call))
        kept = Counter(right.kept) if delivery == "fragments" else _words(case.unmarked)
        if lost := kept - sent:
            found.append(f"lost: {list(lost.elements())}")
    if right.words_apart and said != (written := _words(case.unmarked)):
        found.append(f"the words are {list(said.elements())}, not {list(written.elements())}")
    if right.as_written and not case.output.endswith(answer.content):
        found.append(f"content is {answer.content!r}, which the model did not write")
    return found


def _object(arguments: str) -> dict[str, Any] | None:
    try:
        value = json.loads(arguments)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text))
