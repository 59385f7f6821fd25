"""SentencePiece models: types of pieces, white space, models without a rule."""

from __future__ import annotations

import random
import struct
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.vocabulary import load
from layer_compiler import LayerError, build
from layer_compiler.formats import sentence_piece_model
from layer_compiler.formats.protobuf import write_bytes, write_varint
from tests.layers.builds import build_folder, decode_text, refuse_folder
from tests.layers.model_folders import (
    BYTE,
    CONTROL,
    NORMAL,
    PIECES,
    SPIECE,
    UNKNOWN,
    model,
    piece,
    sentence_piece_folder,
)

if TYPE_CHECKING:
    from pathlib import Path

HELLO, SPACE, WORLD, INNER = (SPIECE[text] for text in ("▁Hello", "▁", "world", "a▁b"))


def byte(value: int) -> int:
    """Return the id of a byte."""
    return 3 + value


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        pytest.param([HELLO, SPACE, WORLD], "Hello world", id="the first space is dropped"),
        pytest.param([SPACE, HELLO], " Hello", id="and no more than one"),
        pytest.param([SPACE], "", id="alone"),
        pytest.param([SPIECE["▁▁"], WORLD], " world", id="of a piece of two"),
        pytest.param([WORLD, HELLO], "world Hello", id="the next is not"),
        pytest.param([INNER], "a b", id="a space within a piece"),
        pytest.param([byte(0xC3), byte(0xA9), HELLO], "é Hello", id="bytes of a character"),
        pytest.param([byte(0xE2), byte(0x88), WORLD], "\ufffd\ufffdworld", id="bytes of none"),
        pytest.param([SPIECE["never"]], "never", id="a piece that encoding does not use"),
        pytest.param([1, HELLO, 2], "Hello", id="control tokens are skipped"),
        pytest.param([0, HELLO], "Hello", id="the unknown token too"),
        pytest.param([HELLO, SPIECE["<think>"]], "Hello<think>", id="user-defined ones are not"),
        pytest.param([SPIECE["[TOOL_CALLS]"], WORLD], "[TOOL_CALLS]world", id="markers of an answer are not"),
    ],
)
def test_a_sequence_decodes_as_the_library_decodes_it(tiny_model: Path, ids: list[int], text: str) -> None:
    assert decode_text(load(tiny_model), ids) == text


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile `model_folders.model`."""
    folder = sentence_piece_folder(tmp_path_factory.mktemp("model"))
    return build(folder, "tiny", folder / "out").path


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([1, HELLO, 2], "<s> Hello</s>"),
        ([HELLO, 1, HELLO], "Hello<s> Hello"),
        ([0, HELLO], "<unk> Hello"),
    ],
)
def test_special_tokens_are_shown_by_name(tiny_model: Path, ids: list[int], text: str) -> None:
    assert decode_text(load(tiny_model), ids, skip=False) == text


def test_the_manifest_describes_the_model(tiny_model: Path) -> None:
    about = load(tiny_model).manifest
    assert (about.source_format, about.rule, about.strip_leading_space) == (
        "sentencepiece",
        "byte-fallback",
        True,
    )
    assert about.special_token_ids == (0, 1, 2)
    assert about.byte_token_ids == tuple(range(3, 259))
    assert about.eos_token_id == 2
    assert about.origins.get("eos_token_id") == "tokenizer.model: eos_id"
    assert about.added_token_ids == tuple(
        sorted([0, 1, 2, *(SPIECE[t] for t in ("▁▁", "<think>", "[TOOL_CALLS]"))])
    )


def test_without_a_dummy_prefix_the_first_space_stays(tmp_path: Path) -> None:
    vocabulary = build_folder(sentence_piece_folder(tmp_path, model(dummy_prefix=False)))
    assert not vocabulary.manifest.strip_leading_space
    assert decode_text(vocabulary, [HELLO, HELLO]) == " Hello Hello"


def test_the_dummy_prefix_is_the_formats_default(tmp_path: Path) -> None:
    assert build_folder(sentence_piece_folder(tmp_path, model(dummy_prefix=None))).manifest.strip_leading_space


@pytest.mark.parametrize(
    ("trainer", "eos"), [({}, 2), ({42: 1}, 1), ({42: HELLO}, None), ({42: 2**64 - 1}, None)]
)
def test_the_trainer_says_what_ends_a_text(tmp_path: Path, trainer: dict[int, int], eos: int | None) -> None:
    assert build_folder(sentence_piece_folder(tmp_path, model(trainer=trainer))).manifest.eos_token_id == eos


def test_tokens_of_the_configuration_are_added(tmp_path: Path) -> None:
    end, tool = len(PIECES), len(PIECES) + 3
    config = {
        "added_tokens_decoder": {
            "0": {"content": "<unk>", "special": True},
            str(end): {"content": "<|im_end|>", "special": True},
            str(tool): {"content": "▁<tool>"},
        },
        "eos_token": "<|im_end|>",
        "additional_special_tokens": ["<think>"],
    }
    vocabulary = build_folder(sentence_piece_folder(tmp_path, tokenizer_config=config))
    about = vocabulary.manifest
    assert (about.size, about.named, about.eos_token_id) == (tool + 1, len(PIECES) + 2, end)
    assert about.special_token_ids == (0, 1, 2, SPIECE["<think>"], end)
    assert decode_text(vocabulary, [WORLD, tool, end]) == "world <tool>"
    assert vocabulary.pieces[end + 1] == b""


def test_added_tokens_json_is_read(tmp_path: Path) -> None:
    folder = sentence_piece_folder(tmp_path, added_tokens={"<pad>": len(PIECES)})
    assert build_folder(folder).pieces[len(PIECES)] == b"<pad>"


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["tokenizer.model", "other.model"], "tokenizer.model"),
        (["spiece.model"], "spiece.model"),
        (["sentencepiece.bpe.model"], "sentencepiece.bpe.model"),
        (["llama.model"], "llama.model"),
        (["tokenizer.model", "tokenizer.model.v3"], "tokenizer.model.v3"),
        (["tokenizer.model.v1", "tokenizer.model.v11", "tokenizer.model.v3"], "tokenizer.model.v11"),
        (["mistral_instruct_tokenizer_241114.model.v7m1"], "mistral_instruct_tokenizer_241114.model.v7m1"),
    ],
)
def test_the_newest_or_usually_named_model_is_taken(tmp_path: Path, names: list[str], taken: str) -> None:
    for name in names:
        sentence_piece_folder(tmp_path, name=name)
    assert build_folder(tmp_path).manifest.origins["eos_token_id"] == f"{taken}: eos_id"


@pytest.mark.parametrize("names", [["a.model", "b.model"], ["a.model.v3", "a.model.v3m1"]])
def test_several_models_are_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        sentence_piece_folder(tmp_path, name=name)
    assert "several" in refuse_folder(tmp_path)


PLAIN = [(text, kind) for text, kind in PIECES if kind != BYTE]
CHARSMAP = write_bytes(5, write_bytes(2, b"\x01\x02"))
NO_RULE: dict[str, tuple[bytes, str]] = {
    "no byte fallback": (model(PLAIN), "no byte fallback"),
    "a byte that is missing": (model(PIECES[:100] + PIECES[101:]), "no byte fallback"),
    "extra white space is removed": (model(extra_whitespaces=True), "extra white space"),
    "and is by default": (model(extra_whitespaces=None), "extra white space"),
    "a text is changed": (model(more=CHARSMAP), "changes a text"),
}


@pytest.mark.parametrize(("content", "reason"), NO_RULE.values(), ids=NO_RULE)
def test_a_model_without_a_rule_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    message = refuse_folder(sentence_piece_folder(tmp_path, content))
    assert reason in message
    assert message.endswith("; add a tokenizer.json")


def test_a_configuration_that_contradicts_the_model_is_refused(tmp_path: Path) -> None:
    config = {"add_prefix_space": False}
    assert "add_prefix_space" in refuse_folder(sentence_piece_folder(tmp_path, tokenizer_config=config))
    build_folder(sentence_piece_folder(tmp_path / "fits", model(dummy_prefix=False), tokenizer_config=config))


GARBAGE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "it has 0 unknown pieces, not 1"),
    "zeros": (bytes(1000), "field without a number"),
    "text": (b"no model at all, but text that goes on", "not a SentencePiece model"),
    "JSON": (b'{"model": {}}', "not a SentencePiece model"),
    "a pointer to a file": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
    "cut": (model()[:1000], "ends after the file"),
    "cut in a number": (model() + b"\x08\xff", "does not end"),
    "a length of exabytes": (model() + b"\x0a" + b"\xff" * 8 + b"\x7f", "ends after the file"),
    "a number that does not end": (model() + b"\x08" + b"\xff" * 20, "does not end"),
    "an unknown kind of field": (model() + b"\x0f", "unknown kind"),
    "a group": (model() + b"\x0b", "unknown kind"),
    "a piece that is no UTF-8": (piece(b"\xff", NORMAL) + model(), "not a SentencePiece model"),
    "an empty piece": (piece(b"", NORMAL) + model(), "a piece is empty"),
    "a piece of a zero": (piece(b"a\0", NORMAL) + model(), "or contains a zero"),
    "a piece without a text": (write_bytes(1, write_varint(3, 1)) + model(), "a piece is empty"),
    "an unknown type": (piece(b"zz", 9) + model(), "the unknown type 9"),
    "a type of exabytes": (piece(b"zz", 2**63) + model(), "unknown type"),
    "a score that is no number": (piece(b"zz", NORMAL, float("nan")) + model(), "not a number"),
    "an infinite score": (piece(b"zz", NORMAL, float("inf")) + model(), "not a number"),
    "a piece twice": (model([*PIECES, ("é", NORMAL)]), "are the same"),
    "two unknown pieces": (model([*PIECES, ("<u>", UNKNOWN)]), "it has 2 unknown pieces, not 1"),
    "none": (model([("<unk>", CONTROL), *PIECES[1:]]), "it has 0 unknown pieces, not 1"),
    "a piece in a number": (b"\x08\x01" + b"", "it has 0 unknown pieces, not 1"),
}


@pytest.mark.parametrize(("content", "reason"), GARBAGE.values(), ids=GARBAGE)
def test_a_malformed_model_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    assert reason in refuse_folder(sentence_piece_folder(tmp_path, content))


def test_tables_that_the_library_would_trust_never_reach_it(tmp_path: Path) -> None:
    """The table that normalizes text is a double array. Its cells may point anywhere."""
    table = struct.pack("<I", 4096) + b"\xff" * 4096
    normalizer = write_bytes(2, table) + write_varint(3, 1) + write_varint(4, 0)
    samples = write_bytes(4, write_bytes(1, write_bytes(1, b"a") + write_bytes(2, b"b")))
    content = model() + write_bytes(3, normalizer) + samples
    assert decode_text(build_folder(sentence_piece_folder(tmp_path, content)), [HELLO]) == "Hello"


def test_more_pieces_than_any_model_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_piece_model, "MAX_SIZE", 100)
    assert "more than 100 pieces" in refuse_folder(sentence_piece_folder(tmp_path))


@pytest.mark.parametrize("added", [{"5": {"content": "<a>"}}, {"258": {"content": "<0xFF>"}}])
def test_an_added_token_in_place_of_a_byte_is_refused(tmp_path: Path, added: dict[str, Any]) -> None:
    config = {"added_tokens_decoder": added}
    assert "stands for a byte" in refuse_folder(sentence_piece_folder(tmp_path, tokenizer_config=config))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_damage_is_refused_or_proven(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    content = bytearray(model())
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(content))
        match rng.randrange(3):
            case 0:
                content[place] = rng.randrange(256)
            case 1:
                del content[place : place + rng.randint(1, 40)]
            case _:
                content[place:place] = rng.randbytes(rng.randint(1, 12))
    folder = sentence_piece_folder(tmp_path_factory.mktemp("damaged"), bytes(content))
    reason = ""
    try:
        load(build(folder, "tiny", folder / "out").path)
    except LayerError as error:
        reason = str(error)
    assert "\n" not in reason
    assert not reason or not list(folder.glob("out/*"))


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    message = refuse_folder(sentence_piece_folder(tmp_path))
    assert message.endswith("needs sentencepiece: pip install 'derender[build]'")
