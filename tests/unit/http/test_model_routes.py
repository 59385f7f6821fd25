"""Operations on models: listing, retrieving, detokenizing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.http.app import create_app
from derender.models.model import ModelEntry, Models
from derender.models.model_settings import ModelSettings
from tests.support.api_client import Client
from tests.support.small_tokenizers import word_piece_tokenizer
from tests.support.vocabularies import B, S, library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.models.model import ServedModel
    from derender.telemetry.observation import Observation
    from derender.vocabulary import Vocabulary
    from tests.unit.conftest import Serve

X: Final = S.BYTE


@pytest.fixture
def named() -> Client:
    """Two models that are never loaded."""

    def fail() -> ServedModel:
        raise AssertionError

    settings = (ModelSettings("a", ("best", "a"), 8), ModelSettings("b", ("org/b c", "ü"), 9))
    entries = tuple(ModelEntry(each, fail) for each in settings)
    return Client(create_app(Models(entries, entries[0]), max_body_bytes=1))


def test_models_are_described_as_openai_and_vllm_do(named: Client) -> None:
    (first, *_) = listed = named.send("/v1/models", method="GET").json["data"]
    assert [model["id"] for model in listed] == ["best", "a", "org/b c", "ü"]
    created = first["created"]
    assert created > 1_700_000_000
    assert first == {
        "id": "best",
        "object": "model",
        "created": created,
        "owned_by": "derender",
        "root": "a",
        "parent": None,
        "max_model_len": 8,
        "permission": [
            {
                "id": "modelperm-best",
                "object": "model_permission",
                "created": created,
                "allow_create_engine": False,
                "allow_sampling": True,
                "allow_logprobs": True,
                "allow_search_indices": False,
                "allow_view": True,
                "allow_fine_tuning": False,
                "organization": "*",
                "group": None,
                "is_blocking": False,
            }
        ],
    }


@pytest.mark.parametrize("path", ["best", "a", "org/b c", "org%2Fb%20c", "%C3%BC"])
def test_each_model_is_retrieved_by_each_of_its_names(named: Client, path: str) -> None:
    answer = named.send(f"/v1/models/{path}", method="GET")
    assert answer.status == 200
    listed = named.send("/v1/models", method="GET").json["data"]
    assert [{**each, "created": 0} for each in listed].count(_undated(answer.json)) == 1


def _undated(model: dict[str, Any]) -> dict[str, Any]:
    return {**model, "created": 0}


@pytest.mark.parametrize("path", ["", "c", "org", "best/", "A"])
def test_an_unknown_model_is_not_found(named: Client, path: str) -> None:
    answer = named.send(f"/v1/models/{path}", method="GET")
    assert (answer.status, answer.error["type"], answer.error["param"]) == (404, "NotFoundError", "model")
    assert "Valid names: best, a, org/b c, ü." in answer.error["message"]


def test_a_retrieved_model_is_observed_without_its_name() -> None:
    observed: list[Observation] = []
    client = Client(create_app(Models((), None), max_body_bytes=1, observe=observed.append))
    client.send("/v1/models/secret", method="GET")
    client.send("/v1/models/secret", method="POST")
    assert [(each.endpoint, each.status) for each in observed] == [
        ("/v1/models/{model}", 404),
        ("/v1/models/{model}", 405),
    ]


# --- POST /detokenize -----------------------------------------------------------------------------------------


def detokenize(client: Client, tokens: Sequence[int], **fields: Any) -> str:
    answer = client.post("/detokenize", {"tokens": tokens, **fields})
    assert answer.status == 200
    assert set(answer.json) == {"prompt"}
    return str(answer.json["prompt"])


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([], ""),
        ([B.HELLO, B.COMMA, B.WORLD, B.BANG], "Hello, world!"),
        ([B.PAD, B.HELLO, B.EOS], "<|pad|>Hello<|end|>"),
        ([B.HELLO, B.UNNAMED], "Hello"),
        ([B.HELLO, 0xE2, 0x88], "Hello\ufffd"),
        ([0xE2, 0x88, B.EOS], "\ufffd<|end|>"),
        ([B.SPACE_AND_2_OF_INFINITY], " \ufffd"),
    ],
)
def test_ids_become_the_text_of_all_of_them(client: Client, tokens: list[int], text: str) -> None:
    assert detokenize(client, tokens) == text
    assert detokenize(client, tokens, model="small", unknown=1) == text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([S.BOS, S.HELLO, S.WORLD, S.EOS], "<s> Hello world</s>"),
        ([S.HELLO, S.WORLD], "Hello world"),
        ([S.HELLO, X + 0xE4, X + 0xB8], "Hello\ufffd\ufffd"),
        ([X + 0xE4, X + 0xB8, X + 0xAD], "中"),
    ],
)
def test_a_text_has_no_dummy_prefix(
    serve: Serve, tiny: ServedModel, stripping_vocabulary: Vocabulary, tokens: list[int], text: str
) -> None:
    assert detokenize(serve(replace(tiny, vocabulary=stripping_vocabulary)), tokens) == text


def test_the_library_decodes_what_fits_no_rule(serve: Serve, tiny: ServedModel) -> None:
    tokenizer = word_piece_tokenizer()
    client = serve(replace(tiny, vocabulary=library(tokenizer, special_token_ids=(0, 1))))
    tokens = [*tokenizer.encode("playing, world!").ids, 1]
    assert detokenize(client, tokens) == tokenizer.decode(tokens, skip_special_tokens=False)


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "tokens"),
        ({"tokens": None}, 400, "tokens"),
        ({"tokens": ["1"]}, 400, "tokens.0"),
        ({"tokens": [1.0]}, 400, "tokens.0"),
        ({"tokens": [0, -1]}, 400, "tokens.1"),
        ({"tokens": [0, B.SIZE]}, 400, "tokens.1"),
        ({"tokens": [2**63]}, 400, "tokens.0"),
        ({"tokens": [0] * 65}, 400, "tokens"),
        ({"tokens": [0], "model": "x"}, 404, "model"),
        ({"tokens": [0] * 40_000}, 413, "body"),
    ],
)
def test_other_requests_are_refused(client: Client, body: dict[str, Any], status: int, param: str) -> None:
    answer = client.post("/detokenize", body)
    assert (answer.status, answer.error["param"]) == (status, param)


def test_the_model_is_observed(tiny: ServedModel) -> None:
    observed: list[Observation] = []
    entry = ModelEntry(ModelSettings("tiny", ("tiny",), 64), lambda: tiny)
    client = Client(create_app(Models((entry,), entry), max_body_bytes=99, observe=observed.append))
    client.send("/detokenize", json.dumps({"tokens": [int(B.HELLO)]}).encode())
    ((observation),) = observed
    assert (observation.endpoint, observation.answer.model) == ("/detokenize", "tiny")
    assert observation.answer.tally.completion_tokens == 0


def test_there_is_no_tokenize(client: Client) -> None:
    answer = client.post("/tokenize", {"prompt": "Hello"})
    assert (answer.status, answer.error["type"]) == (404, "NotFoundError")
