"""Recorded streams, relayed: what the derender endpoint makes of their chunks, the client reads."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.relay_server import events_of
from tests.support.streams import one_by_one
from tests.support.upstream_server import stream

if TYPE_CHECKING:
    from tests.support.relay_server import RelayServer
    from tests.support.upstream_server import UpstreamServer

    from .conftest import Serve

GOLDEN: Final = Path(__file__).parents[1] / "golden"
PARSERS: Final = {"qwen3-plain": ("none", "none"), "qwen3-hermes": ("hermes", "qwen3")}
"""File → the parsers that it was recorded with. Both are of the bundled vocabulary."""


def recorded(file: str) -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [
        record
        for record in records
        if "steps" in record and all(step["status"] == 200 for step in record["steps"])
    ]


STREAMS: Final = [(file, record) for file in PARSERS for record in recorded(file)]


def test_streams_are_recorded() -> None:
    assert len(STREAMS) > 80


@pytest.mark.parametrize(
    ("file", "record"), STREAMS, ids=[f"{file}/{record['name']}" for file, record in STREAMS]
)
def test_a_recorded_stream_is_relayed(
    serve: Serve, upstream: UpstreamServer, file: str, record: dict[str, Any]
) -> None:
    tools, reasoning = PARSERS[file]
    server = serve(tool_call_parser=tools, reasoning_parser=reasoning)
    path, first = record["path"], record["steps"][0]["request"]
    field = "chat_request" if "chat" in path else "completion_request"
    chunks = [step["request"]["generate_chunk"] for step in record["steps"]]
    prompt = first.get("prompt_token_ids") or []
    choices = {choice["index"] for chunk in chunks for choice in chunk["choices"]}
    client = {**first.get(field, {}), "stream": True, "stream_options": {"include_usage": True}}

    request = {**first, field: client, "prompt_token_ids": prompt, "prompt_tokens": len(prompt)}
    derendered = one_by_one(_poster(server), path, request, chunks)
    upstream.replies(stream(chunks))
    generate_request = {
        "request_id": chunks[0].get("request_id"),
        "token_ids": prompt,
        "sampling_params": {"n": len(choices) or 1},
    }
    response = server.post(f"{path}/relay", {"generate_request": generate_request, field: client})
    *events, last = events_of(response.content)
    finished = {
        choice["index"] for chunk in chunks for choice in chunk["choices"] if choice.get("finish_reason")
    }
    if choices and finished == choices:
        assert last == "[DONE]"
        assert events.pop()["choices"] == []
    else:
        assert "error" in last
    wanted = [chunk["choices"] for chunk in derendered if chunk["choices"]]
    assert [_own(event["choices"]) for event in events][: len(wanted)] == [_own(each) for each in wanted]


def _own(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what the relay adds."""
    return [{**choice, "prompt_token_ids": None} for choice in choices]


def _poster(server: RelayServer) -> Any:
    def post(path: str, body: object) -> tuple[int, Any]:
        response = server.post(path, body)
        return response.status_code, response.json()

    return post
