"""Settings: variables, defaults, and one clear line for what can't be used."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from derender.models.layer import load_models
from derender.settings import Settings, SettingsError, default_layer
from derender.vocabulary import dump
from tests.support.paths import BUNDLED, ROOT
from tests.support.vocabularies import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from derender.models.model import ServedModel

PIECES = [b"a", b"b", b"<end>"]


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer of one vocabulary."""
    (tmp_path / "tiny.vocab").write_bytes(dump(manifest(max_model_len=77), PIECES))
    return tmp_path


def only(settings: Settings) -> ServedModel:
    """The model of requests that name none."""
    return load_models(settings).find(None).model


def one_line(error: pytest.ExceptionInfo[SettingsError]) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


# --- variables ------------------------------------------------------------------------------------------------


def test_defaults() -> None:
    settings = Settings.from_environment({})
    assert settings.layer == default_layer()
    assert settings.model is None
    assert settings.served_model_name == ()
    assert settings.max_model_len is None
    assert settings.max_logprobs == 20
    assert settings.max_sequences == 16_384
    assert settings.max_body_bytes == 64 * 1024 * 1024
    assert settings.logprob_bytes == "exact"
    assert settings.tool_call_parser == "auto"
    assert settings.reasoning_parser == "auto"


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("LAYER", "/opt/other", "layer", Path("/opt/other")),
        ("MODEL", "Qwen3", "model", "Qwen3"),
        ("SERVED_MODEL_NAME", "one", "served_model_name", ("one",)),
        ("SERVED_MODEL_NAME", " one, two/three ,,", "served_model_name", ("one", "two/three")),
        ("SERVED_MODEL_NAME", ",", "served_model_name", ()),
        (
            "SERVED_MODEL_NAME",
            "a=one,b = org/two, a=one",
            "served_model_names",
            (("a", "one"), ("b", "org/two")),
        ),
        ("MAX_MODEL_LEN", "1", "max_model_len", 1),
        ("MAX_MODEL_LEN", " 4096 ", "max_model_len", 4096),
        ("MAX_LOGPROBS", "0", "max_logprobs", 0),
        ("MAX_LOGPROBS", "-1", "max_logprobs", -1),
        ("MAX_SEQUENCES", "1", "max_sequences", 1),
        ("MAX_BODY_BYTES", "1024", "max_body_bytes", 1024),
        ("LOGPROB_BYTES", "exact", "logprob_bytes", "exact"),
        ("LOGPROB_BYTES", "peer", "logprob_bytes", "peer"),
        ("TOOL_CALL_PARSER", "none", "tool_call_parser", "none"),
        ("REASONING_PARSER", "none", "reasoning_parser", "none"),
        ("TOOL_CALL_PARSER", "hermes", "tool_call_parser", "hermes"),
        ("REASONING_PARSER", "qwen3", "reasoning_parser", "qwen3"),
        (
            "TOOL_CALL_PARSER",
            "one=hermes, org/two = none",
            "tool_call_parsers",
            (("one", "hermes"), ("org/two", "none")),
        ),
        ("REASONING_PARSER", "one=auto,one=auto", "reasoning_parsers", (("one", "auto"),)),
        ("TOOL_CALL_DELTAS", "fragments", "tool_call_deltas", "fragments"),
        ("TOOL_CALL_DELTAS", "complete", "tool_call_deltas", "complete"),
        ("UPSTREAM_TIMEOUT", "0.5", "upstream_timeout", 0.5),
        ("UPSTREAM_CONNECT_TIMEOUT", "3", "upstream_connect_timeout", 3),
    ],
)
def test_a_variable_sets_its_field_alone(variable: str, value: str, field: str, expected: object) -> None:
    settings = Settings.from_environment({f"DERENDER_{variable}": value})
    assert getattr(settings, field) == expected
    defaults = Settings.from_environment({})
    assert replace(settings, **{field: getattr(defaults, field)}) == defaults


@pytest.mark.parametrize("value", ["", " ", "\t\n"])
def test_an_empty_variable_is_not_set(value: str) -> None:
    names = [field.name.upper() for field in fields(Settings)]
    assert Settings.from_environment(
        {f"DERENDER_{name}": value for name in names}
    ) == Settings.from_environment({})


def test_other_variables_are_not_looked_at() -> None:
    environment = {
        "MAX_LOGPROBS": "x",
        "PATH": "/bin",
        "DERENDER_OF_ANOTHER_VERSION": "x",
        "derender_model": "x",
    }
    assert Settings.from_environment(environment) == Settings.from_environment({})


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        *(("MAX_MODEL_LEN", value, "from 1") for value in ("0", "-1", "x", "1.5", "1e3", "4k")),
        *(("MAX_LOGPROBS", value, "from -1") for value in ("-2", "x", "all")),
        *(("MAX_SEQUENCES", value, "from 1") for value in ("0", "-1", "x")),
        *(("MAX_BODY_BYTES", value, "from 1") for value in ("0", "-1", "64MB", "9" * 5000)),
        *(("LOGPROB_BYTES", value, "exact or peer") for value in ("Exact", "none", "1")),
        ("TOOL_CALL_DELTAS", "whole", "fragments or complete"),
        *(("UPSTREAM_TIMEOUT", value, "number of seconds") for value in ("0", "-1", "x", "nan", "inf", "1e9")),
        ("UPSTREAM_CONNECT_TIMEOUT", "5s", "number of seconds"),
        *(("TOOL_CALL_PARSER", value, "none") for value in ("Hermes", "no")),
        *(("REASONING_PARSER", value, "none") for value in ("Qwen3?", "no")),
        *(("TOOL_CALL_PARSER", value, "MODEL=PARSER") for value in ("a=Hermes", "=hermes", "a=", "a=b=x")),
        *(("TOOL_CALL_PARSER", value, "MODEL=PARSER") for value in ("hermes,mistral", "none, auto")),
        ("REASONING_PARSER", "a=qwen3,b=none,a=none", "two parsers for a: qwen3 and none"),
        *(("SERVED_MODEL_NAME", value, "NAME=MODEL") for value in ("=", "a=", "=tiny", "b,a= ")),
    ],
)
def test_a_bad_value_is_one_line_that_names_the_variable(variable: str, value: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.from_environment({f"DERENDER_{variable}": value})
    text = one_line(error)
    assert f"DERENDER_{variable}" in text
    assert allowed in text


# --- layers ---------------------------------------------------------------------------------------------------


def test_one_vocabulary_is_served_under_its_name(layer: Path) -> None:
    model = only(Settings(layer=layer))
    assert model.names == ("tiny",)
    assert model.vocabulary.pieces[2] == b"<end>"
    assert model.limits.vocabulary_size == 3
    assert model.limits.max_model_len == 77
    assert (model.limits.max_logprobs, model.limits.max_sequences) == (20, 16_384)
    assert model.logprobs.logprob_bytes == "exact"


def test_settings_outweigh_the_layer(layer: Path) -> None:
    settings = Settings(
        layer=layer,
        served_model_name=("a", "b"),
        max_model_len=99,
        max_logprobs=3,
        max_sequences=2,
        logprob_bytes="peer",
    )
    model = only(settings)
    assert model.names == ("a", "b")
    assert model.limits.max_model_len == 99
    assert (model.limits.max_logprobs, model.limits.max_sequences) == (3, 2)
    assert model.logprobs.logprob_bytes == "peer"


def test_a_length_that_nobody_gives_has_a_default(tmp_path: Path) -> None:
    (tmp_path / "tiny.vocab").write_bytes(dump(manifest(max_model_len=None), PIECES))
    assert only(Settings(layer=tmp_path)).limits.max_model_len == 131_072


def test_other_files_of_a_layer_are_not_looked_at(layer: Path) -> None:
    (layer / "README.md").write_text("text")
    (layer / "tokenizer.json").write_text("{}")
    (layer / "folder").mkdir()
    assert only(Settings(layer=layer)).names == ("tiny",)


@pytest.mark.parametrize("several", [False, True])
def test_a_model_that_the_layer_does_not_hold(layer: Path, several: bool) -> None:
    if several:
        (layer / "other.vocab").write_bytes(dump(manifest(name="org/other"), PIECES))
    with pytest.raises(SettingsError, match=r"DERENDER_MODEL is 'nope'.*tiny") as error:
        load_models(Settings(layer=layer, model="nope"))
    one_line(error)


def test_two_vocabularies_of_one_name(layer: Path) -> None:
    (layer / "copy.vocab").write_bytes(dump(manifest(), [b"x", b"y", b"z"]))
    with pytest.raises(SettingsError, match="tiny") as error:
        load_models(Settings(layer=layer, model="tiny"))
    one_line(error)


def test_a_layer_without_vocabularies_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"DERENDER_LAYER.*no compiled vocabulary.*derender layer build"
    ) as error:
        load_models(Settings(layer=tmp_path))
    assert str(tmp_path) in one_line(error)


def test_a_missing_layer(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"DERENDER_LAYER.*No such file") as error:
        load_models(Settings(layer=tmp_path / "missing"))
    assert "missing" in one_line(error)


def test_a_layer_that_is_a_file(layer: Path) -> None:
    with pytest.raises(SettingsError, match="DERENDER_LAYER") as error:
        load_models(Settings(layer=layer / "tiny.vocab"))
    one_line(error)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("content", [b"", b"not a vocabulary, though it is named so", b"derender" + bytes(40)])
def test_a_vocabulary_that_is_none(layer: Path, content: bytes, several: bool) -> None:
    (layer / "tiny.vocab").write_bytes(content)
    if several:
        (layer / "other.vocab").write_bytes(dump(manifest(name="org/other"), PIECES))
    with pytest.raises(SettingsError, match=r"tiny\.vocab") as error:
        load_models(Settings(layer=layer, model="tiny"))
    one_line(error)


def test_a_damaged_vocabulary(layer: Path) -> None:
    path = layer / "tiny.vocab"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(SettingsError, match=r"tiny\.vocab.*build the layer again") as error:
        load_models(Settings(layer=layer))
    one_line(error)


@pytest.mark.parametrize("setting", ["tool_call_parser", "reasoning_parser"])
def test_a_layer_that_names_a_parser_which_does_not_exist(tmp_path: Path, setting: str) -> None:
    named: dict[str, Any] = {setting: "of-another-version"}
    (tmp_path / "tiny.vocab").write_bytes(dump(manifest(**named), PIECES))
    with pytest.raises(SettingsError, match="of-another-version") as error:
        load_models(Settings(layer=tmp_path))
    assert f"DERENDER_{setting.upper()}" in one_line(error)
    off: dict[str, Any] = {setting: "none"}
    assert only(Settings(layer=tmp_path, **off)).names == ("tiny",)


def test_the_default_layer_holds_the_bundled_vocabulary() -> None:
    assert default_layer().resolve() == BUNDLED
    assert only(Settings.from_environment({})).vocabulary.manifest.eos_token_id == 151645


# --- the function ---------------------------------------------------------------------------------------------


def start_function(environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("DERENDER_")}
    return subprocess.run(
        [sys.executable, ROOT / "handlers" / "api.py"],
        env={**variables, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_function_starts() -> None:
    done = start_function({})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("DERENDER_MAX_LOGPROBS", "many"), ("DERENDER_LAYER", "/nowhere"), ("DERENDER_MODEL", "x")],
)
def test_the_function_does_not_start_with_a_bad_setting(variable: str, value: str) -> None:
    done = start_function({variable: value})
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert variable in line
