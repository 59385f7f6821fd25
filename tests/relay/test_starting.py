"""How the relay starts: as a script behind the Web Adapter, and by the command line."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from derender.cli import main
from derender.settings import SettingsError
from lambda_runtime.web_adapter import read_port
from tests.support.functions import load_function, same_logging
from tests.support.generate_protocol import chunks_of, generate_request
from tests.support.paths import HANDLERS
from tests.support.qwen3 import END, qwen3
from tests.support.relay_client import CHAT, RELAY
from tests.support.upstream_server import stream
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.upstream_server import UpstreamServer

UPSTREAMS: Final = '{"gpu": "http://127.0.0.1:1"}'


def start_script(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, HANDLERS / "relay.py"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_script_relays_on_the_port_of_the_adapter(upstream: UpstreamServer, unused_port: int) -> None:
    upstream.replies(stream(chunks_of([*qwen3().encode("one two"), END])))
    environment = {
        "AWS_LWA_PORT": str(unused_port),
        "DERENDER_UPSTREAMS": json.dumps({"gpu": upstream.url}),
    }
    url = f"http://127.0.0.1:{unused_port}"
    with start_script(environment) as function, httpx.Client(trust_env=False, verify=False) as client:  # noqa: S501

        def is_ready() -> bool:
            try:
                return client.get(f"{url}/health").status_code == 200
            except httpx.TransportError:
                return False

        wait_until(is_ready, 20)
        body = {"generate_request": generate_request(), "chat_request": {"stream": True}}
        response = client.post(url + CHAT + RELAY, json=body)
        assert response.text.endswith("data: [DONE]\n\n")
        assert client.post(url + CHAT, json={}).status_code == 404  # no service renders
        function.terminate()
        out, err = function.communicate(timeout=20)
    assert [json.loads(line)["status"] for line in out.splitlines()] == [200, 404]
    assert err == ""


def test_the_script_exits_with_one_line_that_names_the_setting() -> None:
    with start_script({"DERENDER_UPSTREAMS": "x"}) as function:
        out, err = function.communicate(timeout=20)
    assert (function.returncode, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("derender: DERENDER_UPSTREAMS: ")


@pytest.fixture
def _same_process() -> Iterator[None]:
    """A function that exits leaves its logging behind, and the garbage collector off."""
    with same_logging():
        yield
    gc.enable()


@pytest.mark.usefixtures("_same_process")
@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "DERENDER_UPSTREAMS"),
        ({"DERENDER_UPSTREAMS": "{}"}, "DERENDER_UPSTREAMS"),
        ({"DERENDER_UPSTREAMS": UPSTREAMS, "DERENDER_RENDER_URL": "x"}, "DERENDER_RENDER_URL"),
        ({"DERENDER_UPSTREAMS": '{"gpu": {"url": "http://a", "model": "x"}}'}, "DERENDER_UPSTREAMS"),
        ({"DERENDER_UPSTREAMS": UPSTREAMS, "PORT": "http"}, "PORT"),
    ],
)
def test_the_relay_does_not_start_with_an_invalid_setting(environment: Mapping[str, str], name: str) -> None:
    with pytest.raises(SystemExit, match=rf"^derender: {name}\b"):
        load_function("relay", environment)


@pytest.mark.parametrize(
    ("environment", "port"),
    [
        ({}, 8080),
        ({"PORT": "1"}, 1),
        ({"AWS_LWA_PORT": "65535", "PORT": "1"}, 65_535),
        ({"AWS_LWA_PORT": "", "PORT": "7"}, 7),
    ],
)
def test_the_port_is_that_of_the_adapter(environment: Mapping[str, str], port: int) -> None:
    assert read_port(environment) == port


@pytest.mark.parametrize("text", ["http", "0", "65536", "-1", "1.5", "٣"])
@pytest.mark.parametrize("name", ["PORT", "AWS_LWA_PORT"])
def test_an_invalid_port_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} must be a port from 1 to 65535"):
        read_port({name: text})


def test_the_api_function_imports_nothing_that_few_need() -> None:
    code = (
        "import api, sys; loaded = [name for name in sys.modules if name.startswith(('httpx', 'httpcore', "
        "'uvicorn', 'derender.relay', 'anyio._backends', 'starlette.middleware.cors'))]; print(loaded)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HANDLERS, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_the_command_line_serves_the_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr("uvicorn.run", lambda app, **_: served.append(app))
    monkeypatch.setenv("DERENDER_UPSTREAMS", UPSTREAMS)
    assert main(["serve"]) == 0
    (app,) = served
    assert CHAT + RELAY in {route.path for route in app.routes}
