"""Large work runs beside the event loop, one after the other; small work runs at once."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from derender.http.app import create_app
from derender.http.workers import INLINE, LARGE, SMALL, open_worker
from derender.telemetry.request_ids import REQUEST_ID
from tests.support.api_client import CHAT, Client, generated
from tests.support.models import alone, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from derender.http.workers import Run
    from derender.vocabulary import Vocabulary


@pytest.fixture
def worker() -> Iterator[Run]:
    """A worker. Afterwards threads switch as before."""
    seconds = sys.getswitchinterval()
    yield open_worker()
    sys.setswitchinterval(seconds)


def test_the_event_loop_goes_on_during_large_work(worker: Run) -> None:
    async def main() -> bool:
        begun, ended = threading.Event(), threading.Event()

        def work() -> bool:
            begun.set()
            return ended.wait(20)

        task = asyncio.create_task(worker(LARGE, work))
        while not begun.is_set():
            await asyncio.sleep(0)
        ended.set()
        return await task

    assert asyncio.run(main())


def test_small_work_is_done_at_once(worker: Run) -> None:
    here = threading.get_ident()
    assert asyncio.run(worker(SMALL, threading.get_ident)) == here
    assert asyncio.run(INLINE(10**9, threading.get_ident)) == here
    assert asyncio.run(worker(LARGE, threading.get_ident)) != here


def test_large_work_is_done_one_after_the_other(worker: Run) -> None:
    active, most = 0, 0

    def work() -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        active -= 1

    async def main() -> None:
        await asyncio.gather(*(worker(LARGE, work) for _ in range(50)))

    asyncio.run(main())
    assert (active, most) == (0, 1)


def test_large_work_knows_its_request_and_raises(worker: Run) -> None:
    async def main() -> str | None:
        REQUEST_ID.set("r-1")
        with pytest.raises(ZeroDivisionError):
            await worker(LARGE, lambda: 1 // 0)
        return await worker(LARGE, REQUEST_ID.get)

    assert asyncio.run(main()) == "r-1"


@pytest.mark.parametrize("headers", [{}, {"accept-encoding": "gzip"}])
@pytest.mark.parametrize("tokens", [1, 60, 6_000])
def test_answers_are_the_same(
    bytes_vocabulary: Vocabulary, worker: Run, tokens: int, headers: dict[str, str]
) -> None:
    models = alone(served(bytes_vocabulary, max_model_len=10_000))
    body = {"generate_response": generated([65] * tokens, logprobs=None), "chat_request": {"messages": []}}
    answers = []
    for run in (INLINE, worker):
        client = Client(create_app(models, max_body_bytes=1 << 20, run=run))
        answer = client.send(CHAT, json.dumps(body).encode(), headers=headers)
        answers.append((answer.status, answer.json | {"created": 0}, answer.headers.get("content-encoding")))
    assert answers[0] == answers[1]
    assert answers[0][0] == 200
