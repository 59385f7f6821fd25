"""Outputs of a batch never reveal the environment, files or code, whatever goes wrong."""

from __future__ import annotations

import contextlib
from typing import Final

from tests.support.leaks import MESSAGE, every_function, leaks, provoke
from tests.support.paths import HANDLERS

from .inputs import COMPLETIONS, chat, completion, generated, line
from .jobs import Memory, derender, make_job, make_worker

INPUT: Final = "s3://bucket/in.jsonl"
LOST: Final = "s3://bucket/lost.json"
LINES: Final = b"".join(
    [
        line("answered"),
        line("completion", completion(generated()), COMPLETIONS),
        line("refused", chat(generated([10**9]))),
        line("another form", {"generate_response": 1}),
        line("no such place", url="/v1/nothing"),
        line("not there", chat(LOST.replace("lost", "none"))),
        line("too long", "x" * 100_000),
        b"{\n",
        b"\xff\xfe\n",
        b"[" * 10_000 + b"\n",
        line(7),
    ]
)


class Failing(Memory):
    """A store that fails to read one referenced object."""

    def read(self, name: str, *, max_bytes: int | None = None) -> bytes:
        if name == LOST:
            raise RuntimeError(MESSAGE) from OSError(MESSAGE)
        return super().read(name, max_bytes=max_bytes)


def written(content: bytes) -> list[str]:
    """Run a job, and return each object that it wrote until its end or its failure."""
    store = Failing(**{INPUT: content})
    # Only whoever runs the job sees its failure.
    with contextlib.suppress(BaseException):
        derender(make_worker(store), make_job(store, INPUT, "s3://bucket/out/job-1/"))
    return [f"{name} {found.decode()}" for name, found in store.objects.items() if name != INPUT]


def test_outputs_reveal_nothing() -> None:
    outputs = written(LINES)
    assert sum(text.count('"custom_id":') for text in outputs) == LINES.count(b"\n")
    assert not any(map(leaks, outputs))


def test_errors_of_a_store_reveal_nothing() -> None:
    assert not any(map(leaks, written(LINES + line("lost", chat(LOST)))))


@every_function
def test_a_fault_in_a_function_reveals_nothing(*, every: bool) -> None:
    written(LINES)
    provoked = provoke([HANDLERS / "derender"], lambda: written(LINES), every=every)
    assert provoked.leaks == {}
    assert provoked.internal_errors > (50 if every else 10)
