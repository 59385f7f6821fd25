"""tekken.json: special tokens, ranks and versions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.layers.builds import build_folder, decode_text, refuse_folder
from tests.layers.model_folders import SPECIAL, TOKENS, tekken, tekken_folder, write_json

if TYPE_CHECKING:
    from pathlib import Path

HELLO = 10 + TOKENS.index(b"Hello")


def test_special_tokens_have_the_first_ids(tmp_path: Path) -> None:
    vocabulary = build_folder(tekken_folder(tmp_path))
    about = vocabulary.manifest
    assert (about.source_format, about.rule) == ("tekken", "byte-level")
    assert (about.size, about.named) == (len(TOKENS) + 10,) * 2
    assert [vocabulary.pieces[n] for n in range(7)] == [text.encode() for text in SPECIAL]
    assert [vocabulary.pieces[n] for n in range(7, 10)] == [b"<SPECIAL_7>", b"<SPECIAL_8>", b"<SPECIAL_9>"]
    assert [vocabulary.pieces[n] for n in range(10, about.size)] == TOKENS


def test_markers_of_an_answer_are_not_skipped(tmp_path: Path) -> None:
    vocabulary = build_folder(tekken_folder(tmp_path))
    assert vocabulary.manifest.special_token_ids == (0, 1, 2, 3, 4, 7, 8, 9)
    assert vocabulary.added_tokens()["[TOOL_CALLS]"] == 5
    assert decode_text(vocabulary, [1, HELLO, 5, HELLO, 6, 7, 2]) == "Hello[TOOL_CALLS]Hello[THINK]"


def test_the_file_itself_says_what_ends_a_text(tmp_path: Path) -> None:
    folder = tekken_folder(tmp_path)
    # mistral-common doesn't read another tokenizer's file.
    write_json(
        folder / "tokenizer_config.json", {"eos_token": "[INST]", "additional_special_tokens": ["Hello"]}
    )
    about = build_folder(folder).manifest
    assert (about.eos_token_id, about.stop_token_ids) == (2, (2,))
    assert about.origins.get("eos_token_id") == "tekken.json: </s>"
    assert HELLO not in about.special_token_ids


@pytest.mark.parametrize("version", ["v3", "v7", "v11", "v13"])
def test_each_version_is_read(tmp_path: Path, version: str) -> None:
    build_folder(tekken_folder(tmp_path, tekken(config={"version": version})))


@pytest.mark.parametrize("version", ["v1", "v3", "v7"])
def test_early_versions_share_their_special_tokens(tmp_path: Path, version: str) -> None:
    sizes = {"default_num_special_tokens": 30, "default_vocab_size": len(TOKENS) + 30, "version": version}
    vocabulary = build_folder(tekken_folder(tmp_path, tekken(special_tokens=None, config=sizes)))
    assert vocabulary.pieces[9] == b"[TOOL_CALLS]"
    assert vocabulary.pieces[29] == b"<SPECIAL_29>"


def test_tokens_beyond_the_size_are_not_used(tmp_path: Path) -> None:
    file = tekken(config={"default_vocab_size": 10 + 260})
    file["vocab"][-1] |= {"token_bytes": "not base64"}
    assert build_folder(tekken_folder(tmp_path, file)).manifest.size == 270


def test_rows_of_params_json_reach_further(tmp_path: Path) -> None:
    folder = tekken_folder(tmp_path)
    write_json(folder / "params.json", {"vocab_size": 300, "max_seq_len": 4096})
    about = build_folder(folder).manifest
    assert (about.size, about.named, about.max_model_len) == (300, len(TOKENS) + 10, 4096)
    assert about.origins["size"] == "params.json: vocab_size"
    assert about.origins["max_model_len"] == "params.json: max_seq_len"


def without(name: str) -> dict[str, Any]:
    """Return a file without a field."""
    return {field: value for field, value in tekken().items() if field != name}


def change_token(place: int, **fields: Any) -> list[dict[str, Any]]:
    """Return the tokens with changed fields of one."""
    vocab: list[dict[str, Any]] = tekken()["vocab"]
    return [{**entry, **fields} if n == place else entry for n, entry in enumerate(vocab)]


def respell(base64: str, place: int = 260) -> dict[str, Any]:
    """Return a file with one token changed."""
    return tekken(vocab=change_token(place, token_bytes=base64))


def list_special(*texts: str) -> list[dict[str, Any]]:
    """Return special tokens in order."""
    return [{"rank": rank, "token_str": text, "is_control": True} for rank, text in enumerate(texts)]


WRONG: dict[str, tuple[Any, str]] = {
    "a list": ([], "can't be read"),
    "no vocab": (without("vocab"), "`vocab`"),
    "no config": (without("config"), "`config`"),
    "no special tokens since version 11": (without("special_tokens"), "must list special_tokens"),
    "an unknown version": (tekken(config={"version": "v99"}), "'v99' is unknown"),
    "a version of another form": (tekken(config={"version": "3"}), "'3' is unknown"),
    "a version in a number": (tekken(config={"version": 13}), "config.version"),
    "a rank out of order": (tekken(vocab=change_token(260, rank=300)), "missing before 300"),
    "a rank twice": (tekken(vocab=change_token(260, rank=259)), "rank 259 is listed twice"),
    "a negative rank": (tekken(vocab=change_token(260, rank=-1)), "rank -1"),
    "a huge rank": (tekken(vocab=change_token(260, rank=2**60)), f"rank {2**60}"),
    "a rank in a string": (tekken(vocab=change_token(260, rank="260")), "rank"),
    "a token twice": (respell("SGU="), "same token"),
    "not base64": (respell("SGU"), "not base64"),
    "base64 with a newline": (respell("SG\nU="), "not base64"),
    "no ASCII": (respell("é"), "not base64"),
    "an empty token": (respell(""), "empty token"),
    "a byte that is missing": (respell("AAA=", 7), "byte 0x07 has no rank"),
    "cut": (tekken(vocab=tekken()["vocab"][:200]), "for 200 tokens"),
    "more special tokens than ids": (tekken(config={"default_vocab_size": 10}), "leave 0"),
    "more listed than there are": (tekken(config={"default_num_special_tokens": 3}), "listed of 3"),
    "absurdly many special tokens": (tekken(config={"default_num_special_tokens": 10**12}), f"of {10**12}"),
    "absurdly many ids": (tekken(config={"default_vocab_size": 10**12}), f"{10**12} ids"),
    "a negative size": (tekken(config={"default_vocab_size": -1}), "-1 ids"),
    "a special token twice": (tekken(special_tokens=list_special("<s>", "</s>", "<s>")), "twice"),
    "an empty special token": (tekken(special_tokens=list_special("<s>", "</s>", "")), "empty"),
    "a special token of a filler's name": (tekken(special_tokens=list_special("</s>", "<SPECIAL_5>")), "twice"),
    "a special token out of order": (
        tekken(special_tokens=[{"rank": 1, "token_str": "</s>", "is_control": True}]),
        "has rank 1, not 0",
    ),
    "no end": (tekken(special_tokens=list_special("<s>", "<unk>")), "no </s>"),
    "a lone surrogate": (tekken(special_tokens=list_special("</s>", "\ud800")), "can't be read"),
}


@pytest.mark.parametrize(("file", "reason"), WRONG.values(), ids=WRONG)
def test_an_inconsistent_file_is_refused(tmp_path: Path, file: object, reason: str) -> None:
    assert reason in refuse_folder(tekken_folder(tmp_path, file))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 200_000, b'{"a":' * 200_000, b'{"vocab": ' + b"[[]," * 10**6, b"\xff\xfe"]
)
def test_a_file_that_is_not_json_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tekken.json").write_bytes(content)
    assert "can't be read" in refuse_folder(tmp_path)


def test_a_pattern_that_would_take_forever_is_not_run(tmp_path: Path) -> None:
    build_folder(tekken_folder(tmp_path, tekken(config={"pattern": r"(?=(a+)+$)(a|aa)+b(?{99999})("})))


def test_several_files_are_refused(tmp_path: Path) -> None:
    for name in ("tekken_1.json", "tekken_2.json"):
        write_json(tmp_path / name, tekken())
    assert "tekken_1.json, tekken_2.json" in refuse_folder(tmp_path)
    write_json(tmp_path / "tekken.json", tekken())
    assert build_folder(tmp_path).manifest.source_format == "tekken"


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mistral_common.tokens.tokenizers.base", None)
    message = refuse_folder(tekken_folder(tmp_path))
    assert message.endswith("needs mistral_common: pip install 'derender[build]'")
