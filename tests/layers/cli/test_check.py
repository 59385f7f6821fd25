"""The options of `derender layer check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from derender.cli import main
from tests.layers.checking.checks import build_layer_of, check
from tests.layers.stand_ins import vllm
from tests.support.small_tokenizers import byte_level_tokenizer, sentence_piece_tokenizer

if TYPE_CHECKING:
    from pathlib import Path


def test_one_of_several_vocabularies_must_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()
    folder = build_layer_of(tokenizer, tmp_path / "out")
    build_layer_of(sentence_piece_tokenizer(strip=True), folder, "other")
    assert check(folder, vllm(tokenizer)) == 1
    assert "choose one with --model; it holds other, tiny" in capsys.readouterr().err
    assert check(folder, vllm(tokenizer), "--model", "gone") == 1
    assert "no gone; it holds other, tiny" in capsys.readouterr().err
    assert check(folder, vllm(tokenizer), "--model", "tiny") == 0
    assert check(folder, vllm(tokenizer, name="a"), "--model", "tiny", "--served-model", "a") == 0
    capsys.readouterr()
    assert check(folder, vllm(tokenizer), "--model", "tiny", "--served-model", "b") == 1
    assert "The model does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e400", "-inf", "0", "-1"])
def test_an_invalid_timeout_is_refused_in_one_line(
    tiny: Path, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    assert (
        main(["layer", "check", str(tiny), "--render-url", "http://127.0.0.1:9", f"--timeout={seconds}"]) == 1
    )
    printed = capsys.readouterr().err
    assert printed.startswith("derender: --timeout: ")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a", "127.0.0.1", "http://user:password@a", '{"a": 1}']
)
def test_only_web_addresses_are_accepted(tiny: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert main(["layer", "check", str(tiny), "--render-url", url]) == 1
    assert "--render-url: " in capsys.readouterr().err
