"""Whether a layer decodes as the GPU side does."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import layer_compiler
from derender.cli import main
from layer_compiler.corpus import TEXTS

from ..unit.support import (
    byte_level_tokenizer,
    metaspace_tokenizer,
    sentence_piece_tokenizer,
    word_piece_tokenizer,
    write_folder,
)
from .serving import Answer, serving, vllm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tokenizers import Tokenizer

TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": byte_level_tokenizer,
    "stripping": lambda: sentence_piece_tokenizer(strip=True),
    "spacing": lambda: sentence_piece_tokenizer(strip=False),
    "metaspace": metaspace_tokenizer,
    "word-piece": word_piece_tokenizer,
}


def layer(out: Path, tokenizer: Tokenizer, name: str = "tiny", max_model_len: int = 1000) -> Path:
    folder = write_folder(
        out.with_name(f"{out.name}-{name}"),
        tokenizer,
        config={"vocab_size": 600, "eos_token_id": 1, "max_position_embeddings": max_model_len},
    )
    layer_compiler.build(folder, name, out)
    return out


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer of the byte-level tokenizer."""
    return layer(tmp_path_factory.mktemp("layers") / "tiny", byte_level_tokenizer())


def check(folder: Path, answer: Callable[..., Answer], *more: str) -> int:
    with serving(answer) as url:
        return main(["layer", "check", str(folder), "--render-url", url, *more])


@pytest.mark.parametrize("name", TOKENIZERS)
def test_agrees_with_a_server_of_the_same_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    tokenizer = TOKENIZERS[name]()
    assert check(layer(tmp_path / "out", tokenizer), vllm(tokenizer)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.count("\n") == 1
    assert printed.out.startswith("tiny decodes as http://127.0.0.1:")
    assert f"{len(TEXTS)} texts and " in printed.out


def test_a_server_without_detokenize_is_asked_for_ids(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()
    assert check(tiny, vllm(tokenizer, absent=("/detokenize",))) == 0
    assert f"{len(TEXTS)} texts compared" in capsys.readouterr().out


def test_a_server_without_models_is_asked_without_a_name(tiny: Path) -> None:
    tokenizer = byte_level_tokenizer()
    assert check(tiny, vllm(tokenizer, absent=("/v1/models",))) == 0


def test_a_server_that_cleans_spaces_up_agrees(tiny: Path) -> None:
    """transformers' own decoding may, which generations don't go through."""
    tokenizer = byte_level_tokenizer()
    answer = vllm(tokenizer, change=lambda _, text: text.replace(" !", "!").replace(" .", "."))
    assert check(tiny, answer) == 0


def test_another_tokenizer_is_told(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "1 differences" in printed
    assert marker not in ids


def test_an_id_beyond_the_layers_is_told(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = says(200, json.dumps({"tokens": [70_000], "prompt": "a"}).encode())
    assert check(tiny, answer) == 1
    assert "has no id 70000: its ids are 0 to 599" in capsys.readouterr().out


def test_another_length_is_told(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()
    assert check(tiny, vllm(tokenizer, max_model_len=900)) == 1
    assert "max_model_len\n  the layer    1,000 tokens\n  the other    900 tokens\n" in capsys.readouterr().out


def test_of_several_the_model_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()
    folder = layer(tmp_path / "out", tokenizer)
    layer(folder, sentence_piece_tokenizer(strip=True), "other")
    assert check(folder, vllm(tokenizer)) == 1
    assert "give a --model; it holds other, tiny" in capsys.readouterr().err
    assert check(folder, vllm(tokenizer), "--model", "gone") == 1
    assert "no gone; it holds other, tiny" in capsys.readouterr().err
    assert check(folder, vllm(tokenizer), "--model", "tiny") == 0
    assert check(folder, vllm(tokenizer, name="a"), "--model", "tiny", "--served-model", "a") == 0
    capsys.readouterr()
    assert check(folder, vllm(tokenizer), "--model", "tiny", "--served-model", "b") == 1
    assert "The model does not exist" in capsys.readouterr().err


def says(status: int, content: bytes) -> Callable[..., Answer]:
    return lambda method, *_: (404, {}, b"") if method == "GET" else (status, {}, content)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (says(404, b"not found"), "has neither /tokenize nor /detokenize"),
        (says(500, b"broken"), "/tokenize: status 500: 'broken'"),
        (says(302, b""), "/tokenize: status 302"),
        (says(200, b"[]"), "no answer as vLLM gives it"),
        (says(200, b'{"tokens": [-1]}'), "no answer as vLLM gives it"),
        (says(200, b'{"tokens": ["a"]}'), "no answer as vLLM gives it"),
        (
            lambda *_: (200, {}, b'{"data": [{"id": "a"}, {"id": "b"}]}'),
            "serves a, b; name one: --served-model",
        ),
    ],
)
def test_a_server_that_can_not_be_asked_is_said_in_a_line(
    tiny: Path, capsys: pytest.CaptureFixture[str], answer: Callable[..., Answer], problem: str
) -> None:
    assert check(tiny, answer) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("derender: ")
    assert printed.err.count("\n") == 1
    assert problem in printed.err


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a", "127.0.0.1", "http://user:password@a", '{"a": 1}']
)
def test_only_web_addresses_are_asked(tiny: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert main(["layer", "check", str(tiny), "--render-url", url]) == 1
    assert "--render-url: " in capsys.readouterr().err


def test_a_server_that_is_not_there_is_said(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layer", "check", str(tiny), "--render-url", "http://127.0.0.1:9"]) == 1
    assert "http://127.0.0.1:9/v1/models: " in capsys.readouterr().err


def test_a_slow_server_is_not_waited_for(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*_: Any) -> Answer:
        time.sleep(0.5)
        return 404, {}, b""

    assert check(tiny, answer, "--timeout", "0.1") == 1
    assert "no answer in time" in capsys.readouterr().err


def test_headers_are_sent_along(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Mapping[str, str]] = []
    monkeypatch.setenv("KEY", "secret")
    with serving(vllm(byte_level_tokenizer()), received) as url:
        given = json.dumps({"url": url, "headers": {"authorization": "Bearer ${KEY}"}})
        assert main(["layer", "check", str(tiny), "--render-url", given]) == 0
    assert {headers["authorization"] for headers in received} == {"Bearer secret"}


# --- recorded elsewhere ---------------------------------------------------------------------------------------


def recorded(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def test_agrees_with_what_was_recorded(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = byte_level_tokenizer()
    end = tokenizer.token_to_id("<|end|>")
    lines = [{"token_ids": tokenizer.encode(text).ids, "text": text, "more": 1} for text in TEXTS]
    hidden = {"text": "Hello", "token_ids": [*tokenizer.encode("Hello").ids, end]}
    shown = {**hidden, "text": "Hello<|end|>"}
    half = tokenizer.encode("é").ids[:1]
    cut = [{"token_ids": half, "text": ""}, {"token_ids": half, "text": "\ufffd"}]
    file = recorded(tmp_path / "ids.jsonl", *lines, hidden, shown, *cut)
    assert main(["layer", "check", str(tiny), "--ids", str(file)]) == 0
    assert capsys.readouterr().out == f"tiny decodes as {file} does: {len(lines) + 4} texts compared\n"


def test_what_was_recorded_otherwise_is_told(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = byte_level_tokenizer()
    ids = tokenizer.encode("Hello").ids
    file = recorded(
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
        f"tiny and {file} differ: 2 differences, 3 texts compared",
    ]


@pytest.mark.parametrize(
    "line",
    ["", "[]", "{", '{"text": "a"}', '{"text": 1, "token_ids": []}', '{"text": "a", "token_ids": [true]}'],
)
def test_a_file_of_something_else_is_refused(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    file = tmp_path / "ids.jsonl"
    file.write_text(line)
    assert main(["layer", "check", str(tiny), "--ids", str(file)]) == 1
    assert str(file) in capsys.readouterr().err
