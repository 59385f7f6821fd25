"""Whether a layer decodes as the GPU side does."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import layer_compiler
from derender.cli import main
from layer_compiler.corpus import TEXTS
from tests.support.small_tokenizers import (
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
    assert f"{len(TEXTS)} texts, " in printed.out
    assert (
        " and the length compared; not compared: the ids that end a text and the number of ids\n" in printed.out
    )


@pytest.mark.parametrize("name", ["byte-level", "stripping"])
def test_a_server_that_derenders_tells_which_ids_are_special(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    tokenizer = TOKENIZERS[name]()
    folder = layer(tmp_path / "out", tokenizer)
    assert check(folder, vllm(tokenizer)) == 0
    assert " added tokens are special" in capsys.readouterr().out
    assert check(folder, vllm(tokenizer, absent=("/v1/completions/derender",))) == 0
    assert "not compared: which ids are special, " in capsys.readouterr().out


def test_an_id_that_only_one_side_takes_for_special_is_told(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = byte_level_tokenizer()
    marker = tokenizer.encode("<think>").ids[0]
    left_out, shown = "special, and left out", "shown as '<think>'"
    assert check(tiny, vllm(tokenizer, hidden=[marker])) == 1
    difference = f"id {marker}, '<think>'\n  the layer    {shown}\n  the other    {left_out}\n"
    assert difference in capsys.readouterr().out
    tokenizer.add_special_tokens(["<think>"])
    assert check(layer(tmp_path / "out", tokenizer), vllm(byte_level_tokenizer())) == 1
    difference = f"id {marker}, '<think>'\n  the layer    {left_out}\n  the other    {shown}\n"
    assert difference in capsys.readouterr().out


def test_a_layer_without_any_configuration_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = byte_level_tokenizer()
    layer_compiler.build(write_folder(tmp_path / "bare", tokenizer), "bare", tmp_path / "out")
    assert check(tmp_path / "out", vllm(tokenizer)) == 1
    printed = capsys.readouterr()
    assert "max_model_len\n  the layer    not known\n  the other    1,000 tokens\n" in printed.out
    assert ": 1 difference, " in printed.out
    ends, size = printed.err.splitlines()
    assert ends.startswith("derender: bare: the layer has no id that ends a text")
    assert size.startswith(
        f"derender: bare: the layer's {tokenizer.get_vocab_size()} ids are those of the token"
    )


@pytest.mark.parametrize(("size", "problem"), [(0, "has no id {id}: its ids are 0 to "), (600, "has no token")])
def test_a_token_that_the_layer_has_not_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, problem: str
) -> None:
    """An older version of the tokenizer, its table padded or not."""
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
def test_a_server_that_knows_no_padding_says_nothing_of_it(tiny: Path, *, refused: bool) -> None:
    """Some refuse ids that they have not, others show them all alike."""
    tokenizer = byte_level_tokenizer()
    usual = vllm(tokenizer)

    def answer(method: str, path: str, body: bytes) -> Answer:
        ids = json.loads(body)["tokens"] if path == "/detokenize" else [0]
        if max(ids) < tokenizer.get_vocab_size():
            return usual(method, path, body)
        return (400, {}, b"no such id") if refused else (200, {}, b'{"prompt": "<unk>"}')

    assert check(tiny, answer) == 0


def test_a_server_without_tokenize_tells_its_length_all_the_same(
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
    assert ": 1 difference, " in printed
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


@pytest.mark.parametrize("host", ["xn--.com", "a" * 300, f"{'a' * 64}.com"])
def test_a_host_that_no_name_can_be_is_said_in_a_line(
    tiny: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    assert main(["layer", "check", str(tiny), "--render-url", f"http://{host}"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"derender: http://{host[:100]}")
    assert printed.count("\n") == 1


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e400", "-inf", "0", "-1"])
def test_a_timeout_that_is_none_is_said_in_a_line(
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


UNRECORDED = "which ids are special, the length, the ids that end a text and the number of ids"


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
    assert capsys.readouterr().out == (
        f"tiny decodes as {file} does: {len(lines) + 4} texts compared; not compared: {UNRECORDED}\n"
    )
    assert main(["layer", "check", str(tiny), "--ids", str(recorded(file, hidden))]) == 0
    assert "does: 1 text compared; " in capsys.readouterr().out


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
def test_a_file_of_something_else_is_refused(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    file = tmp_path / "ids.jsonl"
    file.write_text(line)
    assert main(["layer", "check", str(tiny), "--ids", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert str(file) in printed.err
