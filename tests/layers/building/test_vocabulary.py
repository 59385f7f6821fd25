"""One folder becomes one vocabulary file, or nothing is written."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from derender.vocabulary import load
from layer_compiler import LayerError, build
from tests.layers.builds import refuse_folder
from tests.support.json_mutations import json_values, mutated
from tests.support.small_tokenizers import (
    SMALL_TOKENIZERS,
    byte_level_tokenizer,
    sentence_piece_tokenizer,
    word_piece_tokenizer,
    write_folder,
)
from tests.support.vocabularies import file_content


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "a-folder", byte_level_tokenizer())


def test_the_manifest_says_where_the_tokenizer_comes_from(folder: Path, tmp_path: Path) -> None:
    path, manifest, *_ = build(folder, "org/name-1.5", tmp_path / "out", licence="Apache-2.0")
    assert path == tmp_path / "out" / "org--name-1.5.vocab"
    assert load(path).manifest == manifest
    assert (manifest.name, manifest.source) == ("org/name-1.5", "a-folder")
    assert (manifest.licence, manifest.source_revision) == ("Apache-2.0", None)
    assert manifest.source_sha256 == hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()
    _, manifest, *_ = build(folder, "org/name-1.5", tmp_path / "out", origin="elsewhere", revision="0123abc")
    assert (manifest.source, manifest.source_revision) == ("elsewhere", "0123abc")
    assert manifest.licence is None


def test_the_manifest_names_the_parsers_and_the_length_that_are_given(folder: Path, tmp_path: Path) -> None:
    given = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}
    manifest = build(folder, "tiny", tmp_path / "out", max_model_len=99, **given).manifest
    assert (manifest.tool_call_parser, manifest.reasoning_parser) == ("hermes", "qwen3")
    assert (manifest.max_model_len, manifest.origins["max_model_len"]) == (99, "given")
    manifest = build(folder, "tiny", tmp_path / "out").manifest
    assert (manifest.tool_call_parser, manifest.reasoning_parser) == (None, None)


@pytest.mark.parametrize("name", SMALL_TOKENIZERS)
def test_the_same_folder_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    contents = {
        build(
            write_folder(tmp_path / attempt / "tok", SMALL_TOKENIZERS[name](), config={"vocab_size": 600}),
            name,
            tmp_path / attempt / "out",
        ).path.read_bytes()
        for attempt in ("a", "b")
    }
    assert len(contents) == 1


def test_everyone_may_read_a_vocabulary(folder: Path, tmp_path: Path) -> None:
    path = build(folder, "tiny", tmp_path / "out").path
    assert path.stat().st_mode & 0o777 == 0o644


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "Qwen/Qwen3-0.6B", "a.b_c:d@e+f", "7b", "a/b/c"])
def test_names_as_clients_send_them_are_accepted(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path, word_piece_tokenizer())
    assert build(folder, name, tmp_path / "out").manifest.name == name


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../up", "a/../b", "a/..", "/absolute", "a//b", "a/", "./a", ".hidden", "-option"),
        *("a b", "a\0b", "a\nb", "a\n", "a\\b", "ä", "C:\\x", "a/.b", "~", "$HOME", "a*", "n" * 300),
    ],
)
def test_other_names_are_refused(folder: Path, name: str) -> None:
    assert "a name has letters, digits and" in refuse_folder(folder, name)


# --- earlier vocabularies -------------------------------------------------------------------------------------


def test_a_vocabulary_of_the_same_name_is_replaced(folder: Path, tmp_path: Path) -> None:
    build(folder, "tiny", tmp_path / "out")
    build(folder, "tiny", tmp_path / "out", licence="MIT")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tiny.vocab"]
    assert load(tmp_path / "out" / "tiny.vocab").manifest.licence == "MIT"


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_vocabulary_of_another_format_version_is_replaced(folder: Path, tmp_path: Path, version: int) -> None:
    path = build(folder, "tiny", tmp_path / "out").path
    fresh = path.read_bytes()
    path.write_bytes(file_content(b'{"name": "of another version"}', [], version=version))
    build(folder, "tiny", tmp_path / "out")
    assert path.read_bytes() == fresh


def test_a_vocabulary_of_another_name_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    path = build(folder, "a/b", tmp_path / "out").path
    before = path.read_bytes()
    with pytest.raises(LayerError, match="holds a/b"):
        build(folder, "a--b", tmp_path / "out")
    assert path.read_bytes() == before


def test_a_refused_folder_leaves_the_earlier_vocabulary(folder: Path, tmp_path: Path) -> None:
    path = build(folder, "tiny", tmp_path / "out").path
    before = path.read_bytes()
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(LayerError):
        build(folder, "tiny", tmp_path / "out")
    assert [written.name for written in path.parent.iterdir()] == ["tiny.vocab"]
    assert path.read_bytes() == before


def test_an_output_that_is_a_file_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(LayerError, match="file: can't be written"):
        build(folder, "tiny", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "text"


# --- any JSON -------------------------------------------------------------------------------------------------

SMALL: Final[dict[str, Any]] = {
    "tokenizer": json.loads(word_piece_tokenizer().to_str()),
    "tokenizer_config": {
        "eos_token": "[SEP]",
        "unk_token": {"content": "[UNK]", "special": True},
        "additional_special_tokens": ["!"],
        "added_tokens_decoder": {
            "1": {"content": "[SEP]", "lstrip": False, "special": True},
            "10": {"content": "<extra>", "special": True},
        },
        "model_max_length": 512,
        "response_template": {"version": 1, "fields": {"content": {}}},
    },
    "generation_config": {"eos_token_id": [1, 2]},
    "config": {
        "vocab_size": 16,
        "eos_token_id": 1,
        "max_position_embeddings": 512,
        "text_config": {"vocab_size": 12},
    },
}


def build_or_refuse(files: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, value in files.items():
            (folder / f"{file}.json").write_text(json.dumps(value))
        try:
            path = build(folder, "tiny", folder / "out").path
        except LayerError:
            assert not list(folder.glob("out/*"))
        else:
            load(path)


def shrink_numbers(value: Any) -> Any:
    """Replace numbers that would mean gigabytes of ids."""
    if isinstance(value, dict):
        return {name: shrink_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shrink_numbers(item) for item in value]
    return value % 4096 if isinstance(value, int) and value > 4096 else value


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), file=st.sampled_from(sorted(SMALL)))
def test_any_change_of_a_file_is_refused_or_compiled(data: st.DataObject, file: str) -> None:
    build_or_refuse({**SMALL, file: shrink_numbers(data.draw(mutated(SMALL[file])))})


@settings(max_examples=100, deadline=None)
@given(
    config=st.fixed_dictionaries(
        {},
        optional={
            name: json_values
            | st.dictionaries(st.sampled_from(["1", "10", "x", "content"]), json_values, max_size=2)
            for name in (
                "eos_token",
                "added_tokens_decoder",
                "additional_special_tokens",
                "extra_special_tokens",
                "response_template",
            )
        },
    )
)
def test_any_tokenizer_configuration_is_refused_or_compiled(config: dict[str, Any]) -> None:
    build_or_refuse({**SMALL, "tokenizer_config": shrink_numbers(config)})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_change_of_a_byte_fallback_tokenizer_is_refused_or_compiled(data: st.DataObject) -> None:
    tokenizer = json.loads(sentence_piece_tokenizer(strip=True).to_str())
    field = data.draw(st.sampled_from(["decoder", "added_tokens", "normalizer", "model"]))
    changed = {**tokenizer, field: shrink_numbers(data.draw(mutated(tokenizer[field])))}
    build_or_refuse({"tokenizer": changed})
