"""Work is linear in what a request brings: no field of it is read once for each choice, chunk or response."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from derender.decoding.detokenizer import decode_text
from derender.endpoints import CHAT, COMPLETIONS, answer
from derender.parsing import load_parsers
from derender.protocol.detokenize import DetokenizeRequest
from derender.protocol.reading import read
from derender.protocol.writing import dumps
from derender.streaming import Derendered
from tests.support.models import alone, served
from tests.support.work import growth
from tests.unit.parsing.support import marked_vocabulary, marker_texts

from .fields import X, fields, value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from derender.endpoints import Endpoint
    from derender.models.model import Models
    from tests.support.json_mutations import Place

    from .fields import Field

SMALL: Final = 8
"""Choices, chunks or responses of the smallest request."""
LARGE: Final = 128
"""Size of the field in the smallest request."""
TWICE: Final = 2.2
"""Twice the request may take twice the work, and a little more: tables grow in steps."""


class Scale(NamedTuple):
    """A way to make a request large."""

    name: str
    endpoint: Endpoint
    request: Callable[[int], dict[str, Any]]

    @property
    def model(self) -> Any:
        """The model of the request."""
        return self.endpoint.streamed if self.request(1).get("stream") else self.endpoint.complete


def choice(index: int, tokens: int = 1) -> dict[str, Any]:
    """Return a choice."""
    return {"index": index, "token_ids": [X] * tokens}


def response(choices: int, tokens: int = 1) -> dict[str, Any]:
    """Return a generate response."""
    return {"request_id": "r", "choices": [choice(index, tokens) for index in range(choices)]}


def chunks(count: int, choices: int) -> dict[str, Any]:
    """Return a streamed request of so many chunks for each choice, each with usage."""
    return {
        "stream": True,
        "generate_chunks": [
            {"choices": [choice(index)], "usage": {}} for _ in range(count) for index in range(choices)
        ],
    }


SCALES: Final = (
    Scale("tokens", CHAT, lambda size: {"generate_response": response(1, SMALL * size)}),
    Scale("choices", CHAT, lambda size: {"generate_response": response(size)}),
    Scale("chunks", CHAT, lambda size: chunks(size, 1)),
    Scale("streamed choices", CHAT, lambda size: chunks(2, size)),
    Scale("choices", COMPLETIONS, lambda size: {"generate_responses": [response(size)]}),
    Scale("responses", COMPLETIONS, lambda size: {"generate_responses": [response(1)] * size}),
    Scale("chunks", COMPLETIONS, lambda size: chunks(size, 1)),
    Scale("streamed choices", COMPLETIONS, lambda size: chunks(2, size)),
)


def cases() -> Iterator[Any]:
    """Yield each field with each way to make its request large."""
    for scale in SCALES:
        for field in fields(scale.model):
            # A single chunk has the same fields as each of several.
            if value(field, 1) is not None and field.place[0] != "generate_chunk":
                yield pytest.param(scale, field, id=f"{scale.endpoint.kind}, {scale.name}: {field.name}")


@pytest.fixture(scope="module")
def models() -> Models:
    """A model with the parsers of Hermes and Qwen3."""
    return serve_parsers("hermes", "qwen3")


def serve_parsers(tools: str, reasoning: str) -> Models:
    """Return a model with two parsers, their markers and high limits."""
    vocabulary = marked_vocabulary(sorted(marker_texts(tools, reasoning)))
    parsers = load_parsers(vocabulary, tools, reasoning)
    many = 1 << 20
    return alone(served(vocabulary, parsers=parsers, max_model_len=many, max_sequences=many, max_logprobs=-1))


def put(request: Any, place: Place, content: Any) -> None:
    """Put a value into a request, with the objects that it is in."""
    *steps, last = place
    inside = request
    for step, following in pairwise([*steps, last]):
        if isinstance(inside, dict) and inside.get(step) is None:
            entry = {"logprob": -1.0, "token_id": X}
            inside[step] = [entry] if isinstance(following, int) else {}
        inside = inside[step]
    inside[last] = content


def run(models: Models, scale: Scale, body: bytes) -> Any:
    """Answer a request and write the answer."""
    _, _, content = answer(scale.endpoint, models, body, 1)
    return dumps([content.chunks, content.state] if isinstance(content, Derendered) else content)


@pytest.mark.parametrize("scale", SCALES, ids=[f"{scale.endpoint.kind}, {scale.name}" for scale in SCALES])
def test_the_work_is_linear_in_the_size(models: Models, scale: Scale) -> None:
    """Nothing that a request repeats is read again for each of the others."""

    def prepare(size: int) -> Callable[[], object]:
        body = json.dumps({**scale.request(size), scale.endpoint.client_field: {}}).encode()
        return lambda: run(models, scale, body)

    assert max(growth([128, 256], prepare)) < 2.1


@pytest.mark.parametrize(("scale", "field"), [*cases()])
def test_the_work_is_linear_in_each_field(models: Models, scale: Scale, field: Field) -> None:
    """Of a field that is read for each choice, chunk or response, the work grows fourfold."""

    def prepare(times: int) -> Callable[[], object]:
        request = json.loads(json.dumps(scale.request(SMALL * times)))
        request.setdefault(scale.endpoint.client_field, {})
        content = value(field, LARGE * times)
        if scale.name == "responses" and field.place == ("prompt_token_ids",):
            content = content * SMALL * times
        put(request, field.place, content)
        body = json.dumps(request).encode()
        return lambda: run(models, scale, body)

    assert max(growth([2, 4], prepare)) < TWICE


def test_the_work_of_detokenizing_is_linear(models: Models) -> None:
    model, _ = models.find(None)

    def prepare(size: int) -> Callable[[], object]:
        body = json.dumps({"tokens": [X, 0xE2] * size}).encode()
        return lambda: decode_text(model.vocabulary, read(DetokenizeRequest, body).tokens)

    assert [field.name for field in fields(DetokenizeRequest)] == ["model", "tokens"]
    assert max(growth([128, 256], prepare)) < TWICE
