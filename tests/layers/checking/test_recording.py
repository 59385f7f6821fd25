"""A layer is compared with a recording."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from derender.cli import main
from layer_compiler.corpus import TEXTS
from tests.support.small_tokenizers import byte_level_tokenizer

if TYPE_CHECKING:
    from pathlib import Path


UNRECORDED = "which ids are special, the length, the ids that end a generation and the number of ids"


def record(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def test_a_layer_agrees_with_a_recording(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = byte_level_tokenizer()
    end = tokenizer.token_to_id("<|end|>")
    lines = [{"token_ids": tokenizer.encode(text).ids, "text": text, "more": 1} for text in TEXTS]
    hidden = {"text": "Hello", "token_ids": [*tokenizer.encode("Hello").ids, end]}
    shown = {**hidden, "text": "Hello<|end|>"}
    half = tokenizer.encode("é").ids[:1]
    cut = [{"token_ids": half, "text": ""}, {"token_ids": half, "text": "\ufffd"}]
    file = record(tmp_path / "ids.jsonl", *lines, hidden, shown, *cut)
    assert main(["layer", "check", str(tiny), "--ids", str(file)]) == 0
    assert capsys.readouterr().out == (
        f"tiny decodes as {file} does: {len(lines) + 4} texts compared; not compared: {UNRECORDED}\n"
    )
    assert main(["layer", "check", str(tiny), "--ids", str(record(file, hidden))]) == 0
    assert "does: 1 text compared; " in capsys.readouterr().out


def test_a_recording_of_another_text_is_found(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = byte_level_tokenizer()
    ids = tokenizer.encode("Hello").ids
    file = record(
        tmp_path / "ids.jsonl",
        {"token_ids": ids, "text": "Hello"},
        {"token_ids": ids, "text": "Goodbye"},
        {"token_ids": [600], "text": "a"},
    )
    assert main(["layer", "check", str(tiny), "--ids", str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{file}:2",
        "  the layer    'Hello'",
        "  the other    'Goodbye'",
        f"{file}:3",
        "  the layer    has no id 600: its ids are 0 to 599",
        "  the other    id 600",
        f"tiny and {file} differ: 2 differences, 3 texts compared; not compared: {UNRECORDED}",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        " \n\n",
        "[]",
        "{",
        '{"text": "a"}',
        '{"text": 1, "token_ids": []}',
        '{"text": "a", "token_ids": [true]}',
    ],
)
def test_a_file_that_is_not_a_recording_is_refused(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    file = tmp_path / "ids.jsonl"
    file.write_text(line)
    assert main(["layer", "check", str(tiny), "--ids", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert str(file) in printed.err


def test_a_missing_recording_is_reported(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["layer", "check", str(tiny), "--ids", str(tmp_path / "gone.jsonl")]) == 1
    assert "gone.jsonl: can't be read: No such file" in capsys.readouterr().err
