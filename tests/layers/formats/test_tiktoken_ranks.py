"""tiktoken ranks, and the special tokens beside them."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Any

import pytest

from layer_compiler.formats.tiktoken_ranks import is_ranks
from tests.layers.builds import build_folder, decode_text, refuse_folder
from tests.layers.model_folders import END, THINK, TIKTOKEN_CONFIG, TOKENS, ranks, tiktoken_folder, write_json

if TYPE_CHECKING:
    from pathlib import Path

MOONSHOT: dict[str, Any] = {"auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}}


def test_ranks_are_ids(tmp_path: Path) -> None:
    vocabulary = build_folder(tiktoken_folder(tmp_path))
    about = vocabulary.manifest
    assert (about.source_format, about.rule) == ("tiktoken", "byte-level")
    assert [vocabulary.pieces[rank] for rank in range(len(TOKENS))] == TOKENS
    assert (about.size, about.named) == (len(TOKENS) + 2,) * 2


def test_special_tokens_come_from_the_configuration(tmp_path: Path) -> None:
    vocabulary = build_folder(tiktoken_folder(tmp_path))
    about = vocabulary.manifest
    assert vocabulary.added_tokens() == {"<|end|>": END, "<think>": THINK}
    assert (about.eos_token_id, about.stop_token_ids, about.special_token_ids) == (END, (END,), (END,))
    assert decode_text(vocabulary, [258, END, THINK]) == "Hello<think>"
    assert decode_text(vocabulary, [258, END], skip=False) == "Hello<|end|>"


def test_added_tokens_json_is_read(tmp_path: Path) -> None:
    folder = tiktoken_folder(tmp_path)
    (folder / "tokenizer_config.json").unlink()
    write_json(folder / "added_tokens.json", {"<|end|>": END})
    about = build_folder(folder).manifest
    assert (about.special_token_ids, about.eos_token_id) == ((END,), None)


@pytest.mark.parametrize("name", ["tiktoken.model", "o200k_base.tiktoken", "tokenizer.model"])
def test_files_of_ranks_are_found(tmp_path: Path, name: str) -> None:
    assert build_folder(tiktoken_folder(tmp_path, name=name)).manifest.source_format == "tiktoken"


def test_blank_lines_and_windows_line_ends_are_ignored(tmp_path: Path) -> None:
    content = ranks().replace(b"\n", b"\r\n") + b"\r\n\n"
    assert build_folder(tiktoken_folder(tmp_path, content)).manifest.named == len(TOKENS) + 2


def test_a_special_token_may_fill_a_gap(tmp_path: Path) -> None:
    lines = ranks().splitlines(keepends=True)
    # As in p50k_base, whose <|endoftext|> is among the ranks.
    content = b"".join([*lines[:260], base64.b64encode(b"zz") + b" 265\n", *lines[261:]])
    added = {"260": {"content": "<|end|>"}, "266": {"content": "<think>"}}
    vocabulary = build_folder(tiktoken_folder(tmp_path, content, added_tokens_decoder=added))
    assert vocabulary.pieces[260] == b"<|end|>"


def test_moonshots_reserved_tokens_have_names(tmp_path: Path) -> None:
    vocabulary = build_folder(tiktoken_folder(tmp_path, **MOONSHOT))
    assert vocabulary.manifest.size == len(TOKENS) + 256
    assert vocabulary.pieces[END] == b"<|end|>"
    assert vocabulary.pieces[THINK + 1] == b"<|reserved_token_%d|>" % (THINK + 1)
    # The configuration does not name them, so they are not skipped.
    assert vocabulary.manifest.special_token_ids == (END,)


CHANGES: dict[str, tuple[bytes, str]] = {
    "cut at a line's middle": (ranks()[:-4], "line 265"),
    "cut at a rank's middle": (ranks()[:-2], "rank 26 is listed twice"),
    "cut before a byte": (ranks(TOKENS[:200]), "byte 0xC8 has no rank"),
    "a line twice": (ranks() + b"SGVsbG8= 258\n", "rank 258 is listed twice"),
    "a token twice": (ranks() + b"SGVsbG8= 265\n", "ranks 258 and 265 have the same token"),
    "a gap": (ranks() + b"eno= 300\n", "rank 267 is missing"),
    "a rank out of range": (ranks() + b"eno= 9999999\n", "rank 9999999"),
    "a rank of many digits": (ranks() + b"eno= " + b"9" * 5000 + b"\n", "line 266"),
    "a negative rank": (ranks() + b"eno= -1\n", "line 266"),
    "no rank": (ranks() + b"eno=\n", "line 266"),
    "no base64": (ranks() + b"ABC 265\n", "not base64"),
    "base64 of another alphabet": (ranks() + b"__-_ 265\n", "line 266"),
    "padding within": (ranks() + b"e=o= 265\n", "line 266"),
    "no token": (ranks() + b" 265\n", "line 266"),
    "spaces": (ranks() + b"eno=  265\n", "line 266"),
    "zeros": (bytes(64), "line 1"),
    "empty": (b"", "byte 0x00 has no rank"),
    "a pointer to a file": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
}


@pytest.mark.parametrize(("content", "reason"), CHANGES.values(), ids=CHANGES)
def test_damaged_ranks_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    assert reason in refuse_folder(tiktoken_folder(tmp_path, content))


ADDED: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({"added_tokens_decoder": None}, "special tokens are unknown"),
    "an empty list": ({"added_tokens_decoder": {}}, "special tokens are unknown"),
    "in code alone": (
        {
            "added_tokens_decoder": None,
            "auto_map": {"AutoTokenizer": ["tokenization_qwen.QWenTokenizer", None]},
        },
        "special tokens are unknown",
    ),
    "a rank's id": ({"added_tokens_decoder": {"5": {"content": "<a>"}}}, "'<a>' is added as 5"),
    "an id twice": (
        {"added_tokens_decoder": {"265": {"content": "<a>"}, "0265": {"content": "<b>"}}},
        "added twice",
    ),
    "a token twice": (
        {"added_tokens_decoder": {"265": {"content": "<a>"}, "266": {"content": "<a>"}}},
        "added twice",
    ),
    "an empty token": ({"added_tokens_decoder": {"265": {"content": ""}}}, "is empty"),
    "a lone surrogate": ({"added_tokens_decoder": {"265": {"content": "\ud800"}}}, "not Unicode"),
    "a token within a token": ({"added_tokens_decoder": {"265": {"content": {"content": "<a>"}}}}, "content"),
    "an id of many digits": (
        {"added_tokens_decoder": {"9" * 5000: {"content": "<a>"}}},
        "added_tokens_decoder",
    ),
    "an id out of range": ({"added_tokens_decoder": {"9999999": {"content": "<a>"}}}, "9999999"),
    "beyond the reserved": (
        {**MOONSHOT, "added_tokens_decoder": {"900": {"content": "<a>"}}},
        "the file is incomplete",
    ),
    "a reserved name": (
        {**MOONSHOT, "added_tokens_decoder": {"265": {"content": "<|reserved_token_266|>"}}},
        "name of a reserved one",
    ),
}


@pytest.mark.parametrize(("config", "reason"), ADDED.values(), ids=ADDED)
def test_inconsistent_special_tokens_are_refused(tmp_path: Path, config: dict[str, Any], reason: str) -> None:
    assert reason in refuse_folder(tiktoken_folder(tmp_path, **config))


def test_the_tokenizers_own_code_is_not_executed(tmp_path: Path) -> None:
    folder = tiktoken_folder(tmp_path, auto_map={"AutoTokenizer": ["tokenization_own.Own", None]})
    (folder / "tokenization_own.py").write_text("raise SystemExit('executed')")
    build_folder(folder)
    assert not {name for name in sys.modules if "tokenization_own" in name}


def test_files_that_a_configuration_names_are_not_followed(tmp_path: Path) -> None:
    outside = tiktoken_folder(tmp_path / "outside") / "tiny.tiktoken"
    named = {"vocab_file": "../outside/tiny.tiktoken", "tokenizer_file": str(outside)}
    write_json(tmp_path / "tok" / "tokenizer_config.json", {**TIKTOKEN_CONFIG, **named})
    assert "no tokenizer" in refuse_folder(tmp_path / "tok")


def test_several_files_of_ranks_are_refused(tmp_path: Path) -> None:
    folder = tiktoken_folder(tmp_path)
    (folder / "tiktoken.model").write_bytes(ranks())
    assert "tiktoken.model, tiny.tiktoken" in refuse_folder(folder)


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert refuse_folder(tiktoken_folder(tmp_path)).endswith("needs tiktoken: pip install 'derender[build]'")


def test_a_file_that_can_not_be_opened_is_not_ranks(tmp_path: Path) -> None:
    assert not is_ranks(tmp_path / "tokenizer.model")
