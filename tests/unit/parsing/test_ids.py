"""Ids of tool calls."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from derender.parsing import CallStart, EarlierCalls, call_id, make_seed, read_earlier_calls
from derender.parsing.engine.format import Ids
from derender.parsing.ids import SEED_BYTES

NOTHING: Final = EarlierCalls()


def made(
    ids: Ids,
    *,
    index: int = 0,
    written: str = "",
    request: str = "r",
    prompt: list[int] | None = None,
    choice: int = 0,
    earlier: EarlierCalls = NOTHING,
    lead: int = 0,
) -> str:
    seed = make_seed(request, prompt, earlier)
    call = CallStart(index, "get_weather", written, lead)
    return call_id(ids, call, seed=seed, choice=choice, earlier=earlier)


def conversation(*ids: str) -> EarlierCalls:
    """Return the calls of a conversation with these ids."""
    return read_earlier_calls([{"role": "assistant", "tool_calls": [{"id": name} for name in ids]}])


@pytest.mark.parametrize("written", ["", "abc123DEF", "0"])
def test_openais_ids_ignore_what_the_model_wrote(written: str) -> None:
    assert re.fullmatch(r"call_[0-9a-f]{24}", made(Ids.OPENAI, written=written))


@pytest.mark.parametrize("ids", [Ids.OPENAI, Ids.MISTRAL])
def test_ids_differ_by_what_is_asked_and_by_call(ids: Ids) -> None:
    different = [
        made(ids, request=request, prompt=prompt, choice=choice, index=index, earlier=earlier)
        for request in ("r", "s", "")
        for prompt in ([], [1], [1, 2], [2, 1])
        for choice in (0, 1)
        for index in (0, 1, 2)
        for earlier in (NOTHING, EarlierCalls(1), conversation("a"), conversation("b"), conversation("a", "b"))
    ]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize("ids", [Ids.OPENAI, Ids.MISTRAL, Ids.KIMI])
def test_ids_are_the_same_for_the_same_request(ids: Ids) -> None:
    asked: dict[str, Any] = {"index": 1, "prompt": [1, 2], "choice": 1, "earlier": conversation("b", "a")}
    assert made(ids, **asked) == made(ids, **asked)
    assert made(ids, prompt=None) == made(ids, prompt=[])


@pytest.mark.parametrize("ids", Ids)
@pytest.mark.parametrize("prompt", [True, False], ids=["prompt", "no prompt"])
@pytest.mark.parametrize("written", ["", "0", "aaaaaaaaa"])
def test_no_id_repeats_in_a_conversation_whose_requests_have_one_id(
    ids: Ids, written: str, *, prompt: bool
) -> None:
    """A model may begin again with its ids in each turn."""
    if ids is Ids.KIMI:
        written = written.rstrip("a")
    messages: list[Any] = []
    for turn in range(4):
        earlier = read_earlier_calls(messages)
        calls = [
            made(
                ids,
                index=index,
                written=written if index == 0 else "",
                prompt=[*range(turn)] if prompt else None,
                earlier=earlier,
            )
            for index in range(2)
        ]
        messages.append({"role": "assistant", "tool_calls": [{"id": name} for name in calls]})
        messages += [{"role": "tool", "tool_call_id": name} for name in calls]
    found = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(set(found)) == len(found) == 8


def test_any_request_id_makes_an_id() -> None:
    assert made(Ids.OPENAI, request="\ud800é") != made(Ids.OPENAI, request="é")
    assert made(Ids.OPENAI, earlier=conversation("\ud800é"))


def test_a_seed_has_one_size_however_long_the_prompt() -> None:
    assert len(make_seed("r", [1] * 100_000, conversation(*map(str, range(100))))) == SEED_BYTES


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (None, NOTHING),
        ("text", NOTHING),
        ([None, {}, {"tool_calls": None}, {"tool_calls": 7}], NOTHING),
        (
            [{"tool_calls": [{"id": "a"}]}, {"tool_calls": [{}, None, {"id": 7}]}],
            EarlierCalls(4, frozenset("a")),
        ),
        (
            [{"tool_calls": [{"id": "functions.f:4"}, {"id": "functions.g:1"}, {"id": "functions.f:x"}]}],
            EarlierCalls(3, frozenset({"functions.f:4", "functions.g:1", "functions.f:x"}), 5),
        ),
    ],
)
def test_the_calls_of_a_conversation(messages: Any, expected: EarlierCalls) -> None:
    assert read_earlier_calls(messages) == expected


@pytest.mark.parametrize(
    ("index", "written", "earlier", "number"),
    [
        (0, "", NOTHING, "0"),
        (2, "", NOTHING, "2"),
        (1, "", EarlierCalls(3), "4"),
        (0, "7", NOTHING, "7"),
        pytest.param(0, "0", EarlierCalls(3), "3", id="begun again, after calls with other ids"),
        (0, "4", conversation("functions.get_weather:3"), "4"),
        (1, "007", conversation("functions.get_time:3"), "007"),
        pytest.param(0, "3", conversation("functions.get_weather:3"), "4", id="written before"),
        pytest.param(0, "0", conversation("functions.get_time:3"), "4", id="begun again"),
        pytest.param(0, "0", conversation("a", "functions.f:0"), "2", id="begun again, with other ids"),
        pytest.param(1, "0", NOTHING, "1", id="written for the call before"),
        pytest.param(1, "", conversation("functions.get_weather:6"), "8", id="after a gap"),
        pytest.param(0, "x", NOTHING, "0", id="no number"),
        pytest.param(0, "9" * 5_000, NOTHING, "0", id="too long a number"),
    ],
)
def test_kimis_ids_have_the_models_number_or_count_on(
    index: int, written: str, earlier: EarlierCalls, number: str
) -> None:
    expected = f"functions.get_weather:{number}"
    assert made(Ids.KIMI, index=index, written=written, earlier=earlier) == expected


@pytest.mark.parametrize(
    ("index", "written", "lead", "number"),
    [(1, "", 1, "2"), (1, "1", 1, "2"), (1, "2", 1, "2"), (3, "", 4, "7"), (3, "9", 4, "9")],
)
def test_kimis_ids_count_on_from_the_answers_earlier_calls(
    index: int, written: str, lead: int, number: str
) -> None:
    assert made(Ids.KIMI, index=index, written=written, lead=lead) == f"functions.get_weather:{number}"


def test_mistrals_ids_are_the_models_own() -> None:
    assert made(Ids.MISTRAL, written="abc123DEF", earlier=conversation("abc123DEG")) == "abc123DEF"


@pytest.mark.parametrize("written", ["", "abc123DE", "abc123DEFG", "abc-23DEF", "123456789"])
def test_mistrals_ids_are_made_if_the_models_own_is_malformed_or_an_earlier_calls(written: str) -> None:
    earlier = conversation("123456789")
    name = made(Ids.MISTRAL, written=written, earlier=earlier)
    assert re.fullmatch(r"[0-9A-Za-z]{9}", name)
    assert name == made(Ids.MISTRAL, earlier=earlier) != "123456789"
