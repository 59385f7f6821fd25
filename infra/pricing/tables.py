"""Tables of prices: the answer to one question, and those of docs/cost.md."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from .bill import MONITORING, billed_ms, count_invocations, dollars, price_generation, price_month
from .container import CONTAINER, CONTAINER_MONTH, break_even, busy
from .measured import ANSWER_TOKENS, CHUNKS, DURATIONS, MANY_CANDIDATES
from .plan import PLANS
from .prices import AS_OF, PRICES, SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .plan import Plan
    from .prices import Price

__all__ = ["Table", "compare", "document", "price"]

MILLION: Final = 1_000_000


class Table(NamedTuple):
    """Rows of text under a head, of which the first columns hold text and the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1

    @property
    def markdown(self) -> str:
        """The table as Markdown, without its title."""
        rule = [*["---"] * self.texts, *["---:"] * (len(self.columns) - self.texts)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.columns, rule, *self.rows))

    @property
    def text(self) -> str:
        """The title, and columns with two spaces between them."""
        rows = (self.columns, *self.rows)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if place < self.texts else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([self.title, "", *map(str.rstrip, lines)])


def price(plan: Plan, rate: float) -> Table:
    """Return each part of the price of a plan at a rate of generations per second."""
    each, always, monthly = price_generation(plan), (*price_month(plan), *MONITORING), rate * SECONDS
    blank = [""] * len(_millions(plan, 0))
    rows = [
        *(
            [part.name, _price(part.price), *_millions(plan, part.dollars), _money(part.dollars * monthly)]
            for part in each
        ),
        *([part.name, _price(part.price), *blank, _money(part.dollars)] for part in always),
        ["total", "", *_millions(plan, dollars(each)), _money(dollars(each) * monthly + dollars(always))],
    ]
    tokens = ["a million tokens"] if plan.is_stream else []
    columns = ["dollars for", "at", f"a million {_unit(plan)}", *tokens, f"a month of {monthly:,.0f}"]
    candidates = f" × {plan.candidates} candidates" if plan.candidates else ""
    title = (
        f"{_unit(plan).capitalize()} of {plan.tokens:,} tokens{candidates}, mode {plan.mode}\n"
        f"{plan.door}, {plan.memory:,} MB, {plan.architecture}: {billed_ms(plan):,} ms per invocation\n"
        f"us-east-1, list prices of {AS_OF}"
    )
    return Table(title, columns, rows)


def compare(plan: Plan, rate: float) -> str:
    """Compare a plan with containers, without monitoring, which they need too."""
    needed = math.ceil(rate * busy(plan)) or 1
    here = dollars(price_generation(plan)) * rate * SECONDS + dollars(price_month(plan))
    from_on = break_even(plan)
    cheaper = "never cheaper" if from_on is None else f"cheaper above {_number(from_on)} per second"
    return (
        f"A container with vLLM ({CONTAINER}) costs ${_money(CONTAINER_MONTH)} a month and is {cheaper}.\n"
        f"A rate of {_number(rate)} per second needs {needed:,}: ${_money(needed * CONTAINER_MONTH)} a month. "
        f"The functions cost ${_money(here)} without monitoring."
    )


_ANSWER: Final = PLANS["complete"]
_LARGE: Final = replace(_ANSWER, candidates=MANY_CANDIDATES)
_BATCH: Final = PLANS["batch"]
_WAYS: Final = {
    f"answer of {_ANSWER.tokens} tokens": _ANSWER,
    f"answer × {MANY_CANDIDATES} candidates": _LARGE,
    f"answer × {MANY_CANDIDATES} candidates, gzipped": replace(_LARGE, gzipped=True),
    "batch, one line": _BATCH,
    f"batch, one line × {MANY_CANDIDATES} candidates": replace(_BATCH, candidates=MANY_CANDIDATES),
    "stream, one chunk per request": PLANS["chunk"],
    f"stream, {CHUNKS} chunks per request": PLANS["chunks"],
    "stream, relayed, function URL": PLANS["relay"],
    "stream, relayed, REST API": replace(PLANS["relay"], door="REST API"),
}


def document() -> tuple[Table, ...]:
    """Return the tables of docs/cost.md."""
    return (_ways(), _sizes(), _starts(), _container(), _durations(), _prices())


def _ways() -> Table:
    rows = []
    for name, plan in _WAYS.items():
        parts = {part.name: part.dollars * MILLION for part in price_generation(plan)}
        compute = parts.pop("Lambda compute") + parts.pop("cold starts")
        watched = parts.pop("logs") + parts.pop("traces")
        requests = sum(parts.values())
        total = requests + compute + watched
        facts = (f"{plan.memory:,}", f"{billed_ms(plan):,}", _number(count_invocations(plan)))
        rows.append([name, *facts, *map(_money, (requests, compute, watched, total, total / plan.tokens))])
    amounts = ("requests", "compute", "logs, traces", "total", "per million tokens")
    return Table("Dollars per million generations", ("way", "MB", "billed ms", "invocations", *amounts), rows)


def _sizes() -> Table:
    def cells(plan: Plan) -> list[str]:
        sizes = [replace(plan, memory=memory) for memory in DURATIONS]
        arm = replace(plan, architecture="arm64")
        return [
            f"{_money(dollars(price_generation(each)) * MILLION)} ({billed_ms(each)} ms)"
            for each in (*sizes, arm)
        ]

    columns = ("way", *(f"{memory:,} MB" for memory in DURATIONS), "1,024 MB, arm64")
    rows = [[name, *cells(plan)] for name, plan in _WAYS.items() if plan.memory == _ANSWER.memory]
    return Table("Dollars per million generations, by memory of the api function", columns, rows)


def _starts() -> Table:
    plans = {
        "on demand": _ANSWER,
        "SnapStart": replace(_ANSWER, start="SnapStart"),
        "one provisioned instance": replace(_ANSWER, start="provisioned"),
    }
    rows = [
        [name, _money(dollars(price_generation(plan)) * MILLION), _money(dollars(price_month(plan)))]
        for name, plan in plans.items()
    ]
    return Table("Dollars by start", ("start", "per million answers", "per month"), rows)


def _container() -> Table:
    rows = []
    for name, plan in _WAYS.items():
        from_on = break_even(plan)
        cells = [
            f"{busy(plan):,.3f} s",
            _number(1 / busy(plan)),
            _money(CONTAINER_MONTH * busy(plan) / SECONDS * MILLION),
        ]
        functions = _money(dollars(price_generation(plan)) * MILLION)
        rows.append([name, *cells, functions, "never" if from_on is None else f"{_number(from_on)} per second"])
    columns = ("work", "vLLM's time", "most per second", "a million at that rate", "functions", "cheaper above")
    return Table(f"One container with vLLM: {CONTAINER}, ${_money(CONTAINER_MONTH)} a month", columns, rows)


def _durations() -> Table:
    labels = {
        "answer": f"answer of {ANSWER_TOKENS} tokens",
        "candidates": f"answer × {MANY_CANDIDATES} candidates",
        "chunk": "one chunk of a stream",
        "chunks": f"{CHUNKS} chunks of a stream",
        "line": "one line of a batch",
        "candidates_line": f"one line × {MANY_CANDIDATES} candidates",
        "start": "init phase of a cold start",
    }
    rows = [
        [label, *(f"{_number(getattr(each, field))} ms" for each in DURATIONS.values())]
        for field, label in labels.items()
    ]
    return Table("Measured durations", ("", *(f"{memory:,} MB" for memory in DURATIONS)), rows)


def _prices() -> Table:
    rows = [[name, f"aws.amazon.com{each.page}", _price(each)] for name, each in PRICES.items()]
    return Table(f"List prices of us-east-1, {AS_OF}", ("item", "page", "price"), rows, texts=2)


def _price(each: Price) -> str:
    exact, least = f"{each.dollars:.10f}".rstrip("0"), f"{each.dollars:.2f}"
    units = {1: f"per {each.unit}", 1_000: f"per thousand {each.unit}s", MILLION: f"per million {each.unit}s"}
    return f"{least if len(exact) < len(least) else exact} {units[each.units]}"


def _millions(plan: Plan, amount: float) -> list[str]:
    """Return the amount for a million generations, and for a million tokens of streams."""
    tokens = [_money(amount * MILLION / plan.tokens)] if plan.is_stream else []
    return [_money(amount * MILLION), *tokens]


def _unit(plan: Plan) -> str:
    return "streams" if plan.is_stream else "lines" if plan.mode == "batch" else "answers"


def _money(amount: float) -> str:
    """Format dollars, to the cent if there are many, else to a tenth of a cent."""
    return f"{amount:,.2f}" if amount >= 0.1 or not amount else f"{amount:.3f}"


def _number(count: float) -> str:
    """Format a number, with three digits if it is small and not whole."""
    if count == round(count) or count >= 1000:
        return f"{count:,.0f}"
    return f"{count:.3g}"
