"""Which model a request means, and the name it is answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from derender.errors import BadRequest, ModelNotFound
from derender.http.app import create_app
from tests.support.api_client import CHAT, COMPLETIONS, Client, generated

from .small_layers import PIECES, SEVERAL, damage, file_of, models_of, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from derender.models.model import Models


@pytest.mark.parametrize("default", ["", *SEVERAL])
@pytest.mark.parametrize("name", SEVERAL)
def test_a_request_names_its_model(layer: Path, name: str, default: str) -> None:
    model, answered = models_of(layer, model=default).find(name)
    assert model.vocabulary.manifest.name == answered == name
    assert [model.vocabulary.pieces[token_id] for token_id in range(3)] == PIECES[name]


@pytest.mark.parametrize("requested", [None, ""])
@pytest.mark.parametrize("default", SEVERAL)
def test_without_a_name_a_request_is_for_the_default(layer: Path, default: str, requested: str | None) -> None:
    model, name = models_of(layer, model=default).find(requested)
    assert model.vocabulary.manifest.name == name == default


@pytest.mark.parametrize("requested", [None, ""])
def test_without_a_default_a_request_must_name_a_model(layer: Path, requested: str | None) -> None:
    with pytest.raises(BadRequest, match=r"alpha, gamma, org/beta\.$") as error:
        models_of(layer).find(requested)
    assert error.value.param == "model"
    assert "DERENDER_MODEL" in error.value.message
    assert "`model`" in error.value.message


@pytest.mark.parametrize(
    ("requested", "client", "expected"),
    [
        (None, "gamma", "gamma"),
        ("", "org/beta", "org/beta"),
        ("alpha", "gamma", "alpha"),
        (None, "a gateway's own", "alpha"),
        (None, None, "alpha"),
        (None, 5, "alpha"),
        (None, ["gamma"], "alpha"),
    ],
)
def test_the_clients_own_request_may_name_the_model(
    layer: Path, requested: str | None, client: object, expected: str
) -> None:
    model, name = models_of(layer, model="alpha").find(requested, client)
    assert model.vocabulary.manifest.name == name == expected


@pytest.mark.parametrize("requested", ["delta", "Alpha", "beta", " alpha"])
def test_an_unknown_model_is_not_found(layer: Path, requested: str) -> None:
    with pytest.raises(ModelNotFound, match=r"alpha, gamma, org/beta\.$") as error:
        models_of(layer).find(requested)
    assert error.value.param == "model"


def test_errors_list_some_of_many_names(tmp_path: Path) -> None:
    write(tmp_path, *(f"model-{number:02}" for number in range(25)))
    models = models_of(tmp_path)
    for requested, error in ((None, BadRequest), ("x" * 1000, ModelNotFound)):
        with pytest.raises(error, match=r"model-18, model-19, and 5 more\.$") as refusal:
            models.find(requested)
        assert len(refusal.value.message) < 500
    assert models.find("model-24").model.vocabulary.manifest.name == "model-24"


# --- requests -------------------------------------------------------------------------------------------------


def client_of(models: Models) -> Client:
    """A client of the application that serves the models."""
    return Client(create_app(models, max_body_bytes=64 * 1024))


def asked(path: str, model: str | None, **fields: Any) -> dict[str, Any]:
    """A derender request with two tokens."""
    response = generated([0, 1])
    given = {"generate_response": response} if path == CHAT else {"generate_responses": [response]}
    return {"model": model, **given, **fields}


def text_of(choice: Mapping[str, Any]) -> str:
    """The text of a choice."""
    return str(choice["text"] if "text" in choice else choice["message"]["content"])


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_the_answer_has_the_text_and_the_name_of_the_model(layer: Path, path: str) -> None:
    client = client_of(models_of(layer, model="alpha", served_model_name="b=org/beta"))
    for model, name, text in (
        (None, "alpha", "ab"),
        ("org/beta", "org/beta", "xy"),
        ("b", "b", "xy"),
        ("gamma", "gamma", "ab"),
        ("", "alpha", "ab"),
    ):
        answer = client.post(path, asked(path, model))
        assert (answer.status, answer.json["model"], text_of(answer.choice)) == (200, name, text)
    assert client.post(path, asked(path, "delta")).status == 404


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_the_answer_has_the_name_in_the_clients_own_request(layer: Path, path: str, stream: bool) -> None:
    models = models_of(layer, model="alpha", served_model_name="a, b, c=gamma")
    client = client_of(models)
    field = "chat_request" if path == CHAT else "completion_request"
    for model, own, name in (
        (None, "a", "a"),
        (None, "b", "b"),
        ("", "b", "b"),
        (None, "alpha", "alpha"),
        (None, "c", "c"),
        ("a", "b", "a"),
        (None, "a gateway's own", "a"),
    ):
        request = asked(path, model)
        if stream:
            request = {"model": model, "stream": True, "generate_chunk": generated([0])}
        answer = client.post(path, {**request, field: {"model": own}})
        assert answer.status == 200
        assert (answer.json["chunk"] if stream else answer.json)["model"] == name


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_errors_say_why_there_is_no_model(layer: Path, path: str) -> None:
    damage(file_of(layer, "gamma"))
    client = client_of(models_of(layer))
    for model, status, kind in (
        (None, 400, "BadRequestError"),
        ("delta", 404, "NotFoundError"),
        ("gamma", 500, "InternalServerError"),
    ):
        answer = client.post(path, asked(path, model))
        assert answer.status == status
        assert (answer.error["type"], answer.error["param"]) == (kind, "model")
        assert str(layer) not in answer.error["message"]
    assert client.post(path, asked(path, "alpha")).status == 200


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_stream_may_use_any_name_of_its_model(layer: Path, path: str) -> None:
    client = client_of(models_of(layer, served_model_name="a=alpha"))

    def ask(model: str, state: object, token_id: int) -> Any:
        chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": [token_id]}]}
        return client.post(
            path, {"model": model, "stream": True, "generate_chunk": chunk, "stream_state": state}
        )

    begun = ask("alpha", None, 0).json
    assert begun["chunk"]["model"] == "alpha"
    # gamma is the same vocabulary under another name.
    for model, status in (("alpha", 200), ("a", 200), ("gamma", 400), ("org/beta", 400), ("delta", 404)):
        answer = ask(model, begun["stream_state"], 1)
        assert answer.status == status
        if status == 200:
            assert answer.json["chunk"]["model"] == model
        if status == 400:
            assert "another model" in answer.error["message"]


def test_models_are_listed_with_the_default_first(tmp_path: Path) -> None:
    write(tmp_path, "alpha", "org/beta", max_model_len=64)
    write(tmp_path, "gamma", max_model_len=8)
    damage(file_of(tmp_path, "alpha"))
    models = models_of(tmp_path, model="gamma", served_model_name="best, a=alpha", max_model_len="32")
    listed = client_of(models).send("/v1/models", method="GET").json["data"]
    assert [(model["id"], model["root"], model["max_model_len"]) for model in listed] == [
        ("best", "gamma", 8),
        ("gamma", "gamma", 8),
        ("a", "alpha", 32),
        ("alpha", "alpha", 32),
        ("org/beta", "org/beta", 32),
    ]
