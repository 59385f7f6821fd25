"""`make sam-local` in a real container: the built application answers requests through `sam local`."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pytest

from tests.support.environment import inherited

from ..infra.building import ARCHITECTURE, built

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = ROOT / "examples" / "sam_local.py"
SAM: Final = Path(sys.executable).with_name("sam")
FLAGS: Final = shlex.split(os.environ.get("SAM_LOCAL_FLAGS", ""))
"""Flags that `sam local` needs on this machine."""
CHAT: Final = "/v1/chat/completions/derender"
COMPLETIONS: Final = "/v1/completions/derender"
HELLO_WORLD: Final = [9707, 11, 1879, 0]
END: Final = 151_645
LIST: Final = """
from samcli.local.docker.container_client_factory import ContainerClientFactory
for container in ContainerClientFactory.create_client().containers.list(all=True):
    print(container.id)
"""
"""Prints the ids of all containers of the engine."""
NO_ENGINE: Final = "No container engine answers"
START_SECONDS: Final = 300
STOP_SECONDS: Final = 60


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    """Name in lower case → value."""
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Application:
    """An application that `make sam-local` serves; a context manager.

    Args:
        build: Folder of the build.
        flags: More flags of examples/sam_local.py.
    """

    def __init__(self, build: Path, *flags: str) -> None:
        self.build = build
        self._port = unused_port()
        given = shlex.join(["--port", str(self._port), "--build-dir", str(build), *flags, *FLAGS])
        # The environment of the tests exists, and may be in use.
        self._command = ["make", "--assume-old=setup", "sam-local", f"BIN={Path(sys.executable).parent}"]
        self._command.append(f"SAM_LOCAL_FLAGS={given}")
        self._lines: list[str] = []
        self._serves = threading.Event()

    def __enter__(self) -> Self:
        self._make = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._serves.wait(START_SECONDS)
        if f"Serving on {self.url} until Ctrl-C.\n" not in self._lines:
            self.__exit__()
            raise RuntimeError(f"make sam-local does not serve\n{self.output}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._make.poll() is None:
            os.killpg(self._make.pid, signal.SIGINT)  # as Ctrl-C does
        self._make.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)
        assert self._make.stdout is not None
        self._make.stdout.close()

    def _read(self) -> None:
        assert self._make.stdout is not None
        for line in self._make.stdout:
            self._lines.append(line)
            if line.startswith("Serving on "):
                self._serves.set()
        self._serves.set()  # or the process has ended

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def output(self) -> str:
        """Its output so far."""
        return "".join(self._lines)

    def request(self, method: str, path: str, content: bytes | None = None, **headers: str) -> Answer:
        """Send a request. Headers have underscores in their names: `accept_encoding`."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, content, {"content-type": "application/json", **sent})
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, received, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: object, **headers: str) -> Answer:
        """Send JSON."""
        return self.request("POST", path, json.dumps(body).encode(), **headers)


def environment() -> dict[str, str]:
    """Return the user's environment, in which the container engine is."""
    return {name: value for name, value in inherited().items() if name != "SAM_LOCAL_FLAGS"} | {
        "SAM_CLI_TELEMETRY": "0"
    }


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def generated(token_ids: list[int]) -> dict[str, Any]:
    """Return a request to derender one choice of a chat."""
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": "stop"}
    return {"generate_response": {"request_id": "chatcmpl-1", "choices": [choice]}, "chat_request": {}}


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    build = tmp_path_factory.mktemp("sam-local") / "build"
    shutil.copytree(built(), build, copy_function=os.link)
    application = Application(build, "--built")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(application)
        except RuntimeError:
            # CI must not skip these tests.
            if NO_ENGINE not in application.output or os.environ.get("CI"):
                raise
            pytest.skip("no container engine answers")
        yield application


def test_the_build_is_for_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The other tests serve a build that is made in the same way and kept until a source changes."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    sam_local = runpy.run_path(str(SCRIPT))
    sam_local["build"](tmp_path)
    override = f"Architecture={ARCHITECTURE}"
    assert commands == [[str(SAM), "build", "--build-dir", str(tmp_path), "--parameter-overrides", override]]


@pytest.mark.parametrize("flags", [[], ["--built"]])
def test_it_builds_unless_told_not_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: list[str]
) -> None:
    script = runpy.run_path(str(SCRIPT))["main"].__globals__
    builds: list[Path] = []
    for name, stand_in in (
        ("has_engine", lambda: True),
        ("build", builds.append),
        ("write_served_templates", lambda folder: folder),
        ("serve", lambda *_: contextlib.nullcontext()),
        ("send_example", lambda *_: None),
    ):
        monkeypatch.setitem(script, name, stand_in)
    arguments = ["--once", "--port", str(unused_port()), "--build-dir", str(tmp_path), *flags]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert script["main"]() == 0
    assert builds == ([] if flags else [tmp_path])


def test_the_example_is_shown_and_derendered(application: Application) -> None:
    command = next(line for line in application.output.splitlines() if line.startswith("curl "))
    _, url, _, header, _, body = shlex.split(command)
    assert (url, header) == (f"{application.url}{CHAT}", "content-type: application/json")
    assert "HTTP 200" in application.output
    assert '"content": "Hello, world!"' in application.output
    again = application.post(CHAT, json.loads(body))
    assert again.json["choices"][0]["message"]["content"] == "Hello, world!"


def test_chat(application: Application) -> None:
    answer = application.post(CHAT, generated([*HELLO_WORLD, END]))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    (choice,) = answer.json["choices"]
    assert choice["message"]["content"] == "Hello, world!"
    assert choice["finish_reason"] == "stop"


def test_completion(application: Application) -> None:
    body = {"generate_responses": [generated([*HELLO_WORLD, END])["generate_response"]]}
    answer = application.post(COMPLETIONS, body)
    assert answer.status == 200
    assert answer.json["choices"][0]["text"] == "Hello, world!"


def test_a_gzipped_request_is_read(application: Application) -> None:
    content = gzip.compress(json.dumps(generated([*HELLO_WORLD, END])).encode())
    answer = application.request("POST", CHAT, content, content_encoding="gzip")
    assert answer.status == 200
    assert answer.json["choices"][0]["message"]["content"] == "Hello, world!"


@pytest.mark.parametrize("accepted", ["gzip, deflate, br", "identity"])
def test_a_large_answer_is_gzipped_if_the_client_accepts_it(application: Application, accepted: str) -> None:
    answer = application.post(CHAT, generated([*HELLO_WORLD * 2000, END]), accept_encoding=accepted)
    assert answer.status == 200
    gzipped = accepted.startswith("gzip")
    assert answer.headers.get("content-encoding") == ("gzip" if gzipped else None)
    content = gzip.decompress(answer.content) if gzipped else answer.content
    assert json.loads(content)["choices"][0]["message"]["content"] == "Hello, world!" * 2000


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "param"),
    [
        (CHAT, {}, 400, "Bad Request", "generate_response"),
        (CHAT, {"model": "other", **generated(HELLO_WORLD)}, 404, "NotFoundError", "model"),
        ("/v1/nothing", {}, 404, "NotFoundError", None),
    ],
)
def test_errors_use_the_envelope(
    application: Application, path: str, body: object, status: int, kind: str, param: str | None
) -> None:
    answer = application.post(path, body)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    error = answer.json["error"]
    assert (error["code"], error["type"], error["param"]) == (status, kind, param)


def test_the_models_of_the_layer_are_listed(application: Application) -> None:
    answer = application.get("/v1/models")
    assert answer.status == 200
    assert [model["id"] for model in answer.json["data"]] == ["Qwen3"]


def test_health(application: Application) -> None:
    answer = application.get("/health")
    assert (answer.status, answer.content) == (200, b"")


def test_a_stream_continues_from_its_state(application: Application) -> None:
    state, content, reasons = None, "", []
    for token_ids, finish in ((HELLO_WORLD[:2], None), (HELLO_WORLD[2:], None), ([END], "stop")):
        choice = {"index": 0, "token_ids": token_ids, "finish_reason": finish}
        body = {
            "stream": True,
            "generate_chunk": {"request_id": "chatcmpl-1", "choices": [choice]},
            "stream_state": state,
            "chat_request": {"stream": True},
        }
        answer = application.post(CHAT, body)
        assert answer.status == 200, answer.content
        state = answer.json["stream_state"]
        (choice,) = answer.json["chunk"]["choices"]
        content += choice["delta"]["content"] or ""
        reasons.append(choice["finish_reason"])
    assert content == "Hello, world!"
    assert reasons == [None, None, "stop"]


def test_several_chunks_are_answered_with_events(application: Application) -> None:
    choice = {"index": 0, "token_ids": [*HELLO_WORLD, END], "finish_reason": "stop"}
    body = {
        "stream": True,
        "generate_chunks": [{"request_id": "chatcmpl-1", "choices": [choice]}],
        "chat_request": {"stream": True},
    }
    answer = application.post(CHAT, body, accept="text/event-stream")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.content.endswith(b"data: [DONE]\n\n")


def test_the_batch_function_names_what_is_wrong_with_a_job(application: Application) -> None:
    job = {"input": "in.jsonl", "output": "s3://bucket/out/", "id": "job", "started": "2026-01-31T09:30:00Z"}
    served = application.build / "served.yaml"
    done = subprocess.run(
        [SAM, "local", "invoke", "BatchFunction", "--event", "-", "--template", served, *FLAGS],
        cwd=ROOT,
        env=environment(),
        input=json.dumps({"step": "plan", **job}),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["errorType"], answer["errorMessage"]) == ("BatchError", "input must be s3://bucket/key")


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a process of its own."""
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


def containers(output: str) -> set[str]:
    """Return the containers that `sam local` named and that still exist."""
    made = set(re.findall("SAM_CONTAINER_ID: ([0-9a-f]{64})", output))
    assert made
    listed = subprocess.run([sys.executable, "-c", LIST], env=environment(), capture_output=True, check=True)
    return made & set(listed.stdout.decode().split())


def test_ctrl_c_leaves_no_container(application: Application) -> None:
    with Application(application.build, "--built") as served:
        assert served.get("/health").status == 200
        assert containers(served.output)
    assert not containers(served.output)


def test_once_stops_after_the_example(application: Application) -> None:
    done = run("--once", "--built", "--port", str(unused_port()), "--build-dir", application.build, *FLAGS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"content": "Hello, world!"' in done.stdout
    assert not containers(done.stderr)


@pytest.mark.usefixtures("application")
def test_a_taken_port_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("--port", str(taken.getsockname()[1]), "--build-dir", tmp_path / "build")
    assert done.returncode == 1
    assert "Address already in use" in done.stdout
    assert not (tmp_path / "build").exists()


def test_without_an_engine_it_names_what_is_needed(tmp_path: Path) -> None:
    done = run("--build-dir", tmp_path / "build", DOCKER_HOST=f"unix://{tmp_path / 'none.sock'}")
    assert done.returncode == 1
    assert NO_ENGINE in done.stdout
    assert "docs/local.md" in done.stdout
    assert not (tmp_path / "build").exists()
