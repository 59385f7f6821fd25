"""Recorded streams: the relay sends the chunks that the derender endpoint returns for the same events, but the
empty ones."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.paths import ROOT
from tests.support.relay_client import events_of
from tests.support.streams import adds_something, one_by_one
from tests.support.upstream_server import stream

if TYPE_CHECKING:
    from tests.support.relay_in_process import UpstreamTransport

    from .conftest import RelayFactory

PARSERS: Final = {"qwen3-plain": ("none", "none"), "qwen3-hermes": ("hermes", "qwen3")}
"""Recordings of the bundled vocabulary, and the parsers they were made with."""


def read_streams(file: str) -> list[dict[str, Any]]:
    path = ROOT / "tests" / "golden" / f"{file}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [
        record
        for record in records
        if "steps" in record and all(step["status"] == 200 for step in record["steps"])
    ]


STREAMS: Final = [(file, record) for file in PARSERS for record in read_streams(file)]


def test_there_are_many_recordings() -> None:
    assert len(STREAMS) > 80


@pytest.mark.parametrize(
    ("file", "record"), STREAMS, ids=[f"{file}/{record['name']}" for file, record in STREAMS]
)
def test_a_recorded_stream_is_relayed(
    make_relay: RelayFactory, upstream: UpstreamTransport, file: str, record: dict[str, Any]
) -> None:
    tool_call_parser, reasoning_parser = PARSERS[file]
    relay = make_relay(tool_call_parser=tool_call_parser, reasoning_parser=reasoning_parser)
    path, first = record["path"], record["steps"][0]["request"]
    field = "chat_request" if "chat" in path else "completion_request"
    chunks = [step["request"]["generate_chunk"] for step in record["steps"]]
    prompt = first.get("prompt_token_ids") or []
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    indexes = {choice["index"] for choice in choices}
    finished = {choice["index"] for choice in choices if choice.get("finish_reason")}
    client = {**first.get(field, {}), "stream": True, "stream_options": {"include_usage": True}}

    def post(path: str, body: object) -> tuple[int, Any]:
        response = relay.post(path, body)
        return response.status_code, response.json()

    request = {**first, field: client, "prompt_token_ids": prompt, "prompt_tokens": len(prompt)}
    derendered = one_by_one(post, path, request, chunks)
    upstream.replies(stream(chunks))
    generate_request = {
        "request_id": chunks[0].get("request_id"),
        "token_ids": prompt,
        "sampling_params": {"n": len(indexes) or 1},
    }
    response = relay.post(f"{path}/relay", {"generate_request": generate_request, field: client})
    *events, last = events_of(response.content)
    if indexes and finished == indexes:
        assert last == "[DONE]"
        assert events.pop()["choices"] == []
    else:
        assert "error" in last
    expected = [chunk["choices"] for chunk in derendered if any(map(adds_something, chunk["choices"]))]
    assert [_without_prompt(event["choices"]) for event in events][: len(expected)] == [
        _without_prompt(each) for each in expected
    ]


def _without_prompt(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The relay knows the prompt, and returns it if asked for."""
    return [{**choice, "prompt_token_ids": None} for choice in choices]
