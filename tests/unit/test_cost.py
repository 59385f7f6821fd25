"""The price of derendering: parts, totals, break-even and tables, computed by hand beside the code."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.cli import main
from pricing.bill import (
    COLD,
    TRACED,
    billed_ms,
    count_invocations,
    dollars,
    price_generation,
    price_month,
)
from pricing.container import CONTAINER_MONTH, break_even, busy
from pricing.measured import DURATIONS, LOG_BYTES, durations
from pricing.plan import PLANS
from pricing.prices import PRICES
from pricing.tables import Table, document
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pricing.plan import Mode, Plan

COST: Final = ROOT / "docs" / "cost.md"
ALWAYS: Final = ("cold starts", "logs", "traces")
"""Parts that other tests cover."""


def million(plan: Plan) -> dict[str, float]:
    """Return dollars per million generations by part, to a tenth of a cent and without zeros."""
    parts = {part.name: round(part.dollars * 1e6, 3) for part in price_generation(plan)}
    return {name: amount for name, amount in parts.items() if amount}


def work(plan: Plan) -> dict[str, float]:
    """Return the same for the parts that depend on the work."""
    return {name: amount for name, amount in million(plan).items() if name not in ALWAYS}


def answers(**fields: Any) -> Plan:
    return replace(PLANS["complete"], duration=10, **fields)


@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        # 1 GB for 10 ms: a million times 0.01 GB-seconds.
        (answers(), {"Lambda requests": 0.2, "Lambda compute": 0.167, "HTTP API": 1.0}),
        (answers(memory=2048), {"Lambda requests": 0.2, "Lambda compute": 0.333, "HTTP API": 1.0}),
        (answers(architecture="arm64"), {"Lambda requests": 0.2, "Lambda compute": 0.133, "HTTP API": 1.0}),
        (answers(door="REST API"), {"Lambda requests": 0.2, "Lambda compute": 0.167, "REST API": 3.5}),
        (answers(door="function URL"), {"Lambda requests": 0.2, "Lambda compute": 0.167}),
        # One in a hundred restores 1 GB.
        (
            answers(start="SnapStart"),
            {"Lambda requests": 0.2, "Lambda compute": 0.167, "restores": 1.398, "HTTP API": 1.0},
        ),
        # Provisioned compute is cheaper.
        (answers(start="provisioned"), {"Lambda requests": 0.2, "Lambda compute": 0.097, "HTTP API": 1.0}),
    ],
)
def test_work_has_these_parts(plan: Plan, parts: dict[str, float]) -> None:
    assert work(plan) == parts
    assert dollars(price_generation(plan)) * 1e6 == pytest.approx(sum(million(plan).values()), abs=0.005)


def test_cold_starts_are_billed_for_their_init_phase() -> None:
    gigabyte_seconds = COLD * DURATIONS[1024].start * 1e6 / 1000
    assert million(answers())["cold starts"] == pytest.approx(gigabyte_seconds * 0.0000166667, abs=0.001)
    assert "cold starts" not in million(answers(start="provisioned"))


def test_logs_and_traces_are_billed() -> None:
    parts = million(answers())
    assert parts["logs"] == pytest.approx(LOG_BYTES["complete"] / 1000 * 0.5)
    assert parts["traces"] == pytest.approx(TRACED * 5)


@pytest.mark.parametrize(("duration", "milliseconds"), [(0.1, 1), (1, 1), (1.0001, 2), (29.5, 30)])
def test_milliseconds_are_billed_whole(duration: float, milliseconds: int) -> None:
    assert billed_ms(replace(answers(), duration=duration)) == milliseconds


@pytest.mark.parametrize(
    ("mode", "tokens", "count"),
    [("complete", 595, 1), ("chunk", 2048, 2048), ("chunks", 2048, 128), ("chunks", 17, 2), ("relay", 2048, 1)],
)
def test_a_generation_takes_so_many_invocations(mode: Mode, tokens: int, count: int) -> None:
    assert count_invocations(replace(PLANS[mode], tokens=tokens)) == count


def test_large_bodies_are_several_requests_to_an_http_api() -> None:
    # 0.74 MB and 1.05 MB are 4 times 512 KB.
    assert million(answers(candidates=20))["HTTP API"] == 4
    assert million(answers(candidates=20, gzipped=True))["HTTP API"] == 2
    assert million(answers(candidates=20, door="REST API"))["REST API"] == 3.5


def test_a_relay_is_billed_for_the_whole_generation() -> None:
    relay = replace(PLANS["relay"], tokens=1000, tokens_per_second=100)
    assert billed_ms(relay) == pytest.approx(10_000, abs=20)
    # Half a GB for 10 s is 5 GB-seconds.
    assert million(relay)["Lambda compute"] == pytest.approx(83.33, abs=0.2)


def test_a_line_of_a_batch_pays_its_share_of_a_part() -> None:
    batch = replace(PLANS["batch"], memory=1024, duration=1000)
    lines = 1 / count_invocations(batch)
    # A part has 1 MB, a line about 4 KB.
    assert lines == pytest.approx(1_048_576 / 3850, rel=0.02)
    assert work(batch) == {
        "Lambda requests": pytest.approx(0.2 / lines, abs=0.001),
        "Lambda compute": pytest.approx(16.6667 / lines, abs=0.001),
        "Step Functions": pytest.approx(100 / lines, abs=0.001),
        "S3 writes and lists": pytest.approx(15 / lines, abs=0.001),
        "S3 reads": pytest.approx(1.2 / lines, abs=0.001),
    }


def test_a_batch_has_at_most_ten_thousand_parts() -> None:
    assert count_invocations(replace(PLANS["batch"], candidates=20)) * 1_000_000 == 10_000


def test_readiness_costs_a_month() -> None:
    # 2,628,000 seconds.
    assert price_month(answers()) == ()
    assert dollars(price_month(answers(start="SnapStart"))) == pytest.approx(3.954, abs=0.001)
    assert dollars(price_month(answers(start="provisioned"))) == pytest.approx(10.95, abs=0.01)


def test_a_container_costs_a_month() -> None:
    # 730 hours of 2 × 0.04048 and 4 × 0.004445.
    assert pytest.approx(72.08, abs=0.005) == CONTAINER_MONTH


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        (answers(), 0.015),
        (answers(tokens=1190), 0.030),
        (answers(candidates=20), 0.304),
        (PLANS["chunk"], 74),
        # Each chunk reads all earlier ones again.
        (replace(PLANS["chunk"], tokens=1024), 18.5),
    ],
)
def test_a_container_is_busy_as_measured(plan: Plan, seconds: float) -> None:
    assert busy(plan) == pytest.approx(seconds)


def test_a_container_is_cheaper_above_its_price() -> None:
    plan = answers()
    rate = break_even(plan)
    assert rate is not None
    assert dollars(price_generation(plan)) * rate * 2_628_000 == pytest.approx(CONTAINER_MONTH)
    # One that is always there counts for a container.
    assert break_even(answers(start="SnapStart")) == pytest.approx(
        (CONTAINER_MONTH - 3.954) / (dollars(price_generation(answers(start="SnapStart"))) * 2_628_000),
        rel=1e-3,
    )


def test_a_container_that_cannot_do_as_much_is_never_cheaper() -> None:
    plan = answers(candidates=20)
    assert 1 / busy(plan) < CONTAINER_MONTH / (dollars(price_generation(plan)) * 2_628_000)
    assert break_even(plan) is None


def test_durations_are_those_of_the_next_smaller_size() -> None:
    assert durations(512) == durations(1023) == DURATIONS[512]
    assert durations(1024) == DURATIONS[1024]
    assert durations(10_240) == DURATIONS[1769]


def test_prices_are_per_unit() -> None:
    each = {name: price.each for name, price in PRICES.items()}
    assert each["Lambda requests"] == pytest.approx(0.20e-6)
    assert each["HTTP API"] == pytest.approx(1.00e-6)
    assert each["Step Functions"] == pytest.approx(25e-6)
    assert each["S3 reads"] == pytest.approx(0.4e-6)
    # arm64 is a fifth cheaper.
    for name in ("Lambda compute", "provisioned concurrency", "provisioned compute"):
        assert each[f"{name}, arm64"] / each[f"{name}, x86_64"] == pytest.approx(0.8, abs=0.001)


@pytest.mark.parametrize("table", document(), ids=lambda table: table.title)
def test_the_document_has_the_tables_of_the_command(table: Table) -> None:
    assert f"### {table.title}\n\n{table.markdown}\n" in COST.read_text(encoding="utf-8")


def test_the_command_prints_the_tables_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_by(capsys, "--markdown")
    assert all(f"### {table.title}\n\n{table.markdown}\n" in printed for table in document())


def printed_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cost", *arguments]) == 0
    return capsys.readouterr().out


def test_the_command_computes_a_month(capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_by(capsys, "--rate", "10", "--duration", "10")
    lines = {line[:20].strip(): line.split() for line in printed.splitlines()}
    # 26.28 million answers.
    assert lines["HTTP API"][-2:] == ["1.00", "26.28"]
    assert lines["Lambda compute"][-2:] == ["0.17", "4.38"]
    # At $2.6617 a million, and $16 of monitoring.
    assert lines["total"][-2:] == ["2.66", "85.95"]
    assert "costs $72.08 a month and is cheaper above 10.3 per second" in printed
    assert "10 per second needs 1: $72.08 a month. The functions cost $69.95 without monitoring." in printed


@pytest.mark.parametrize("mode", PLANS)
def test_the_command_knows_each_mode(capsys: pytest.CaptureFixture[str], mode: Mode) -> None:
    printed = printed_by(capsys, "--mode", mode)
    assert ("a million tokens" in printed) == (mode in ("chunk", "chunks", "relay"))
    assert "list prices of" in printed


def test_flags_reach_the_price(capsys: pytest.CaptureFixture[str]) -> None:
    flags = {
        "--mode": "chunks",
        "--tokens": "100",
        "--chunks": "10",
        "--memory": "2048",
        "--architecture": "arm64",
        "--door": "REST API",
        "--start": "provisioned",
    }
    printed = printed_by(capsys, *itertools.chain(*flags.items()), "--gzipped")
    for text in ("100 tokens", "REST API, 2,048 MB, arm64", "provisioned concurrency"):
        assert text in printed


def test_a_batch_has_no_front_door(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Step Functions, 1,769 MB" in printed_by(capsys, "--mode", "batch", "--door", "REST API")


@pytest.mark.parametrize(
    "arguments",
    [("--memory", "64"), ("--tokens", "0"), ("--rate", "-1"), ("--rate", "nan"), ("--mode", "all")],
)
def test_impossible_figures_are_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["cost", *arguments])
    assert arguments[0] in capsys.readouterr().err


def test_text_has_columns() -> None:
    table = Table("Title", ("what", "dollars"), [("first", "1.00"), ("a second one", "20.00")])
    assert table.text == "Title\n\nwhat          dollars\nfirst            1.00\na second one    20.00"
