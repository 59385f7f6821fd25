"""What derendering costs: prices and durations → parts, totals, the break-even, tables; beside it, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.cli import main
from pricing.bill import billed, dollars, generation, invocations, month
from pricing.container import Container, break_even, busy, capacity, container_month
from pricing.measured import DURATIONS, durations
from pricing.plan import PLANS
from pricing.prices import PRICES
from pricing.tables import Table, documented, show

if TYPE_CHECKING:
    from pricing.plan import Mode, Plan

COST: Final = Path(__file__).parents[2] / "infra" / "COST.md"
BARE: Final[dict[str, Any]] = {"cold": 0, "log_bytes": 0, "traced": 0}
"""Without what can be left out."""


def million(plan: Plan) -> dict[str, float]:
    """Dollars for a million generations, by part, rounded to a tenth of a cent. What is nothing is left out."""
    parts = {part.name: round(part.dollars * 1e6, 3) for part in generation(plan)}
    return {name: amount for name, amount in parts.items() if amount}


def answers(**fields: Any) -> Plan:
    return replace(PLANS["complete"], duration=10, **{**BARE, **fields})


@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        # 1 GB for 10 ms: a million times 0.01 GB-seconds.
        (answers(), {"Lambda requests": 0.2, "Lambda compute": 0.167, "HTTP API": 1.0}),
        (answers(memory=2048), {"Lambda requests": 0.2, "Lambda compute": 0.333, "HTTP API": 1.0}),
        (answers(architecture="arm64"), {"Lambda requests": 0.2, "Lambda compute": 0.133, "HTTP API": 1.0}),
        (answers(door="REST API"), {"Lambda requests": 0.2, "Lambda compute": 0.167, "REST API": 3.5}),
        (answers(door="function URL"), {"Lambda requests": 0.2, "Lambda compute": 0.167}),
        # 2 KB each: 2 GB of log lines.
        (
            answers(log_bytes=2000),
            {"Lambda requests": 0.2, "Lambda compute": 0.167, "HTTP API": 1.0, "logs": 1.0},
        ),
        # One in ten: 100,000 traces.
        (
            answers(traced=0.1),
            {"Lambda requests": 0.2, "Lambda compute": 0.167, "HTTP API": 1.0, "traces": 0.5},
        ),
        # One in ten restores 1 GB.
        (
            answers(start="SnapStart", cold=0.1),
            {"Lambda requests": 0.2, "Lambda compute": 0.167, "restores": 13.98, "HTTP API": 1.0},
        ),
        # What is provisioned has a lower price for compute, and no cold starts.
        (
            answers(start="provisioned", instances=3, cold=0.5),
            {"Lambda requests": 0.2, "Lambda compute": 0.097, "HTTP API": 1.0},
        ),
    ],
)
def test_a_price_has_these_parts(plan: Plan, parts: dict[str, float]) -> None:
    assert million(plan) == parts
    assert dollars(generation(plan)) * 1e6 == pytest.approx(sum(parts.values()), abs=0.005)


def test_a_cold_start_is_billed_for_its_init_phase() -> None:
    start = DURATIONS[1024].start
    assert million(answers(cold=0.5))["cold starts"] == pytest.approx(start * 0.5 * 0.0166667, abs=0.001)


@pytest.mark.parametrize(("duration", "milliseconds"), [(0.1, 1), (1, 1), (1.0001, 2), (29.5, 30)])
def test_a_millisecond_is_billed_whole(duration: float, milliseconds: int) -> None:
    assert billed(replace(answers(), duration=duration)) == milliseconds


@pytest.mark.parametrize(
    ("mode", "tokens", "count"),
    [("complete", 595, 1), ("chunk", 2048, 2048), ("chunks", 2048, 128), ("chunks", 17, 2), ("relay", 2048, 1)],
)
def test_a_generation_takes_so_many_invocations(mode: Mode, tokens: int, count: int) -> None:
    assert invocations(replace(PLANS[mode], tokens=tokens)) == count


def test_large_bodies_are_several_requests_of_an_http_api() -> None:
    # 0.74 MB and 1.05 MB: 1.79 MB, of 512 KB each.
    assert million(answers(candidates=20))["HTTP API"] == 4
    assert million(answers(candidates=20, gzipped=True))["HTTP API"] == 2
    assert million(answers(candidates=20, door="REST API"))["REST API"] == 3.5


def test_a_relay_is_billed_as_long_as_the_generation_takes() -> None:
    relay = replace(PLANS["relay"], tokens=1000, tokens_per_second=100, **BARE)
    assert billed(relay) == pytest.approx(10_000, abs=20)
    # Half a GB for 10 s: 5 GB-seconds.
    assert million(relay)["Lambda compute"] == pytest.approx(83.33, abs=0.2)


def test_a_line_of_a_batch_has_its_share_of_a_part() -> None:
    batch = replace(PLANS["batch"], memory=1024, duration=1000, lines=1_000_000, **BARE)
    lines = 1 / invocations(batch)
    # A part is 1 MB, a line about 4 KB.
    assert lines == pytest.approx(1_048_576 / 3850, rel=0.02)
    assert million(batch) == {
        "Lambda requests": pytest.approx(0.2 / lines, abs=0.001),
        "Lambda compute": pytest.approx(16.6667 / lines, abs=0.001),
        "Step Functions": pytest.approx(100 / lines, abs=0.001),
        "S3 writes and lists": pytest.approx(15 / lines, abs=0.001),
        "S3 reads": pytest.approx(1.2 / lines, abs=0.001),
    }


def test_a_batch_has_ten_thousand_parts_at_most() -> None:
    assert invocations(replace(PLANS["batch"], candidates=20)) * 1_000_000 == 10_000
    assert invocations(replace(PLANS["batch"], lines=1)) == 1


def test_what_is_kept_ready_costs_a_month() -> None:
    # 2,628,000 seconds.
    assert month(answers()) == ()
    assert dollars(month(answers(start="SnapStart"))) == pytest.approx(3.954, abs=0.001)
    assert dollars(month(answers(start="provisioned", instances=2))) == pytest.approx(21.90, abs=0.01)


def test_answers_that_leave_aws_are_transferred() -> None:
    (transfer,) = (part for part in generation(answers(internet=True)) if part.name == "data transfer")
    assert transfer.quantity == pytest.approx(4500 / 1e9, rel=0.02)
    assert transfer.price.dollars == 0.09


@pytest.mark.parametrize(
    ("container", "price"),
    [
        # 730 hours of 2 × 0.04048 and 4 × 0.004445.
        (Container(), 72.08),
        (Container(architecture="arm64"), 57.67),
        (Container(vcpu=1, gigabytes=2), 36.04),
    ],
)
def test_a_container_costs_a_month(container: Container, price: float) -> None:
    assert dollars(container_month(container)) == pytest.approx(price, abs=0.005)


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        (answers(), 0.015),
        (answers(tokens=1190), 0.030),
        (answers(candidates=20), 0.304),
        (PLANS["chunk"], 74),
        # Each chunk reads all before it again.
        (replace(PLANS["chunk"], tokens=1024), 18.5),
    ],
)
def test_the_peer_is_busy_as_it_was_measured(plan: Plan, seconds: float) -> None:
    assert busy(plan) == pytest.approx(seconds)
    assert capacity(plan, Container(processes=2)) == pytest.approx(2 / seconds)


def test_a_container_is_cheaper_from_its_price_on() -> None:
    plan = answers()
    # $72.08 buy 52.7 million answers at $1.3667 a million: 20.07 a second.
    rate = break_even(plan, Container())
    assert rate is not None
    assert rate == pytest.approx(20.07, abs=0.01)
    assert dollars(generation(plan)) * rate * 2_628_000 == pytest.approx(dollars(container_month(Container())))


def test_a_container_that_can_not_do_as_much_is_never_cheaper() -> None:
    plan = answers(candidates=20)
    assert capacity(plan, Container()) < 72.08 / (dollars(generation(plan)) * 2_628_000)
    assert break_even(plan, Container()) is None
    assert break_even(plan, Container(processes=100)) is not None


def test_what_is_kept_ready_counts_in_the_comparison() -> None:
    provisioned = answers(start="provisioned", instances=10)
    assert break_even(provisioned, Container()) == 0  # 10 instances are $109.50 a month


def test_durations_are_in_proportion_between_what_was_measured() -> None:
    least, middle, most = (DURATIONS[memory] for memory in sorted(DURATIONS))
    assert durations(1024) == middle
    assert durations(768).candidates == pytest.approx((least.candidates + middle.candidates) / 2)
    assert durations(256).candidates == pytest.approx(2 * least.candidates)
    assert durations(256).start == least.start
    assert durations(10_240) == most


def test_prices_are_those_of_the_page() -> None:
    each = {name: price.each for name, price in PRICES.items()}
    assert each["Lambda requests"] == pytest.approx(0.20e-6)
    assert each["HTTP API"] == pytest.approx(1.00e-6)
    assert each["Step Functions"] == pytest.approx(25e-6)
    assert each["S3 reads"] == pytest.approx(0.4e-6)
    # arm64 is a fifth cheaper.
    for name in (
        "Lambda compute",
        "provisioned concurrency",
        "provisioned compute",
        "Fargate CPU",
        "Fargate memory",
    ):
        assert each[f"{name}, arm64"] / each[f"{name}, x86_64"] == pytest.approx(0.8, abs=0.001)


@pytest.mark.parametrize("table", documented(), ids=lambda table: table.title)
def test_the_document_has_the_tables_of_the_command(table: Table) -> None:
    assert f"### {table.title}\n\n{table.markdown}\n" in COST.read_text(encoding="utf-8")


def test_the_command_prints_the_tables_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert all(f"### {table.title}\n\n{table.markdown}\n" in printed for table in documented())


def printed_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cost", *arguments]) == 0
    return capsys.readouterr().out


def test_the_command_computes_a_month_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    bare = ["--duration-ms", "10", "--cold", "0", "--log-bytes", "0", "--tracing", "0"]
    printed = printed_by(capsys, "--rate", "10", *bare)
    lines = {line[:20].strip(): line.split() for line in printed.splitlines()}
    assert lines["HTTP API"][-2:] == ["1.00", "26.28"]
    assert lines["Lambda compute"][-2:] == ["0.17", "4.38"]
    # 26.28 million answers at $1.3667, and monitoring.
    assert lines["total"][-2:] == ["1.37", "51.92"]
    assert "cheaper from 20.1 a second on" in printed
    assert "At 10 a second: 1 needed, $72.08 a month; the functions, without monitoring, $35.92" in printed
    assert printed_by(capsys, "--requests-per-month", "26280000", *bare) == printed


@pytest.mark.parametrize("mode", PLANS)
def test_the_command_says_a_million_of_each_mode(capsys: pytest.CaptureFixture[str], mode: Mode) -> None:
    printed = printed_by(capsys, "--mode", mode)
    assert ("a million tokens" in printed) == (mode in ("chunk", "chunks", "relay"))
    assert "list prices of" in printed


def test_the_commands_figures_reach_the_price(capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_by(
        capsys,
        *(
            "--mode",
            "chunks",
            "--tokens",
            "100",
            "--chunks",
            "10",
            "--memory",
            "2048",
            "--architecture",
            "arm64",
        ),
        *("--door", "REST API", "--start", "provisioned", "--instances", "2", "--internet", "--gzip"),
        *("--container-vcpu", "4", "--container-gb", "8", "--container-processes", "4"),
    )
    for text in ("100 tokens", "REST API, 2,048 MB, arm64", "provisioned concurrency", "data transfer"):
        assert text in printed
    assert "4 vCPU, 8 GB" in printed


@pytest.mark.parametrize(
    "arguments",
    [
        ("--memory", "64"),
        ("--tokens", "0"),
        ("--cold", "101"),
        ("--rate", "-1"),
        ("--rate", "nan"),
        ("--mode", "all"),
        ("--rate", "1", "--requests-per-month", "1"),
    ],
)
def test_a_figure_that_can_not_be_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["cost", *arguments])
    assert arguments[0] in capsys.readouterr().err


def test_a_table_is_columns_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(Table("Title", ("what", "dollars"), [("first", "1.00"), ("a second one", "20.00")]))
    assert capsys.readouterr().out == (
        "Title\n\nwhat          dollars\nfirst            1.00\na second one    20.00\n"
    )


def test_a_table_is_drawn_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show(Table("Title", ("what", "dollars"), [("first", "1.00")]))
    printed = capsys.readouterr().out
    assert "─" in printed
    assert "first" in printed
