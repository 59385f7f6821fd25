"""Measures speed and memory beside their baselines, and prints a table.

Each figure is a median. It is measured in turns with its baseline, so that a busy machine slows both: ratios
say more than times.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import orjson
from tokenizers import Tokenizer

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "handlers"), str(ROOT / "layers" / "tokenizer")]

from derender.decoding.detokenizer import detokenize
from derender.decoding.state import DetokenizerState
from derender.vocabulary import load
from fetch import fetch
from layer_compiler import build
from layer_compiler.corpus import TEXTS
from tests.benchmarks import batch, cold, compiling, isolation, parsing, streaming
from tests.benchmarks.table import TOKENS, Row, in_turns, milliseconds, show
from tests.support.api_client import CHAT
from tests.support.lambda_emulator import http_event

CANDIDATES = 20
COMPLETIONS = "/v1/completions/derender"

LOAD = """
import sys, time
from pathlib import Path
from derender.vocabulary import load
start = time.perf_counter()
load(Path(sys.argv[1]), check_order=False)
print(time.perf_counter() - start)
"""
FROM_FILE = """
import sys, time
from tokenizers import Tokenizer
start = time.perf_counter()
Tokenizer.from_file(sys.argv[1])
print(time.perf_counter() - start)
"""


def choice(rng: random.Random, token_ids: list[int], form: str, vocabulary: int) -> dict[str, Any]:
    """Return a generated choice with candidates, as generate servers send it."""

    def candidate(token_id: int, rank: int) -> dict[str, Any]:
        logprob = -rng.random() * 8
        if form == "placeholder":
            return {"token": f"token_id:{token_id}", "logprob": logprob, "bytes": None}
        return {"token_id": token_id, "logprob": logprob, "rank": rank}

    content = []
    for token_id in token_ids:
        sampled = candidate(token_id, 1)
        others = [candidate(rng.randrange(vocabulary), rank) for rank in range(2, CANDIDATES + 1)]
        content.append({**sampled, "top_logprobs": [sampled, *others]})
    return {"index": 0, "token_ids": token_ids, "finish_reason": "stop", "logprobs": {"content": content}}


def load_rows(rounds: int, name: str, folder: Path, file: Path, goal: str) -> list[Row]:
    """Measure the time until a vocabulary is ready, each in a new process."""

    def run(program: str, path: Path) -> float:
        command = [sys.executable, "-c", program, str(path)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    times = [(run(LOAD, file), run(FROM_FILE, folder / "tokenizer.json")) for _ in range(rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    return [
        Row(
            f"vocabulary ready, {name}",
            milliseconds(ours),
            "Tokenizer.from_file",
            milliseconds(theirs),
            f"{ours / theirs:.3f}",
            goal,
        )
    ]


def decode_rows(rounds: int, name: str, folder: Path, file: Path) -> list[Row]:
    """Measure decoding a text of 10,000 tokens."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocabulary = load(file)
    token_ids = [
        token_id for text in TEXTS for token_id in tokenizer.encode(text, add_special_tokens=False).ids
    ]
    token_ids = (token_ids * (10_000 // len(token_ids) + 1))[:10_000]
    ours, theirs = in_turns(
        rounds,
        lambda: detokenize(vocabulary, DetokenizerState(), token_ids),
        lambda: tokenizer.decode(token_ids),
    )
    return [
        Row(
            f"decode 10,000 tokens, {name}",
            milliseconds(ours),
            "Tokenizer.decode",
            milliseconds(theirs),
            f"{theirs / ours:.1f} times as fast",
            "2 times as fast",
        )
    ]


def request_rows(rounds: int) -> list[Row]:
    """Measure the Lambda handler with the bundled vocabulary, from event to response."""
    # As on Lambda, where logs are written as UTF-8.
    os.environ["AWS_EXECUTION_ENV"] = "AWS_Lambda_python3.13"
    from api import handler

    rng = random.Random(1)
    size = 151_643
    token_ids = [rng.randrange(size) for _ in range(TOKENS)]
    client = {"logprobs": True, "top_logprobs": CANDIDATES}
    cases: list[tuple[str, str, dict[str, Any]]] = []
    for form in ("id", "placeholder"):
        generated = {"request_id": "r", "choices": [choice(rng, token_ids, form, size)]}
        cases.append((f"chat, by {form}", CHAT, {"generate_response": generated, "chat_request": client}))
    generated = {"request_id": "r", "choices": [choice(rng, token_ids, "id", size)]}
    cases.append(
        (
            "completions, by id",
            COMPLETIONS,
            {"generate_responses": [generated], "completion_request": {"logprobs": CANDIDATES - 1}},
        )
    )

    plain = {"request_id": "r", "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": "stop"}]}
    plain_event = http_event(CHAT, orjson.dumps({"generate_response": plain, "chat_request": {}}).decode())
    (ours,) = in_turns(rounds * 10, lambda: handler(plain_event, None))
    rows = [
        Row(
            f"{TOKENS} tokens, no logprobs",
            milliseconds(ours),
            "vLLM 0.33, as recorded",
            "15 ms",
            f"{ours / 0.015:.3f}",
            "1 ms",
        )
    ]
    for name, path, request in cases:
        body = orjson.dumps(request)
        posted = http_event(path, body.decode())
        response = handler(posted, None)
        answer = orjson.loads(response["body"])
        if response["statusCode"] != 200:
            raise SystemExit(f"{name}: {answer}")
        ours, theirs = in_turns(
            rounds * 2,
            lambda posted=posted: handler(posted, None),  # type: ignore[misc]
            lambda body=body, answer=answer: (orjson.loads(body), orjson.dumps(answer)),  # type: ignore[misc]
        )
        sizes = f"{len(body) / 1e6:.2f} MB in, {len(response['body'].encode()) / 1e6:.2f} MB out"
        rows.append(
            Row(
                f"{TOKENS} × {CANDIDATES} candidates, {name}",
                milliseconds(ours),
                f"orjson, {sizes}",
                milliseconds(theirs),
                f"{ours / theirs:.2f}",
                "2 times",
            )
        )
    return rows


def layer(name: str) -> tuple[Path, Path]:
    """Return a tokenizer's folder and its compiled file."""
    cache = ROOT / ".cache"
    folder = fetch(cache / "tokenizers", name)
    return folder, build(folder, name, cache / "bench")[0]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="measurements of each figure (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    qwen3, gemma3 = layer("qwen3"), layer("gemma3")
    # Functions log on standard output, which is for the table.
    with Path(os.devnull).open("w", encoding="utf-8") as logs, redirect_stdout(logs):
        rows = [
            *cold.rows(options.rounds),
            *cold.several_models(options.rounds, "Gemma 3", gemma3[1]),
            *load_rows(options.rounds, "Qwen3", *qwen3, goal="15 ms"),
            *load_rows(options.rounds, "Gemma 3", *gemma3, goal="25 ms"),
            *decode_rows(options.rounds, "Qwen3", *qwen3),
            *decode_rows(options.rounds, "Gemma 3", *gemma3),
            *request_rows(options.rounds),
            *parsing.rows(options.rounds, qwen3[0]),
            *streaming.rows(options.rounds, qwen3[0]),
            *isolation.rows(seconds=options.rounds / 2),
            *batch.rows(options.rounds),
            *compiling.rows(ROOT / ".cache" / "tokenizers"),
        ]
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return
    show(rows)


if __name__ == "__main__":
    main()
