"""Several chunks at once as server-sent events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api_client import CHAT, COMPLETIONS
from tests.support.vocabularies import B

from .support import ASKED, chunk

if TYPE_CHECKING:
    from tests.support.api_client import Client

HELLO, WORLD = int(B.HELLO), int(B.WORLD)
both = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
ACCEPT = {"accept": "text/event-stream", "content-type": "application/json", "accept-encoding": "gzip"}


def events(client: Client, path: str, body: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the types and data of the events."""
    answer = client.send(path, json.dumps({"stream": True, **body}).encode(), headers=ACCEPT)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    *blocks, end = answer.body.decode().split("\n\n")
    assert end == ""
    found = []
    for block in blocks:
        *kind, data = block.split("\n")
        assert data.startswith("data: ")
        text = data.removeprefix("data: ")
        found.append(("".join(kind), text if text == "[DONE]" else json.loads(text)))
    return found


@both
def test_a_complete_generation_ends_with_done(client: Client, path: str) -> None:
    sent = {"generate_chunks": [chunk([HELLO]), chunk([WORLD], "stop")]}
    *chunks, done = events(client, path, sent)
    assert done == ("", "[DONE]")
    expected = client.post(path, {"stream": True, **sent}).json["chunks"]
    created = [each.pop("created") for _, each in chunks] + [each.pop("created") for each in expected]
    assert max(created) - min(created) < 60
    assert chunks == [("", each) for each in expected]


@both
def test_chunks_that_add_nothing_are_no_events(client: Client, path: str) -> None:
    """As JSON there is a chunk for each generate chunk."""
    usage = {"prompt_tokens": 1, "completion_tokens": 3}
    sent = {
        "generate_chunks": [
            chunk([HELLO]),
            chunk([0xE2]),
            {**chunk([0x88]), "usage": usage},
            chunk([0x9E]),
            chunk([]),
            chunk([], "stop"),
        ]
    }
    assert len(client.post(path, {"stream": True, **sent}).json["chunks"]) == 6
    *chunks, done = events(client, path, sent)
    assert done == ("", "[DONE]")
    assert len(chunks) == 4
    assert [content["usage"] is not None for _, content in chunks] == [False, True, False, False]


@both
def test_an_incomplete_generation_ends_with_its_state(client: Client, path: str) -> None:
    first, (kind, state) = events(client, path, {"generate_chunks": [chunk([HELLO])]})
    assert first[0] == ""
    assert kind == "event: stream_state"
    *_, done = events(client, path, {"generate_chunks": [chunk([WORLD], "stop")], "stream_state": state})
    assert done == ("", "[DONE]")


@both
def test_a_generation_is_complete_once_all_choices_have_finished(client: Client, path: str) -> None:
    asked = {ASKED[path]: {"n": 2}}
    *_, (kind, state) = events(client, path, {"generate_chunks": [chunk([HELLO], "stop")], **asked})
    assert kind == "event: stream_state"
    chunks = [chunk([HELLO], index=1), chunk([], "length", index=1)]
    *_, done = events(client, path, {"generate_chunks": chunks, "stream_state": state, **asked})
    assert done == ("", "[DONE]")


@both
def test_a_single_chunk_is_answered_as_json(client: Client, path: str) -> None:
    body = {"stream": True, "generate_chunk": chunk([HELLO])}
    answer = client.send(path, json.dumps(body).encode(), headers=ACCEPT)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json.keys() == {"chunk", "stream_state"}


@both
def test_an_error_is_answered_as_json(client: Client, path: str) -> None:
    answer = client.send(path, b'{"stream": true, "generate_chunks": []}', headers=ACCEPT)
    assert answer.status == 400
    assert answer.error["param"] == "generate_chunks"


@both
def test_a_generation_is_complete_once_requested_usage_has_come(client: Client, path: str) -> None:
    asked = {ASKED[path]: {"stream_options": {"include_usage": True}}}
    usage = {"request_id": "gen-1", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    early = {**chunk([HELLO]), "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    sent = [early, chunk([WORLD], "stop")]
    *_, (kind, state) = events(client, path, {"generate_chunks": sent, **asked})
    assert kind == "event: stream_state"
    counted, done = events(client, path, {"generate_chunks": [usage], "stream_state": state, **asked})
    assert counted[1]["usage"]["completion_tokens"] == 2
    assert done == ("", "[DONE]")
    last = {**sent[1], "usage": usage["usage"]}
    assert events(client, path, {"generate_chunks": [early, last], **asked})[-1] == ("", "[DONE]")
