"""`derender layer check` finds where a layer decodes differently than a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import layer_compiler
from layer_compiler.corpus import TEXTS
from tests.layers.stand_ins import vllm
from tests.support.small_tokenizers import (
    SMALL_TOKENIZERS,
    byte_level_tokenizer,
    id_of,
    sentence_piece_tokenizer,
    write_folder,
)

from .checks import answer_with, build_layer_of, check

if TYPE_CHECKING:
    from pathlib import Path

    from tests.layers.stand_ins import Answer


@pytest.mark.parametrize("name", SMALL_TOKENIZERS)
def test_a_layer_agrees_with_a_server_of_the_same_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    tokenizer = SMALL_TOKENIZERS[name]()
    assert check(build_layer_of(tokenizer, tmp_path / "out"), vllm(tokenizer)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.count("\n") == 1
    assert printed.out.startswith("tiny decodes as http://127.0.0.1:")
    assert f"{len(TEXTS)} texts, " in printed.out
    assert (
        " and the length compared; not compared: the ids that end a generation and the number of ids\n"
        in printed.out
    )


@pytest.mark.parametrize("name", ["byte-level", "stripping"])
def test_a_server_that_derenders_shows_which_ids_are_special(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    tokenizer = SMALL_TOKENIZERS[name]()
    folder = build_layer_of(tokenizer, tmp_path / "out")
    assert check(folder, vllm(tokenizer)) == 0
    assert " added tokens are special" in capsys.readouterr().out
    assert check(folder, vllm(tokenizer, absent=("/v1/completions/derender",))) == 0
    assert "not compared: which ids are special, " in capsys.readouterr().out


def test_an_id_that_is_special_on_one_side_only_is_found(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = byte_level_tokenizer()
    marker = tokenizer.encode("<think>").ids[0]
    not_shown, shown = "special, not shown", "shown as '<think>'"
    assert check(tiny, vllm(tokenizer, hidden=[marker])) == 1
    difference = f"id {marker}, '<think>'\n  the layer    {shown}\n  the other    {not_shown}\n"
    assert difference in capsys.readouterr().out
    tokenizer.add_special_tokens(["<think>"])
    assert check(build_layer_of(tokenizer, tmp_path / "out"), vllm(byte_level_tokenizer())) == 1
    difference = f"id {marker}, '<think>'\n  the layer    {not_shown}\n  the other    {shown}\n"
    assert difference in capsys.readouterr().out


def test_a_layer_without_any_configuration_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = byte_level_tokenizer()
    layer_compiler.build(write_folder(tmp_path / "bare", tokenizer), "bare", tmp_path / "out")
    assert check(tmp_path / "out", vllm(tokenizer)) == 1
    printed = capsys.readouterr()
    assert "max_model_len\n  the layer    unknown\n  the other    1,000 tokens\n" in printed.out
    assert ": 1 difference, " in printed.out
    ends, size = printed.err.splitlines()
    assert ends.startswith("derender: bare: the layer has no id that ends a generation")
    assert size.startswith(
        f"derender: bare: the layer has the {tokenizer.get_vocab_size()} ids of the tokenizer's file"
    )


@pytest.mark.parametrize(("size", "problem"), [(0, "has no id {id}: its ids are 0 to "), (600, "has no token")])
def test_a_token_that_the_layer_lacks_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, problem: str
) -> None:
    """The layer has an older version of the tokenizer, with or without padding."""
    newer = byte_level_tokenizer()
    newer.add_tokens(["<new>", "<newer>"])
    added = newer.token_to_id("<new>")
    config = {"vocab_size": size or added, "eos_token_id": 1, "max_position_embeddings": 1000}
    folder = write_folder(tmp_path / "older", byte_level_tokenizer(), config=config)
    layer_compiler.build(folder, "older", tmp_path / "out")
    assert check(tmp_path / "out", vllm(newer)) == 1
    printed = capsys.readouterr().out
    assert f"id {added}\n  the layer    {problem.format(id=added)}" in printed
    assert "\n  the other    '<new>'\n" in printed


@pytest.mark.parametrize("refused", [True, False])
def test_a_server_that_has_no_padding_agrees(tiny: Path, *, refused: bool) -> None:
    """Some servers refuse unknown ids, others show them all alike."""
    tokenizer = byte_level_tokenizer()
    usual = vllm(tokenizer)

    def answer(method: str, path: str, body: bytes) -> Answer:
        ids = json.loads(body)["tokens"] if path == "/detokenize" else [0]
        if max(ids) < tokenizer.get_vocab_size():
            return usual(method, path, body)
        return (400, {}, b"no such id") if refused else (200, {}, b'{"prompt": "<unk>"}')

    assert check(tiny, answer) == 0


def test_a_server_without_tokenize_still_tells_its_length(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = byte_level_tokenizer()
    assert check(tiny, vllm(tokenizer, absent=("/tokenize",), max_model_len=900)) == 1
    assert "max_model_len\n  the layer    1,000 tokens\n  the other    900 tokens\n" in capsys.readouterr().out


def test_a_server_without_detokenize_is_asked_for_ids(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()
    assert check(tiny, vllm(tokenizer, absent=("/detokenize",))) == 0
    assert f"{len(TEXTS)} texts, which of 5 added tokens are special and the length" in capsys.readouterr().out


def test_a_server_without_models_is_asked_without_a_name(tiny: Path) -> None:
    tokenizer = byte_level_tokenizer()
    assert check(tiny, vllm(tokenizer, absent=("/v1/models",))) == 0


def test_a_server_that_cleans_up_spaces_agrees(tiny: Path) -> None:
    """transformers may do so in /detokenize, but not in a generation."""
    tokenizer = byte_level_tokenizer()
    answer = vllm(tokenizer, change=lambda _, text: text.replace(" !", "!").replace(" .", "."))
    assert check(tiny, answer) == 0


def test_another_tokenizer_is_found(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tiny, vllm(sentence_piece_tokenizer(strip=False))) == 1
    *_, last = lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "text 'Hello, world!'"
    assert lines[1].startswith("  the layer    '")
    assert lines[2] == "  the other    'Hello, world!'"
    assert "differ: 10 differences" in last


def test_the_id_that_differs_is_found(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()
    ids = tokenizer.encode("Hello").ids
    marker = tokenizer.token_to_id("<think>")

    def renamed(token_ids: list[int], text: str) -> str:
        return text.replace("<think>", "<THINK>") if marker in token_ids else text

    assert check(tiny, vllm(tokenizer, change=renamed)) == 1
    printed = capsys.readouterr().out
    assert f"id {marker}\n  the layer    '<think>'\n  the other    '<THINK>'\n" in printed
    assert ": 1 difference, " in printed
    assert marker not in ids


def test_a_special_id_with_another_text_is_found(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()
    end = id_of(tokenizer, "<|end|>")

    def rename(token_ids: list[int], text: str) -> str:
        return "<|END|>" if token_ids == [end] else text

    assert check(tiny, vllm(tokenizer, change=rename)) == 1
    difference = f"special id {end}\n  the layer    '<|end|>'\n  the other    '<|END|>'\n"
    assert difference in capsys.readouterr().out


def test_neighbours_that_only_differ_together_are_found(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()

    def join(token_ids: list[int], text: str) -> str:
        return f"{text}?" if {33, 34} <= {*token_ids} else text

    assert check(tiny, vllm(tokenizer, change=join)) == 1
    assert "ids 29 to 38\n" in capsys.readouterr().out


def test_an_id_beyond_the_layer_is_found(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_with(200, json.dumps({"tokens": [70_000], "prompt": "a"}).encode())
    assert check(tiny, answer) == 1
    assert "has no id 70000: its ids are 0 to 599" in capsys.readouterr().out


def test_another_length_is_found(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()
    assert check(tiny, vllm(tokenizer, max_model_len=900)) == 1
    assert "max_model_len\n  the layer    1,000 tokens\n  the other    900 tokens\n" in capsys.readouterr().out
