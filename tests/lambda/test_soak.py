"""Many streams at once through `derender serve`, as in `make soak` but shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..benchmarks import soak

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize("streams", [20, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("way", [("--per-call", "1"), ("--per-call", "16"), ("--relay",)], ids=" ".join)
def test_streams_at_once_are_right_and_take_no_more_memory(
    way: Sequence[str], streams: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak.main(["--streams", str(streams), "--tokens", "40", *way]) == 0
    assert "0 wrong" in capsys.readouterr().out
