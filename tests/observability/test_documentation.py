"""docs/observability.md names each field, metric and alarm."""

from __future__ import annotations

import re
from typing import Final, get_args

import pytest

from derender.telemetry.metrics import METRICS
from derender.telemetry.observation import AnswerFacts, Observation
from derender.telemetry.tally import Outcome, Tally
from tests.support.paths import ROOT

from .cloudwatch import alarms
from .test_dashboard import EVERYTHING

PAGE: Final = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, without its own."""
    section = re.split(r"^#+ ", PAGE.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    _, _, *rows = (line for line in section.splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_log_fields() -> None:
    named = {name for row in table("Log lines") for name in re.findall(r"`(\w+)`", row[0])}
    fields = {*Observation.__struct_fields__, *AnswerFacts.__struct_fields__}
    fields = fields - {"answer", "tally"} | {*Tally.__struct_fields__, "cold_start"}
    every_line = {"level", "timestamp", "service", "function", "message"}
    assert named == fields | every_line | {"function_request_id", "xray_trace_id"}


def test_metrics() -> None:
    assert {row[1]: row[2] for row in table("Metrics")} == {
        f"`{metric.name}`": metric.unit for metric in METRICS.values()
    }


def test_outcomes() -> None:
    named = [row[0].strip("`") for row in table("Outcomes")]
    assert {*named, "markup"} == {*get_args(Outcome)}
    assert "`markup`" in PAGE


def test_alarms() -> None:
    assert {row[0].strip("`") for row in table("Alarms")} == alarms(EVERYTHING).keys()


@pytest.mark.parametrize("heading", ["Log lines", "Metrics", "Outcomes", "Alarms"])
def test_no_cell_is_empty(heading: str) -> None:
    assert all(cell for row in table(heading) for cell in row[1:])
