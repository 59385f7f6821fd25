"""Costs for people: of one plan, and the tables of infra/COST.md."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from .bill import MONITORING, billed, dollars, generation, invocations, month
from .container import Container, break_even, busy, capacity, container_month
from .measured import ANSWER_TOKENS, CHUNKS, DURATIONS, MANY_CANDIDATES
from .plan import PLANS
from .prices import AS_OF, PRICES, SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .plan import Plan
    from .prices import Price

__all__ = ["Table", "compared", "documented", "of_plan", "show"]

MILLION: Final = 1_000_000
WIDTH: Final = 110
"""Columns that tables are drawn in at least; in fewer they would be cut into shreds."""


class Table(NamedTuple):
    """Rows of text under a head."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1
    """How many columns at the left are text; the others are numbers."""

    @property
    def markdown(self) -> str:
        """As Markdown, without the title."""
        rule = [*["---"] * self.texts, *["---:"] * (len(self.columns) - self.texts)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.columns, rule, *self.rows))


def show(table: Table) -> None:
    """Print a table: drawn on a terminal, where rich is installed, else columns with two spaces between."""
    if sys.stdout.isatty():
        try:
            from rich.box import SIMPLE_HEAD
            from rich.console import Console
            from rich.table import Table as Drawn
        except ModuleNotFoundError:
            pass
        else:
            drawn = Drawn(
                box=SIMPLE_HEAD, pad_edge=False, title=table.title, title_justify="left", title_style="bold"
            )
            for place, name in enumerate(table.columns):
                drawn.add_column(name, justify="left" if place < table.texts else "right")
            for row in table.rows:
                drawn.add_row(*row)
            console = Console(markup=False)
            console.width = max(console.width, WIDTH)
            console.print(drawn)
            return
    rows = (table.columns, *table.rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sys.stdout.write(f"{table.title}\n\n")
    for row in rows:
        texts = map(str.ljust, row[: table.texts], widths)
        cells = [*texts, *map(str.rjust, row[table.texts :], widths[table.texts :])]
        sys.stdout.write(f"{'  '.join(cells).rstrip()}\n")


def of_plan(plan: Plan, rate: float) -> Table:
    """What a plan costs, part by part.

    Args:
        plan: The plan.
        rate: Generations a second.
    """
    each, always, monthly = generation(plan), (*month(plan), *MONITORING), rate * SECONDS
    rows = [
        [part.name, _price(part.price), *_millions(plan, part.dollars), _money(part.dollars * monthly)]
        for part in each
    ]
    blank = [""] * len(_millions(plan, 0))
    rows += [[part.name, _price(part.price), *blank, _money(part.dollars)] for part in always]
    total = dollars(each) * monthly + dollars(always)
    rows.append(["total", "", *_millions(plan, dollars(each)), _money(total)])
    tokens = ["a million tokens"] if plan.is_stream else []
    columns = ["dollars for", "at", f"a million {_unit(plan)}", *tokens, f"a month of {monthly:,.0f}"]
    candidates = f" × {plan.candidates} candidates" if plan.candidates else ""
    title = (
        f"{_unit(plan).capitalize()} of {plan.tokens:,} tokens{candidates}, mode {plan.mode}\n"
        f"{plan.door}, {plan.memory:,} MB, {plan.architecture}: {billed(plan):,} ms an invocation\n"
        f"us-east-1, list prices of {AS_OF}"
    )
    return Table(title, columns, rows)


def compared(plan: Plan, container: Container, rate: float) -> str:
    """What containers cost for the same, in sentences. Monitoring is left out of it: they need theirs too.

    Args:
        plan: The plan.
        container: The container.
        rate: Generations a second.
    """
    monthly, most, unit = dollars(container_month(container)), capacity(plan, container), _unit(plan)
    needed = math.ceil(rate / most) or 1
    here = dollars(generation(plan)) * rate * SECONDS + dollars(month(plan))
    from_on = break_even(plan, container)
    least = monthly / (most * SECONDS) * MILLION
    cheaper = "never cheaper" if from_on is None else f"cheaper from {_number(from_on)} a second on"
    return (
        f"One container with the peer, {container.vcpu:g} vCPU, {container.gigabytes:g} GB: "
        f"${_money(monthly)} a month\n"
        f"At most {_number(most)} {unit} a second; then ${_money(least)} for a million\n"
        f"Than the functions, {cheaper}\n"
        f"At {_number(rate)} a second: {needed:,} needed, ${_money(needed * monthly)} a month; "
        f"the functions, without monitoring, ${_money(here)}"
    )


_ANSWER: Final = PLANS["complete"]
_LARGE: Final = replace(_ANSWER, candidates=MANY_CANDIDATES)
_BATCH: Final = PLANS["batch"]
_WAYS: Final = {
    f"answer of {_ANSWER.tokens} tokens": _ANSWER,
    f"answer × {MANY_CANDIDATES} candidates": _LARGE,
    f"answer × {MANY_CANDIDATES} candidates, gzipped": replace(_LARGE, gzipped=True),
    "batch, a line": _BATCH,
    f"batch, a line × {MANY_CANDIDATES} candidates": replace(_BATCH, candidates=MANY_CANDIDATES),
    "stream, chunk by chunk": PLANS["chunk"],
    f"stream, {CHUNKS} chunks a request": PLANS["chunks"],
    "stream, relayed, function URL": PLANS["relay"],
    "stream, relayed, REST API": replace(PLANS["relay"], door="REST API"),
}


def documented() -> tuple[Table, ...]:
    """The tables of infra/COST.md."""
    return (_ways(), _sizes(), _starts(), _container(Container()), _durations(), _prices())


def _ways() -> Table:
    rows = []
    for name, plan in _WAYS.items():
        parts = {part.name: part.dollars * MILLION for part in generation(plan)}
        compute = parts.pop("Lambda compute") + parts.pop("cold starts")
        watched = parts.pop("logs") + parts.pop("traces")
        requests = sum(parts.values())
        total = requests + compute + watched
        facts = (f"{plan.memory:,}", f"{billed(plan):,}", _number(invocations(plan)))
        rows.append([name, *facts, *map(_money, (requests, compute, watched, total, total / plan.tokens))])
    columns = (
        "way",
        "MB",
        "billed ms",
        "invocations",
        "requests",
        "compute",
        "logs, traces",
        "a million",
        "tokens",
    )
    return Table("Dollars for a million generations, and for a million tokens", columns, rows)


def _sizes() -> Table:
    def cells(plan: Plan) -> list[str]:
        sizes = [replace(plan, memory=memory) for memory in DURATIONS]
        arm = replace(plan, architecture="arm64")
        return [f"{_money(dollars(generation(each)) * MILLION)} ({billed(each)} ms)" for each in (*sizes, arm)]

    columns = ("way", *(f"{memory:,} MB" for memory in DURATIONS), "1,024 MB, arm64")
    rows = [[name, *cells(plan)] for name, plan in _WAYS.items() if plan.memory == _ANSWER.memory]
    return Table("Dollars for a million generations, by the memory of the api function", columns, rows)


def _starts() -> Table:
    plans = {
        "on demand": _ANSWER,
        "SnapStart": replace(_ANSWER, start="SnapStart"),
        "provisioned, one instance": replace(_ANSWER, start="provisioned", instances=1),
    }
    rows = [
        [name, _money(dollars(generation(plan)) * MILLION), _money(dollars(month(plan)))]
        for name, plan in plans.items()
    ]
    return Table(
        "Dollars for a million answers, and for a month, by start", ("start", "a million", "a month"), rows
    )


def _container(container: Container) -> Table:
    monthly = dollars(container_month(container))
    rows = []
    for name, plan in _WAYS.items():
        most, from_on = capacity(plan, container), break_even(plan, container)
        least = monthly / (most * SECONDS) * MILLION
        rows.append(
            [
                name,
                f"{busy(plan):,.3f} s",
                _number(most),
                _money(least),
                _money(dollars(generation(plan)) * MILLION),
                "never" if from_on is None else f"{_number(from_on)} a second",
            ]
        )
    columns = (
        "work",
        "the peer's time",
        "at most a second",
        "a million at that rate",
        "functions",
        "cheaper from",
    )
    title = (
        f"One container with the peer: {container.vcpu:g} vCPU, {container.gigabytes:g} GB, "
        f"${_money(monthly)} a month"
    )
    return Table(title, columns, rows)


def _durations() -> Table:
    labels = {
        "answer": f"answer of {ANSWER_TOKENS} tokens",
        "candidates": f"answer × {MANY_CANDIDATES} candidates",
        "chunk": "a chunk of a stream",
        "chunks": f"{CHUNKS} chunks of a stream",
        "line": "a line of a batch",
        "candidates_line": f"a line × {MANY_CANDIDATES} candidates",
        "start": "init phase of a cold start",
    }
    rows = [
        [label, *(f"{_number(getattr(each, field))} ms" for each in DURATIONS.values())]
        for field, label in labels.items()
    ]
    return Table("Durations as measured", ("", *(f"{memory:,} MB" for memory in DURATIONS)), rows)


def _prices() -> Table:
    rows = [[name, f"aws.amazon.com{price.page}", _price(price)] for name, price in PRICES.items()]
    return Table(f"List prices of us-east-1, {AS_OF}", ("what", "where", "price"), rows, texts=2)


def _price(price: Price) -> str:
    exact = f"{price.dollars:.10f}".rstrip("0")
    least = f"{price.dollars:.2f}"
    units = {1: f"a {price.unit}", 1_000: f"a thousand {price.unit}s", MILLION: f"a million {price.unit}s"}
    return f"{least if len(exact) < len(least) else exact} {units[price.units]}"


def _millions(plan: Plan, amount: float) -> list[str]:
    """Of an amount for one generation."""
    tokens = [_money(amount * MILLION / plan.tokens)] if plan.is_stream else []
    return [_money(amount * MILLION), *tokens]


def _unit(plan: Plan) -> str:
    return "streams" if plan.is_stream else "lines" if plan.mode == "batch" else "answers"


def _money(amount: float) -> str:
    """Dollars, to the cent; small ones to a tenth of it."""
    return f"{amount:,.2f}" if amount >= 0.1 or not amount else f"{amount:.3f}"


def _number(count: float) -> str:
    """To three digits, where it is no whole number."""
    if count == round(count) or count >= 1000:
        return f"{count:,.0f}"
    return f"{count:.3g}"
