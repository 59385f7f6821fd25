"""The relay as it is started: on Lambda as a script behind the Web Adapter, and by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from fastapi.routing import APIRoute

from derender.cli import main
from derender.http.app import create_app
from derender.models.layer import load_models
from derender.relay import RelaySettings, Upstream
from derender.relay.app import create_relay_app
from derender.settings import Settings
from tests.support.generate_protocol import chunks_of, generate_request
from tests.support.qwen3 import END, qwen3
from tests.support.relay_server import CHAT, COMPLETIONS, RELAY
from tests.support.upstream_server import stream
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.relay_server import RelayServer
    from tests.support.upstream_server import UpstreamServer

HANDLERS: Final = Path(__file__).parents[2] / "handlers"


def start(script: str, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("DERENDER_", "AWS_"))
    }
    return subprocess.Popen(
        [sys.executable, HANDLERS / script],
        env={**variables, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("variable", ["PORT", "AWS_LWA_PORT"])
def test_the_function_relays_on_the_port_of_the_adapter(
    upstream: UpstreamServer, unused_port: int, variable: str
) -> None:
    upstream.replies(stream(chunks_of([*qwen3().encode("one two"), END])))
    environment = {variable: str(unused_port), "DERENDER_UPSTREAMS": f'{{"gpu": "{upstream.url}"}}'}
    url = f"http://127.0.0.1:{unused_port}"
    with start("relay.py", environment) as function, httpx.Client(trust_env=False, verify=False) as client:  # noqa: S501

        def is_ready() -> bool:
            try:
                return client.get(f"{url}/health").status_code == 200
            except httpx.TransportError:
                return False

        wait_until(is_ready, 20)
        body = {"generate_request": generate_request(), "chat_request": {"stream": True}}
        response = client.post(url + CHAT + RELAY, json=body)
        assert response.text.endswith("data: [DONE]\n\n")
        assert client.post(url + CHAT, json={}).status_code == 404  # there is nothing that renders
        function.terminate()
        out, err = function.communicate(timeout=20)
    assert [json.loads(line)["status"] for line in out.splitlines()] == [200, 404]
    assert err == ""


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "DERENDER_UPSTREAMS"),
        ({"DERENDER_UPSTREAMS": "x"}, "DERENDER_UPSTREAMS"),
        ({"DERENDER_UPSTREAMS": '{"gpu": "http://127.0.0.1:1"}', "PORT": "http"}, "PORT"),
        ({"DERENDER_UPSTREAMS": '{"gpu": "http://127.0.0.1:1"}', "AWS_LWA_PORT": "65536"}, "AWS_LWA_PORT"),
    ],
)
def test_the_function_does_not_start_with_a_bad_setting(environment: Mapping[str, str], named: str) -> None:
    with start("relay.py", environment) as function:
        out, err = function.communicate(timeout=20)
    assert (function.returncode, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("derender: ")
    assert named in line


def test_the_api_function_imports_nothing_that_few_need() -> None:
    code = (
        "import api, sys; loaded = [name for name in sys.modules if name.startswith(('httpx', 'httpcore', "
        "'uvicorn', 'derender.relay', 'anyio._backends', 'starlette.middleware.cors'))]; print(loaded)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HANDLERS, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_there_are_no_routes_that_nobody_answers() -> None:
    models = load_models(Settings.from_environment({}))
    relay = RelaySettings((Upstream("gpu", "http://127.0.0.1:1"),))
    alone, relaying = (
        {route.path for route in app.routes if isinstance(route, APIRoute)}
        for app in (
            create_app(models, max_body_bytes=1),
            create_relay_app(models, relay, max_body_bytes=1),
        )
    )
    assert relaying - alone == {CHAT + RELAY, COMPLETIONS + RELAY}


def test_the_command_line_relays(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr("uvicorn.run", lambda app, **_: served.append(app))
    monkeypatch.setenv("DERENDER_UPSTREAMS", '{"gpu": "http://127.0.0.1:1"}')
    assert main(["serve"]) == 0
    (app,) = served
    assert CHAT + RELAY in {route.path for route in app.routes}


def test_the_derender_endpoint_is_there_too(relay: RelayServer) -> None:
    choice = {"index": 0, "token_ids": qwen3().encode("one"), "finish_reason": "stop"}
    response = relay.post(f"{CHAT}/derender", {"generate_response": {"choices": [choice]}, "chat_request": {}})
    assert response.json()["choices"][0]["message"]["content"] == "one"
    document = relay.get("/openapi.json").json()
    assert {CHAT, COMPLETIONS, CHAT + RELAY, COMPLETIONS + RELAY} <= document["paths"].keys()
