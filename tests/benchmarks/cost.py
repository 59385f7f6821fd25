"""Measures what `derender cost` needs to know: billed durations by memory, sizes of bodies, log lines.

Durations are those that the runtime interface emulator reports: from an event that the runtime fetches to the
response that it has posted, so that the runtime's own work is in them. Lambda gives a function CPU time in
proportion to its memory. Here a quota of a control group does, which needs Linux and root; without, only what
has a whole CPU is measured. A start has one always, as Lambda gives it more than its share.

    python tests/benchmarks/cost.py
    python tests/benchmarks/cost.py --task .aws-sam/build/ApiFunction --python python3.13     as it is deployed
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import gzip
import os
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "handlers"), str(ROOT / "layers" / "tokenizer")]

from derender.batch import References, Worker
from derender.batch.steps.derender import derender_part
from derender.batch.steps.plan import plan_job
from derender.batch.stores.files import FileStore
from derender.models.layer import load_models
from derender.settings import Settings, default_layer
from pricing.measured import ANSWER_TOKENS, CHUNKS, DURATIONS, MANY_CANDIDATES
from tests.benchmarks.bench import choice
from tests.support.api_client import CHAT
from tests.support.lambda_emulator import Runtime, http_event
from tests.support.paths import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE_CPU: Final = 1769
"""Memory in MB that has one vCPU, as Lambda's documentation says."""
PERIOD: Final = 20_000
"""Microseconds in which a quota is used up and renewed."""
PAUSE: Final = 0.05
"""Seconds between invocations, so that each finds its quota unused."""
REPORT: Final = re.compile(r"\tDuration: ([0-9.]+) ms")
START: Final = re.compile(r"INIT REPORT\(durationMs: ([0-9.]+)\)")
LINE: Final = re.compile(r"^(START|END|REPORT) RequestId: |^\{")
"""What CloudWatch has too; the other lines are the emulator's own."""
LINE_BYTES: Final = 26
"""What CloudWatch counts for each line besides its length."""
BATCH_BYTES: Final = 4_000_000
VOCABULARY: Final = 151_643


class Case(NamedTuple):
    """Something to derender."""

    name: str
    event: dict[str, Any]


class Measured(NamedTuple):
    """What an invocation takes: medians."""

    milliseconds: float
    start_milliseconds: float
    request_bytes: int
    answer_bytes: int
    log_bytes: int


def answers() -> tuple[bytes, bytes]:
    """Requests to derender a complete answer: without log probabilities, with many candidates."""
    rng = random.Random(1)
    token_ids = [rng.randrange(VOCABULARY) for _ in range(ANSWER_TOKENS)]
    plain = {"index": 0, "token_ids": token_ids, "finish_reason": "stop"}
    client = {"logprobs": True, "top_logprobs": MANY_CANDIDATES}
    return request(plain, {}), request(choice(rng, token_ids, "id", VOCABULARY), client)


def request(generated: dict[str, Any], client: dict[str, Any]) -> bytes:
    response = {"request_id": "r", "choices": [generated]}
    return orjson.dumps({"generate_response": response, "chat_request": client})


def chunks(count: int) -> bytes:
    """A request to derender the first chunks of a stream, of one token each. Later ones take as long."""
    sent = [{"request_id": "r", "choices": [{"index": 0, "token_ids": [9707 + each]}]} for each in range(count)]
    body = {"generate_chunk": sent[0]} if count == 1 else {"generate_chunks": sent}
    return orjson.dumps({"stream": True, **body, "stream_state": None, "chat_request": {"stream": True}})


def cases() -> list[Case]:
    """What the api function is asked."""
    plain, candidates = answers()
    zipped = base64.b64encode(gzip.compress(candidates)).decode()
    headers = {"content-encoding": "gzip", "accept-encoding": "gzip"}
    return [
        Case("an answer", http_event(CHAT, plain.decode())),
        Case("an answer with candidates", http_event(CHAT, candidates.decode())),
        Case("the same, gzipped", http_event(CHAT, zipped, headers=headers, base64=True)),
        Case("a chunk", http_event(CHAT, chunks(1).decode())),
        Case(f"{CHUNKS} chunks", http_event(CHAT, chunks(CHUNKS).decode())),
    ]


@contextlib.contextmanager
def limited(pid: int, memory: int) -> Iterator[None]:
    """Give a process the share of a CPU that a size of memory has.

    Raises:
        OSError: It can't be done here.
    """
    if memory >= WHOLE_CPU:
        yield
        return
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    parent = Path("/sys/fs/cgroup") if unified else Path(f"/sys/fs/cgroup/cpu{own_group('cpu')}")
    group = parent / f"derender-cost-{pid}"
    quota = round(memory / WHOLE_CPU * PERIOD)
    group.mkdir()
    try:
        if unified:
            (group / "cpu.max").write_text(f"{quota} {PERIOD}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        (parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def own_group(controller: str) -> str:
    """This process's control group, of the first version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    raise FileNotFoundError(f"no control group of {controller}")


def measure(case: Case, memory: int, rounds: int, runtime: Runtime) -> Measured:
    """Start a function and invoke it."""
    with runtime:
        answer = invoke(runtime, case)
        (start,) = START.findall(runtime.logs)
        before = len(runtime.logs)
        with limited(runtime.pid, memory):
            for _ in range(rounds):
                time.sleep(PAUSE)
                invoke(runtime, case)
        logs = runtime.logs[before:]
    lines = [line for line in logs.splitlines() if LINE.match(line)]
    return Measured(
        statistics.median(map(float, REPORT.findall(logs))),
        float(start),
        sent_bytes(case.event),
        sent_bytes(answer),
        sum(len(line.encode()) + LINE_BYTES for line in lines) // rounds,
    )


def invoke(runtime: Runtime, case: Case) -> dict[str, Any]:
    answer: dict[str, Any] = runtime.invoke(case.event)
    if answer.get("statusCode") != 200:
        raise SystemExit(f"{case.name}: {answer}")
    return answer


def sent_bytes(message: dict[str, Any]) -> int:
    """The size of a body between client and API."""
    body = message["body"].encode()
    return len(base64.b64decode(body)) if message["isBase64Encoded"] else len(body)


def measure_batch(body: bytes, memory: int, rounds: int) -> float:
    """Milliseconds for a line of a batch, of files."""
    models = load_models(Settings.from_environment({}))
    bound = 1 << 25
    references = References(FileStore, bound)
    worker = Worker(FileStore(), models, max_body_bytes=bound, max_sequences=1 << 14, references=references)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.jsonl")
        line = b'{"custom_id":"%d","method":"POST","url":"%b","body":%b}\n'
        count = BATCH_BYTES // len(body)
        source.write_bytes(b"".join(line % (each, CHAT.encode(), body) for each in range(count)))
        times = []
        with limited(os.getpid(), memory):
            for each in range(rounds):
                (Path(folder) / str(each)).mkdir()
                job = plan_job(worker.store, str(source), f"{folder}/{each}/", "job", 0)
                begin = time.perf_counter()
                for start in job.starts:
                    derender_part(worker, job, start, is_late=lambda: False, observe=lambda _: None)
                times.append(time.perf_counter() - begin)
    return statistics.median(times) / count * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="how often each is invoked (%(default)s)")
    parser.add_argument("--task", type=Path, default=HANDLERS, help="folder of the function (%(default)s)")
    parser.add_argument("--python", default=sys.executable, help="interpreter, with awslambdaric (%(default)s)")
    options = parser.parse_args()
    environment = {
        "DERENDER_SERVICE": "derender",
        "DERENDER_LAYER": str(default_layer()),
        "PYDANTIC_DISABLE_PLUGINS": "__all__",
    }
    print(f"{'':26}{'MB':>5}{'ms':>9}{'start ms':>10}{'request':>9}{'answer':>9}{'logs':>6}")
    for case in cases():
        for memory in DURATIONS:
            runtime = Runtime(options.task, environment=environment, python=options.python)
            try:
                found = measure(case, memory, options.rounds, runtime)
            except OSError as error:
                print(f"{case.name:26}{memory:5}  not measured: {error}")
                continue
            print(
                f"{case.name:26}{memory:5}{found[0]:9.2f}{found[1]:10.0f}{found[2]:9}{found[3]:9}{found[4]:6}"
            )
    for name, body in zip(("a line", "a line with candidates"), answers(), strict=True):
        for memory in DURATIONS:
            try:
                print(f"{name:26}{memory:5}{measure_batch(body, memory, max(options.rounds // 20, 1)):9.2f}")
            except OSError as error:
                print(f"{name:26}{memory:5}  not measured: {error}")


if __name__ == "__main__":
    main()
