"""Many streams at once through `derender serve`, as in `make soak`: right answers, and flat memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..benchmarks import soak

if TYPE_CHECKING:
    from collections.abc import Sequence

CALLS, RELAY = ("--per-call", "16"), ("--relay",)


@pytest.mark.parametrize(
    ("way", "streams", "tokens"),
    [
        (CALLS, 20, 20),
        (RELAY, 20, 20),
        pytest.param(("--per-call", "1"), 200, 40, marks=pytest.mark.long),
        pytest.param(CALLS, 200, 200, marks=pytest.mark.long),
        pytest.param(RELAY, 200, 200, marks=pytest.mark.long),
    ],
)
def test_streams_at_once_are_right_and_take_no_more_memory(
    way: Sequence[str], streams: int, tokens: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak.main(["--streams", str(streams), "--tokens", str(tokens), *way]) == 0
    assert "0 wrong" in capsys.readouterr().out
