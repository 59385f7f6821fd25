"""How each model of a layer is served: names, parsers, lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .small_layers import SEVERAL, models_of, refusal, write

if TYPE_CHECKING:
    from pathlib import Path

    from derender.models.model import Models

PARSER_FIELDS = pytest.mark.parametrize("field", ["tool_call_parser", "reasoning_parser"])


def names_of(models: Models) -> dict[str, tuple[str, ...]]:
    """The names of each model, in the order in which they are listed."""
    return {entry.settings.root: entry.settings.names for entry in models.entries}


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
def test_a_model_has_its_given_names_and_then_its_own(
    layer: Path, default: str, served: str, expected: dict[str, tuple[str, ...]]
) -> None:
    models = models_of(layer, model=default, served_model_name=served)
    listed = names_of(models)
    assert list(listed) == list(expected)
    assert listed == {root: (*others, root) for root, others in expected.items()}
    for root, names in listed.items():
        for name in names:
            model, answered = models.find(name)
            assert (model.vocabulary.manifest.name, answered) == (root, name)
    if default:
        assert models.find(None).name == listed[default][0]


@pytest.mark.parametrize(
    ("served", "expected"),
    [("", ("alpha",)), ("a, b", ("a", "b")), ("a=alpha, b", ("b", "a")), ("alpha", ("alpha",))],
)
def test_a_single_model_has_its_given_names_only(
    tmp_path: Path, served: str, expected: tuple[str, ...]
) -> None:
    write(tmp_path, "alpha")
    models = models_of(tmp_path, served_model_name=served)
    assert names_of(models) == {"alpha": expected}
    assert models.find(None).name == expected[0]


@pytest.mark.parametrize(
    ("default", "served", "problem"),
    [
        ("", "best", "there is no default model; write NAME=MODEL for each model, or set DERENDER_MODEL"),
        ("", "alpha", "there is no default model"),
        ("alpha", "b=beta", "names the model 'beta'; the layer has alpha, gamma, org/beta"),
        ("alpha", "gamma", "gives the name 'gamma' to alpha, but gamma has it"),
        ("", "alpha=org/beta", "gives the name 'alpha' to org/beta, but alpha has it"),
        ("", "a=alpha, a=gamma", "gives the name 'a' to gamma, but alpha has it"),
        ("gamma", "a=alpha, a", "gives the name 'a' to alpha, but gamma has it"),
    ],
)
def test_a_name_that_could_mean_several_models_is_refused(
    layer: Path, default: str, served: str, problem: str
) -> None:
    line = refusal(layer, model=default, served_model_name=served)
    assert line.startswith("DERENDER_SERVED_MODEL_NAME ")
    assert problem in line


def test_the_default_model_is_named_by_its_vocabulary(layer: Path) -> None:
    line = refusal(layer, model="best", served_model_name="best=alpha")
    assert line == f"DERENDER_MODEL is 'best'; {layer} has alpha, gamma, org/beta"


def test_a_single_model_can_not_be_another_default(tmp_path: Path) -> None:
    write(tmp_path, "alpha")
    assert refusal(tmp_path, model="gamma") == f"DERENDER_MODEL is 'gamma'; {tmp_path} has alpha"


# --- parsers --------------------------------------------------------------------------------------------------


@PARSER_FIELDS
@pytest.mark.parametrize(
    ("default", "setting", "expected"),
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
def test_a_parser_is_for_the_default_model_or_the_one_named(
    tmp_path: Path, field: str, default: str, setting: str, expected: tuple[str | None, ...]
) -> None:
    write(tmp_path, *SEVERAL, **{field: "glm45"})
    models = models_of(tmp_path, model=default, **{field: setting})
    found = {entry.settings.root: getattr(entry.settings, field) for entry in models.entries}
    assert tuple(found[name] for name in SEVERAL) == expected
    for name, parser in found.items():
        parsers = models.find(name).model.parsers
        assert (parsers.names if parsers else ()) == ((parser,) if parser else ())


@PARSER_FIELDS
@pytest.mark.parametrize(
    ("default", "setting", "problem"),
    [
        ("", "mistral", "there is no default model; write MODEL=mistral for each model, or set DERENDER_MODEL"),
        ("", "none", "there is no default model; write MODEL=none"),
        ("alpha", "beta=none", "names the model 'beta'; the layer has alpha, gamma, org/beta"),
        ("alpha", "mistral, alpha=none", "names two parsers for alpha: mistral and none"),
    ],
)
def test_a_parser_that_could_be_for_several_models_is_refused(
    layer: Path, field: str, default: str, setting: str, problem: str
) -> None:
    line = refusal(layer, model=default, **{field: setting})
    assert line.startswith(f"DERENDER_{field.upper()} ")
    assert problem in line


@PARSER_FIELDS
def test_an_unknown_parser_of_any_model_ends_the_start(layer: Path, field: str) -> None:
    write(layer, "gamma", **{field: "of-another-version"})
    line = refusal(layer, model="alpha")
    assert line.startswith(
        f"DERENDER_{field.upper()} is auto and the layer names 'of-another-version' for gamma"
    )
    assert "which does not exist; set none, auto, " in line
    models = models_of(layer, model="alpha", **{field: "gamma=none"})
    assert models.find("gamma").model.parsers is None


# --- arguments of the chat template ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "setting", "expected"),
    [
        ("", "", ({}, {}, {})),
        ("gamma", '{"a": 1}', ({}, {"a": 1}, {})),
        ("", 'alpha={"a": 1}, org/beta={"b": 2}', ({"a": 1}, {}, {"b": 2})),
        ("alpha", '{"a": 1}, gamma={"b": 2}', ({"a": 1}, {"b": 2}, {})),
    ],
)
def test_default_arguments_are_for_the_default_model_or_the_one_named(
    tmp_path: Path, default: str, setting: str, expected: tuple[dict[str, int], ...]
) -> None:
    write(tmp_path, *SEVERAL, reasoning_parser="glm45")
    models = models_of(tmp_path, model=default, default_chat_template_kwargs=setting)
    for name, arguments in zip(SEVERAL, expected, strict=True):
        parsers = models.find(name).model.parsers
        assert parsers is not None
        assert parsers.default_chat_template_kwargs == arguments
        assert models.find_settings(name).default_chat_template_kwargs == arguments


@pytest.mark.parametrize(
    ("default", "setting", "problem"),
    [
        ("", '{"a": 1}', "there is no default model; write MODEL=OBJECT for each model, or set DERENDER_MODEL"),
        ("alpha", "beta={}", "names the model 'beta'; the layer has alpha, gamma, org/beta"),
        ("alpha", '{"a": 1}, alpha={"a": 2}', "names two objects for alpha: {'a': 1} and {'a': 2}"),
    ],
)
def test_default_arguments_that_could_be_for_several_models_are_refused(
    layer: Path, default: str, setting: str, problem: str
) -> None:
    line = refusal(layer, model=default, default_chat_template_kwargs=setting)
    assert line.startswith("DERENDER_DEFAULT_CHAT_TEMPLATE_KWARGS ")
    assert problem in line


# --- lengths --------------------------------------------------------------------------------------------------


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
def test_a_length_replaces_that_of_a_single_model_and_bounds_those_of_several(
    tmp_path: Path, names: tuple[str, ...], setting: str, own: int | None, expected: int
) -> None:
    write(tmp_path, *names, max_model_len=own)
    models = models_of(tmp_path, max_model_len=setting)
    for entry in models.entries:
        assert entry.settings.max_model_len == entry.load().limits.max_model_len == expected
