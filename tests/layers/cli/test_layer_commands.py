"""`derender layer build` and `derender layer inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.cli import main
from derender.settings import default_layer
from derender.vocabulary import load
from tests.support.small_tokenizers import byte_level_tokenizer, word_piece_tokenizer, write_folder

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

PLAIN: Final = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
"""A chat template without tools and reasoning."""
CALLING: Final = """
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}
    {{- message.content }}
    {%- for tool_call in message.tool_calls %}
        {{- '<tool_call>\\n{"name": "' + tool_call.function.name + '", "arguments": ' }}
        {{- tool_call.function.arguments | tojson }}
        {{- '}\\n</tool_call>' }}
    {%- endfor %}
{%- endfor %}"""
"""One that writes calls as Hermes does, and no reasoning."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tokenizer", byte_level_tokenizer())


def test_builds_and_says_what_was_proven(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["layer", "build", str(folder), "--name", "org/tiny", "--out", str(out), "--licence", "MIT"]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "proven equal to the tokenizers library" in printed.out
    assert "org/tiny" in printed.out
    assert "MIT" in printed.out
    assert load(out / "org--tiny.vocab").manifest.name == "org/tiny"


def test_builds_with_the_parsers_that_are_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["layer", "build", str(folder), "--name", "tiny", "--out", str(tmp_path / "out")]
    assert main([*arguments, "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"]) == 0
    assert "tools hermes, reasoning qwen3" in capsys.readouterr().out
    about = load(tmp_path / "out" / "tiny.vocab").manifest
    assert (about.tool_call_parser, about.reasoning_parser) == ("hermes", "qwen3")
    assert main(arguments) == 0
    assert "tools none, reasoning none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ((), "tools hermes, reasoning none [inferred]"),
        (("--tool-call-parser", "auto"), "tools hermes, reasoning none [inferred]"),
        (("--tool-call-parser", "qwen3_coder"), "tools qwen3_coder, reasoning none"),
        (("--tool-call-parser", "none"), "tools none, reasoning none"),
        (("--reasoning-parser", "qwen3"), "tools hermes, reasoning qwen3 [inferred]"),
    ],
)
def test_parsers_are_what_the_models_files_tell_unless_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], shown: str
) -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens(["<tool_call>", "</tool_call>"])
    folder = write_folder(tmp_path / "tokenizer", tokenizer, tokenizer_config={"chat_template": CALLING})
    arguments = ["layer", "build", str(folder), "--name", "tiny", "--out", str(tmp_path / "out")]
    assert main([*arguments, *flags]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  parsers"))
    assert line.split(maxsplit=1)[1] == shown


def test_says_what_was_seen_where_the_parsers_are_not_known(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["layer", "build", str(folder), "--name", "tiny", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert "tools none, reasoning none" in printed.out
    assert "tool_call_parser: none is chosen: the model's files don't tell it" in printed.err
    assert "seen: no chat template" in printed.err


def test_a_length_that_is_given_is_the_models(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["layer", "build", str(folder), "--name", "tiny", "--out", str(tmp_path / "out")]
    assert main([*arguments, "--max-model-len", "4096"]) == 0
    assert "4,096 tokens [given]" in capsys.readouterr().out


def test_a_vocabulary_is_kept_where_another_is_refused(folder: Path, tmp_path: Path) -> None:
    arguments = ["layer", "build", str(folder), "--name", "tiny", "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    before = (tmp_path / "out" / "tiny.vocab").read_bytes()
    assert main([*arguments, "--tool-call-parser", "openai", "--reasoning-parser", "qwen3"]) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tiny.vocab"]
    assert (tmp_path / "out" / "tiny.vocab").read_bytes() == before


@pytest.mark.parametrize(
    ("config", "shown"),
    [({}, "no template"), ({"response_template": {"version": 1}}, "template given")],
)
def test_shows_added_tokens_and_the_response_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: dict[str, Any], shown: str
) -> None:
    folder = write_folder(tmp_path / "tokenizer", byte_level_tokenizer(), tokenizer_config=config)
    assert main(["layer", "build", str(folder), "--name", "tiny", "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["layer", "inspect", str(tmp_path / "out")]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:]]
    assert ["added", "5 tokens"] in lines
    assert ["response", shown] in lines


def test_says_what_a_folder_leaves_open(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["layer", "build", str(folder), "--name", "tiny", "--out", str(tmp_path / "out")]) == 0
    warnings = capsys.readouterr().err
    for what in ("vocab_size", "eos_token_id", "tokenizer_config.json"):
        assert what in warnings


def test_says_nothing_of_a_folder_that_leaves_nothing_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(
        tmp_path / "tokenizer",
        byte_level_tokenizer(),
        tokenizer_config={"eos_token": None, "chat_template": PLAIN},
        config={"vocab_size": 500, "eos_token_id": 1},
    )
    assert main(["layer", "build", str(folder), "--name", "tiny", "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err == ""


def test_says_when_the_library_decodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer: Tokenizer = word_piece_tokenizer()
    folder = write_folder(tmp_path / "tokenizer", tokenizer)
    assert main(["layer", "build", str(folder), "--name", "tiny", "--out", str(tmp_path / "out")]) == 0
    assert "decoded by the tokenizers library" in capsys.readouterr().out


def test_inspects_the_bundled_layer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layer", "inspect", str(default_layer())]) == 0
    printed = capsys.readouterr().out
    for what in (
        *("Qwen3", "byte-level", "151,936 (151,669 named, 267 padding)", "Apache-2.0", "40,960 tokens"),
        *("26 tokens", "tools hermes, reasoning qwen3", "no template"),
    ):
        assert what in printed


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["layer", "build", "{none}", "--name", "a", "--out", "{out}"], "no such folder"),
        (["layer", "build", "{out}/..", "--name", "a", "--out", "{out}"], "no tokenizer"),
        (["layer", "build", "--out", "{out}"], "a source is needed"),
        (["layer", "build", "{folder}", "--out", "{out}"], "--name is needed"),
        (
            ["layer", "build", "{folder}", "--name", "a", "--out", "{out}", "--revision", "b"],
            "not the revision b",
        ),
        (["layer", "build", "{folder}", "--name", "a", "--out", "{out}", "--max-model-len", "0"], "from 1 on"),
        (
            ["layer", "build", "{folder}", "--name", "a", "--out", "{out}", "--tool-call-parser", "herms"],
            "--tool-call-parser: 'herms' does not exist; it may be auto, none, ",
        ),
        (
            [
                *("layer", "build", "{folder}", "--name", "a", "--out", "{out}"),
                *("--tool-call-parser", "openai", "--reasoning-parser", "qwen3"),
            ],
            "openai parses whole messages",
        ),
        (["layer", "build", "{folder}", "--name", "../a", "--out", "{out}"], "name"),
        (["layer", "build", "{folder}", "--name", "a", "--out", "{file}"], "can't be written"),
        (["layer", "inspect", "{none}"], "can't be read"),
        (["layer", "inspect", "{folder}"], "no compiled vocabulary"),
    ],
)
def test_what_is_wrong_is_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    (tmp_path / "file").touch()
    places = {name: str(tmp_path / name) for name in ("none", "out", "file")} | {"folder": str(folder)}
    assert main([argument.format(**places) for argument in arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("derender: ")
    assert printed.err.count("\n") == 1
    assert problem in printed.err
