"""Loading the models of a layer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from derender.errors import InternalError
from derender.models import layer as layer_module
from derender.models.layer import load_models
from derender.settings import PerModel, Settings
from derender.vocabulary import dump, load
from tests.support.vocabularies import manifest

from .small_layers import PIECES, SEVERAL, damage, file_of, models_of, refusal, write

if TYPE_CHECKING:
    from pathlib import Path

    from derender.vocabulary import Vocabulary


# --- one model ------------------------------------------------------------------------------------------------


def test_a_single_vocabulary_is_the_default_model(tmp_path: Path) -> None:
    write(tmp_path, "alpha", max_model_len=77)
    model, name = load_models(Settings(layer=tmp_path)).find(None)
    assert name == "alpha"
    assert model.vocabulary.pieces[2] == b"<end>"
    assert model.limits.vocabulary_size == 3
    assert model.limits.max_model_len == 77
    assert (model.limits.max_logprobs, model.limits.max_sequences) == (20, 16_384)
    assert model.logprobs.logprob_bytes == "exact"
    assert model.tool_call_deltas == "fragments"


def test_settings_override_the_layer(tmp_path: Path) -> None:
    write(tmp_path, "alpha", max_model_len=77)
    settings = Settings(
        layer=tmp_path,
        served_model_name=PerModel(("a", "b")),
        max_model_len=99,
        max_logprobs=3,
        max_sequences=2,
        logprob_bytes="peer",
        tool_call_deltas="complete",
        state_key=("k" * 16,),
    )
    model, name = load_models(settings).find(None)
    assert name == "a"
    assert model.limits.max_model_len == 99
    assert (model.limits.max_logprobs, model.limits.max_sequences) == (3, 2)
    assert model.logprobs.logprob_bytes == "peer"
    assert model.tool_call_deltas == "complete"
    assert model.seal.keys == (b"k" * 16,)


def test_the_bundled_layer_is_the_default() -> None:
    model, name = load_models(Settings()).find(None)
    assert name == "Qwen3"
    assert model.vocabulary.manifest.eos_token_id == 151645


def test_other_files_of_a_layer_are_ignored(tmp_path: Path) -> None:
    write(tmp_path, "alpha")
    (tmp_path / "README.md").write_text("text")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    assert models_of(tmp_path).names == ["alpha"]


# --- when models are mapped -----------------------------------------------------------------------------------


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

    def load_and_note(path: Path, **options: Any) -> Vocabulary:
        mapped.append(path)
        return load(path, **options)

    monkeypatch.setattr(layer_module, "load", load_and_note)
    models = models_of(tmp_path, model=default)
    assert mapped == [file_of(tmp_path, name) for name in at_start]
    found = {name: models.find(name).model for name in names}
    assert all(models.find(name).model is model for name, model in found.items())
    assert sorted(mapped) == sorted(file_of(tmp_path, name) for name in names)


# --- damage ---------------------------------------------------------------------------------------------------


def test_a_layer_without_vocabularies_says_how_to_make_one(tmp_path: Path) -> None:
    line = refusal(tmp_path)
    assert line.startswith("DERENDER_LAYER: ")
    assert str(tmp_path) in line
    assert "no compiled vocabulary" in line
    assert "derender layer build" in line


def test_a_missing_layer_is_refused(tmp_path: Path) -> None:
    line = refusal(tmp_path / "missing")
    assert line.startswith("DERENDER_LAYER: ")
    assert "missing" in line
    assert "No such file" in line


def test_a_layer_that_is_a_file_is_refused(layer: Path) -> None:
    assert refusal(file_of(layer, "alpha")).startswith("DERENDER_LAYER: ")


def test_two_models_with_one_name_are_refused(layer: Path) -> None:
    (layer / "copy.vocab").write_bytes(dump(manifest(name="gamma"), PIECES["gamma"]))
    line = refusal(layer, model="alpha")
    assert line.startswith("DERENDER_LAYER: ")
    assert "both named gamma" in line


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("content", [b"", b"not a vocabulary, though it is named so", b"derender" + bytes(40)])
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path, content: bytes, several: bool) -> None:
    (tmp_path / "tiny.vocab").write_bytes(content)
    if several:
        write(tmp_path, "alpha")
    line = refusal(tmp_path, model="alpha")
    assert line.startswith("DERENDER_LAYER: ")
    assert "tiny.vocab" in line


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
    line = refusal(layer, model=default)
    assert line.startswith(f"DERENDER_LAYER: {file}: ")
    assert problem in line


def test_a_damaged_default_model_ends_the_start(layer: Path) -> None:
    damage(file_of(layer, "gamma"))
    line = refusal(layer, model="gamma")
    assert line.startswith(f"DERENDER_LAYER: {file_of(layer, 'gamma')}: ")
    assert "build the layer again" in line


def test_another_damaged_model_is_an_error_of_its_requests(
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


def test_incompatible_parsers_of_the_default_model_end_the_start(tmp_path: Path) -> None:
    write(tmp_path, "alpha", tool_call_parser="openai", reasoning_parser="qwen3")
    line = refusal(tmp_path)
    assert line.startswith("DERENDER_TOOL_CALL_PARSER, DERENDER_REASONING_PARSER: ")
    assert "openai" in line


def test_incompatible_parsers_of_another_model_are_an_error_of_its_requests(
    layer: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(layer, "gamma", tool_call_parser="openai", reasoning_parser="qwen3")
    models = models_of(layer)
    with pytest.raises(InternalError, match=r"The model `gamma` can't be loaded\."):
        models.find("gamma")
    assert "gamma" in caplog.text
    assert "openai" in caplog.text
    assert models.find("alpha").model.parsers is None
