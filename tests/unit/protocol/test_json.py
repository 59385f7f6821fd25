"""JSON of any kind: malformed, deep, with unusual numbers and strings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.full_requests import ASKED, CHOICE, ENTRY, FULL, GENERATED, both, splice, within
from tests.support.json_mutations import places

if TYPE_CHECKING:
    from tests.support.api_client import Client


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b" \n", id="blank"),
        pytest.param(b"{", id="cut short"),
        pytest.param(b"{}{}", id="two objects"),
        pytest.param(b"{'a': 1}", id="single quotes"),
        pytest.param(b'{"a": 1,}', id="a trailing comma"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"true", id="true"),
        pytest.param(b"5", id="a number"),
        pytest.param(b'"text"', id="a string"),
        pytest.param(b"\xff\xfe{\x00}\x00", id="UTF-16"),
        pytest.param(b'\xef\xbb\xbf{"a": 1}', id="a byte order mark"),
        pytest.param(b'{"a": NaN}', id="NaN"),
        pytest.param(b'{"a": Infinity}', id="Infinity"),
        pytest.param(b'{"a": -Infinity}', id="-Infinity"),
        pytest.param(b"[" * 50_000, id="deep"),
        pytest.param(b'{"a":' * 10_000, id="deep objects"),
        pytest.param(b"a=1&b=2", id="a form"),
        pytest.param(b"\0" * 100, id="zeros"),
    ],
)
@both
def test_a_body_that_is_not_a_json_object_is_refused(client: Client, path: str, body: bytes) -> None:
    answer = client.send(path, body)
    assert answer.status == 400
    assert answer.error["param"] == "body"
    assert answer.error["type"] == "Bad Request"


@pytest.mark.parametrize(
    "text", [b'"\xff"', b'"a\xc3"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xc0\x80"']
)
@both
def test_strings_that_are_not_utf_8_are_refused(client: Client, path: str, text: bytes) -> None:
    for place in (("request_id",), (*CHOICE, "stop_reason"), ("kv_transfer_params",), (*ENTRY, "token")):
        answer = client.send(path, splice(path, (*GENERATED[path], *place), text))
        assert answer.status == 400, place
        assert answer.error["param"] == "body"
    assert client.send(path, splice(path, (*GENERATED[path], "unknown"), text)).status in (200, 400)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "NaN",
            "Infinity",
            "-Infinity",
            "1e400",
            "-1e400",
            "1" * 400,
            "-" + "1" * 400,
            "1" * 20_000,
            "0x10",
            "01",
            "+1",
        ),
        *(str(2**63), str(2**64 - 1), str(2**64), str(-(2**63)), str(-(2**63) - 1), "1.0", "1e2", "-0", "-0.0"),
    ],
)
@both
def test_unusual_numbers_are_refused_or_answered(client: Client, path: str, text: str) -> None:
    for place in places(FULL[path]):
        answer = client.send(path, splice(path, place, text))
        if answer.status != 200:
            assert answer.status == 400, (place, answer.body)
            assert answer.error
        else:
            json.loads(answer.body, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"\\udc00\\ud800"', '"a\\ud83d"', '"\\u0000"', '{"\\ud800": 1}', '"\\ud83d\\ude00"']
)
@both
def test_unusual_strings_are_refused_or_answered(client: Client, path: str, text: str) -> None:
    for place in places(FULL[path]):
        answer = client.send(path, splice(path, place, text))
        if answer.status != 200:
            assert answer.status in (400, 404), (place, answer.body)
            assert answer.error
        else:
            answer.body.decode()
            assert answer.json


DEEP: Final = [150, 300, 900, 1500, 5000, 8000]


def nested(depth: int, kind: str) -> str:
    return "[" * depth + "]" * depth if kind == "lists" else '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("kind", ["lists", "objects"])
@pytest.mark.parametrize("depth", DEEP)
@both
def test_deeply_nested_json_is_refused_or_answered(client: Client, path: str, depth: int, kind: str) -> None:
    text = nested(depth, kind)
    for place in [*places(FULL[path]), ("unknown",), (*GENERATED[path], "unknown"), (ASKED[path], "unknown")]:
        answer = client.send(path, splice(path, place, text))
        if answer.status != 200:
            assert answer.status == 400, (place, answer.body)
            assert answer.error


@pytest.mark.parametrize("name", ["kv_transfer_params", "ec_transfer_params", "metrics"])
@both
def test_json_that_is_passed_on_has_a_maximum_depth(client: Client, path: str, name: str) -> None:
    place = (*GENERATED[path], name)
    answer = client.send(path, splice(path, place, nested(20, "lists")))
    assert answer.status == 200
    assert answer.json[name] == json.loads(nested(20, "lists"))
    answer = client.send(path, splice(path, place, nested(200, "lists")))
    assert answer.status == 400
    assert name in answer.error["param"]
    assert "deep" in answer.error["message"]


@pytest.mark.parametrize(
    "value",
    [0, -1, 2**63 - 1, 2**64 - 1, -(2**63), 1.5, 1e300, True, None, "", "∞\x00\u2028", [], {}, {"": [{}]}],
)
@pytest.mark.parametrize("name", ["kv_transfer_params", "ec_transfer_params", "metrics"])
@both
def test_json_is_passed_on_unchanged(client: Client, path: str, name: str, value: Any) -> None:
    answer = client.post(path, within(path, (name,), {"value": value}))
    assert answer.status == 200
    assert answer.json[name] == {"value": value}
    assert client.post(path, within(path, (name,), value)).json[name] == value
