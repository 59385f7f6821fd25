"""Bodies with more objects than a request needs (docs/configuration.md)."""

from __future__ import annotations

import json
from typing import Final

import pytest
from pydantic import model_validator

from derender.errors import InvalidRequest
from derender.protocol.base import WireModel
from derender.protocol.complete import ChatDerenderRequest, CompletionDerenderRequest
from derender.protocol.reading import read, read_either
from derender.protocol.stream import ChatStreamRequest, CompletionStreamRequest

MANY: Final = 1 << 18
LONG_ID: Final = b'{"request_id":"%b"}' % (b"x" * 40)


@pytest.mark.parametrize(
    ("begin", "item", "end"),
    [
        pytest.param(b'{"generate_responses":[', b'{"choices":[]}', b"]}", id="responses"),
        pytest.param(b'{"generate_responses":[{"choices":[', b"{}", b"]}]}", id="choices"),
        pytest.param(b'{"generate_responses":[],"other":[', b"[],[],[]", b"]}", id="what is not read"),
        # Few for so many bytes, but each becomes a kilobyte.
        pytest.param(b'{"generate_responses":[', LONG_ID, b"]}", id="long ones"),
    ],
)
def test_more_objects_than_a_request_needs_are_refused(begin: bytes, item: bytes, end: bytes) -> None:
    body = begin + b",".join([item] * (MANY + 1)) + end
    with pytest.raises(InvalidRequest, match="the body has") as refused:
        read_either(CompletionDerenderRequest, CompletionStreamRequest, body)
    assert refused.value.param == "body"


class Faulty(WireModel):
    """A model whose validator has a fault."""

    @model_validator(mode="before")
    @classmethod
    def _fail(cls, _: object) -> object:
        raise ValueError("a fault")


def test_a_fault_of_a_validator_is_raised() -> None:
    with pytest.raises(ValueError, match="a fault"):
        read(Faulty, b"{}")


def test_a_large_request_has_as_many_objects_as_its_logprobs_need() -> None:
    candidates = [{"token_id": token_id, "logprob": -1.0} for token_id in range(20)]
    entry = {"token_id": 0, "logprob": -1.0, "top_logprobs": candidates}
    choice = {"index": 0, "token_ids": [0] * 13_000, "logprobs": {"content": [entry] * 13_000}}
    body = json.dumps({"generate_response": {"request_id": "r", "choices": [choice]}}).encode()
    assert body.count(b"{") > MANY
    request = read_either(ChatDerenderRequest, ChatStreamRequest, body)
    assert isinstance(request, ChatDerenderRequest)
