"""`derender layer build` and `derender layer inspect`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest

import layer_compiler
from derender.cli import main
from derender.vocabulary import MAX_LENGTH, load
from tests.layers.inference.chat_templates import HERMES
from tests.support.paths import BUNDLED
from tests.support.small_tokenizers import (
    byte_level_tokenizer,
    sentence_piece_tokenizer,
    word_piece_tokenizer,
    write_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEMPLATE: Final = "{% for message in messages %}{{ message.content }}{% endfor %}"
"""A chat template without tools and reasoning."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(
        tmp_path / "source",
        byte_level_tokenizer(),
        tokenizer_config={"eos_token": "<|end|>", "chat_template": TEMPLATE},
        config={"vocab_size": 500},
        generation_config={"eos_token_id": [1, 2]},
    )


@pytest.fixture
def compiled(folder: Path, tmp_path: Path) -> Path:
    return layer_compiler.build(folder, "done", tmp_path).path


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., int]:
    """Build into `out`; return the exit status."""

    def run(*arguments: object) -> int:
        return main(["layer", "build", *map(str, arguments), "--out", str(tmp_path / "out")])

    return run


# --- one model ------------------------------------------------------------------------------------------------


def test_a_build_prints_the_proof_and_describes_the_vocabulary(
    folder: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(folder, "--name", "a", "--licence", "MIT") == 0
    printed = capsys.readouterr()
    first, name, *lines = printed.out.splitlines()
    assert first.startswith("proven equal to tokenizers: 500 ids, ")
    assert name == "a"
    values = {line[2:14].strip(): line[15:] for line in lines}
    assert values["ids"] == "500 (296 named, 204 padding) [config.json: vocab_size]"
    assert values["licence"] == "MIT"
    assert values["stop ids"].count("tokenizer_config.json: eos_token") == 1
    assert values["stop ids"].count("generation_config.json: eos_token_id") == 1
    assert printed.err == ""


def test_a_build_says_that_the_library_decodes(
    tmp_path: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(write_folder(tmp_path / "words", word_piece_tokenizer()), "--name", "a") == 0
    assert capsys.readouterr().out.startswith("decoded by the tokenizers library: ")


def test_warnings_are_printed_on_standard_error(
    tmp_path: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path / "bare", byte_level_tokenizer())
    assert build(folder, "--name", "a") == 0
    printed = capsys.readouterr()
    assert "tools none, reasoning none" in printed.out
    for warning in (
        "no vocab_size in config.json",
        "no eos_token_id in a configuration file",
        "no tokenizer_config.json",
        "tool_call_parser: no parser is set, because the model's files don't tell it",
        "  observed: no chat template",
    ):
        assert f"derender: {folder}: {warning}" in printed.err


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
def test_parsers_are_inferred_unless_given(
    tmp_path: Path,
    build: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    shown: str,
) -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens(["<tool_call>", "</tool_call>"])
    folder = write_folder(tmp_path / "hermes", tokenizer, tokenizer_config={"chat_template": HERMES})
    assert build(folder, "--name", "a", *flags) == 0
    assert f"\n  parsers      {shown}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "shown"),
    [({}, "no template"), ({"response_template": {"version": 1}}, "has a template")],
)
def test_a_response_template_is_shown(
    tmp_path: Path,
    build: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    config: dict[str, object],
    shown: str,
) -> None:
    folder = write_folder(tmp_path / "responding", byte_level_tokenizer(), tokenizer_config=config)
    assert build(folder, "--name", "a") == 0
    assert f"\n  response     {shown}" in capsys.readouterr().out


def test_the_bundled_layer_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layer", "inspect", str(BUNDLED)]) == 0
    printed = capsys.readouterr().out
    for part in (
        *("Qwen3", "byte-level", "151,936 (151,669 named, 267 padding)", "Apache-2.0", "40,960 tokens"),
        *("26 tokens", "tools hermes, reasoning qwen3", "no template"),
    ):
        assert part in printed


def test_inspect_describes_each_vocabulary(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        layer_compiler.build(folder, name, tmp_path / "out")
    assert main(["layer", "inspect", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if not line.startswith(" ")] == ["a", "b"]


def test_a_source_is_required(build: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert build() == 1
    assert capsys.readouterr().err.startswith("derender: name a source: ")


def test_a_folder_needs_a_name(
    folder: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(folder) == 1
    assert capsys.readouterr().err == f"derender: {folder}: set --name, the name that clients send\n"


@pytest.mark.parametrize(
    ("flag", "value", "problem"),
    [
        ("--max-model-len", "0", "Input should be greater than or equal to 1"),
        ("--max-model-len", str(MAX_LENGTH + 1), "Input should be less than or equal to 9007199254740992"),
        ("--max-model-len", str(10**30), "Input should be"),
        ("--tool-call-parser", "herms", "'herms' does not exist; use auto, none, "),
        ("--reasoning-parser", "hermes", "'hermes' does not exist; use auto, none, "),
    ],
)
def test_an_invalid_value_is_refused_with_its_flag(
    folder: Path,
    build: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    flag: str,
    value: str,
    problem: str,
) -> None:
    assert build(folder, "--name", "a", flag, value) == 1
    assert capsys.readouterr().err.startswith(f"derender: {flag}: {problem}")


def test_an_invalid_name_is_refused_with_its_flag(
    folder: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(folder, "--name", "../a") == 1
    assert capsys.readouterr().err.startswith("derender: --name: '../a': a name has letters, digits")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["build", "{none}", "--name", "a", "--out", "{out}"], "no such folder"),
        (["build", "{empty}", "--name", "a", "--out", "{out}"], "no tokenizer"),
        (["build", "{source}", "--name", "a", "--out", "{out}", "--revision", "b"], "not b"),
        (["build", "{source}", "--name", "a", "--out", "{file}"], "can't be written"),
        (["inspect", "{none}"], "can't be read"),
        (["inspect", "{source}"], "no compiled vocabulary"),
    ],
)
def test_an_error_is_one_line_on_standard_error(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    places = {name: str(tmp_path / name) for name in ("none", "out", "file", "empty")} | {"source": str(folder)}
    assert main(["layer", *(argument.format(**places) for argument in arguments)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("derender: ")
    assert printed.err.count("\n") == 1
    assert problem in printed.err


def test_the_longest_length_is_kept(folder: Path, tmp_path: Path, build: Callable[..., int]) -> None:
    assert build(folder, "--name", "a", "--max-model-len", MAX_LENGTH) == 0
    assert load(tmp_path / "out" / "a.vocab").manifest.max_model_len == MAX_LENGTH


# --- compiled vocabularies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--name", "done")])
def test_a_compiled_vocabulary_is_copied_unchanged(
    compiled: Path,
    tmp_path: Path,
    build: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
) -> None:
    assert build(compiled, *flags) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("copied unchanged: ")
    assert "tokenizers library" not in printed.out
    assert printed.err == ""
    assert (tmp_path / "out" / "done.vocab").read_bytes() == compiled.read_bytes()


@pytest.mark.parametrize(
    "flag",
    [
        *("--tool-call-parser=hermes", "--tool-call-parser=auto", "--reasoning-parser=qwen3"),
        *("--max-model-len=99", "--licence=MIT", "--revision=sha256:0", "--source=x"),
    ],
)
def test_flags_that_would_change_a_compiled_vocabulary_are_refused(
    compiled: Path, tmp_path: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert build(compiled, flag) == 1
    name = flag.partition("=")[0]
    expected = f"derender: {name}: {compiled} is compiled already, with its parsers and limits\n"
    assert capsys.readouterr().err == expected
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("source", ["gone.vocab", "s3://bucket/a.vocab", f"{'a' * 5000}.vocab"])
def test_a_missing_compiled_vocabulary_is_one_line(
    build: Callable[..., int], capsys: pytest.CaptureFixture[str], source: str
) -> None:
    assert build(source) == 1
    problem = capsys.readouterr().err
    assert problem.count("\n") == 1
    assert source[:20] in problem
    assert len(problem) < 500


# --- lists ----------------------------------------------------------------------------------------------------


@pytest.fixture
def models(folder: Path, tmp_path: Path) -> Path:
    """Write a list of two models, one of which has an alias."""
    write_folder(tmp_path / "spm", sentence_piece_tokenizer(strip=True))
    path = tmp_path / "models.toml"
    path.write_text(
        f'[[model]]\nname = "tiny"\nsource = "{folder.name}"\naliases = ["small"]\n'
        '[[model]]\nname = "org/spm"\nsource = "spm"\ntool_call_parser = "none"\nreasoning_parser = "none"\n'
    )
    return path


def test_a_list_is_built_and_shown_as_a_table(
    models: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert build("--models", models) == 0
    printed = capsys.readouterr()
    heading, tiny, spm, hint = printed.out.splitlines()
    assert heading.split() == ["model", "ids", "rule", "parsers", "size", "licence", "source"]
    assert tiny.split()[:4] == ["tiny", "500", "byte-level", "none"]
    assert spm.split()[:4] == ["org/spm", "302", "byte-fallback", "none"]
    assert hint.endswith("DERENDER_SERVED_MODEL_NAME=tiny=tiny,small=tiny")
    assert "derender: org/spm: no vocab_size in config.json" in printed.err
    assert "tiny: compiling and proving\n" in printed.err


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_in_a_list_names_the_list_and_the_model(
    models: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str], count: int
) -> None:
    tables = models.read_text().split("[[model]]")[-count:]
    models.write_text("[[model]]" + "[[model]]".join(tables).replace('"none"', '"openai"', 1))
    models.write_text(models.read_text().replace('"none"', '"qwen3"'))
    assert build("--models", models) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"derender: {models}: org/spm: openai parses whole messages")


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("--name=a", "--name"),
        ("--source=a", "--source"),
        ("--max-model-len=1", "--max-model-len"),
        ("a", "source"),
    ],
)
def test_flags_of_one_model_are_refused_beside_a_list(
    models: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str], flag: str, name: str
) -> None:
    assert build(flag, "--models", models) == 1
    assert capsys.readouterr().err.startswith(f"derender: {name} can't be combined with --models")


# --- terminals ------------------------------------------------------------------------------------------------


def test_on_a_terminal_the_table_has_a_rule_and_the_progress_a_bar(
    models: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    assert build("--models", models) == 0
    printed = capsys.readouterr()
    assert "────" in printed.out
    assert "byte-fallback" in printed.out
    assert "━" in printed.err


def test_without_rich_a_terminal_gets_lines(
    models: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    for module in ("rich.box", "rich.console"):
        monkeypatch.setitem(sys.modules, module, None)
    assert build("--models", models) == 0
    printed = capsys.readouterr()
    assert "─" not in printed.out
    assert "tiny: compiling and proving\n" in printed.err
