"""Measures start and memory under the real runtime, beside a minimal FastAPI function, and with many models.

Both run on this Python, in turns, compiled beforehand as in the deployed package. Ratios and differences are
medians of those within a turn, so that load from elsewhere counts less.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import os
import py_compile
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "handlers")]

from msgspec.structs import replace

from derender.vocabulary import dump, load
from tests.benchmarks.table import TOKENS, Row, show
from tests.support.api_client import CHAT
from tests.support.lambda_emulator import Runtime, http_event
from tests.support.paths import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["cold_start", "memory", "rows", "several_models"]

Subject = TypeVar("Subject")

REQUESTS: Final = 100
MODELS: Final = 20
BUNDLED: Final = ROOT / "layers" / "tokenizer" / "default"
BARE_NAME: Final = "bare FastAPI function"
BARE: Final = f"""
from fastapi import FastAPI
from mangum import Mangum

app = FastAPI()


@app.post("{CHAT}")
async def answer() -> dict[str, str]:
    return {{"content": "Hello, world!"}}


handler = Mangum(app, lifespan="off")
"""
BARE_SERVER: Final = """
import os

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.get("/health")
async def health() -> None:
    pass


uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning", access_log=False)
"""
EVERYTHING_ON: Final = {
    "DERENDER_SERVICE": "derender",
    "DERENDER_STATE_KEY": "0123456789abcdef",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}
"""The variables that the template sets, besides the model."""


def rows(rounds: int = 9) -> list[Row]:
    """Measure start and memory, each `rounds` times."""
    (qwen3,) = BUNDLED.glob("*.vocab")
    return [
        *cold_start(rounds),
        *other_functions(rounds),
        *memory(rounds),
        *several_models(rounds, "Qwen3", qwen3),
    ]


def cold_start(rounds: int = 9) -> list[Row]:
    """Measure the time from starting the emulator to the first response."""

    def measure(task: Path) -> dict[str, float]:
        start = time.perf_counter()
        with _runtime(task) as runtime:
            _send_request(runtime)
            return {"start to first response": (time.perf_counter() - start) * 1e3}

    with _tasks() as tasks:
        return _in_turns(rounds, measure, tasks, BARE_NAME, "ms", "1.2 times")


def other_functions(rounds: int = 9) -> list[Row]:
    """Measure the start of the other functions.

    The batch function gets an unknown step, because S3 is not there. The relay, a server of its own, gets a
    health check, as from the Web Adapter.
    """
    events: dict[str, object] = {
        "batch": {"step": "none"},
        "authorizer": {"version": "2.0", "headers": {"authorization": "Bearer key"}},
    }

    def measure(subject: tuple[Path, str]) -> dict[str, float]:
        task, name = subject
        start = time.perf_counter()
        with _runtime(task, handler=f"{name}.handler") as runtime:
            if name in events:
                runtime.invoke(events[name])
            else:
                _send_request(runtime)
            return {"": (time.perf_counter() - start) * 1e3}

    def measure_server(task: Path) -> dict[str, float]:
        return {"": _until_ready(task) * 1e3}

    with _tasks() as (ours, bare):
        found = [
            row._replace(measure=f"start to first response, {name}")
            for name in events
            for row in _in_turns(rounds, measure, ((ours, name), (bare, "api")), BARE_NAME, "ms", "")
        ]
        servers = _in_turns(rounds, measure_server, (ours, bare), "bare FastAPI server", "ms", "")
        return [*found, *(row._replace(measure="start to first response, relay") for row in servers)]


def memory(rounds: int = 9) -> list[Row]:
    """Measure the memory of the function's process after 100 requests of 595 tokens."""

    def measure(task: Path) -> dict[str, float]:
        with _runtime(task) as runtime:
            for _ in range(REQUESTS):
                _send_request(runtime)
            process = Path(f"/proc/{runtime.pid}")
            figures = {"resident": _kilobytes(process / "status", "VmRSS")}
            with contextlib.suppress(OSError):
                figures["proportional"] = _kilobytes(process / "smaps_rollup", "Pss")
        return {f"{name} after {REQUESTS} requests": value / 1024 for name, value in figures.items()}

    with _tasks() as tasks:
        return _in_turns(rounds, measure, tasks, BARE_NAME, "MB", "25 MB more")


def several_models(rounds: int, name: str, file: Path) -> list[Row]:
    """Measure the start with many models in the layer, and memory after a request to each of them.

    Args:
        rounds: Number of measurements.
        name: The models' name in the table.
        file: The vocabulary of all models.
    """
    start = f"start to first response, {MODELS} models like {name}"

    def measure_start(folder: Path) -> dict[str, float]:
        begin = time.perf_counter()
        with _runtime(ours, folder) as runtime:
            _send_request(runtime, _model(0))
            return {start: (time.perf_counter() - begin) * 1e3}

    def measure_memory(folder: Path) -> dict[str, float]:
        with _runtime(ours, folder) as runtime:
            for number in range(len(list(folder.iterdir()))):
                _send_request(runtime, _model(number))
            resident = _kilobytes(Path(f"/proc/{runtime.pid}/status"), "VmRSS") / 1024
        return {f"resident after a request to each of {MODELS} like {name}": resident}

    with _tasks() as (ours, _), _layers(file) as layers:
        return [
            *_in_turns(rounds, measure_start, layers, "one model", "ms", "1.2 times"),
            *_in_turns(rounds, measure_memory, layers, "one model", "MB", ""),
        ]


def _in_turns(
    rounds: int,
    measure: Callable[[Subject], dict[str, float]],
    subjects: tuple[Subject, Subject],
    against: str,
    unit: str,
    goal: str,
) -> list[Row]:
    for subject in subjects:
        measure(subject)
    taken: dict[Subject, list[dict[str, float]]] = {subject: [] for subject in subjects}
    for turn in range(rounds):
        for subject in subjects[:: -1 if turn % 2 else 1]:
            taken[subject].append(measure(subject))
    found = []
    for name in taken[subjects[0]][0]:
        ours, theirs = ([figures[name] for figures in taken[subject]] for subject in subjects)
        pairs = list(zip(ours, theirs, strict=True))
        # Other load on the machine slows both measurements of a turn.
        ratio = statistics.median(mine / other for mine, other in pairs)
        difference = statistics.median(mine - other for mine, other in pairs)
        found.append(
            Row(
                name,
                f"{statistics.median(ours):.1f} {unit}",
                against,
                f"{statistics.median(theirs):.1f} {unit}",
                f"{ratio:.2f} ({difference:+.1f} {unit})",
                goal,
            )
        )
    return found


@contextlib.contextmanager
def _tasks() -> Iterator[tuple[Path, Path]]:
    """Yield the code folders of our function and of the bare one, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        ours, bare = Path(folder, "ours"), Path(folder, "bare")
        shutil.copytree(HANDLERS, ours, ignore=shutil.ignore_patterns("__pycache__"))
        bare.mkdir()
        (bare / "api.py").write_text(BARE, encoding="utf-8")
        (bare / "relay.py").write_text(BARE_SERVER, encoding="utf-8")
        for task in (ours, bare):
            compileall.compile_dir(
                task, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
            )
        yield ours, bare


@contextlib.contextmanager
def _layers(file: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a layer of many models and a layer of one. All are copies of a vocabulary."""
    vocabulary = load(file)
    assert vocabulary.tokenizer is None
    pieces = [vocabulary.pieces[token_id] for token_id in range(vocabulary.manifest.size)]
    with tempfile.TemporaryDirectory() as folder:
        layers = Path(folder, "many"), Path(folder, "one")
        for layer, count in zip(layers, (MODELS, 1), strict=True):
            layer.mkdir()
            for number in range(count):
                manifest = replace(vocabulary.manifest, name=_model(number))
                (layer / f"{number}.vocab").write_bytes(dump(manifest, pieces))
        yield layers


def _model(number: int) -> str:
    return f"model-{number}"


def _runtime(task: Path, layer: Path = BUNDLED, *, handler: str = "api.handler") -> Runtime:
    environment = {**EVERYTHING_ON, "DERENDER_LAYER": str(layer)}
    return Runtime(task, handler=handler, environment=environment)


def _until_ready(task: Path) -> float:
    """Return the seconds from starting a server to its first answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **EVERYTHING_ON,
        "DERENDER_LAYER": str(BUNDLED),
        "DERENDER_UPSTREAMS": '{"gpu": "http://127.0.0.1:9"}',
        "PATH": os.defpath,
        "PORT": str(port),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    start = time.perf_counter()
    server = subprocess.Popen([sys.executable, task / "relay.py"], cwd=task, env=environment)
    try:
        while server.poll() is None:
            connection = HTTPConnection("127.0.0.1", port, timeout=10)
            with contextlib.closing(connection), contextlib.suppress(OSError):
                connection.request("GET", "/health")
                if connection.getresponse().status == HTTPStatus.OK:
                    return time.perf_counter() - start
            time.sleep(0.002)
    finally:
        server.kill()
        server.wait()
    raise RuntimeError(f"the server in {task} ended")


def _send_request(runtime: Runtime, model: str | None = None) -> None:
    token_ids = [*([9707, 11, 1879, 0] * TOKENS)[: TOKENS - 1], 151_645]
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": "stop"}
    body = {
        "model": model,
        "generate_response": {"request_id": "chatcmpl-1", "choices": [choice]},
        "chat_request": {},
    }
    answer = runtime.invoke(http_event(CHAT, json.dumps(body)))
    if answer.get("statusCode") != 200:
        raise RuntimeError(f"{answer}\n{runtime.logs}")


def _kilobytes(file: Path, field: str) -> float:
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return float(value.split()[0])
    raise RuntimeError(f"{file} has no {field}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each figure (%(default)s)")
    show(rows(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
