"""docs/configuration.md lists all settings and bounds as they are in the code and in the templates."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Final

import pytest

from derender.protocol import base, generate, limits, reading
from derender.settings import FUNCTION_VARIABLES, Settings, SettingsError, variable_name
from derender.streaming import seal
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE: Final = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
TEMPLATES: Final = (ROOT / "template.yaml", ROOT / "infra" / "relay.yaml", ROOT / "infra" / "batch.yaml")
MEBIBYTE: Final = 1024 * 1024
SUPERSCRIPT: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def tables() -> Iterator[list[list[str]]]:
    """The tables of the page, as rows of cells, without their heads."""
    for block in PAGE.split("\n\n"):
        if block.startswith("|"):
            _, _, *rows = block.splitlines()
            yield [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


SETTINGS, BOUNDS = tables()
ROWS: Final[Mapping[str, list[str]]] = {row[0].strip("`"): row[1:] for row in SETTINGS}


def template_variables() -> dict[str, set[str]]:
    """The variables that templates set, and the stack parameters that they refer to."""
    found: dict[str, set[str]] = {}
    for path in TEMPLATES:
        for name, value in re.findall(
            r"^ +(DERENDER_\w+): (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            found.setdefault(name, set()).update(re.findall(r"!Ref (\w+)(?!\w|:)", value))
    return {name: parameters - {"Service"} for name, parameters in found.items()}


def test_every_variable_is_listed_once() -> None:
    assert [*ROWS] == [*(variable_name(field.name) for field in fields(Settings)), *FUNCTION_VARIABLES]
    assert len(ROWS) == len(SETTINGS)


@pytest.mark.parametrize(("variable", "value"), [("MAX_LOGPROBS", "many"), ("MAX_LOGPROB", "5")])
def test_errors_read_as_shown(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.from_environment({f"DERENDER_{variable}": value})
    assert f"\nderender: {error.value}\n" in PAGE


def test_settings_affect_answers_as_listed() -> None:
    for field in fields(Settings):
        listed = ROWS[variable_name(field.name)][2].partition(",")[0]
        assert listed == ("yes" if field.metadata["affects_answers"] else "no"), field.name
    assert {ROWS[variable][2] for variable in FUNCTION_VARIABLES} == {"no"}


def test_settings_have_the_defaults_that_are_listed() -> None:
    for field in fields(Settings):
        cell = ROWS[variable_name(field.name)][0]
        default = getattr(field.default, "default", field.default)
        if isinstance(default, int | float | str):
            assert cell.startswith(f"`{default}`"), field.name


def test_templates_set_what_is_listed_from_the_parameters_that_are_listed() -> None:
    templates = template_variables()
    assert templates.keys() <= ROWS.keys()
    listed = {variable: {cells[3].strip("`")} - {""} for variable, cells in ROWS.items()}
    assert listed == {variable: templates.get(variable, set()) for variable in ROWS}


LISTED: Final = [
    ("objects and arrays", f"{reading._MAX_CONTAINERS:,}, or one per {reading._BYTES_PER_CONTAINER} bytes"),
    ("responses, choices", f"{reading._MAX_MODELS:,}"),
    ("stop strings", f"{limits.MAX_STOP_STRINGS}"),
    ("length of a stop string", f"{limits.MAX_STOP_STRING} characters"),
    ("all stop strings", f"{limits.MAX_STOP_CHARACTERS:,} characters"),
    ("length of a request id", f"{generate.MAX_REQUEST_ID} characters"),
    ("chunks per request", f"{limits.MAX_CHUNKS:,}"),
    ("choices that share", f"{limits.MAX_STREAMED_CHOICES:,}"),
    ("length of a stream state", f"{seal.MAX_DATA // MEBIBYTE} MiB"),
    ("prompt ids and prompt logprobs", f"{limits.MAX_REPEATED // MEBIBYTE} MiB"),
    ("integers that are passed", "64 bits"),
    ("`prompt_tokens`", f"2{str(base.MAX_TOKEN_COUNT.bit_length() - 1).translate(SUPERSCRIPT)}"),
    ("nesting", f"{limits.MAX_DEPTH} levels"),
]
"""Bounds, and the beginnings of their rows."""


@pytest.mark.parametrize(("bound", "value"), LISTED)
def test_bounds_are_those_of_the_code(bound: str, value: str) -> None:
    (row,) = (row for row in BOUNDS if row[0].startswith(bound))
    assert row[1].startswith(value)


def test_each_row_has_its_bound() -> None:
    assert len(BOUNDS) == len(LISTED)
