"""Streamed requests that are refused, before anything is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.decoding.output import OutputDecoder
from tests.support.api_client import CHAT, COMPLETIONS
from tests.support.json_mutations import mutated
from tests.support.models import served
from tests.support.vocabularies import B

from .support import ASKED, TOOLS, Local, chunk, ids, logprobs, parsing

if TYPE_CHECKING:
    from derender.models.model import ServedModel
    from tests.support.api_client import Client

HELLO, SIZE = int(B.HELLO), int(B.SIZE)
both = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
USAGE_ONLY: Final = {"request_id": "gen-1", "choices": []}


def error(client: Client, path: str, **body: Any) -> dict[str, Any]:
    """Return the error of a streamed request."""
    answer = client.post(path, {"stream": True, **body})
    assert answer.status == 400, answer.body
    found: dict[str, Any] = answer.error
    assert found["type"] in ("BadRequestError", "Bad Request")
    return found


def two_choices() -> dict[str, Any]:
    """Return a chunk of two choices."""
    both_choices = [*chunk([HELLO])["choices"], *chunk([HELLO], index=1)["choices"]]
    return {"request_id": "gen-1", "choices": both_choices}


@both
@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        pytest.param({}, "body", "generate_chunk or generate_chunks", id="no chunk"),
        pytest.param({"generate_chunk": None}, "body", "generate_chunk or generate_chunks", id="null"),
        pytest.param(
            {"generate_chunk": chunk([HELLO]), "generate_chunks": [chunk([HELLO])]},
            "body",
            "either generate_chunk or generate_chunks",
            id="both",
        ),
        pytest.param({"generate_chunks": []}, "generate_chunks", "at least 1", id="an empty list"),
        pytest.param({"generate_chunks": {}}, "generate_chunks", "", id="no list"),
        pytest.param({"generate_chunk": [chunk([HELLO])]}, "generate_chunk", "", id="a list"),
        pytest.param({"generate_chunk": {}}, "generate_chunk.choices", "", id="no choices"),
        pytest.param(
            {"generate_chunk": two_choices()}, "generate_chunk.choices", "one choice", id="two choices"
        ),
        pytest.param(
            {"generate_chunks": [chunk([HELLO]), two_choices()]},
            "generate_chunks.1.choices",
            "one choice",
            id="two choices in a later chunk",
        ),
        pytest.param(
            {"generate_chunk": chunk([SIZE])},
            "generate_chunk.choices.0.token_ids.0",
            str(SIZE),
            id="an id outside the vocabulary",
        ),
        pytest.param(
            {"generate_chunk": chunk([-1])}, "generate_chunk.choices.0.token_ids.0", "", id="a negative id"
        ),
        pytest.param(
            {"generate_chunk": chunk([HELLO] * 65)},
            "generate_chunk.choices.0.token_ids",
            "64",
            id="too many ids",
        ),
        pytest.param(
            {"generate_chunks": [chunk([HELLO] * 40), chunk([HELLO] * 25)]},
            "generate_chunks.1.choices.0.token_ids",
            "64",
            id="too many ids in all",
        ),
        pytest.param(
            {"generate_chunk": chunk([HELLO], logprobs=logprobs([HELLO], *[HELLO] * 5))},
            "generate_chunk.choices.0.logprobs.content.0.top_logprobs",
            "max_logprobs",
            id="too many candidates",
        ),
        pytest.param(
            {"generate_chunk": chunk([HELLO], logprobs=logprobs([SIZE]))},
            "generate_chunk.choices.0.logprobs.content.0",
            str(SIZE),
            id="log probabilities of another vocabulary",
        ),
        pytest.param(
            {"generate_chunk": chunk([HELLO]), "prompt_token_ids": [SIZE]},
            "prompt_token_ids.0",
            str(SIZE),
            id="a prompt of another vocabulary",
        ),
        pytest.param(
            {"generate_chunk": {**chunk([HELLO]), "prompt_token_ids": [SIZE]}},
            "generate_chunk.prompt_token_ids.0",
            str(SIZE),
            id="a chunk's prompt of another vocabulary",
        ),
        pytest.param(
            {"generate_chunks": [chunk([HELLO], index=index) for index in range(4)]},
            "choices",
            "maximum (3)",
            id="too many choices",
        ),
        pytest.param(
            {"generate_chunks": [chunk([HELLO], "stop"), chunk([HELLO])]},
            "generate_chunks.1.choices.0",
            "has finished",
            id="a chunk after the finish",
        ),
        pytest.param(
            {"generate_chunks": [chunk([HELLO], "stop"), chunk([], "stop")]},
            "generate_chunks.1.choices.0",
            "has finished",
            id="a second finish",
        ),
        pytest.param(
            {"generate_chunks": [chunk([HELLO]), {**chunk([HELLO]), "request_id": "gen-2"}]},
            "generate_chunks.1.request_id",
            "another generation",
            id="a chunk of another generation",
        ),
        pytest.param(
            {"generate_chunk": {**chunk([HELLO]), "request_id": "x" * 257}},
            "generate_chunk.request_id",
            "256",
            id="a long request id",
        ),
        pytest.param(
            {"generate_chunk": {**chunk([HELLO]), "output_mode": "text"}},
            "generate_chunk.output_mode",
            "tokens",
            id="decoded already",
        ),
        pytest.param(
            {"generate_chunk": {**chunk([HELLO]), "usage": {"prompt_tokens_details": {"a": 2**64}}}},
            "generate_chunk.usage.prompt_tokens_details",
            "64 bits",
            id="details of usage that can't be passed on",
        ),
        pytest.param(
            {"generate_chunk": {**chunk([HELLO]), "metrics": {"a": 2**64}}},
            "generate_chunk.metrics",
            "64 bits",
            id="what can't be passed on",
        ),
        pytest.param(
            {"generate_chunk": chunk([HELLO]), "prompt_tokens": [1]}, "prompt_tokens", "", id="a list"
        ),
    ],
)
def test_an_error_names_the_field(
    client: Client, path: str, body: dict[str, Any], param: str, words: str
) -> None:
    found = error(client, path, **body)
    assert found["param"] == param
    assert words in found["message"]


@both
@pytest.mark.parametrize(
    ("asked", "words"),
    [({"stop": ["x" * 257]}, "256 characters"), ({"stop": ["x"] * 65}, "64"), ({"stop": [""]}, "at least 1")],
)
def test_stop_strings_have_a_maximum_number_and_length(
    client: Client, path: str, asked: dict[str, Any], words: str
) -> None:
    found = error(client, path, generate_chunk=chunk([HELLO]), **{ASKED[path]: asked})
    assert found["param"].startswith(f"{ASKED[path]}.stop")
    assert words in found["message"]


@both
def test_a_chunk_after_the_finish_is_refused(client: Client, path: str) -> None:
    first = {"stream": True, "generate_chunk": chunk([HELLO], "stop")}
    state = client.post(path, first).json["stream_state"]
    found = error(client, path, generate_chunk=chunk([HELLO]), stream_state=state)
    assert "has finished" in found["message"]
    other = {**chunk([HELLO], index=1), "request_id": "gen-2"}
    assert "another generation" in error(client, path, generate_chunk=other, stream_state=state)["message"]
    for allowed in (chunk([HELLO], index=1), USAGE_ONLY):
        assert (
            client.post(path, {"stream": True, "generate_chunk": allowed, "stream_state": state}).status == 200
        )


@both
def test_all_chunks_are_checked_before_any_is_decoded(
    tiny: ServedModel, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(OutputDecoder, "decode_delta", decode)
    for last in (chunk([SIZE]), two_choices(), chunk([HELLO], logprobs=logprobs([SIZE])), chunk([], "stop")):
        body = {"stream": True, "generate_chunks": [chunk([HELLO], "stop"), last]}
        assert Local(tiny).post(path, body)[0] == 400


@both
def test_an_unknown_model_is_not_found(client: Client, path: str) -> None:
    answer = client.post(path, {"stream": True, "generate_chunk": chunk([HELLO]), "model": "other"})
    assert (answer.status, answer.error["param"]) == (404, "model")


def test_a_parser_requires_the_client_request() -> None:
    model = parsing()
    status, message = Local(model).post(CHAT, {"stream": True, "generate_chunk": chunk(ids(model, "Hi"))})
    assert status == 400
    assert "chat_request" in message
    choice = {"type": "function", "function": {"name": "other"}}
    body = {
        "stream": True,
        "generate_chunk": chunk(ids(model, "Hi")),
        "chat_request": {"tools": TOOLS, "tool_choice": choice},
    }
    assert Local(model).post(CHAT, body)[0] == 400


@both
@settings(max_examples=200)
@given(data=st.data())
def test_a_changed_request_is_answered_or_refused(path: str, data: st.DataObject) -> None:
    local = Local(served(_model().vocabulary))
    full = {**chunk([HELLO], "stop", logprobs=logprobs([HELLO], 5)), "usage": {"prompt_tokens": 1}}
    _, begun = local.post(path, {"stream": True, "generate_chunk": chunk([HELLO])})
    body = {
        "stream": True,
        "model": "tiny",
        "generate_chunks": [full, {**USAGE_ONLY, "metrics": {"a": [1]}}],
        "stream_state": begun["stream_state"],
        "prompt_tokens": 3,
        "prompt_token_ids": [5],
        ASKED[path]: {"stop": ["a"], "n": 1, "min_tokens": 1, "return_token_ids": True},
    }
    status, _ = local.post(path, data.draw(mutated(body)))
    assert status in (200, 400, 404)


def _model() -> ServedModel:
    return parsing()


@both
def test_chunks_and_choices_have_a_maximum_number(tiny: ServedModel, path: str) -> None:
    for chunks, words in (
        ([USAGE_ONLY] * 16_385, "exceeds the maximum of one request (16384)"),
        ([chunk([], index=index) for index in range(1_025)], "1025 choices exceed the maximum"),
    ):
        status, message = Local(tiny).post(path, {"stream": True, "generate_chunks": chunks})
        assert status == 400
        assert words in message
