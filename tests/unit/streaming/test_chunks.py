"""The chunks of the answer to each generate chunk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api_client import CHAT, COMPLETIONS
from tests.support.models import served
from tests.support.streams import added_up, at_once, one_by_one
from tests.support.vocabularies import B, S

from .support import ASKED, CALL, CREATED, TOOLS, Local, chunk, ids, logprobs, parsing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.models.model import ServedModel
    from derender.vocabulary import Vocabulary
    from tests.support.api_client import Client

HELLO, COMMA, WORLD, BANG, EOS, OTHER = B.HELLO, B.COMMA, B.WORLD, B.BANG, B.EOS, B.OTHER_EOS
both = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])


@pytest.fixture(scope="module")
def model() -> ServedModel:
    """Return a model of bytes and markers, with parsers."""
    return parsing()


def answer(model: ServedModel, path: str, chunks: Sequence[object], **request: Any) -> list[dict[str, Any]]:
    """Send chunks one by one and return those of the answer."""
    return one_by_one(Local(model).post, path, request, chunks)


def deltas(chunks: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the chunks' texts or deltas."""
    (*choices,) = (choice for each in chunks for choice in each["choices"])
    return [choice["text"] if "text" in choice else choice["delta"] for choice in choices]


# --- the form of a chunk --------------------------------------------------------------------------------------


def test_a_chat_chunk_has_every_field(client: Client) -> None:
    before = int(time.time())
    body = {"stream": True, "generate_chunk": chunk([HELLO]), "stream_state": None, "model": "small"}
    answered = client.chat(body).json
    created = answered["chunk"].pop("created")
    assert before <= created <= time.time()
    assert answered["chunk"] == {
        "id": "gen-1",
        "object": "chat.completion.chunk",
        "model": "small",
        "choices": [
            {
                "index": 0,
                "delta": {"role": "assistant", "content": "Hello", "reasoning": None},
                "logprobs": None,
                "finish_reason": None,
                "stop_reason": None,
                "token_ids": None,
                "routed_experts": None,
                "weight_versions": None,
            }
        ],
        "usage": None,
        "system_fingerprint": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "metrics": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
    }
    assert answered["stream_state"].keys() == {"version", "data", "signature"}


def test_a_completion_chunk_has_every_field(client: Client) -> None:
    body = {"stream": True, "generate_chunk": chunk([HELLO]), "stream_state": None}
    answered = client.completions(body).json
    del answered["chunk"]["created"]
    assert answered["chunk"] == {
        "id": "gen-1",
        "object": "text_completion",
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "text": "Hello",
                "logprobs": None,
                "finish_reason": None,
                "stop_reason": None,
                "prompt_token_ids": None,
                "token_ids": None,
                "routed_experts": None,
                "weight_versions": None,
            }
        ],
        "usage": None,
        "system_fingerprint": None,
        "metrics": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
    }


def test_the_role_is_in_the_first_chunk_of_each_choice(tiny: ServedModel) -> None:
    chunks = [
        {"request_id": "gen-1", "choices": []},
        chunk([]),
        chunk([HELLO]),
        chunk([BANG], index=1),
        chunk([BANG]),
    ]
    said = deltas(answer(tiny, CHAT, chunks))
    assert [(delta["role"], delta["content"]) for delta in said] == [
        ("assistant", None),
        (None, "Hello"),
        ("assistant", "!"),
        (None, "!"),
    ]


@both
def test_a_chunk_without_text_has_an_empty_delta(tiny: ServedModel, path: str) -> None:
    nothing = {"role": None, "content": None, "reasoning": None} if path == CHAT else ""
    for token_ids in ([], None, [B.FIRST_2_OF_GRIN], [B.PAD]):
        assert deltas(answer(tiny, path, [chunk([HELLO]), chunk(token_ids)]))[1] == nothing


@both
def test_a_character_comes_with_its_last_token(tiny: ServedModel, path: str) -> None:
    chunks = [chunk([HELLO]), chunk([B.FIRST_2_OF_GRIN]), chunk([B.LAST_2_OF_GRIN], "stop")]
    answered = answer(tiny, path, chunks)
    assert added_up(answered)[0].content == "Hello😀"
    said = deltas(answered)[2]
    assert (said["content"] if path == CHAT else said) == "😀"


@both
def test_all_chunks_have_the_same_time_and_id(tiny: ServedModel, path: str) -> None:
    local = Local(tiny)
    first = chunk([HELLO])
    del first["request_id"]
    _, begun = local.post(path, {"stream": True, "generate_chunk": first})
    _, next_one = local.post(
        path, {"stream": True, "generate_chunk": {**first}, "stream_state": begun["stream_state"]}
    )
    assert begun["chunk"]["created"] == next_one["chunk"]["created"] == CREATED
    assert begun["chunk"]["id"] == next_one["chunk"]["id"]
    assert len(begun["chunk"]["id"]) == 32


# --- usage, and what is passed on -----------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("prompt_tokens", "sent", "expected"),
    [
        pytest.param(None, None, None, id="not counted"),
        pytest.param(7, None, None, id="not counted, the prompt's length known"),
        pytest.param(
            None, {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 9}, (3, 2, 5), id="counted"
        ),
        pytest.param(7, {"prompt_tokens": 3, "completion_tokens": 2}, (7, 2, 9), id="the request's prompt"),
        pytest.param(0, {"prompt_tokens": 3, "completion_tokens": None}, (0, 0, 0), id="none"),
        pytest.param(None, {}, (0, 0, 0), id="empty"),
    ],
)
def test_usage_is_the_generate_servers(
    tiny: ServedModel, path: str, prompt_tokens: int | None, sent: object, expected: tuple[int, ...] | None
) -> None:
    chunks = [{"request_id": "gen-1", "choices": [], "usage": sent}, {**chunk([HELLO]), "usage": sent}]
    for each in answer(tiny, path, chunks, prompt_tokens=prompt_tokens):
        usage = each["usage"]
        if expected is None:
            assert usage is None
        else:
            assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == expected


@both
def test_chunks_with_usage_only_may_come_at_any_time(tiny: ServedModel, path: str) -> None:
    only_usage = {"request_id": "gen-1", "choices": [], "usage": {"prompt_tokens": 1}}
    chunks = [only_usage, chunk([HELLO]), only_usage, chunk([BANG], "stop"), only_usage]
    answered = answer(tiny, path, chunks)
    assert [len(each["choices"]) for each in answered] == [0, 1, 0, 1, 0]
    assert added_up(answered)[0].content == "Hello!"
    assert [each["usage"] is not None for each in answered] == [True, False, True, False, True]


@both
def test_fields_of_the_engine_are_passed_on(tiny: ServedModel, path: str) -> None:
    carried = {"kv_transfer_params": {"a": [1]}, "ec_transfer_params": 1.5, "metrics": {"b": None}}
    (said,) = answer(tiny, path, [{**chunk([HELLO], routed_experts="x", weight_versions=[1]), **carried}])
    assert {name: said[name] for name in carried} == carried
    assert said["choices"][0]["routed_experts"] == "x"
    assert said["choices"][0]["weight_versions"] == [1]


@both
def test_ids_are_returned_if_requested(tiny: ServedModel, path: str) -> None:
    chunks = [{**chunk([HELLO, WORLD]), "prompt_token_ids": [7, 8]}, chunk([], "stop")]
    first, last = answer(tiny, path, chunks, **{ASKED[path]: {"return_token_ids": True}})
    assert first["choices"][0]["token_ids"] == [HELLO, WORLD]
    assert last["choices"][0]["token_ids"] == []
    assert (first if path == CHAT else first["choices"][0])["prompt_token_ids"] == [7, 8]
    assert (last if path == CHAT else last["choices"][0])["prompt_token_ids"] is None


# --- the prompt -----------------------------------------------------------------------------------------------


@both
def test_the_prompt_is_read_with_the_first_chunk_only(stripping_vocabulary: Vocabulary, path: str) -> None:
    model, local = served(stripping_vocabulary), Local(served(stripping_vocabulary))
    chunks = [chunk([S.HELLO]), chunk([S.WORLD], "stop")]
    assert added_up(answer(model, path, chunks))[0].content == "Hello world"
    for first in ({"prompt_token_ids": [int(S.BANG)]}, {}):
        generated = chunks[0] if first else {**chunks[0], "prompt_token_ids": [int(S.BANG)]}
        _, begun = local.post(path, {"stream": True, "generate_chunk": generated, **first})
        body = {"stream": True, "generate_chunk": chunks[1], "stream_state": begun["stream_state"]}
        assert deltas([begun["chunk"]])[0] in (
            " Hello",
            {"role": "assistant", "content": " Hello", "reasoning": None},
        )
        assert local.post(path, body) == local.post(path, {**body, "prompt_token_ids": [int(S.BANG)]})


def test_a_choice_that_begins_later_continues_the_prompt(stripping_vocabulary: Vocabulary) -> None:
    local = Local(served(stripping_vocabulary))
    first = {"stream": True, "generate_chunk": chunk([S.HELLO]), "prompt_token_ids": [int(S.BANG)]}
    _, begun = local.post(COMPLETIONS, first)
    later = {"stream": True, "generate_chunk": chunk([S.HELLO], index=5), "stream_state": begun["stream_state"]}
    _, answered = local.post(COMPLETIONS, later)
    assert answered["chunk"]["choices"][0]["text"] == " Hello"


def test_a_prompt_may_come_before_any_choice(stripping_vocabulary: Vocabulary) -> None:
    chunks = [{**chunk(), "choices": [], "prompt_token_ids": [int(S.BANG)]}, chunk([S.HELLO])]
    answered = answer(served(stripping_vocabulary), COMPLETIONS, chunks)
    assert deltas(answered) == [" Hello"]


# --- several choices ------------------------------------------------------------------------------------------


@both
def test_choices_may_share_a_state_in_any_order(tiny: ServedModel, path: str) -> None:
    streams = {
        0: [chunk([B.FIRST_2_OF_GRIN]), chunk([B.LAST_2_OF_GRIN]), chunk([], "length")],
        1: [chunk([HELLO], index=1), chunk([WORLD, EOS], "stop", index=1)],
        7: [chunk([0xC3], index=7), chunk([0xA9], "stop", index=7)],
    }
    order = [0, 1, 7, 0, 7, 1, 0]
    queues = {index: iter(chunks) for index, chunks in streams.items()}
    mixed = added_up(answer(tiny, path, [next(queues[index]) for index in order]))
    assert [mixed[index].content for index in (0, 1, 7)] == ["😀", "Hello world", "é"]
    assert [mixed[index].finish_reason for index in (0, 1, 7)] == ["length", "stop", "stop"]
    for index, chunks in streams.items():
        assert added_up(answer(tiny, path, chunks))[index] == mixed[index]


# --- log probabilities ----------------------------------------------------------------------------------------


def test_logprobs_continue_the_tokens_of_earlier_chunks(tiny: ServedModel) -> None:
    parts = [[HELLO], [B.FIRST_2_OF_GRIN], [B.LAST_2_OF_GRIN, BANG]]
    chunks = [chunk(part, logprobs=logprobs(part, B.LAST_2_OF_GRIN)) for part in parts]
    said = added_up(answer(tiny, CHAT, chunks))[0]
    entries = said.logprobs["content"]
    assert [entry["token"] for entry in entries] == ["Hello", "", "😀", "!"]
    assert [each["token"] for each in entries[2]["top_logprobs"]] == ["😀", "😀"]
    assert entries[1]["bytes"] == [0xF0, 0x9F]


@pytest.mark.parametrize("without", [None, 0, 1, 2])
def test_text_offsets_run_on_across_chunks(tiny: ServedModel, without: int | None) -> None:
    """A chunk may have no logprobs."""
    parts = [[HELLO, COMMA], [B.FIRST_2_OF_GRIN], [B.LAST_2_OF_GRIN, BANG], [EOS]]
    chunks = [
        chunk(part, None, **({} if place == without else {"logprobs": logprobs(part)}))
        for place, part in enumerate(parts)
    ]
    offsets: list[Any] = [[0, 5], [6], [6, 7], [8]]
    tokens: list[Any] = [["Hello", ","], [""], ["😀", "!"], ["<|end|>"]]
    for place, each in enumerate(answer(tiny, COMPLETIONS, chunks)):
        written = each["choices"][0]["logprobs"]
        if place == without:
            assert written is None
        else:
            assert (written["text_offset"], written["tokens"]) == (offsets[place], tokens[place])


def test_the_requested_candidates_are_kept(tiny: ServedModel) -> None:
    part = chunk([HELLO], logprobs=logprobs([HELLO], WORLD, BANG))
    for path, client, count in (
        (CHAT, {"logprobs": True, "top_logprobs": 2}, 2),
        (CHAT, {"logprobs": True}, 0),
        (CHAT, {}, 3),
    ):
        (said,) = answer(tiny, path, [part], chat_request=client)
        assert len(said["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == count
    (said,) = answer(tiny, COMPLETIONS, [part], completion_request={"logprobs": 1})
    assert said["choices"][0]["logprobs"]["top_logprobs"] == [{"Hello": -0.5, " world": -1.5}]


@both
def test_logprobs_without_entries_are_empty(tiny: ServedModel, path: str) -> None:
    given: dict[str, Any]
    for given in ({}, {"content": None}, {"content": []}):
        (said,) = answer(tiny, path, [chunk([HELLO], logprobs=given)])
        written = said["choices"][0]["logprobs"]
        if path == CHAT:
            assert written == {"content": given.get("content")}
        else:
            assert written == {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}


# --- parsers --------------------------------------------------------------------------------------------------


def test_reasoning_content_and_calls_are_streamed(model: ServedModel) -> None:
    output = f"<think>\nhm</think>\n\nSure.\n{CALL}<eos>"
    chunks = [chunk([token_id]) for token_id in ids(model, output)]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    answered = answer(model, CHAT, chunks, chat_request={"tools": TOOLS})
    said = added_up(answered)[0]
    (call,) = said.calls
    assert (said.reasoning, said.content) == ("hm", "Sure.")
    assert call[1:] == ("get_weather", '{"city": "Zürich"}')
    assert said.finish_reason == "tool_calls"
    entries = [entry for delta in deltas(answered) for entry in delta.get("tool_calls", ())]
    assert entries[0] == {
        "index": 0,
        "id": call[0],
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"'},
    }
    assert entries[1] == {"index": 0, "function": {"arguments": "c"}}
    assert len(entries) > 10


def test_a_chunk_may_have_reasoning_content_and_calls(model: ServedModel) -> None:
    output = f"<think>hm</think>Sure.\n{CALL}\n{CALL}<eos>"
    (said,) = answer(model, CHAT, [chunk(ids(model, output), "stop")], chat_request={"tools": TOOLS})
    (delta,) = deltas([said])
    assert (delta["role"], delta["reasoning"], delta["content"]) == ("assistant", "hm", "Sure.")
    assert [(call["index"], call["function"]["arguments"]) for call in delta["tool_calls"]] == [
        (0, '{"city": "Zürich"}'),
        (1, '{"city": "Zürich"}'),
    ]


@pytest.mark.parametrize("prompt", [None, [65], [65, 66]])
def test_ids_of_calls_are_those_of_the_complete_answer(model: ServedModel, prompt: list[int] | None) -> None:
    """The prompt comes with the first chunk only, in the request or in the generate chunk."""
    client = {"tools": TOOLS, "messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}
    local, token_ids = Local(model), ids(model, CALL + CALL)
    response = {"request_id": "gen-1", "choices": [{"index": 0, "token_ids": token_ids}]}
    _, complete = local.post(
        CHAT, {"chat_request": client, "generate_response": response, "prompt_token_ids": prompt}
    )
    expected = [call["id"] for call in complete["choices"][0]["message"]["tool_calls"]]
    assert len(set(expected)) == 2
    for given in ({"prompt_token_ids": prompt}, {}):
        first = {**chunk(token_ids[:5]), **({} if given else {"prompt_token_ids": prompt})}
        body = {"stream": True, "chat_request": client, **given, "generate_chunk": first}
        _, begun = local.post(CHAT, body)
        said = [begun["chunk"]]
        state = begun["stream_state"]
        for token_id in token_ids[5:]:
            body = {"stream": True, "chat_request": client, "generate_chunk": chunk([token_id])}
            _, answered = local.post(CHAT, {**body, "stream_state": state})
            state = answered["stream_state"]
            said.append(answered["chunk"])
        assert [name for name, _, _ in added_up(said)[0].calls] == expected


def test_complete_calls_come_at_once() -> None:
    whole_calls = parsing("complete")
    chunks = [chunk([token_id]) for token_id in ids(whole_calls, CALL)]
    answered = answer(whole_calls, CHAT, chunks, chat_request={"tools": TOOLS})
    (entry,) = (entry for delta in deltas(answered) for entry in delta.get("tool_calls", ()))
    assert entry["function"] == {"name": "get_weather", "arguments": '{"city": "Zürich"}'}


@pytest.mark.parametrize(
    ("finish", "client", "expected"),
    [
        ("stop", {}, "tool_calls"),
        ("length", {}, "length"),
        ("abort", {}, "abort"),
        ("stop", {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}, "stop"),
    ],
)
def test_the_finish_reason_is_that_of_the_complete_answer(
    model: ServedModel, finish: str, client: dict[str, Any], expected: str
) -> None:
    chunks = [chunk(ids(model, CALL)), chunk([], finish)]
    said = added_up(answer(model, CHAT, chunks, chat_request={"tools": TOOLS, **client}))[0]
    assert (said.finish_reason, len(said.calls)) == (expected, 1)


def test_a_finish_without_ids_releases_held_text(model: ServedModel) -> None:
    chunks = [chunk(ids(model, "a <tool_")), chunk(ids(model, "<tool_call>")), chunk([], "stop")]
    plain = [chunk(ids(model, "text \n")), chunk([], "length")]
    for sent, content in ((chunks, "a <tool_"), (plain, "text \n")):
        said = added_up(answer(model, CHAT, sent, chat_request={"tools": TOOLS}))[0]
        assert said.content == content


def test_hidden_reasoning_hides_logprobs_and_ids(model: ServedModel) -> None:
    part = ids(model, "<think>hm</think>Hi")
    client = {"include_reasoning": False, "return_token_ids": True, "logprobs": True}
    (said,) = answer(model, CHAT, [chunk(part, logprobs=logprobs(part))], chat_request=client)
    (choice,) = said["choices"]
    assert choice["delta"] == {"role": "assistant", "content": "Hi", "reasoning": None}
    assert (choice["logprobs"], choice["token_ids"]) == (None, None)


def test_the_prompt_may_open_the_reasoning(model: ServedModel) -> None:
    (said,) = answer(
        model, CHAT, [chunk(ids(model, "hm"))], chat_request={}, prompt_token_ids=ids(model, "<eos><think>")
    )
    assert deltas([said])[0]["reasoning"] == "hm"


def test_completions_are_not_parsed(model: ServedModel) -> None:
    answered = answer(model, COMPLETIONS, [chunk(ids(model, CALL), "stop")])
    assert added_up(answered)[0].content == CALL


# --- the same again -------------------------------------------------------------------------------------------


def test_the_same_chunk_and_state_give_the_same_answer(model: ServedModel) -> None:
    local = Local(model)
    token_ids = ids(model, f"{CALL}\n{CALL}")
    request = {"stream": True, "chat_request": {"tools": TOOLS}}
    state = None
    for begin in range(0, len(token_ids), 7):
        body = {**request, "generate_chunk": chunk(token_ids[begin : begin + 7]), "stream_state": state}
        answered = local.post(CHAT, body)
        assert local.post(CHAT, body) == answered
        state = answered[1]["stream_state"]


@both
def test_several_chunks_give_the_same_answer_as_single_ones(model: ServedModel, path: str) -> None:
    output = ids(model, f"<think>hm</think>Sure.\n{CALL}<eos>")
    chunks = [chunk(output[begin : begin + 3]) for begin in range(0, len(output), 3)]
    chunks += [{"request_id": "gen-1", "choices": [], "usage": {}}]
    request = {ASKED[path]: {"tools": TOOLS, "stop": ["never"]}}
    expected = one_by_one(Local(model).post, path, request, chunks)
    for size in (1, 2, 5, len(chunks)):
        assert at_once(Local(model).post, path, request, chunks, size) == expected
