"""What an observer is told of requests to derender, and how requests are named."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from derender.http.observation import ObservationMiddleware
from derender.http.request_id import RequestIdMiddleware
from derender.telemetry.observation import CLIENT_LEFT, OTHER
from derender.telemetry.request_ids import REQUEST_ID
from tests.support.api_client import CHAT
from tests.support.qwen3 import END, qwen3

from .conftest import client, generated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Receive, Scope, Send

    from derender.telemetry.observation import Observation
    from tests.support.api_client import Client

    from .conftest import Observed

COMPLETIONS: Final = "/v1/completions/derender"
TOOLS: Final = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
CALL: Final = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
OUTPUTS: Final[dict[str, tuple[str, str, dict[str, int]]]] = {
    "text": ("one two", "stop", {"text": 1}),
    "reasoning and text": ("<think>\nwell\n</think>\n\none", "stop", {"text": 1}),
    "calls": (f"Well.\n{CALL}", "stop", {"tool_calls": 1}),
    "reasoning alone": ("<think>\nwell", "stop", {"unanswered": 1}),
    "nothing": ("", "stop", {"unanswered": 1}),
    "cut": ("one two", "length", {"cut": 1}),
    "cut in a call": (CALL[:-30], "length", {"cut": 1}),
    "a call that is none": ('<tool_call>\n{"name": add}\n</tool_call>', "stop", {"text": 1, "markup": 1}),
}
"""Output, why it ended, and what its parser made of it."""


def said(observation: Observation) -> dict[str, Any]:
    """What an observation says, without what is nothing, and without how long it took."""
    assert observation.seconds > 0
    request, answer = asdict(observation), asdict(observation.answer)
    fields = {**request, **answer, **msgspec.structs.asdict(observation.answer.tally)}
    return {
        name: value for name, value in fields.items() if value and name not in ("seconds", "answer", "tally")
    }


def output(text: str) -> list[int]:
    return [*qwen3().encode(text), END]


# --- complete answers -----------------------------------------------------------------------------------------


def test_a_complete_answer(api: Client, observed: Observed) -> None:
    entry = {"token_id": 9707, "logprob": -1.0, "top_logprobs": [{"token_id": 9707, "logprob": -1.0}] * 3}
    token_ids = output("one")
    response = generated(token_ids, token_ids, logprobs={"content": [entry] * len(token_ids)})
    body = json.dumps({"generate_response": response, "prompt_tokens": 7, "chat_request": {"logprobs": True}})
    answer = api.send(CHAT, body.encode(), headers={"x-request-id": "mine"})
    assert said(observed.only) == {
        "endpoint": CHAT,
        "method": "POST",
        "status": 200,
        "request_bytes": len(body),
        "response_bytes": len(answer.body),
        "request_id": "mine",
        "completion_id": "generate-1",
        "model": "Qwen3",
        "prompt_tokens": 7,
        "completion_tokens": 2 * len(token_ids),
        "choices": 2,
        "candidates": 2 * 3 * len(token_ids),
        "parsers": ("hermes", "qwen3"),
        "outcomes": {"text": 2},
    }


def test_completions_have_no_parsers(api: Client, observed: Observed) -> None:
    responses = [generated(output("one")), generated(output("one two"), output("three"))]
    api.completions({"generate_responses": responses, "prompt_tokens": [3, 4]})
    told = said(observed.only)
    assert (told["endpoint"], told["choices"], told["prompt_tokens"]) == (COMPLETIONS, 3, 7)
    assert told["completion_tokens"] == sum(len(output(text)) for text in ("one", "one two", "three"))
    assert told.keys().isdisjoint({"parsers", "outcomes"})


def test_bytes_are_those_that_are_sent(api: Client, observed: Observed) -> None:
    body = json.dumps({"generate_response": generated([9707] * 20_000 + [END]), "chat_request": {}})
    answer = api.send(CHAT, body.encode(), headers={"accept-encoding": "gzip"})
    assert len(answer.body) > 90_000
    assert observed.only.response_bytes < len(answer.body) / 10


@pytest.mark.parametrize(("text", "finish_reason", "outcomes"), OUTPUTS.values(), ids=OUTPUTS)
def test_what_the_parser_made_of_a_choice(
    api: Client, observed: Observed, text: str, finish_reason: str, outcomes: Mapping[str, int]
) -> None:
    response = generated(output(text), finish_reason=finish_reason)
    assert api.chat({"generate_response": response, "chat_request": {"tools": TOOLS}}).status == 200
    assert observed.tally.outcomes == outcomes


def test_reasoning_that_the_client_does_not_get_is_no_answer(api: Client, observed: Observed) -> None:
    response = generated(output("<think>\nwell\n</think>"))
    api.chat({"generate_response": response, "chat_request": {"include_reasoning": False}})
    assert observed.tally.outcomes == {"unanswered": 1}


def test_without_parsers_nothing_is_parsed(observed: Observed) -> None:
    plain = client(observed, tool_call_parser="none", reasoning_parser="none")
    assert plain.chat({"generate_response": generated(output(CALL))}).status == 200
    assert (observed.answer.parsers, observed.tally.outcomes) == ((), {})


# --- streams --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(("text", "finish_reason", "outcomes"), OUTPUTS.values(), ids=OUTPUTS)
def test_the_parts_of_a_stream_add_up_to_the_whole(
    api: Client,
    observed: Observed,
    text: str,
    finish_reason: str,
    outcomes: Mapping[str, int],
    size: int,
) -> None:
    token_ids, state = output(text), None
    for begin in range(0, len(token_ids), size):
        ended = begin + size >= len(token_ids)
        choice = {"index": 0, "token_ids": token_ids[begin : begin + size]}
        if ended:
            choice["finish_reason"] = finish_reason
        answer = api.chat(
            {
                "stream": True,
                "generate_chunks": [{"request_id": "generate-1", "choices": [choice]}],
                "stream_state": state,
                "prompt_tokens": 7,
                "chat_request": {"tools": TOOLS},
            }
        )
        state = answer.json["stream_state"]
        assert observed.all[-1].answer.tally.state_bytes == len(state["data"])
    parts = observed.all
    assert {part.answer.streamed for part in parts} == {True}
    assert {part.answer.completion_id for part in parts} == {"generate-1"}
    assert sum(part.answer.tally.prompt_tokens for part in parts) == 7
    assert sum(part.answer.tally.completion_tokens for part in parts) == len(token_ids)
    assert sum(part.answer.tally.choices for part in parts) == 1
    added = sum((Counter(part.answer.tally.outcomes) for part in parts), Counter())
    # A marker that is shown counts with each part that shows one.
    assert (added.pop("markup", 0) > 0) == ("markup" in outcomes)
    assert added == {name: count for name, count in outcomes.items() if name != "markup"}


def test_a_streamed_completion(api: Client, observed: Observed) -> None:
    chunk = {"request_id": "c", "choices": [{"index": 0, "token_ids": output("one"), "finish_reason": "stop"}]}
    assert api.completions({"stream": True, "generate_chunk": chunk}).status == 200
    assert (
        observed.answer.streamed,
        observed.tally.choices,
        observed.tally.outcomes,
    ) == (True, 1, {})


# --- what is no success ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        (CHAT, b"{", 400, "InvalidRequest"),
        (CHAT, b"{}", 400, "InvalidRequest"),
        (CHAT, json.dumps({"generate_response": generated([])}).encode(), 400, "BadRequest"),
        (CHAT, json.dumps({"model": "x", "generate_response": generated([1])}).encode(), 404, "ModelNotFound"),
        (COMPLETIONS, b" " * (1 << 20) + b"{", 413, "RequestTooLarge"),
        ("/v1/nothing", b"", 404, "NotFound"),
        ("/v1/models", b"", 405, "MethodNotAllowed"),
    ],
)
def test_an_error_has_a_kind(
    api: Client, observed: Observed, path: str, body: bytes, status: int, error: str
) -> None:
    assert api.send(path, body).status == status
    told = observed.only
    assert (told.status, told.error, observed.answer.model) == (status, error, None)
    assert told.endpoint == (OTHER if path == "/v1/nothing" else path)


def test_a_body_that_is_encoded_otherwise(api: Client, observed: Observed) -> None:
    api.send(CHAT, b"{}", headers={"content-encoding": "br"})
    assert (observed.only.status, observed.only.error) == (415, "UnsupportedEncoding")


def test_a_fault_of_its_own(api: Client, observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("quixotic")

    monkeypatch.setattr("derender.http.routes.answer", fail)
    assert api.chat({}).status == 500
    assert (observed.only.status, observed.only.error) == (500, "InternalError")


def test_paths_and_methods_that_there_are_not_are_not_repeated(api: Client, observed: Observed) -> None:
    api.send("/quixotic", b"", method="QUIXOTIC")
    assert (observed.only.endpoint, observed.only.method) == (OTHER, OTHER)


def test_other_routes_are_observed_too(api: Client, observed: Observed) -> None:
    for path in ("/v1/models", "/health", "/version", "/docs", "/openapi.json"):
        assert api.send(path, method="GET").status == 200
        assert (observed.all[-1].endpoint, observed.all[-1].method) == (path, "GET")


# --- observers ------------------------------------------------------------------------------------------------


def test_an_observer_that_fails_is_nobodys_concern(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Observation) -> None:
        raise ValueError("quixotic")

    answer = client(fail).chat({"generate_response": generated(output("one")), "chat_request": {}})
    assert answer.choice["message"]["content"] == "one"
    (record,) = (each for each in caplog.records if each.name == "derender")
    assert record.levelno == logging.ERROR
    assert "unexpected ValueError" in record.getMessage()
    assert "quixotic" not in record.getMessage().replace('raise ValueError("quixotic")', "")


def test_facts_that_fail_are_nobodys_concern(
    api: Client, observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("derender.http.routes.describe_answer", lambda _: 1 / 0)
    assert api.chat({"generate_response": generated(output("one")), "chat_request": {}}).status == 200
    assert observed.all == []


def test_without_an_observer_nothing_is_gathered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("derender.http.routes.describe_answer", lambda _: 1 / 0)
    answer = client(None).chat({"generate_response": generated(output("one")), "chat_request": {}})
    assert answer.status == 200
    assert "x-request-id" in answer.headers
    assert caplog.records == []


class Application:
    """An ASGI application that does as a test says, and what became of it."""

    def __init__(self, observed: Observed) -> None:
        self.sent: list[Message] = []
        self.observed = observed
        self.observed_when_sent: list[int] = []

    async def run(self, *does: Message | Exception, receives: bool = False) -> None:
        async def app(_: Scope, receive: Receive, send: Send) -> None:
            if receives:
                await receive()
            for each in does:
                if isinstance(each, Exception):
                    raise each
                await send(each)

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            self.sent.append(message)
            self.observed_when_sent.append(len(self.observed.all))

        observing = ObservationMiddleware(app, endpoints=("/a",), observe=self.observed)
        scope = {"type": "http", "path": "/a", "method": "GET", "headers": []}
        await RequestIdMiddleware(observing)(scope, receive, send)


START: Final[Message] = {"type": "http.response.start", "status": 200, "headers": []}
MORE: Final[Message] = {"type": "http.response.body", "body": b"abc", "more_body": True}
LAST: Final[Message] = {"type": "http.response.body", "body": b"de"}


def test_the_observer_is_told_before_the_last_byte_is_sent(observed: Observed) -> None:
    application = Application(observed)
    asyncio.run(application.run(START, MORE, LAST))
    assert application.observed_when_sent == [0, 0, 1]
    assert observed.only.response_bytes == 5


@pytest.mark.parametrize(
    ("does", "receives", "status", "error"),
    [
        ((ValueError(),), False, 500, "InternalError"),
        ((START, MORE, ValueError()), False, 500, "InternalError"),
        ((START, MORE), True, CLIENT_LEFT, "ClientLeft"),
        ((), True, CLIENT_LEFT, "ClientLeft"),
        ((), False, 500, "InternalError"),
        ((START, MORE), False, 500, "InternalError"),
        ((START, LAST, ValueError()), False, 200, None),
    ],
)
def test_every_request_is_observed_once_however_it_ends(
    observed: Observed, does: tuple[Message | Exception, ...], receives: bool, status: int, error: str | None
) -> None:
    run = Application(observed).run(*does, receives=receives)
    if any(isinstance(each, Exception) for each in does):
        with pytest.raises(ValueError):  # noqa: PT011 - it has no message
            asyncio.run(run)
    else:
        asyncio.run(run)
    assert (observed.only.status, observed.only.error) == (status, error)


# --- ids ------------------------------------------------------------------------------------------------------

HARMLESS: Final = ("a", "B0b1C2d3E4f5g6=", "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", "a/b+c:d.e_f", "x" * 128)
ODD: Final = ("", " ", "two words", "x" * 129, "a\nb", 'a"b', "a{b}", "é", "Bearer abc")


@pytest.mark.parametrize("name", HARMLESS)
def test_the_clients_id_is_kept(api: Client, observed: Observed, name: str) -> None:
    answer = api.send(CHAT, b"{", headers={"x-request-id": name})
    assert answer.headers["x-request-id"] == observed.only.request_id == name


@pytest.mark.parametrize("name", ODD)
def test_an_odd_id_is_replaced(api: Client, observed: Observed, name: str) -> None:
    answer = api.send(CHAT, b"{", headers={"x-request-id": name})
    assert answer.headers["x-request-id"] == observed.only.request_id
    assert uuid.UUID(observed.only.request_id).version == 4


def test_each_request_without_an_id_gets_one_of_its_own(api: Client) -> None:
    ids = {api.send(path, method="GET").headers["x-request-id"] for path in ["/health", "/nothing"] * 2}
    assert len(ids) == 4
    assert REQUEST_ID.get() is None


def test_what_stands_before_the_application_may_give_the_id(api: Client, observed: Observed) -> None:
    before = REQUEST_ID.set("given")
    try:
        assert api.send("/health", method="GET").headers["x-request-id"] == "given"
        api.send("/health", method="GET", headers={"x-request-id": "own"})
    finally:
        REQUEST_ID.reset(before)
    assert [each.request_id for each in observed.all] == ["given", "own"]


@pytest.mark.parametrize("name", ODD)
def test_an_answers_own_id_is_told_only_if_it_is_harmless(api: Client, observed: Observed, name: str) -> None:
    response = {**generated(output("one")), "request_id": name}
    assert api.chat({"generate_response": response, "chat_request": {}}).json["id"] == name
    assert observed.answer.completion_id is None
