"""Stop tokens and stop strings in streams, in any split into chunks."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.api_client import CHAT, COMPLETIONS
from tests.support.models import served
from tests.support.streams import Added, added_up, one_by_one
from tests.support.vocabularies import B

from .support import ASKED, CALL, TOOLS, Local, chunk, ids, logprobs, parsing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from derender.models.model import ServedModel
    from derender.vocabulary import Vocabulary

HELLO, COMMA, WORLD, BANG, EOS, OTHER = B.HELLO, B.COMMA, B.WORLD, B.BANG, B.EOS, B.OTHER_EOS
SENTENCE: Final = (HELLO, COMMA, WORLD, BANG, WORLD)
"""Decodes to "Hello, world! world"."""


@pytest.fixture(scope="module", params=[CHAT, COMPLETIONS])
def path(request: pytest.FixtureRequest) -> Any:
    """The chat or the completions endpoint."""
    return request.param


def splits(token_ids: Sequence[int]) -> Iterator[list[list[int]]]:
    """Yield all splits of ids into chunks, with and without an empty one at the end."""
    for cuts in product((False, True), repeat=len(token_ids) - 1):
        parts: list[list[int]] = [[token_ids[0]]]
        for cut, token_id in zip(cuts, token_ids[1:], strict=True):
            if cut:
                parts.append([])
            parts[-1].append(token_id)
        yield parts
        yield [*parts, []]


def streamed(
    model: ServedModel, path: str, parts: Sequence[Sequence[int]], client: dict[str, Any], **last: Any
) -> list[dict[str, Any]]:
    """Return the chunks of an answer. The last generate chunk ends it."""
    chunks = [chunk(part, logprobs=logprobs(part)) for part in parts]
    chunks[-1]["choices"][0] |= {"finish_reason": "stop", **last}
    return one_by_one(Local(model).post, path, {ASKED[path]: {"return_token_ids": True, **client}}, chunks)


def all_say(
    model: ServedModel, path: str, token_ids: Sequence[int], client: dict[str, Any], **last: Any
) -> Added:
    """Return what a stream adds up to, for any split."""
    first, *others = (
        added_up(streamed(model, path, parts, client, **last))[0] for parts in splits(list(map(int, token_ids)))
    )
    for other in others:
        assert other == first
    return first


@pytest.mark.parametrize(
    ("stop", "options", "text", "reason"),
    [
        pytest.param(["world"], {}, "Hello, ", "world", id="a stop string"),
        pytest.param("!", {}, "Hello, world", "!", id="a single one"),
        pytest.param(["lo, wo"], {}, "Hel", "lo, wo", id="over several tokens"),
        pytest.param(["world"], {"include_stop_str_in_output": True}, "Hello, world", "world", id="kept"),
        pytest.param(["world! w", "!"], {}, "Hello, world", "!", id="the one that is complete first"),
        pytest.param(["orld", "world"], {}, "Hello, w", "orld", id="of two that end together the first listed"),
        pytest.param(["world", "orld"], {}, "Hello, ", "world", id="the other way round"),
        pytest.param(["never"], {}, "Hello, world! world", None, id="none"),
        pytest.param(["world!!"], {}, "Hello, world! world", None, id="the beginning of one"),
        pytest.param([" worldx"], {}, "Hello, world! world", None, id="the beginning of one at the end"),
        pytest.param(["world"], {"min_tokens": 2}, "Hello, ", "world", id="past the least tokens"),
        pytest.param(["world"], {"min_tokens": 3}, "Hello, world! ", "world", id="not within the least tokens"),
        pytest.param(["world!"], {"min_tokens": 3}, "Hello, ", "world!", id="begun within the least tokens"),
        pytest.param(["world"], {"min_tokens": 9}, "Hello, world! world", None, id="all within them"),
        pytest.param(["Hello"], {}, "", "Hello", id="at the very beginning"),
    ],
)
def test_text_ends_at_a_stop_string(
    tiny: ServedModel, path: str, stop: object, options: dict[str, Any], text: str, reason: str | None
) -> None:
    said = all_say(tiny, path, SENTENCE, {"stop": stop, **options})
    assert (said.content, said.stop_reason, said.finish_reason) == (text, reason, "stop")


def test_nothing_is_shown_after_a_stop_string(tiny: ServedModel, path: str) -> None:
    chunks = streamed(tiny, path, [[token_id] for token_id in map(int, SENTENCE)], {"stop": ["rld!"]})
    shown = [_text(each) for each in chunks]
    assert shown == ["Hello", ",", " wo", "", ""]
    reasons = [(each["choices"][0]["finish_reason"], each["choices"][0]["stop_reason"]) for each in chunks]
    assert reasons == [(None, None)] * 3 + [(None, "rld!"), ("stop", "rld!")]
    assert added_up(chunks)[0].token_ids == list(SENTENCE[:4])


def _text(each: dict[str, Any]) -> str:
    (choice,) = each["choices"]
    text: str = choice["text"] if "text" in choice else choice["delta"]["content"] or ""
    return text


def test_ids_and_log_probabilities_end_with_the_token_that_completes_the_stop_string(
    tiny: ServedModel, path: str
) -> None:
    said = all_say(tiny, path, SENTENCE, {"stop": ["wor"], "logprobs": 0 if path == COMPLETIONS else True})
    assert said.token_ids == [HELLO, COMMA, WORLD]
    assert len(said.logprobs["content" if path == CHAT else "tokens"]) == 3


def test_a_stop_string_ends_the_output_for_any_finish_reason(tiny: ServedModel, path: str) -> None:
    """The engine does not see the text and goes on."""
    for last in ({"finish_reason": "length"}, {"finish_reason": "stop", "stop_reason": int(WORLD)}):
        said = all_say(tiny, path, SENTENCE, {"stop": ["!"]}, **last)
        assert (said.content, said.finish_reason, said.stop_reason) == ("Hello, world", "stop", "!")


def test_a_reported_stop_string_is_cut_from_text_not_sent_yet(tiny: ServedModel, path: str) -> None:
    chunks = streamed(tiny, path, [SENTENCE[:3], SENTENCE[3:]], {}, stop_reason="! wor")
    said = added_up(chunks)[0]
    assert (said.content, said.stop_reason) == ("Hello, world", "! wor")
    said = added_up(streamed(tiny, path, [SENTENCE], {"stop": ["Hello"]}, stop_reason="Hello"))[0]
    assert (said.content, said.stop_reason) == ("", "Hello")


def test_text_that_may_become_a_stop_string_is_held(tiny: ServedModel, path: str) -> None:
    chunks = streamed(tiny, path, [[HELLO], [COMMA], [WORLD], [BANG]], {"stop": [", world?"]})
    assert [_text(each) for each in chunks] == ["Hello", "", "", ", world!"]


def test_a_character_of_several_tokens_may_complete_a_stop_string(tiny: ServedModel, path: str) -> None:
    said = all_say(tiny, path, [HELLO, B.FIRST_2_OF_GRIN, B.LAST_2_OF_GRIN, BANG], {"stop": ["😀"]})
    assert (said.content, said.stop_reason, len(said.token_ids)) == ("Hello", "😀", 3)


# --- stop tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "client", "engine", "text", "reason"),
    [
        pytest.param(EOS, {}, {}, "Hello!", None, id="primary EOS"),
        pytest.param(OTHER, {}, {}, "Hello!", OTHER, id="another EOS"),
        pytest.param(WORLD, {"stop_token_ids": [int(WORLD)]}, {}, "Hello!", WORLD, id="requested"),
        pytest.param(
            WORLD,
            {"stop_token_ids": [int(WORLD)]},
            {"finish_reason": "length"},
            "Hello! world",
            None,
            id="requested, at the limit",
        ),
        pytest.param(
            WORLD,
            {"stop_token_ids": [int(WORLD)], "include_stop_str_in_output": True},
            {},
            "Hello! world",
            WORLD,
            id="kept",
        ),
        pytest.param(
            EOS,
            {"ignore_eos": True, "skip_special_tokens": False},
            {},
            "Hello!<|end|>",
            None,
            id="ignored and shown",
        ),
        pytest.param(
            EOS, {"skip_special_tokens": False}, {"stop_reason": int(EOS)}, "Hello!", None, id="reported EOS"
        ),
    ],
)
def test_a_stop_token_is_left_out_in_any_split(
    tiny: ServedModel,
    path: str,
    last: int,
    client: dict[str, Any],
    engine: dict[str, Any],
    text: str,
    reason: int | None,
) -> None:
    """The finish may come in a chunk of its own."""
    said = all_say(tiny, path, [HELLO, BANG, last], client, **engine)
    assert (said.content, said.stop_reason) == (text, reason)
    assert said.token_ids == [HELLO, BANG, last]


def test_a_stop_token_in_the_middle_is_text(tiny: ServedModel, path: str) -> None:
    said = all_say(tiny, path, [WORLD, HELLO, WORLD, BANG], {"stop_token_ids": [int(WORLD)]})
    assert said.content == " worldHello world!"


def test_stop_strings_and_stop_tokens_combine(tiny: ServedModel, path: str) -> None:
    client = {"stop_token_ids": [int(BANG)], "stop": ["ld!"]}
    assert all_say(tiny, path, [HELLO, WORLD, BANG], client).content == "Hello world"
    said = all_say(tiny, path, [WORLD, BANG, HELLO], client)
    assert (said.content, said.stop_reason, said.token_ids) == (" wor", "ld!", [WORLD, BANG])


# --- with parsers ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> ServedModel:
    """Return a model of bytes and markers, with parsers."""
    return parsing()


@pytest.mark.parametrize(
    ("output", "stop", "content", "reasoning", "calls"),
    [
        pytest.param("<think>hm</think>Hi END more", "END", "Hi ", "hm", [], id="in the answer"),
        pytest.param("<think>hm END more</think>Hi", "END", "", "hm ", [], id="in the reasoning"),
        pytest.param(f"Hi\n{CALL}", "<tool_call>", "Hi\n", "", [], id="a marker"),
        pytest.param(f"Hi\n{CALL}", "ool_call>", "Hi\n<t", "", [], id="a part of a marker"),
        pytest.param(
            f"{CALL}\n{CALL}",
            "</tool_call>\n<",
            "",
            "",
            [("get_weather", '{"city": "Zürich"}')],
            id="after a call",
        ),
    ],
)
def test_stop_strings_are_found_in_markup(
    model: ServedModel, output: str, stop: str, content: str, reasoning: str, calls: list[tuple[str, str]]
) -> None:
    token_ids = ids(model, output)
    for size in (1, 2, 7, len(token_ids)):
        parts = [token_ids[begin : begin + size] for begin in range(0, len(token_ids), size)]
        said = added_up(streamed(model, CHAT, parts, {"stop": [stop], "tools": TOOLS}))[0]
        assert (said.content, said.reasoning, [call[1:] for call in said.calls]) == (content, reasoning, calls)
        assert (said.finish_reason, said.stop_reason) == ("tool_calls" if calls else "stop", stop)


@pytest.mark.parametrize(
    ("output", "client", "finish", "expected"),
    [
        pytest.param(CALL, {"stop": ["Z"]}, "stop", "stop", id="a stop string"),
        pytest.param(CALL[:65], {}, "stop", "stop", id="the end of the output"),
        pytest.param(CALL[:65], {}, "length", "length", id="the length"),
        pytest.param(CALL, {}, "stop", "tool_calls", id="complete"),
    ],
)
def test_a_cut_call_does_not_finish_with_tool_calls(
    model: ServedModel, output: str, client: dict[str, Any], finish: str, expected: str
) -> None:
    """Some of its arguments have been sent already."""
    parts = [[token_id] for token_id in ids(model, output)]
    said = added_up(streamed(model, CHAT, parts, {"tools": TOOLS, **client}, finish_reason=finish))[0]
    assert ([call[1] for call in said.calls], said.finish_reason) == (["get_weather"], expected)


def test_a_stop_string_releases_what_a_parser_holds(model: ServedModel) -> None:
    chunks = [chunk(ids(model, "a <tool END")), chunk(ids(model, "more"))]
    first, second = one_by_one(Local(model).post, CHAT, {"chat_request": {"stop": " END"}}, chunks)
    assert _text(first) == "a <tool"
    assert first["choices"][0]["stop_reason"] == " END"
    assert _text(second) == ""


@pytest.fixture(scope="module")
def library_model(compiled: Any) -> ServedModel:
    """Return a model that the `tokenizers` library decodes."""
    vocabulary: Vocabulary = compiled("word-piece")[0]
    return served(vocabulary)


def test_stop_strings_are_found_with_the_library(library_model: ServedModel, path: str, compiled: Any) -> None:
    token_ids = compiled("word-piece")[1].encode("hello world hello", add_special_tokens=False).ids
    said = all_say(library_model, path, token_ids, {"stop": ["o w"]})
    assert (said.content, said.stop_reason) == ("hell", "o w")
