"""Answers never reveal the environment, files or code, whatever goes wrong."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import traceback
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch
from urllib.parse import unquote

import pytest

from derender.vocabulary import dump
from tests.support.api_client import CHAT, Answer
from tests.support.functions import started
from tests.support.lambda_emulator import Runtime, http_event
from tests.support.leaks import CANARY, SECRETS, every_function, leaks, provoke
from tests.support.paths import BUNDLED, HANDLERS
from tests.support.vocabularies import manifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.functions import Function

COMPLETIONS: Final = "/v1/completions/derender"
RECORDED: Final = json.loads((HANDLERS.parent / "examples" / "stream.json").read_text(encoding="utf-8"))
OUTPUT: Final[list[int]] = RECORDED["token_ids"]
ENTRIES: Final = [
    {"token_id": token_id, "logprob": -0.5, "top_logprobs": [{"token_id": token_id, "logprob": -0.5}]}
    for token_id in OUTPUT
]
CHOICE: Final = {"index": 0, "token_ids": OUTPUT, "finish_reason": "stop", "logprobs": {"content": ENTRIES}}
GENERATED: Final = {
    "request_id": "r",
    "choices": [CHOICE],
    "prompt_logprobs": [None, {"9707": {"logprob": -1.0, "rank": 1, "decoded_token": None}}],
    "kv_transfer_params": {"a": 1},
}
CLIENT: Final = {"logprobs": True, "top_logprobs": 1, "stop": ["never"], "return_token_ids": True}
CHAT_CLIENT: Final = {**RECORDED["chat_request"], **CLIENT, "parallel_tool_calls": False}
PROMPT: Final = RECORDED["prompt_token_ids"]
CHUNK: Final = {"request_id": "r", "choices": [CHOICE], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
LAST_GUARD: Final = " HttpHandler.__call__"
"""The guard that must not raise itself."""


def post(path: str, body: object, **headers: str) -> dict[str, Any]:
    """Return the event of a request."""
    return http_event(path, json.dumps(body), headers={"accept-encoding": "gzip", **headers})


def packed(path: str, body: object) -> dict[str, Any]:
    """Return the event of a compressed request."""
    content = base64.b64encode(gzip.compress(json.dumps(body).encode())).decode()
    return http_event(path, content, headers={"content-encoding": "gzip"}, base64=True)


ANSWERED: Final = {
    "chat": post(
        CHAT, {"generate_response": GENERATED, "prompt_token_ids": PROMPT, "chat_request": CHAT_CLIENT}
    ),
    "chat, streamed": post(
        CHAT,
        {"stream": True, "generate_chunk": CHUNK, "prompt_token_ids": PROMPT, "chat_request": CHAT_CLIENT},
    ),
    "chat, events": post(
        CHAT,
        {"stream": True, "generate_chunks": [CHUNK], "chat_request": {"messages": []}},
        accept="text/event-stream",
    ),
    "completion": packed(
        COMPLETIONS,
        {"generate_responses": [GENERATED], "prompt_tokens": [7], "completion_request": {"logprobs": 2}},
    ),
    "completion, streamed": packed(
        COMPLETIONS, {"stream": True, "generate_chunks": [CHUNK], "completion_request": {"stop": "never"}}
    ),
    "models": http_event("/v1/models", method="GET"),
    "version": http_event("/version", method="GET"),
    "health": http_event("/health", method="GET"),
    "document": http_event("/openapi.json", method="GET"),
    "pages": http_event("/docs", method="GET"),
}
"""Requests that are answered."""
REFUSED: Final = {
    "another path": http_event("/v1/nothing"),
    "another method": http_event(CHAT, method="PUT"),
    "no JSON": http_event(CHAT, "{"),
    "another form": post(CHAT, {"generate_response": {"choices": [{"index": "x"}]}}),
    "ids of no token": post(CHAT, {"generate_response": {"choices": [{"index": 0, "token_ids": [10**9]}]}}),
    "no such model": post(CHAT, {"generate_response": GENERATED, "model": "nothing"}),
    "a state of nobody": post(
        CHAT,
        {"stream": True, "generate_chunk": CHUNK, "stream_state": {"version": 1, "data": "AAAA"}},
    ),
    "no gzip": http_event(CHAT, "{}", headers={"content-encoding": "gzip"}),
    "no encoding": http_event(CHAT, "{}", headers={"content-encoding": "br"}),
    "no request": {},
}
"""Requests that are refused."""


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a layer with Qwen3, and a model that is not loaded before the first request."""
    folder = tmp_path_factory.mktemp(CANARY)
    for path in BUNDLED.glob("*.vocab"):
        shutil.copy(path, folder)
    (folder / "damaged.vocab").write_bytes(dump(manifest(name="damaged"), [b"Hi", b"!", b"</s>"]))
    return folder


@pytest.fixture(scope="module")
def api(layer: Path) -> Iterator[Function]:
    environment = {**SECRETS, "DERENDER_LAYER": str(layer), "DERENDER_MODEL": "Qwen3"}
    with patch.dict(os.environ, environment), started(environment) as function:
        content = (layer / "damaged.vocab").read_bytes()
        (layer / "damaged.vocab").write_bytes(content[:-1])
        yield function


def answer(function: Function, event: object) -> str:
    """Return everything that a caller sees, as text. Of an exception, the runtime returns the traceback."""
    try:
        response = function(event)
    except BaseException:
        return traceback.format_exc()
    return f"{response} {Answer(response).body.decode(errors='replace')}"


@pytest.mark.parametrize("event", ANSWERED.values(), ids=ANSWERED)
def test_answers_reveal_nothing(api: Function, event: dict[str, Any]) -> None:
    assert api(event)["statusCode"] == 200
    assert leaks(answer(api, event)) == []


@pytest.mark.parametrize("event", REFUSED.values(), ids=REFUSED)
def test_refusals_reveal_nothing(api: Function, event: dict[str, Any]) -> None:
    assert 400 <= api(event)["statusCode"] < 500
    assert leaks(answer(api, event)) == []


def test_a_damaged_vocabulary_reveals_no_file(api: Function) -> None:
    event = post(CHAT, {"generate_response": GENERATED, "model": "damaged"})
    response = api(event)
    assert response["statusCode"] == 500
    assert Answer(response).error["message"] == "The model `damaged` can't be loaded."
    assert leaks(answer(api, event)) == []


@every_function
def test_a_fault_in_a_function_reveals_nothing(api: Function, *, every: bool) -> None:
    names = ("chat", "chat, events", "completion", "models")
    events = [*(ANSWERED[name] for name in names), REFUSED["another form"]]
    folders = [HANDLERS / "derender", HANDLERS / "lambda_runtime"]
    provoked = provoke(folders, lambda: (answer(api, event) for event in events), every=every, skip=LAST_GUARD)
    assert provoked.leaks == {}
    assert provoked.internal_errors > (100 if every else 20)
    assert [api(event)["statusCode"] for event in ANSWERED.values()] == [200] * len(ANSWERED)


# --- hostile requests -----------------------------------------------------------------------------------------

VARIABLES: Final = (
    "${AWS_SECRET_ACCESS_KEY} %(AWS_SECRET_ACCESS_KEY)s {0.__class__.__init__.__globals__} {{7*7}}"
)
NO_MODEL: Final = "..%5c..%5capi.py"
PATHS: Final = [
    "/../../../../etc/passwd",
    "/..%2f..%2f..%2fproc/self/environ",
    "/%2e%2e/%2e%2e/proc/self/environ",
    f"/v1/models/{NO_MODEL}",
    "/static/../api.py",
    "//var/task/api.py",
    "/docs/../../../var/task/api.py",
    "/openapi.json%00.html",
    "/v1/models%0d%0ax-injected:1",
    "/\ud800",
    "/" + "a/" * 20_000,
    "",
]
BODIES: Final = {
    "nothing": b"",
    "no UTF-8": b'{"generate_response": "\xff\xfe"}',
    "half a character": b'{"generate_response": {"request_id": "\\ud800", "choices": []}}',
    "another encoding": '{"generate_response": {"choices": []}}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "zeros": bytes(1000),
    "not a number": b'{"generate_response": {"choices": [{"index": NaN}]}}',
    "infinity": b'{"generate_response": {"choices": [{"index": 0, "token_ids": [-Infinity]}]}}',
    "a number beyond all": b'{"generate_response": {"choices": [{"index": 1e999}]}}',
    "a long number": b'{"prompt_tokens": ' + b"9" * 10_000 + b', "generate_response": {"choices": []}}',
    "arrays in arrays": b"[" * 100_000 + b"]" * 100_000,
    "objects in objects": b'{"generate_response":' * 50_000,
    "a field within fields": b'{"generate_response": {"choices": [], "metrics": '
    + b"[" * 900
    + b"]" * 900
    + b"}}",
    "a key twice": b'{"generate_response": {"choices": []}, "generate_response": {"choices": 1}, "model": "x"}',
    "keys of Python": b'{"__class__": {"__init__": {}}, "__proto__": {}, "generate_response": {"choices": []}}',
    "variables": json.dumps({"model": VARIABLES, "generate_response": GENERATED}).encode(),
    "variables as keys": json.dumps({"generate_response": {VARIABLES: 1, "choices": VARIABLES}}).encode(),
    "a parser that is a path": json.dumps(
        {"generate_response": GENERATED, "chat_request": {"tool_choice": "/etc/passwd", "tools": [{}]}}
    ).encode(),
}
HEADERS: Final[dict[str, dict[str, str]]] = {
    "giant": {"x-large": "a" * 1_000_000},
    "many": {f"x-{number}": "a" for number in range(10_000)},
    "encodings": {"content-encoding": "gzip, " * 1000},
    "variables": {"x-request-id": VARIABLES, "accept-encoding": VARIABLES, "content-type": VARIABLES},
    "another line": {"x-request-id": "a\r\nset-cookie: a=b", "accept": "text/event-stream\r\n"},
    "no Latin-1": {"x-request-id": "\N{GRINNING FACE}", "content-encoding": "\N{GRINNING FACE}"},
    "half a character": {"x-request-id": "\ud800"},
    "another host": {"host": "[::1]:80:80", "x-forwarded-port": "x", "x-forwarded-proto": "file"},
    "a length": {"content-length": "-1", "transfer-encoding": "chunked"},
}


def hostile() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return requests of an attacker."""
    for path in PATHS:
        for method in ("GET", "POST"):
            yield f"{method} {path[:40]!a}", http_event(path, method=method)
    for name, body in BODIES.items():
        content = base64.b64encode(body).decode()
        yield name, http_event(CHAT, content, base64=True)
        yield f"{name}, completion", http_event(COMPLETIONS, content, base64=True)
        yield f"{name}, as gzip", http_event(CHAT, content, headers={"content-encoding": "gzip"}, base64=True)
    for name, headers in HEADERS.items():
        yield f"header: {name}", post(CHAT, {"generate_response": GENERATED, "chat_request": {}}, **headers)
    for method in ("TRACE", "CONNECT", "get", "", "../x", "POST\r\n", VARIABLES):
        yield f"method: {method[:10]!a}", http_event(CHAT, "{}", method=method)
    yield "no base64", http_event(CHAT, "%%%", base64=True)
    yield "a body of another type", {**http_event(CHAT), "body": {"a": 1}}
    yield "no request context", {"version": "2.0", "requestContext": {}}
    yield "a load balancer's", {"requestContext": {"elb": {}}}
    yield "a REST API's, of nothing", {"resource": "/", "requestContext": None}


HOSTILE: Final = dict(hostile())


@pytest.mark.parametrize("event", HOSTILE.values(), ids=HOSTILE)
def test_hostile_requests_learn_nothing(api: Function, event: dict[str, Any]) -> None:
    response = api(event)
    assert response["statusCode"] < 500
    assert "x-injected" not in response["headers"]
    assert "set-cookie" not in response["headers"]
    # The answer may repeat what the request says.
    told = answer(api, event).replace("\\", "")
    for said in (VARIABLES, unquote(NO_MODEL).replace("\\", "")):
        told = told.replace(said, "")
    assert leaks(told) == []


def test_the_runtime_reveals_nothing() -> None:
    others: list[Any] = [*REFUSED.values(), None, [], "x", 7]
    with Runtime(environment=SECRETS) as function:
        answered = [function.invoke(event) for event in ANSWERED.values()]
        refused = [function.invoke(event) for event in others]
    assert not any(leaks(json.dumps(response)) for response in answered + refused)
    assert [response["statusCode"] for response in answered] == [200] * len(ANSWERED)
    assert all(400 <= response["statusCode"] < 500 for response in refused)
