"""Several models in one layer: which of them a request means, and how each is served."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.errors import BadRequest, InternalError, ModelNotFound
from derender.http.app import create_app
from derender.models import layer as layer_module
from derender.models.layer import load_models
from derender.settings import Settings, SettingsError
from derender.vocabulary import dump, load
from tests.support.api_client import CHAT, COMPLETIONS, Client, generated
from tests.support.vocabularies import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from derender.models.model import Models
    from derender.vocabulary import Vocabulary

PIECES: Final = {
    "alpha": [b"a", b"b", b"<end>"],
    "gamma": [b"a", b"b", b"<end>"],
    "org/beta": [b"x", b"y", b"<end>"],
}
"""Three models. The first two differ in nothing but their names."""
SEVERAL: Final = tuple(PIECES)


def file_of(folder: Path, name: str) -> Path:
    """Where a model is: files are in another order than names."""
    return folder / f"{name[::-1].replace('/', '-')}.vocab"


def write(folder: Path, *names: str, **fields: Any) -> None:
    """Add models to a layer."""
    for name in names:
        content = dump(manifest(name=name, **fields), PIECES.get(name, PIECES["alpha"]))
        file_of(folder, name).write_bytes(content)


def models_of(folder: Path, **variables: str) -> Models:
    """The models of a layer, served as the variables say."""
    environment = {f"DERENDER_{name.upper()}": value for name, value in variables.items()}
    return load_models(Settings.from_environment({**environment, "DERENDER_LAYER": str(folder)}))


def names_of(models: Models) -> dict[str, tuple[str, ...]]:
    """Model → its names, in the order in which they are listed."""
    return {entry.root: entry.names for entry in models.entries}


def refused(folder: Path, **variables: str) -> str:
    """The line that ends the start."""
    with pytest.raises(SettingsError) as error:
        models_of(folder, **variables)
    line = str(error.value)
    assert "\n" not in line
    return line


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer of `SEVERAL`."""
    write(tmp_path, *SEVERAL)
    return tmp_path


# --- which model ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("default", ["", *SEVERAL])
@pytest.mark.parametrize("name", SEVERAL)
def test_a_request_is_of_the_model_that_it_names(layer: Path, name: str, default: str) -> None:
    model, answered = models_of(layer, model=default).find(name)
    assert model.vocabulary.manifest.name == answered == name
    assert [model.vocabulary.pieces[token_id] for token_id in range(3)] == PIECES[name]


@pytest.mark.parametrize("requested", [None, ""])
@pytest.mark.parametrize("default", SEVERAL)
def test_a_request_that_names_none_is_of_the_default(layer: Path, default: str, requested: str | None) -> None:
    model, name = models_of(layer, model=default).find(requested)
    assert model.vocabulary.manifest.name == name == default


@pytest.mark.parametrize("requested", [None, ""])
def test_without_a_default_a_request_has_to_name_one(layer: Path, requested: str | None) -> None:
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
def test_the_model_of_the_clients_own_request_counts_where_the_request_names_none(
    layer: Path, requested: str | None, client: object, expected: str
) -> None:
    model, name = models_of(layer, model="alpha").find(requested, client)
    assert model.vocabulary.manifest.name == name == expected


@pytest.mark.parametrize("requested", ["delta", "Alpha", "beta", " alpha"])
def test_an_unknown_model_is_not_found(layer: Path, requested: str) -> None:
    with pytest.raises(ModelNotFound, match=r"alpha, gamma, org/beta\.$") as error:
        models_of(layer).find(requested)
    assert error.value.param == "model"


def test_of_very_many_names_some_are_listed(tmp_path: Path) -> None:
    write(tmp_path, *(f"model-{number:02}" for number in range(25)))
    models = models_of(tmp_path)
    for requested, error in ((None, BadRequest), ("x" * 1000, ModelNotFound)):
        with pytest.raises(error, match=r"model-18, model-19, and 5 more\.$") as refusal:
            models.find(requested)
        assert len(refusal.value.message) < 500
    assert models.find("model-24").model.vocabulary.manifest.name == "model-24"


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "served", "expected"),
    [
        ("", "", {"alpha": (), "gamma": (), "org/beta": ()}),
        ("gamma", "", {"gamma": (), "alpha": (), "org/beta": ()}),
        ("gamma", "g, best", {"gamma": ("g", "best"), "alpha": (), "org/beta": ()}),
        ("", "b=org/beta, a=alpha, best=org/beta", {"alpha": ("a",), "gamma": (), "org/beta": ("b", "best")}),
        ("org/beta", "a=alpha, best", {"org/beta": ("best",), "alpha": ("a",), "gamma": ()}),
        ("alpha", "a=alpha, best, a", {"alpha": ("best", "a"), "gamma": (), "org/beta": ()}),
        ("alpha", "alpha, gamma=gamma", {"alpha": (), "gamma": (), "org/beta": ()}),
    ],
)
def test_other_names_come_before_a_models_own(
    layer: Path, default: str, served: str, expected: dict[str, tuple[str, ...]]
) -> None:
    models = models_of(layer, model=default, served_model_name=served)
    listed = names_of(models)
    assert list(listed) == list(expected)
    assert listed == {root: (*others, root) for root, others in expected.items()}
    for root, names in listed.items():
        for name in names:
            model, answered = models.find(name)
            assert (model.vocabulary.manifest.name, model.names, answered) == (root, names, name)
    if default:
        assert models.find(None).name == listed[default][0]


@pytest.mark.parametrize(
    ("served", "expected"),
    [("", ("alpha",)), ("a, b", ("a", "b")), ("a=alpha, b", ("b", "a")), ("alpha", ("alpha",))],
)
def test_a_model_that_is_alone_has_the_given_names_only(
    tmp_path: Path, served: str, expected: tuple[str, ...]
) -> None:
    write(tmp_path, "alpha")
    models = models_of(tmp_path, served_model_name=served)
    assert names_of(models) == {"alpha": expected}
    assert models.find(None).name == expected[0]


@pytest.mark.parametrize(
    ("default", "served", "problem"),
    [
        ("", "best", "'best' is said of no model; write NAME=MODEL for each, or set DERENDER_MODEL"),
        ("", "alpha", "'alpha' is said of no model"),
        ("alpha", "b=beta", "no model 'beta'; the layer holds alpha, gamma, org/beta"),
        ("alpha", "gamma", "'gamma' is said of alpha, and is another model's own name"),
        ("", "alpha=org/beta", "'alpha' is said of org/beta, and is another model's own name"),
        ("", "a=alpha, a=gamma", "'a' is said of two models, alpha and gamma"),
        ("gamma", "a=alpha, a", "'a' is said of two models, gamma and alpha"),
    ],
)
def test_names_that_may_be_of_several_models_are_refused(
    layer: Path, default: str, served: str, problem: str
) -> None:
    line = refused(layer, model=default, served_model_name=served)
    assert line.startswith("DERENDER_SERVED_MODEL_NAME: ")
    assert problem in line


def test_a_default_that_there_is_not_is_refused(layer: Path) -> None:
    line = refused(layer, model="best", served_model_name="best=alpha")
    assert line.startswith("DERENDER_MODEL is 'best'; ")
    assert line.endswith("alpha, gamma, org/beta")


def test_two_models_of_one_name_are_refused(layer: Path) -> None:
    (layer / "copy.vocab").write_bytes(dump(manifest(name="gamma"), PIECES["gamma"]))
    line = refused(layer, model="alpha")
    assert line.startswith("DERENDER_LAYER: ")
    assert "both named gamma" in line


# --- parsers and lengths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["tool_call_parser", "reasoning_parser"])
@pytest.mark.parametrize(
    ("default", "said", "expected"),
    [
        ("", "", ("glm45", "glm45", "glm45")),
        ("", "auto", ("glm45", "glm45", "glm45")),
        ("gamma", "none", ("glm45", None, "glm45")),
        ("gamma", "mistral", ("glm45", "mistral", "glm45")),
        ("", "alpha=mistral, org/beta=none", ("mistral", "glm45", None)),
        ("alpha", "none, org/beta=mistral,gamma=auto", (None, "glm45", "mistral")),
        ("alpha", "auto, alpha=none", (None, "glm45", "glm45")),
    ],
)
def test_a_parser_is_the_default_models_or_that_of_the_one_it_is_said_of(
    tmp_path: Path, variable: str, default: str, said: str, expected: tuple[str | None, ...]
) -> None:
    write(tmp_path, *SEVERAL, **{variable: "glm45"})
    models = models_of(tmp_path, model=default, **{variable: said})
    kinds = {"tool_call_parser": "tools", "reasoning_parser": "reasoning"}
    found = []
    for name in SEVERAL:
        parsers = models.find(name).model.parsers
        found.append(parsers and getattr(parsers, kinds[variable]))
    alone = {
        parser: getattr(models_of_one(tmp_path / "one", variable, parser), kinds[variable])
        for parser in ("glm45", "mistral")
    }
    assert found == [parser and alone[parser] for parser in expected]


def models_of_one(folder: Path, variable: str, parser: str) -> Any:
    """The parsers of a model that is alone."""
    folder.mkdir(exist_ok=True)
    write(folder, "alpha")
    return models_of(folder, **{variable: parser}).find(None).model.parsers


@pytest.mark.parametrize("variable", ["tool_call_parser", "reasoning_parser"])
@pytest.mark.parametrize(
    ("default", "said", "problem"),
    [
        ("", "mistral", "'mistral' is said of no model; write MODEL=mistral for each, or set DERENDER_MODEL"),
        ("", "none", "'none' is said of no model"),
        ("alpha", "beta=none", "no model 'beta'; the layer holds alpha, gamma, org/beta"),
        ("alpha", "mistral, alpha=none", "two parsers for alpha: none and mistral"),
    ],
)
def test_parsers_that_may_be_of_several_models_are_refused(
    layer: Path, variable: str, default: str, said: str, problem: str
) -> None:
    line = refused(layer, model=default, **{variable: said})
    assert line.startswith(f"DERENDER_{variable.upper()}")
    assert problem in line


@pytest.mark.parametrize("variable", ["tool_call_parser", "reasoning_parser"])
def test_a_parser_that_does_not_exist_ends_the_start_whichever_model_names_it(
    layer: Path, variable: str
) -> None:
    write(layer, "gamma", **{variable: "of-another-version"})
    line = refused(layer, model="alpha")
    assert line.startswith(
        f"DERENDER_{variable.upper()} is auto and the layer names 'of-another-version' for gamma"
    )
    models = models_of(layer, model="alpha", **{variable: "gamma=none"})
    assert models.find("gamma").model.parsers is None


@pytest.mark.parametrize(
    ("names", "setting", "own", "expected"),
    [
        *((names, setting, 64, 64) for names in (SEVERAL, ("alpha",)) for setting in ("", "64")),
        *((names, "16", 64, 16) for names in (SEVERAL, ("alpha",))),
        *((names, "128", None, 128) for names in (SEVERAL, ("alpha",))),
        *((names, "", None, 131_072) for names in (SEVERAL, ("alpha",))),
        (SEVERAL, "128", 64, 64),
        (("alpha",), "128", 64, 128),
    ],
)
def test_a_length_is_that_of_one_model_and_a_bound_of_several(
    tmp_path: Path, names: tuple[str, ...], setting: str, own: int | None, expected: int
) -> None:
    write(tmp_path, *names, max_model_len=own)
    models = models_of(tmp_path, max_model_len=setting)
    for entry in models.entries:
        assert entry.max_model_len == entry.load().limits.max_model_len == expected


# --- when they are mapped -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "default", "at_start"),
    [(SEVERAL, "", []), (SEVERAL, "gamma", ["gamma"]), (("alpha",), "", ["alpha"])],
)
def test_a_model_is_mapped_once_and_only_the_default_at_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    default: str,
    at_start: list[str],
) -> None:
    write(tmp_path, *names)
    mapped: list[Path] = []

    def mapping(path: Path) -> Vocabulary:
        mapped.append(path)
        return load(path)

    monkeypatch.setattr(layer_module, "load", mapping)
    models = models_of(tmp_path, model=default)
    assert mapped == [file_of(tmp_path, name) for name in at_start]
    found = {name: models.find(name).model for name in names}
    assert all(models.find(name).model is model for name, model in found.items())
    assert sorted(mapped) == sorted(file_of(tmp_path, name) for name in names)


def damage(file: Path) -> None:
    """Change what no manifest says."""
    file.write_bytes(file.read_bytes()[:-1] + b"?")


def test_a_damaged_vocabulary_is_an_error_of_requests_to_its_model(
    layer: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage(file_of(layer, "gamma"))
    models = models_of(layer, model="alpha")
    for _ in range(2):
        caplog.clear()
        with pytest.raises(InternalError) as error:
            models.find("gamma")
        assert (error.value.message, error.value.param) == ("The model `gamma` can't be loaded.", "model")
        (record,) = caplog.records
        line = record.getMessage()
        assert str(file_of(layer, "gamma")) in line
        assert "checksum" in line
        assert "\n" not in line
        assert (record.name, record.levelno, record.exc_info) == ("derender", logging.ERROR, None)
        assert models.find("alpha").model.vocabulary.pieces[0] == b"a"


def test_parsers_that_dont_go_together_are_an_error_of_requests_to_their_model(
    layer: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(layer, "gamma", tool_call_parser="openai", reasoning_parser="qwen3")
    models = models_of(layer)
    with pytest.raises(InternalError, match=r"The model `gamma` can't be loaded\."):
        models.find("gamma")
    assert "gamma" in caplog.text
    assert "openai" in caplog.text
    assert models.find("alpha").model.parsers is None


@pytest.mark.parametrize("default", ["", "gamma", "alpha"])
@pytest.mark.parametrize(
    ("offset", "content", "problem"),
    [
        (0, b"D", "not a compiled vocabulary"),
        (8, b"\xff", "build the layer again"),
        (24, b"[", "the manifest can't be read"),
    ],
)
def test_a_damaged_head_ends_the_start(
    layer: Path, default: str, offset: int, content: bytes, problem: str
) -> None:
    file = file_of(layer, "gamma")
    whole = file.read_bytes()
    file.write_bytes(whole[:offset] + content + whole[offset + 1 :])
    line = refused(layer, model=default)
    assert line.startswith(f"DERENDER_LAYER: {file}: ")
    assert problem in line


def test_a_damaged_default_ends_the_start(layer: Path) -> None:
    damage(file_of(layer, "gamma"))
    line = refused(layer, model="gamma")
    assert line.startswith(f"DERENDER_LAYER: {file_of(layer, 'gamma')}: ")


# --- requests -------------------------------------------------------------------------------------------------


def client_of(models: Models) -> Client:
    """The application that serves them, behind the Lambda adapter."""
    return Client(create_app(models, max_body_bytes=64 * 1024))


def asked(path: str, model: str | None, **fields: Any) -> dict[str, Any]:
    """A request to derender two tokens, whole."""
    response = generated([0, 1])
    given = {"generate_response": response} if path == CHAT else {"generate_responses": [response]}
    return {"model": model, **given, **fields}


def text_of(choice: Mapping[str, Any]) -> str:
    """What a choice says."""
    return str(choice["text"] if "text" in choice else choice["message"]["content"])


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_request_is_answered_with_its_models_text_and_name(layer: Path, path: str) -> None:
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
def test_a_request_is_answered_with_the_name_in_the_clients_own_request(
    layer: Path, path: str, stream: bool
) -> None:
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
def test_a_request_that_can_not_be_routed_is_told_why(layer: Path, path: str) -> None:
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
def test_a_stream_is_of_one_model_under_any_of_its_names(layer: Path, path: str) -> None:
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


def test_models_are_listed_in_one_order_with_the_default_first(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("length", [str(2**53 + 1), "9" * 30, "0", "-1", "x"])
def test_a_length_is_a_number_that_every_client_can_read(layer: Path, length: str) -> None:
    assert "DERENDER_MAX_MODEL_LEN" in refused(layer, max_model_len=length)
