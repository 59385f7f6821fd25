"""A layer is built whole, or nothing is written."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final

import pytest

import layer_compiler
from derender.vocabulary import load
from layer_compiler import LayerError
from layer_compiler.building.layer import build_layer
from layer_compiler.building.models_file import Model
from tests.support.small_tokenizers import byte_level_tokenizer, sentence_piece_tokenizer, write_folder

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE: Final = "{% for message in messages %}{{ message.content }}{% endfor %}"
"""A chat template without tools and reasoning."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder of sources: two tokenizers and a compiled vocabulary."""
    base = tmp_path_factory.mktemp("sources")
    write_folder(
        base / "tiny",
        byte_level_tokenizer(),
        config={"vocab_size": 500, "eos_token_id": 1, "max_position_embeddings": 512},
        tokenizer_config={"eos_token": None, "chat_template": TEMPLATE},
    )
    write_folder(base / "spm", sentence_piece_tokenizer(strip=True))
    layer_compiler.build(base / "tiny", "done", base, tool_call_parser="hermes")
    return base


TINY: Final = Model(name="tiny", source="tiny", max_model_len=99, licence="MIT")
SPM: Final = Model(name="org/spm", source="spm")
DONE: Final = Model(name="done", source="done.vocab")
FAILING: Final = Model(name="bad", source="spm", tool_call_parser="openai", reasoning_parser="qwen3")


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_layer_holds_all_models(base: Path, tmp_path: Path) -> None:
    steps: list[str] = []
    built = build_layer([TINY, SPM, DONE], tmp_path / "out", base=base, report=steps.append)
    files = read_all(tmp_path / "out")
    assert sorted(files) == ["done.vocab", "org--spm.vocab", "tiny.vocab"]
    assert files["done.vocab"] == (base / "done.vocab").read_bytes()
    assert [load(vocabulary.path).manifest for vocabulary in built] == [each.manifest for each in built]
    tiny, _, done = built
    assert (tiny.manifest.max_model_len, tiny.manifest.licence) == (99, "MIT")
    assert tiny.manifest.origins["max_model_len"] == "given"
    assert (tiny.proof is None, done.proof is None) == (False, True)
    assert steps == [
        "tiny: reading tiny",
        "tiny: compiling and proving",
        "org/spm: reading spm",
        "org/spm: compiling and proving",
        "done: checking done.vocab",
    ]


def test_the_same_models_give_the_same_bytes(base: Path, tmp_path: Path) -> None:
    for out in ("one", "two", "one"):
        build_layer([TINY, SPM], tmp_path / out, base=base)
    assert read_all(tmp_path / "one") == read_all(tmp_path / "two")


def test_if_one_model_fails_nothing_is_written(base: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(LayerError, match="bad: openai parses whole messages"):
        build_layer([TINY, FAILING], tmp_path / "there" / "new" / "out", base=base)
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]
    with pytest.raises(LayerError, match=r"^bad: openai parses whole messages"):
        build_layer([FAILING], tmp_path / "there", base=base)
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_an_exclusive_folder_with_another_vocabulary_is_refused(base: Path, tmp_path: Path) -> None:
    build_layer([DONE], tmp_path, base=base)
    before = read_all(tmp_path)
    with pytest.raises(LayerError, match=r"done\.vocab: not a listed model; remove the file"):
        build_layer([TINY], tmp_path, base=base, exclusive=True)
    assert read_all(tmp_path) == before
    build_layer([TINY], tmp_path, base=base)
    assert sorted(read_all(tmp_path)) == ["done.vocab", "tiny.vocab"]


def test_a_vocabulary_of_another_name_is_not_replaced(base: Path, tmp_path: Path) -> None:
    build_layer([SPM], tmp_path, base=base)
    with pytest.raises(LayerError, match="holds org/spm; build org--spm into another folder"):
        build_layer([Model(name="org--spm", source="spm")], tmp_path, base=base)


def test_a_compiled_vocabulary_must_be_the_models(base: Path, tmp_path: Path) -> None:
    with pytest.raises(LayerError, match="the vocabulary of done, not of other"):
        build_layer([Model(name="other", source="done.vocab")], tmp_path, base=base)


def test_a_damaged_compiled_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.vocab").write_bytes(b"damaged")
    with pytest.raises(LayerError, match="not a compiled vocabulary"):
        build_layer([Model(name="bad", source="bad.vocab")], tmp_path / "out", base=tmp_path)


def test_an_output_that_can_not_be_written_is_named(base: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LayerError, match="file: can't be written"):
        build_layer([DONE], tmp_path / "file", base=base)


def test_a_source_that_can_not_be_read_is_named(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.iterdir", close)
    with pytest.raises(LayerError, match=r"spm: can't be read: .*Permission denied"):
        build_layer([SPM], tmp_path / "out", base=base)
