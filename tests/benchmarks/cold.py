"""Measures start and memory under the real runtime, beside the least that FastAPI and Mangum can be.

Both functions run on this Python, in turns, compiled beforehand as in the deployed package. Asserts nothing.
Ratios and differences are medians of those within a turn, so that load from elsewhere counts less.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import py_compile
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.runtime import CHAT, HANDLERS, Runtime, http_event  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["TOKENS", "Row", "cold_start", "memory", "rows", "show"]

TOKENS: Final = 595
REQUESTS: Final = 100
BARE: Final = f"""
from fastapi import FastAPI
from mangum import Mangum

app = FastAPI()


@app.post("{CHAT}")
async def answer() -> dict[str, str]:
    return {{"content": "Hello, world!"}}


handler = Mangum(app, lifespan="off")
"""


class Row(NamedTuple):
    """One line of the table."""

    measure: str
    ours: str
    against: str
    theirs: str
    ratio: str
    goal: str


def rows(rounds: int = 9) -> list[Row]:
    """Start and memory, each measured `rounds` times."""
    return [*cold_start(rounds), *memory(rounds)]


def cold_start(rounds: int = 9) -> list[Row]:
    """From starting the emulator to the first response."""

    def measure(task: Path) -> dict[str, float]:
        start = time.perf_counter()
        with _runtime(task) as runtime:
            _answered(runtime)
            return {"start to first response": (time.perf_counter() - start) * 1e3}

    return _in_turns(rounds, measure, "ms", "1.2 times")


def memory(rounds: int = 9) -> list[Row]:
    """Memory of the function's process after 100 requests of 595 tokens."""

    def measure(task: Path) -> dict[str, float]:
        with _runtime(task) as runtime:
            for _ in range(REQUESTS):
                _answered(runtime)
            process = Path(f"/proc/{runtime.pid}")
            figures = {"resident": _kilobytes(process / "status", "VmRSS")}
            with contextlib.suppress(OSError):
                figures["proportional"] = _kilobytes(process / "smaps_rollup", "Pss")
        return {f"{name} after {REQUESTS} requests": value / 1024 for name, value in figures.items()}

    return _in_turns(rounds, measure, "MB", "25 MB more")


def _in_turns(rounds: int, measure: Callable[[Path], dict[str, float]], unit: str, goal: str) -> list[Row]:
    with _tasks() as tasks:
        for task in tasks:
            measure(task)
        taken: dict[Path, list[dict[str, float]]] = {task: [] for task in tasks}
        for turn in range(rounds):
            for task in tasks[:: -1 if turn % 2 else 1]:
                taken[task].append(measure(task))
    found = []
    for name in taken[tasks[0]][0]:
        ours, theirs = ([figures[name] for figures in taken[task]] for task in tasks)
        pairs = list(zip(ours, theirs, strict=True))
        # Taken within turns: what loads the machine meanwhile loads both of a turn.
        ratio = statistics.median(mine / other for mine, other in pairs)
        difference = statistics.median(mine - other for mine, other in pairs)
        found.append(
            Row(
                name,
                f"{statistics.median(ours):.1f} {unit}",
                "bare FastAPI function",
                f"{statistics.median(theirs):.1f} {unit}",
                f"{ratio:.2f} ({difference:+.1f} {unit})",
                goal,
            )
        )
    return found


@contextlib.contextmanager
def _tasks() -> Iterator[tuple[Path, Path]]:
    """The code folders of our function and the bare one, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        ours, bare = Path(folder, "ours"), Path(folder, "bare")
        shutil.copytree(HANDLERS, ours, ignore=shutil.ignore_patterns("__pycache__"))
        bare.mkdir()
        (bare / "api.py").write_text(BARE, encoding="utf-8")
        for task in (ours, bare):
            compileall.compile_dir(
                task, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
            )
        yield ours, bare


def _runtime(task: Path) -> Runtime:
    return Runtime(task, environment={"DERENDER_LAYER": str(ROOT / "layers" / "tokenizer" / "default")})


def _answered(runtime: Runtime) -> None:
    token_ids = [*([9707, 11, 1879, 0] * TOKENS)[: TOKENS - 1], 151_645]
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": "stop"}
    body = {"generate_response": {"request_id": "chatcmpl-1", "choices": [choice]}, "chat_request": {}}
    answer = runtime.invoke(http_event(CHAT, json.dumps(body)))
    if answer.get("statusCode") != 200:
        raise RuntimeError(f"{answer}\n{runtime.logs}")


def _kilobytes(file: Path, field: str) -> float:
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return float(value.split()[0])
    raise RuntimeError(f"{file} has no {field}")


def show(found: Iterable[Row]) -> None:
    """Print rows as a table."""
    table = Table(header_style="bold")
    for column in ("measure", "derender", "against", "", "ratio", "goal"):
        table.add_column(column, justify="left" if column in ("measure", "against") else "right")
    for row in found:
        table.add_row(*row)
    Console(width=140).print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="how often each is measured (%(default)s)")
    show(rows(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
