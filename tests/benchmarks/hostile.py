"""Answer hostile requests, and print the worst: those that take the most CPU for what they weigh.

    python tests/benchmarks/hostile.py [--requests N] [--seed N]

A request has many tokens, choices, chunks or responses, random values in some of its fields and, as its output,
repetitions of a parser's markers, of text and of single bytes. Exits with 1 if a request ends in another error
than a refusal, or takes more CPU than `LIMIT` and `PER_BYTE` allow.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "handlers"), str(ROOT / "layers" / "tokenizer")]

from derender.errors import DerenderError
from derender.parsing.registry import TOOL_CALL_PARSERS
from tests.growth.fields import fields, value
from tests.growth.test_requests import SCALES, put, run, serve_parsers
from tests.support.json_mutations import at, places, replaced
from tests.unit.parsing.support import FROM_VOCABULARY, TOOLS, marker_texts

LIMIT: Final = 1.0
"""Seconds of CPU that any request may take."""
PER_BYTE: Final = 20e-6
"""Seconds more for each byte of the request and the answer."""
BYTES: Final = 256
"""The first ids of a vocabulary, each of one byte."""
REASONING: Final = {"openai": "openai_gptoss", "kimi_k3": "kimi_k3", "kimi_k2": "kimi_k2", "gemma4": "gemma4"}
VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    1.5,
    2**31,
    2**63,
    2**64,
    10**30,
    "",
    "x",
    "\0" * 300,
    "\ud800",
    [],
    {},
    [[]],
)
TEXTS: Final = (
    '{"name": "get_weather", "arguments": {',
    '"city": "P',
    "}",
    "]",
    "[",
    "\\",
    '"',
    " ",
    "\n",
    "é",
    "x",
)


class Case(NamedTuple):
    """A request and what it cost. The worst is the largest."""

    excess: float
    seconds: float
    sent: int
    received: int
    about: str


def models(name: str) -> tuple[Any, list[int]]:
    """Return models with a parser, and its markers' ids."""
    reasoning = REASONING.get(name, "qwen3")
    asked = serve_parsers(name, reasoning)
    added = asked.find(None)[0].vocabulary.added_tokens()
    return asked, [added[marker] for marker in sorted(marker_texts(name, reasoning))]


def output(chance: random.Random, markers: list[int], count: int) -> list[int]:
    """Return token ids: a few parts, some of them repeated."""
    ids: list[int] = []
    while len(ids) < count:
        part: list[int] = []
        for _ in range(chance.randint(1, 5)):
            match chance.randrange(4):
                case 0:
                    part.append(chance.choice(markers))
                case 1:
                    part.append(chance.randrange(BYTES))
                case _:
                    part += chance.choice(TEXTS).encode()
        ids += part * chance.choice((1, 1, 2, max(1, count // len(part))))
    return ids[:count]


def request(chance: random.Random, markers: list[int]) -> tuple[Any, dict[str, Any], str]:
    """Return the way to make a request large, a request, and what is in it."""
    scale = chance.choice(SCALES)
    times = int(2 ** chance.uniform(0, 9))
    body = json.loads(json.dumps(scale.request(times)))
    client = body.setdefault(scale.endpoint.client_field, {})
    about = [f"{scale.endpoint.kind} {scale.name} {times}"]
    found = [field for field in fields(scale.model) if value(field, 1) is not None]
    for field in chance.sample(found, chance.randint(0, 3)):
        amount = int(2 ** chance.uniform(0, 11))
        try:
            put(body, field.place, value(field, amount))
        except (IndexError, KeyError, TypeError):
            continue  # another field has replaced what it would be in
        about.append(f"{field.name} {amount}")
    if isinstance(client, dict) and chance.random() < 0.7:
        client["tools"] = TOOLS
    for place in places(body):
        if place[-1:] == ("token_ids",) and "choices" in place and chance.random() < 0.9:
            count = int(2 ** chance.uniform(0, 11)) // times + 1
            at(body, place[:-1])["token_ids"] = output(chance, markers, count)
    for _ in range(chance.choice((0, 0, 1, 2))):
        place = chance.choice(places(body)[:2000])
        body = replaced(body, place, chance.choice(VALUES))
        about.append(f"{place} replaced")
    return scale, body, ", ".join(about)


def main() -> int:
    """Run the command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    chance = random.Random(given.seed)
    served_models = {name: models(name) for name in sorted(TOOL_CALL_PARSERS.keys() - FROM_VOCABULARY)}
    worst: list[Case] = []
    ends: Counter[str] = Counter()
    failed = 0
    for _ in range(given.requests):
        name = chance.choice([*served_models])
        asked, markers = served_models[name]
        scale, body, about = request(chance, markers)
        data = json.dumps(body).encode(errors="surrogatepass")
        before, received, end = time.process_time(), 0, "answered"
        try:
            received = len(run(asked, scale, data))
        except DerenderError as error:
            end = f"{error.status:d}"
        except Exception:
            end, failed = "failed", failed + 1
            print(f"{name}: {about}", file=sys.stderr)
            traceback.print_exc(limit=-3)
        seconds = time.process_time() - before
        ends[end] += 1
        excess = seconds / (LIMIT + PER_BYTE * (len(data) + received))
        failed += excess > 1
        heapq.heappush(worst, Case(excess, seconds, len(data), received, f"{name}: {about}: {end}"))
        if len(worst) > 10:
            heapq.heappop(worst)
    print(", ".join(f"{end}: {count}" for end, count in ends.most_common()))
    print("seconds  request  answer")
    for case in sorted(worst, reverse=True):
        print(f"{case.seconds:7.3f} {case.sent:8d} {case.received:7d}  {case.about[:150]}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
