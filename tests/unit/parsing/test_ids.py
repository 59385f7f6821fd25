"""Ids of tool calls."""

from __future__ import annotations

import re

import pytest

from derender.parsing import CallStart, call_id
from derender.parsing.engine.format import Ids


def made(
    ids: Ids, *, index: int = 0, written: str = "", request: str = "r", choice: int = 0, earlier: int = 0
) -> str:
    return call_id(
        ids, CallStart(index, "get_weather", written), request_id=request, choice=choice, earlier=earlier
    )


@pytest.mark.parametrize("written", ["", "abc123DEF", "0"])
def test_openais_ids_ignore_what_the_model_wrote(written: str) -> None:
    assert re.fullmatch(r"call_[0-9a-f]{24}", made(Ids.OPENAI, written=written))


@pytest.mark.parametrize("ids", [Ids.OPENAI, Ids.MISTRAL])
def test_ids_differ_by_request_choice_and_call_only(ids: Ids) -> None:
    assert made(ids) == made(ids, earlier=3)
    different = [
        made(ids, request=request, choice=choice, index=index)
        for request in ("r", "s", "")
        for choice in (0, 1)
        for index in (0, 1, 2)
    ]
    assert len(set(different)) == len(different)


def test_any_request_id_makes_an_id() -> None:
    assert made(Ids.OPENAI, request="\ud800é") != made(Ids.OPENAI, request="é")


@pytest.mark.parametrize(
    ("index", "written", "earlier", "expected"),
    [
        (0, "", 0, "functions.get_weather:0"),
        (2, "", 0, "functions.get_weather:2"),
        (1, "", 3, "functions.get_weather:4"),
        (0, "7", 0, "functions.get_weather:7"),
        (1, "0", 3, "functions.get_weather:0"),
    ],
)
def test_kimis_ids_have_the_models_number_or_count_on(
    index: int, written: str, earlier: int, expected: str
) -> None:
    assert made(Ids.KIMI, index=index, written=written, earlier=earlier) == expected


def test_mistrals_ids_are_the_models_own() -> None:
    assert made(Ids.MISTRAL, written="abc123DEF") == "abc123DEF"


@pytest.mark.parametrize("written", ["", "abc123DE", "abc123DEFG", "abc-23DEF"])
def test_mistrals_ids_are_made_if_the_models_own_is_malformed(written: str) -> None:
    name = made(Ids.MISTRAL, written=written)
    assert re.fullmatch(r"[0-9A-Za-z]{9}", name)
    assert name == made(Ids.MISTRAL)
