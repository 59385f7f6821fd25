"""Measures batches: generations a second on one worker and on two, beside the derendering alone.

Workers are processes, as `derender batch` starts them; their start is not counted. Asserts nothing.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from derender.batch.local.paths import locate_outputs
from derender.batch.local.processes import derender_parts
from derender.batch.local.work_folder import open_job
from derender.endpoints import ENDPOINTS, answer
from derender.models.layer import load_models
from derender.protocol.writing import dumps
from derender.settings import Settings
from tests.benchmarks.table import TOKENS, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.telemetry.tally import Tally

__all__ = ["rows"]

CHAT: Final = ENDPOINTS["/v1/chat/completions/derender"]
CANDIDATES: Final = 20
SIZE: Final = 151_643
"""Ids below this are text."""
PARTS: Final = 24
"""Of an input, at least: with fewer, two workers wait for each other at the end."""
ALONE: Final = 8 * 1024 * 1024
"""Bytes of bodies that are derendered in a loop."""
_MIB: Final = 1024 * 1024
_WEIGHTS: Final = [*accumulate(1 / (rank + 10) for rank in range(SIZE))]
"""Ids are as frequent as words are (Zipf's law)."""


def rows(rounds: int = 15) -> list[Row]:
    """All figures; each is a median of a third as many rounds, measured in turns."""
    settings = Settings.from_environment({})
    found = []
    for name, candidates in (("no logprobs", 0), (f"{CANDIDATES} candidates", CANDIDATES)):
        with tempfile.TemporaryDirectory() as folder:
            bodies = _bodies(candidates)
            source = Path(folder, "in.jsonl")
            source.write_bytes(b"".join(map(_line, range(len(bodies)), bodies)))
            some = bodies[: max(1, ALONE // len(bodies[0]))]
            turns = [
                (_alone(settings, some), _workers(settings, source, 1), _workers(settings, source, 2))
                for _ in range(max(rounds // 3, 1))
            ]
        alone, one, two = zip(*turns, strict=True)
        title = f"batch, {TOKENS} tokens, {name}"
        found += [
            _row(f"{title}, one worker", one, "endpoints.answer in a loop", alone, "0.8 times"),
            _row(f"{title}, two workers", two, "one worker", one, "1.7 times"),
        ]
    return found


def _row(measure: str, ours: Sequence[float], against: str, theirs: Sequence[float], goal: str) -> Row:
    # Taken within turns: what loads the machine meanwhile loads both of a turn.
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    figures = [f"{statistics.median(rates):,.0f} a second" for rates in (ours, theirs)]
    return Row(measure, figures[0], against, figures[1], f"{ratio:.2f}", goal)


def _alone(settings: Settings, bodies: list[bytes]) -> float:
    """Generations a second that are derendered and written as JSON, and nothing else."""
    models = load_models(settings)
    dumps(answer(CHAT, models, bodies[0], 0).content)
    begun = time.perf_counter()
    for body in bodies:
        dumps(answer(CHAT, models, body, 0).content)
    return len(bodies) / (time.perf_counter() - begun)


def _workers(settings: Settings, source: Path, workers: int) -> float:
    """Generations a second from the end of the first part on."""
    done: list[tuple[float, int]] = []

    def advance(_: int, tally: Tally) -> None:
        if tally.failed:
            raise SystemExit(f"a batch failed with {tally.failed}")
        done.append((time.perf_counter(), tally.completed))

    job = open_job(source, locate_outputs(source.with_name("out.jsonl")), settings, restart=True)
    derender_parts(job, settings, workers=workers, advance=advance)
    (begun, _), *rest = done
    return sum(completed for _, completed in rest) / (rest[-1][0] - begun)


def _line(number: int, body: bytes) -> bytes:
    url = CHAT.derender_path.encode()
    return b'{"custom_id":"%d","method":"POST","url":"%b","body":%b}\n' % (number, url, body)


def _bodies(candidates: int) -> list[bytes]:
    """Requests that fill the parts; each generation is another."""
    rng = random.Random(1)
    bodies: list[bytes] = []
    size = 0
    while size < PARTS * _MIB:
        token_ids = rng.choices(range(SIZE), cum_weights=_WEIGHTS, k=TOKENS)
        choice: dict[str, Any] = {"index": 0, "token_ids": token_ids, "finish_reason": "stop"}
        if candidates:
            choice["logprobs"] = {"content": [_entry(rng, token_id, candidates) for token_id in token_ids]}
        client = {"messages": [], "logprobs": bool(candidates), "top_logprobs": candidates}
        response = {"request_id": f"gen-{len(bodies)}", "choices": [choice]}
        bodies.append(orjson.dumps({"generate_response": response, "chat_request": client}))
        size += len(bodies[-1])
    return bodies


def _entry(rng: random.Random, token_id: int, candidates: int) -> dict[str, Any]:
    others = rng.choices(range(SIZE), cum_weights=_WEIGHTS, k=candidates - 1)
    ranked = [
        {"token_id": each, "logprob": -rng.random() * 8, "rank": rank}
        for rank, each in enumerate([token_id, *others], 1)
    ]
    return {**ranked[0], "top_logprobs": ranked}
