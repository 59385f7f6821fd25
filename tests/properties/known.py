"""Parsers and families for which a property does not hold yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark.structures import ParameterSet

__all__ = ["with_known"]

KNOWN: Final[dict[str, frozenset[str]]] = {
    "mixed": frozenset(),
    "altered": frozenset(),
    "mixed deliveries": frozenset(),
    "altered deliveries": frozenset(
        (
            "hermes, markers as text",
            "llama3_json",
            "llama4_json, tag as text",
        )
    ),
}


def with_known(name: str, values: Iterable[Any]) -> list[ParameterSet]:
    """Return the parameters of a test. It does not run for those that are known, if not with `--runxfail`."""
    marks = [pytest.mark.xfail(reason="known", run=False)]
    names = [(value, str(getattr(value, "name", value))) for value in values]
    assert {each for _, each in names} >= KNOWN[name]
    return [pytest.param(value, id=each, marks=marks * (each in KNOWN[name])) for value, each in names]
