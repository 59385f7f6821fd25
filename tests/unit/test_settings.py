"""Settings: variables, defaults, and one line for a value that can't be used."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import derender.settings
from derender.settings import (
    FUNCTION_VARIABLES,
    PerModel,
    Settings,
    SettingsError,
    default_layer,
    variable_name,
)
from tests.support.functions import load_function, same_logging
from tests.support.paths import BUNDLED

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTO: Final = PerModel("auto")
VALUES: Final[list[tuple[str, str, str, object]]] = [
    ("LAYER", "/opt/other", "layer", Path("/opt/other")),
    ("MODEL", "Qwen3", "model", "Qwen3"),
    ("SERVED_MODEL_NAME", "one", "served_model_name", PerModel(("one",))),
    ("SERVED_MODEL_NAME", " one, two/three ,,one", "served_model_name", PerModel(("one", "two/three"))),
    ("SERVED_MODEL_NAME", ",", "served_model_name", PerModel(())),
    (
        "SERVED_MODEL_NAME",
        "a=one,b = org/two, c=one, a=one",
        "served_model_name",
        PerModel((), {"one": ("a", "c"), "org/two": ("b",)}),
    ),
    ("SERVED_MODEL_NAME", "a=one,best", "served_model_name", PerModel(("best",), {"one": ("a",)})),
    ("MAX_MODEL_LEN", "1", "max_model_len", 1),
    ("MAX_MODEL_LEN", " 4096 ", "max_model_len", 4096),
    ("MAX_MODEL_LEN", str(2**53), "max_model_len", 2**53),
    ("MAX_LOGPROBS", "0", "max_logprobs", 0),
    ("MAX_LOGPROBS", "-1", "max_logprobs", -1),
    ("MAX_SEQUENCES", "1", "max_sequences", 1),
    ("MAX_BODY_BYTES", "1024", "max_body_bytes", 1024),
    ("MAX_ANSWER_BYTES", "1024", "max_answer_bytes", 1024),
    ("LOGPROB_BYTES", "exact", "logprob_bytes", "exact"),
    ("LOGPROB_BYTES", "peer", "logprob_bytes", "peer"),
    ("TOOL_CALL_PARSER", "none", "tool_call_parser", PerModel("none")),
    ("REASONING_PARSER", "none", "reasoning_parser", PerModel("none")),
    ("TOOL_CALL_PARSER", "hermes,hermes", "tool_call_parser", PerModel("hermes")),
    ("REASONING_PARSER", "qwen3", "reasoning_parser", PerModel("qwen3")),
    (
        "TOOL_CALL_PARSER",
        "one=hermes, org/two = none, mistral",
        "tool_call_parser",
        PerModel("mistral", {"one": "hermes", "org/two": "none"}),
    ),
    ("TOOL_CALL_PARSER", "a=b=hermes", "tool_call_parser", PerModel("auto", {"a=b": "hermes"})),
    ("REASONING_PARSER", "one=auto,one=auto", "reasoning_parser", PerModel("auto", {"one": "auto"})),
    *(
        ("DEFAULT_CHAT_TEMPLATE_KWARGS", value, "default_chat_template_kwargs", expected)
        for value, expected in (
            ('{"enable_thinking": false}', PerModel({"enable_thinking": False})),
            (' {"a": {"b": "x={},"}}, ', PerModel({"a": {"b": "x={},"}})),
            (
                'one={"a": 1},org/two = {} , {"b": [2]}',
                PerModel({"b": [2]}, {"one": {"a": 1}, "org/two": {}}),
            ),
            ('a=b={"a": 1}, a=b={"a": 1}', PerModel({}, {"a=b": {"a": 1}})),
        )
    ),
    ("TOOL_CALL_DELTAS", "fragments", "tool_call_deltas", "fragments"),
    ("TOOL_CALL_DELTAS", "complete", "tool_call_deltas", "complete"),
    ("STATE_KEY", f"{'k' * 16}, {'l' * 20},", "state_key", ("k" * 16, "l" * 20)),
    ("ALLOWED_ORIGINS", "*", "allowed_origins", ("*",)),
    (
        "ALLOWED_ORIGINS",
        "https://a.example, http://[::1]:3000,null",
        "allowed_origins",
        ("https://a.example", "http://[::1]:3000", "null"),
    ),
    ("UPSTREAMS", '{"gpu": "http://a"}', "upstreams", '{"gpu": "http://a"}'),
    ("RENDER_URL", "http://a", "render_url", "http://a"),
    ("UPSTREAM_TIMEOUT", "0.5", "upstream_timeout", 0.5),
    ("UPSTREAM_TIMEOUT", "86400", "upstream_timeout", 86_400),
    ("GENERATION_TIMEOUT", "60", "generation_timeout", 60),
    ("UPSTREAM_CONNECT_TIMEOUT", "3", "upstream_connect_timeout", 3),
]
"""Variable, value, field, value of the field."""


def refusal(environment: Mapping[str, str]) -> str:
    """The line that ends the start."""
    with pytest.raises(SettingsError) as error:
        Settings.from_environment(environment)
    (line,) = str(error.value).splitlines()
    return line


def test_defaults() -> None:
    settings = Settings.from_environment({})
    assert settings == Settings()
    assert settings.layer == default_layer()
    assert settings.model is None
    assert settings.served_model_name == PerModel(())
    assert settings.max_model_len is None
    assert settings.max_logprobs == 20
    assert settings.max_sequences == 16_384
    assert settings.max_body_bytes == 64 * 1024 * 1024
    assert settings.logprob_bytes == "exact"
    assert settings.tool_call_parser == AUTO
    assert settings.reasoning_parser == AUTO
    assert settings.default_chat_template_kwargs == PerModel({})
    assert settings.tool_call_deltas == "fragments"
    assert settings.state_key == ()
    assert settings.allowed_origins == ()
    assert (settings.upstreams, settings.render_url) == (None, None)
    assert (settings.upstream_timeout, settings.generation_timeout) == (120, 900)
    assert settings.upstream_connect_timeout == 5


@pytest.mark.parametrize(("variable", "value", "field", "expected"), VALUES)
def test_a_variable_sets_its_field_alone(variable: str, value: str, field: str, expected: object) -> None:
    settings = Settings.from_environment({f"DERENDER_{variable}": value})
    assert getattr(settings, field) == expected
    defaults = Settings()
    assert replace(settings, **{field: getattr(defaults, field)}) == defaults


def test_every_setting_is_tried_above() -> None:
    assert {field for _, _, field, _ in VALUES} == {field.name for field in fields(Settings)}


@pytest.mark.parametrize("value", ["", " ", "\t\n"])
def test_an_empty_variable_is_not_set(value: str) -> None:
    names = [*(variable_name(field.name) for field in fields(Settings)), *FUNCTION_VARIABLES, "DERENDER_X"]
    assert Settings.from_environment(dict.fromkeys(names, value)) == Settings()


def test_other_variables_are_ignored() -> None:
    environment = {"MAX_LOGPROBS": "x", "PATH": "/bin", "derender_model": "x", "XDERENDER_MODEL": "x"}
    assert Settings.from_environment(environment) == Settings()


def test_variables_of_the_functions_are_accepted() -> None:
    assert Settings.from_environment(dict.fromkeys(FUNCTION_VARIABLES, "x")) == Settings()


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        ("MAX_LOGPROB", "MAX_LOGPROBS"),
        ("TOOLCALL_PARSER", "TOOL_CALL_PARSER"),
        ("STATE_KEYS", "STATE_KEY"),
        ("SERVED_MODEL_NAMES", "SERVED_MODEL_NAME"),
        ("LOGLEVEL", "LOG_LEVEL"),
        ("Model", "MODEL"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_known_one(unknown: str, nearest: str) -> None:
    line = refusal({f"DERENDER_{unknown}": "x", "DERENDER_MODEL": "x"})
    assert line == f"'DERENDER_{unknown}' is not a setting; did you mean DERENDER_{nearest}?"


@pytest.mark.parametrize("unknown", ["", "?", "\n" * 1000])
def test_any_unknown_variable_is_refused_in_one_line(unknown: str) -> None:
    assert "is not a setting" in refusal({f"DERENDER_{unknown}": "x"})


@pytest.mark.parametrize(
    ("variable", "value", "bound"),
    [
        *(("MAX_MODEL_LEN", value, "an integer from 1") for value in ("0", "-1", "x", "1.5", "1e3", "4k")),
        *(("MAX_MODEL_LEN", value, f"to {2**53}") for value in (str(2**53 + 1), "9" * 30, "9" * 5000)),
        *(("MAX_LOGPROBS", value, "an integer of at least -1") for value in ("-2", "x", "all")),
        *(("MAX_SEQUENCES", value, "an integer of at least 1") for value in ("0", "-1", "x")),
        *(("MAX_ANSWER_BYTES", value, "of at least 1") for value in ("0", "-1", "64MB")),
        *(("MAX_BODY_BYTES", value, "of at least 1") for value in ("0", "-1", "64MB", "9" * 5000)),
        *(("LOGPROB_BYTES", value, "exact or peer") for value in ("Exact", "none", "1")),
        ("TOOL_CALL_DELTAS", "whole", "fragments or complete"),
        *(("UPSTREAM_TIMEOUT", value, "number of seconds") for value in ("0", "-1", "x", "nan", "inf", "1e9")),
        ("GENERATION_TIMEOUT", "86401", "at most 86400"),
        ("UPSTREAM_CONNECT_TIMEOUT", "5s", "number of seconds"),
        *(("TOOL_CALL_PARSER", value, "none, auto, ") for value in ("Hermes", "no")),
        *(("REASONING_PARSER", value, "none, auto, ") for value in ("Qwen3?", "no")),
        *(("TOOL_CALL_PARSER", value, "MODEL=PARSER") for value in ("a=Hermes", "=hermes", "a=", "a=b=x")),
        ("TOOL_CALL_PARSER", "hermes,mistral", "two parsers for the default model: hermes and mistral"),
        ("TOOL_CALL_PARSER", "none, auto", "two parsers for the default model: none and auto"),
        ("REASONING_PARSER", "a=qwen3,b=none,a=none", "two parsers for a: qwen3 and none"),
        *(
            ("DEFAULT_CHAT_TEMPLATE_KWARGS", value, "must be a JSON object, or MODEL=OBJECT")
            for value in (
                *(
                    "x",
                    "true",
                    "[]",
                    "{",
                    '{"a": 1} {"b": 2}',
                    '={"a": 1}',
                    "a=",
                    "a=[]",
                    'a={"a": 1}b={}',
                    "'{}'",
                ),
                "{" + '"a":[' * 10_000,
            )
        ),
        ("DEFAULT_CHAT_TEMPLATE_KWARGS", '{}, {"a": 1}', "two objects for the default model"),
        ("DEFAULT_CHAT_TEMPLATE_KWARGS", 'a={}, a={"a": 1}', "two objects for a"),
        *(("SERVED_MODEL_NAME", value, "NAME=MODEL") for value in ("=", "a=", "=tiny", "b,a= ")),
        *(
            ("ALLOWED_ORIGINS", value, "without a path")
            for value in ("a.example", "https://a.example/", "https://*.example", "https://a.example b")
        ),
        *(("STATE_KEY", value, "openssl rand") for value in ("secret", f"{'k' * 16},secret")),
    ],
)
def test_a_bad_value_is_refused_in_one_line_that_names_the_variable(
    variable: str, value: str, bound: str
) -> None:
    line = refusal({f"DERENDER_{variable}": value})
    assert line.startswith(f"DERENDER_{variable} ")
    assert bound in line
    assert "secret" not in line
    assert len(line) < 800


def test_values_that_may_be_secret_are_not_shown() -> None:
    settings = Settings(state_key=("secret",), upstreams="secret", render_url="secret")
    assert "secret" not in repr(settings)


def test_settings_go_to_other_processes() -> None:
    settings = Settings(
        tool_call_parser=PerModel("none", {"a": "hermes"}),
        default_chat_template_kwargs=PerModel({"enable_thinking": False}),
    )
    copy = pickle.loads(pickle.dumps(settings))  # noqa: S301
    assert copy == settings
    assert hash(copy) == hash(settings)


def test_every_setting_is_declared_as_affecting_answers_or_not() -> None:
    for field in fields(Settings):
        assert type(field.metadata["affects_answers"]) is bool
        assert callable(field.metadata["read"])


def test_the_settings_that_affect_answers_are_known() -> None:
    settings = Settings(max_logprobs=3)
    affecting = settings.affecting_answers()
    assert affecting["max_logprobs"] == 3
    assert {field.name for field in fields(Settings)} - affecting.keys() == {
        "layer",
        "state_key",
        "allowed_origins",
        "upstreams",
        "render_url",
        "upstream_timeout",
        "generation_timeout",
        "upstream_connect_timeout",
    }


def test_the_default_layer_is_the_one_that_lambda_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_layer().resolve() == BUNDLED
    monkeypatch.setattr(derender.settings, "_LAMBDA_LAYER", tmp_path)
    assert default_layer() == tmp_path


def test_the_default_layer_of_an_installed_package_is_inside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "default").mkdir()
    monkeypatch.setattr(derender.settings, "__file__", str(tmp_path / "settings.py"))
    assert default_layer() == tmp_path / "default"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DERENDER_MAX_LOGPROBS", "many"),
        ("DERENDER_LAYER", "/nowhere"),
        ("DERENDER_MODEL", "x"),
        ("DERENDER_LOG_LEVEL", "LOUD"),
        ("DERENDER_MODELS", "x"),
    ],
)
@pytest.mark.parametrize("function", ["api", "batch"])
def test_a_function_does_not_start_with_a_bad_setting(
    function: str, variable: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with same_logging(), pytest.raises(SystemExit) as end:
        load_function(function, {variable: value, "AWS_DEFAULT_REGION": "eu-central-1"})
    (line,) = str(end.value.code).splitlines()
    assert line.startswith("derender: ")
    assert variable in line
    assert capfd.readouterr() == ("", "")
