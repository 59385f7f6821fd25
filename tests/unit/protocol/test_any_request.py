"""Requests changed at random, and what is logged of requests."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from derender.answers import chat as chat_module
from tests.support.api_client import CHAT, generated
from tests.support.full_requests import FULL, PATHS
from tests.support.json_mutations import mutated
from tests.support.vocabularies import B

if TYPE_CHECKING:
    import pytest

    from tests.support.api_client import Client

HELLO = int(B.HELLO)


@settings(max_examples=400)
@given(path=st.sampled_from(PATHS), data=st.data())
def test_a_changed_request_is_answered_or_refused(client: Client, path: str, data: st.DataObject) -> None:
    answer = client.post(path, data.draw(mutated(FULL[path])))
    assert answer.status in (200, 400, 404), answer.body
    if answer.status != 200:
        assert answer.error["param"] is None or "\n" not in answer.error["message"]
    else:
        assert answer.json["choices"] is not None


@given(
    path=st.sampled_from(PATHS), place=st.integers(0, 10**6), new=st.binary(max_size=3), gone=st.integers(0, 3)
)
def test_a_request_with_changed_bytes_is_answered_or_refused(
    client: Client, path: str, place: int, new: bytes, gone: int
) -> None:
    body = json.dumps(FULL[path]).encode()
    place %= len(body)
    answer = client.send(path, body[:place] + new + body[place + gone :])
    assert answer.status in (200, 400, 404), answer.body
    assert answer.json


CONTENT: Final = "xyzzy-generated-content"


def bodies_with_content() -> list[bytes]:
    """Return requests, valid and invalid, with content in ids, texts and names."""
    bodies: list[Any] = [
        {"generate_response": generated([HELLO], logprobs={"content": [{"token": CONTENT, "logprob": -1}]})},
        {"generate_response": generated([HELLO], stop_reason=CONTENT), "chat_request": {"stop": [CONTENT]}},
        {"generate_response": generated([HELLO], finish_reason={CONTENT: CONTENT})},
        {"generate_response": generated(CONTENT)},
        {"generate_response": {CONTENT: CONTENT}},
        {
            "generate_response": generated(
                [HELLO], logprobs={"content": [{"token": [CONTENT], "logprob": CONTENT}]}
            )
        },
        {"generate_response": {**generated([HELLO]), "prompt_logprobs": [{"1": CONTENT}]}},
        {"generate_response": {**generated([HELLO]), "output_mode": CONTENT}},
        {"chat_request": {"messages": [{"content": CONTENT}], "min_tokens": CONTENT}},
        {"generate_response": generated([HELLO]), "stream": CONTENT},
    ]
    return [*(json.dumps(body).encode() for body in bodies), CONTENT.encode(), b'{"a": "' + CONTENT.encode()]


def test_logs_and_errors_contain_no_content(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for body in bodies_with_content():
            answer = client.send(CHAT, body)
            assert answer.status in (200, 400)
            if answer.status == 400:
                assert CONTENT not in answer.error["message"]
    assert CONTENT not in caplog.text
    assert "Hello" not in caplog.text


def test_a_fault_is_logged_without_content(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(CONTENT)

    monkeypatch.setattr(chat_module, "decode_choices", fail)
    with caplog.at_level(logging.DEBUG):
        answer = client.chat(FULL[CHAT])
    assert answer.status == 500
    assert answer.error["message"] == "internal error"
    assert answer.error["type"] == "InternalServerError"
    assert CONTENT not in caplog.text
    assert CONTENT not in answer.body.decode()
    assert all(record.exc_info is None for record in caplog.records)
    (fault,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert fault.name == "derender"
    assert "RuntimeError" in fault.getMessage()
    assert "test_any_request.py" in fault.getMessage()
