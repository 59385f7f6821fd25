"""Request ids: the client's, if it is harmless."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import pytest

from derender.telemetry.request_ids import REQUEST_ID, choose_request_id, harmless_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

HARMLESS: Final = ("a", "B0b1C2d3E4f5g6=", "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", "a/b+c:d.e_f", "x" * 128)
ODD: Final = ("", " ", "two words", "x" * 129, "a\nb", 'a"b', "a{b}", "é", "Bearer abc")


@pytest.fixture
def _given() -> Iterator[None]:
    before = REQUEST_ID.set("given")
    yield
    REQUEST_ID.reset(before)


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.usefixtures("_given")
def test_a_harmless_id_is_kept(name: str) -> None:
    assert choose_request_id(name) == harmless_or_none(name) == name


@pytest.mark.parametrize("name", ODD)
def test_an_odd_id_is_replaced(name: str) -> None:
    assert harmless_or_none(name) is None
    assert uuid.UUID(choose_request_id(name)).version == 4


@pytest.mark.parametrize("name", [None, "two words"])
@pytest.mark.usefixtures("_given")
def test_an_id_that_is_already_set_comes_next(name: str | None) -> None:
    assert choose_request_id(name) == "given"


@pytest.mark.parametrize("name", [None, 7, ["a"], {}])
def test_an_id_is_a_string(name: object) -> None:
    assert harmless_or_none(name) is None
