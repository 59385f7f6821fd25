"""Log lines and metrics never repeat what a client, a model or an upstream wrote.

Each value that others choose is a canary. Functions write lines of every level meanwhile.
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
import os
import re
from contextlib import suppress
from functools import partial
from tempfile import TemporaryFile
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import boto3
from moto import mock_aws

from derender.telemetry.observer import Observer
from tests.support.api_client import CHAT
from tests.support.functions import load_function
from tests.support.generate_protocol import chunks_of, generate_request
from tests.support.lambda_emulator import Runtime, http_event
from tests.support.qwen3 import END, qwen3
from tests.support.relay_client import RELAY
from tests.support.upstream_server import GENERATE, Reply, answer, break_off, sse, stream

from .conftest import client, relay_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import httpx
    import pytest

    from tests.support.upstream_server import ReceivedRequest, UpstreamServer

COMPLETIONS: Final = "/v1/completions/derender"
CANARY: Final = "canary bird"
"""It has a space, because a harmless id may be logged."""
ID: Final = 987_654_321
"""A token id that no model has, so error messages name it."""
TEXT: Final = [*qwen3().encode("The canary bird <tool_call>\n{canary bird"), END]
SEEN: Final = re.compile(rf"canary|{ID}|{TEXT[0]}, ?{TEXT[1]}|secret-", re.IGNORECASE)
DEBUG: Final = {"DERENDER_LOG_LEVEL": "DEBUG", "DERENDER_SERVICE": "stack"}


class Posted(NamedTuple):
    """A request full of canaries."""

    path: str
    body: bytes
    method: str = "POST"
    headers: Mapping[str, str] = MappingProxyType({})


HEADERS: Final = {
    "content-type": "application/json",
    "authorization": f"Bearer {CANARY}",
    "cookie": f"session={CANARY}",
    "user-agent": CANARY,
    "x-api-key": CANARY,
    "x-request-id": CANARY,
    "x-amzn-trace-id": f"Root={CANARY}",
    "x-amzn-lambda-context": json.dumps({"request_id": CANARY}),
    "x-amzn-request-context": json.dumps({"requestId": CANARY, "authorizer": CANARY}),
    f"x-{CANARY.replace(' ', '-')}": CANARY,
}


def chat_client(**fields: object) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": CANARY, "parameters": {CANARY: CANARY}}}
    return {
        "messages": [{"role": "user", "content": CANARY, "tool_calls": [{"id": CANARY}]}],
        "tools": [tool],
        "stop": [CANARY],
        "user": CANARY,
        "return_token_ids": True,
        "logprobs": True,
        **fields,
    }


def generation(*token_ids: list[int], **fields: object) -> dict[str, Any]:
    entry = {"token": CANARY, "logprob": -1.0, "top_logprobs": [{"token": CANARY, "logprob": -1.0}]}
    return {
        "request_id": CANARY,
        "choices": [
            {
                "index": 0,
                "token_ids": each,
                "finish_reason": "stop",
                "stop_reason": CANARY,
                "logprobs": {"content": [entry] * len(each)},
                "routed_experts": CANARY,
            }
            for each in token_ids
        ],
        "prompt_token_ids": TEXT,
        "kv_transfer_params": {CANARY: CANARY},
        "metrics": {CANARY: CANARY},
        CANARY: CANARY,
        **fields,
    }


def derendered() -> Iterator[Posted]:
    """Return requests to derender: some are answered, some get an error message about a value."""
    wrong: list[dict[str, object]] = [
        {},
        {"prompt_logprobs": [{CANARY: {"logprob": CANARY}}]},
        {"prompt_token_ids": CANARY},
        {"choices": CANARY},
        {"choices": [{"index": 0, "token_ids": [ID]}]},
        {"choices": [{"index": 0, "token_ids": [CANARY]}]},
        {"metrics": {CANARY: 2**70}},
    ]
    for fields in wrong:
        response = generation(TEXT, **fields)
        for client_model in (None, CANARY):
            chat = {"generate_response": response, "chat_request": chat_client(model=client_model)}
            yield Posted(CHAT, json.dumps(chat).encode(), headers=HEADERS)
            yield Posted(CHAT, json.dumps({**chat, "model": client_model}).encode(), headers=HEADERS)
        completion = {"generate_responses": [response, response], "completion_request": chat_client()}
        yield Posted(COMPLETIONS, json.dumps(completion).encode(), headers=HEADERS)
        for path, field in ((CHAT, "chat_request"), (COMPLETIONS, "completion_request")):
            part: dict[str, Any] = {"stream": True, "generate_chunk": response, field: chat_client(logprobs=1)}
            for state in (None, CANARY, {"version": 1, "data": CANARY, "signature": CANARY}):
                yield Posted(path, json.dumps({**part, "stream_state": state}).encode(), headers=HEADERS)
    whole = json.dumps({"generate_response": generation(TEXT), "chat_request": chat_client()}).encode()
    yield Posted(CHAT, whole[:-1] + CANARY.encode())
    yield Posted(CHAT, CANARY.encode())
    yield Posted(CHAT, json.dumps([CANARY]).encode())
    yield Posted(CHAT, whole, headers={"content-encoding": CANARY})
    yield Posted(CHAT, whole, headers={"content-encoding": "gzip"})
    yield Posted(CHAT, gzip.compress(whole) + CANARY.encode(), headers={"content-encoding": "gzip"})
    yield Posted(CHAT, gzip.compress(whole), headers={"content-encoding": "gzip", **HEADERS})
    yield Posted(f"/{CANARY}", whole, headers=HEADERS)
    yield Posted(f"{CHAT}/{CANARY}", b"", "GET")
    yield Posted(CHAT, b"", CANARY.replace(" ", "").upper())


POSTED: Final = list(derendered())


def check_lines(logs: str, *, lines: int) -> None:
    """Check that there are at least some lines, and no canary in them."""
    assert logs.count('"level":') >= lines
    found = SEEN.search(logs)
    assert found is None, logs[max(found.start() - 300, 0) : found.end() + 100]


def event_of(posted: Posted) -> dict[str, Any]:
    body = base64.b64encode(posted.body).decode()
    event = http_event(posted.path, body, method=posted.method, headers=posted.headers, base64=True)
    return {**event, "rawQueryString": f"key={CANARY}", "cookies": [f"a={CANARY}"]}


def test_log_lines_of_the_api_function() -> None:
    with Runtime(environment={**DEBUG, "DERENDER_STATE_KEY": "secret-" * 4}) as function:
        statuses = {function.invoke(event_of(posted))["statusCode"] for posted in POSTED}
        for event in ({CANARY: CANARY}, CANARY, [CANARY], {**http_event(CHAT), "body": {CANARY: CANARY}}):
            function.invoke(event)
        logs = function.logs
    assert statuses == {200, 400, 404, 405, 415}
    check_lines(logs, lines=len(POSTED) + 3)


def test_log_records(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """Other handlers of records see nothing either."""
    caplog.set_level(logging.DEBUG)
    observer = Observer("api", DEBUG)
    function = client(observer)
    for posted in POSTED:
        function.send(posted.path, posted.body, method=posted.method, headers=posted.headers)
    own = [record for record in caplog.records if record.name == "derender"]
    assert len(own) >= len(POSTED)
    for record in own:
        assert SEEN.search(f"{record.getMessage()} {vars(record)}") is None
    out, err = capfd.readouterr()
    assert SEEN.search(out) is None
    assert err == ""


# --- the relay ------------------------------------------------------------------------------------------------

BODY: Final = json.dumps({"error": {"message": CANARY, "code": CANARY}, "detail": CANARY}).encode()
TRACE: Final = {"message": f'Traceback (most recent call last):\n  File "{CANARY}", line 1', "code": 500}
FAULTS: Final[list[Callable[[], Reply]]] = [
    *(partial(Reply, [BODY], status, "application/json") for status in (400, 413, 422, 429)),
    *(partial(Reply, [BODY], status, "text/plain") for status in (401, 404, 500, 503)),
    lambda: answer({}, 307, [("location", f"http://{CANARY.replace(' ', '.')}/")]),
    lambda: Reply([break_off], before=[break_off]),
    lambda: Reply([f"data: {CANARY}\n\n".encode()]),
    lambda: Reply([*map(sse, chunks_of(TEXT)[:3]), break_off]),
    lambda: stream(chunks_of(TEXT, finish_reason=None)),
    lambda: stream([*chunks_of(TEXT)[:3], {"error": TRACE}]),
    lambda: stream([*chunks_of(TEXT)[:3], {"error": CANARY}]),
    lambda: stream([{"choices": [{"index": 0, "token_ids": [ID]}]}]),
    lambda: stream([{"choices": [{"index": 0, "token_ids": [CANARY]}]}]),
    lambda: stream([{"choices": [{"index": ID, "token_ids": [1]}]}]),
    lambda: stream([generation(TEXT[:3])]),
    lambda: answer(generation([ID])),
    lambda: answer(generation(TEXT)),
    lambda: answer({CANARY: CANARY}),
    lambda: Reply([CANARY.encode()], 200, "application/json"),
    lambda: stream(chunks_of(TEXT, request_id=CANARY)),
]


def relayed() -> Iterator[Posted]:
    """Return requests to the relay."""
    for streamed in (True, False):
        asked = chat_client(stream=streamed, stream_options={"include_usage": True})
        rendered = generate_request(token_ids=TEXT, request_id=CANARY, **{CANARY: CANARY})
        yield Posted(
            f"{CHAT.removesuffix('/derender')}{RELAY}?key={CANARY}",
            json.dumps({"generate_request": rendered, "chat_request": asked}).encode(),
            headers=HEADERS,
        )
        yield Posted("/v1/chat/completions", json.dumps(asked).encode(), headers=HEADERS)
        yield Posted("/v1/completions", json.dumps({**asked, "prompt": CANARY}).encode(), headers=HEADERS)
    for fields in ({"upstream": CANARY}, {"model": CANARY}, {"chat_request": CANARY}):
        body = {"generate_request": generate_request(request_id=CANARY), "chat_request": {}, **fields}
        yield Posted(f"{CHAT}/relay", json.dumps(body).encode(), headers=HEADERS)


def ask_all(asking: httpx.Client, upstream: UpstreamServer, posted: Sequence[Posted]) -> None:
    """Send each request once for each fault of the generate server and the render service."""

    def generating(fault: Callable[[], Reply]) -> Callable[[ReceivedRequest], Reply]:
        rendered = [generate_request(token_ids=TEXT[:5], request_id=CANARY)]
        return lambda asked: fault() if asked.path == GENERATE else answer(rendered)

    for respond in (*map(generating, FAULTS), lambda _: answer([{CANARY: CANARY}])):
        upstream.respond = respond
        for each in posted:
            asking.post(each.path, content=each.body, headers=each.headers)


def test_log_lines_of_the_relay(upstream: UpstreamServer) -> None:
    posted = list(relayed())
    upstreams = {"gpu": {"url": upstream.url, "headers": {"authorization": "Bearer secret-token"}}}
    environment = {"DERENDER_UPSTREAMS": json.dumps(upstreams), "DERENDER_RENDER_URL": upstream.url, **DEBUG}
    with TemporaryFile() as log:
        with relay_script(log, environment) as asking:
            ask_all(asking, upstream, posted)
        logs = os.pread(log.fileno(), 1 << 24, 0).decode()
    assert any(b"canary" in asked.content for asked in upstream.requests)
    assert '"message":"upstream gpu: ' in logs
    check_lines(logs, lines=(len(FAULTS) + 1) * len(posted))


# --- the batch function ---------------------------------------------------------------------------------------


def batch_lines() -> Iterator[bytes]:
    """Return lines of a batch: the requests to derender, and bad lines."""
    for number, posted in enumerate(POSTED):
        fields = {"custom_id": f"{CANARY} {number}", "method": posted.method, "url": posted.path}
        with suppress(ValueError):
            yield json.dumps({**fields, "body": json.loads(posted.body)}).encode()
        yield json.dumps({**fields, "body": f"s3://bucket/{CANARY}"}).encode()
        yield json.dumps({**fields, "custom_id": CANARY, "body": {"generate_response": CANARY}}).encode()
    yield CANARY.encode()


class Context(SimpleNamespace):
    """Lambda's context of an invocation with time left."""

    aws_request_id = "invoked-1"

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


def test_log_lines_of_the_batch_function(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    environment = {
        **DEBUG,
        "AWS_ACCESS_KEY_ID": "secret-id",
        "AWS_SECRET_ACCESS_KEY": "secret-key",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    # moto's own credentials would stay in the environment.
    with mock_aws(config={"core": {"mock_credentials": False}}):
        bucket = boto3.client("s3")
        bucket.create_bucket(Bucket="bucket")
        lines = list(batch_lines())
        bucket.put_object(Bucket="bucket", Key=CANARY, Body=b"\n".join(lines))
        batch = load_function("batch")
        started = {"output": "s3://bucket/out/", "id": CANARY, "started": "2026-11-26T12:00:00Z"}
        planned = batch.handler({"step": "plan", "input": f"s3://bucket/{CANARY}", **started}, Context())
        for start in planned["parts"]:
            batch.handler({"step": "derender", "job": planned["job"], "start": start}, Context())
        done = batch.handler({"step": "finish", "job": planned["job"]}, Context())
    out, err = capfd.readouterr()
    assert done["counts"]["total"] == len(lines)
    assert done["counts"]["completed"] > 0
    check_lines(out, lines=1)
    assert err == ""
