"""Print how many recorded outputs of `canitoolcall` parse as expected, beside the results it publishes of
other engines.

    python tests/conformance/report.py [--failures] [--family SLUG …] [--fixture ID …]

A soft pass differs only in whitespace around a text.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "handlers"), str(ROOT / "layers" / "tokenizer")]

from canitoolcall.checks import case_status
from canitoolcall.results import CheckResult, Status

from tests.conformance.parsers import parsers_of
from tests.conformance.replay import DELTAS, Replay
from tests.conformance.vocabularies import FAMILIES, FIXTURES, tokenizer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from canitoolcall.fixtures import Fixture

    from tests.conformance.replay import Deltas

SUITE: Final = "canitoolcall"
STATUSES: Final = (Status.PASS, Status.SOFT_PASS, Status.FAIL)
MOST_ROWS: Final = 3
PUBLISHED: Final = re.compile(
    r"^\| (?P<engine>[^|]+) \| (?P<version>[^|]+) \| (?P<fixtures>\d+) \| (?P<passed>\d+) \| (?P<soft>\d+) "
    r"\| (?P<failed>\d+) \|",
    re.MULTILINE,
)
"""A line of the table in the suite's description."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    options = argparse.ArgumentParser(
        description="Replay recorded outputs; print how many parse as they are to."
    )
    options.add_argument(
        "--failures", action="store_true", help="print what differs, for each fixture that fails"
    )
    options.add_argument("--family", action="append", choices=sorted(FAMILIES), help="of these families only")
    options.add_argument(
        "--fixture", action="append", metavar="ID", help="these fixtures only, or parts of ids"
    )
    given = options.parse_args(arguments)
    fixtures = [
        fixture
        for fixture in FIXTURES
        if fixture.family in (given.family or FAMILIES)
        and any(part in fixture.id for part in given.fixture or [""])
    ]
    counts: Counter[tuple[str, Deltas, Status]] = Counter()
    replay = Replay()
    for fixture in fixtures:
        for deltas in DELTAS:
            rows = _rows(replay, fixture, deltas)
            status = case_status(rows)
            if status not in STATUSES:
                status = Status.FAIL
            counts[fixture.family, deltas, status] += 1
            if given.failures and status is not Status.PASS:
                _write(_described(fixture, deltas, rows))
    _write(_by_family(counts, Counter(fixture.family for fixture in fixtures)))
    if len(fixtures) == len(FIXTURES):
        _write(["", *_beside_others(counts)])


def _rows(replay: Replay, fixture: Fixture, deltas: Deltas) -> list[CheckResult]:
    """Return the rows of the suite's checks, or a row that tells what parsing raised."""
    try:
        return replay.check(fixture, deltas)
    except Exception:
        return [CheckResult("raised", "", Status.FAIL, traceback.format_exc())]


def _described(fixture: Fixture, deltas: Deltas, rows: Sequence[CheckResult]) -> Iterator[str]:
    differing = [row for row in rows if row.status is not Status.PASS]
    tool_call, reasoning = parsers_of(fixture.reference_model)
    yield f"{fixture.id} ({deltas}; {tool_call}, {reasoning}; {tokenizer_of(fixture.reference_model)})"
    yield f"    output    {fixture.raw_output!r}"
    yield f"    expected  {fixture.expected or fixture.expected_error}"
    for row in differing[:MOST_ROWS]:
        yield f"    {row.check}, {row.strategy}: {row.status.value}: {row.detail}"
    if len(differing) > MOST_ROWS:
        yield f"    and {len(differing) - MOST_ROWS} rows more"
    yield ""


def _by_family(counts: Counter[tuple[str, Deltas, Status]], fixtures: Counter[str]) -> Iterator[str]:
    columns = [f"{deltas}: {name}" for deltas in DELTAS for name in ("pass", "soft pass", "fail")]
    yield _line("family", "fixtures", *columns)
    yield _line("---", *["---:"] * (1 + len(columns)))
    for family in sorted(fixtures):
        yield _line(family, fixtures[family], *_numbers(counts, [family]))
    yield _line("**all**", fixtures.total(), *_numbers(counts, fixtures))


def _beside_others(counts: Counter[tuple[str, Deltas, Status]]) -> Iterator[str]:
    """Yield the totals beside those in the suite's description: each engine over the fixtures it has parsers
    for."""
    description = metadata.metadata(SUITE)["Description"]
    yield _line("engine", "version", "fixtures", "pass", "soft pass", "fail")
    yield _line("---", "---", *["---:"] * 4)
    passed, soft, failed, *_ = _numbers(counts, FAMILIES)
    yield _line("derender", metadata.version("derender"), len(FIXTURES), passed, soft, failed)
    for found in PUBLISHED.finditer(description):
        yield _line(*found.groups())
    yield ""
    yield f"Others: as {SUITE} {metadata.version(SUITE)} publishes them."


def _numbers(counts: Counter[tuple[str, Deltas, Status]], families: Iterable[str]) -> list[int]:
    chosen = list(families)
    return [
        sum(counts[family, deltas, status] for family in chosen) for deltas in DELTAS for status in STATUSES
    ]


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _write(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
