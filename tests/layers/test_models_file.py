"""Lists of models, and the layers that are built from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import layer_compiler
from derender.cli import main
from derender.settings import default_layer
from derender.vocabulary import load
from layer_compiler.building.models_file import Model, ModelsFileError, read_models
from tests.support.small_tokenizers import byte_level_tokenizer, sentence_piece_tokenizer, write_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
)
"""A chat template without tools and reasoning."""


@pytest.fixture
def listed(tmp_path: Path) -> Callable[[str], Path]:
    """A list of models, beside the tokenizers that it may name."""
    write_folder(
        tmp_path / "tiny",
        byte_level_tokenizer(),
        config={"vocab_size": 500, "eos_token_id": 1, "max_position_embeddings": 512},
        tokenizer_config={"eos_token": None, "chat_template": CHATML},
    )
    write_folder(tmp_path / "spm", sentence_piece_tokenizer(strip=True))
    layer_compiler.build(tmp_path / "tiny", "done", tmp_path, tool_call_parser="hermes")

    def write(text: str) -> Path:
        path = tmp_path / "models.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


TINY = '[[model]]\nname = "tiny"\nsource = "tiny"\n'
SPM = '[[model]]\nname = "org/spm"\nsource = "spm"\n'


def test_reads_what_a_model_may_have(listed: Callable[[str], Path]) -> None:
    text = f"""
        [[model]]
        name = "a"
        aliases = ["b", "c/d"]
        source = "org/name"
        revision = "{COMMIT}"
        tool_call_parser = "hermes"
        reasoning_parser = "none"
        max_model_len = 4096
        licence = "MIT"
        origin = "for people"

        [[model]]
        name = "bucket"
        source = "s3://bucket/prefix"

        [[model]]
        name = "done"
        source = "done.vocab"
        aliases = ["qwen"]
    """
    models = read_models(listed(text))
    assert models == (
        Model(
            name="a",
            aliases=("b", "c/d"),
            source="org/name",
            revision=COMMIT,
            tool_call_parser="hermes",
            reasoning_parser="none",
            max_model_len=4096,
            licence="MIT",
            origin="for people",
        ),
        Model(name="bucket", source="s3://bucket/prefix"),
        Model(name="done", source="done.vocab", aliases=("qwen",)),
    )
    assert [model.is_compiled for model in models] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it lists no [[model]]"),
        ("model = 1", "it lists no [[model]]"),
        ("model = [1]", "model 1: expected object, got int"),
        ("[[model]", "no TOML"),
        ("[models]\n" + TINY, "models: unknown"),
        ('[[model]]\nname = "tiny"', "tiny: source: is missing"),
        ('[[model]]\nsource = "tiny"', "model 1: name: is missing"),
        ('[[model]]\nname = 7\nsource = "tiny"', "model 1: name: expected str, got int"),
        (TINY + "license = 'MIT'", "tiny: license: unknown; a model may have name, source, "),
        (TINY + "max_model_len = 0", "tiny: max_model_len: expected int >= 1"),
        (TINY + "max_model_len = true", "tiny: max_model_len: expected int, got bool"),
        (TINY + "aliases = 'a'", "tiny: aliases: expected array, got str"),
        (TINY + "aliases = ['a,b']", "tiny: aliases: 'a,b': a name has no spaces"),
        ('[[model]]\nname = "a=b"\nsource = "tiny"', "a=b: name: 'a=b': a name has no spaces"),
        (TINY + "tool_call_parser = 'herms'", "tiny: tool_call_parser: 'herms' does not exist"),
        (TINY + "reasoning_parser = 'hermes'", "tiny: reasoning_parser: 'hermes' does not exist"),
        ('[[model]]\nname = "a"\nsource = "./gone"', "a: source: './gone': no such folder"),
        ('[[model]]\nname = "ö/x"\nsource = "tiny"', "ö/x: name: 'ö/x': a model's name has letters, digits"),
        ('[[model]]\nname = "/x"\nsource = "tiny"', "/x: name: '/x': a model's name has letters, digits"),
        ('[[model]]\nname = "../x"\nsource = "tiny"', "../x: name: '../x': a model's name has letters, digits"),
        ('[[model]]\nname = "a\\nb"\nsource = "tiny"', "model 1: name: 'a\\nb': a name has no spaces"),
        (f'[[model]]\nname = "{"a" * 201}"\nsource = "tiny"', f"model 1: name: '{'a' * 200}…': a name has no"),
        (f'[[model]]\nname = "a"\nsource = "{"b" * 5000}"', f"a: source: '{'b' * 200}…': a source has 1,024"),
        (
            f'[[model]]\nname = "a"\nsource = "{"b" * 300}"',
            f"a: source: '{'b' * 200}",
        ),
        (f'[[model]]\nname = "a"\nsource = "{"b" * 300}.vocab"', f"a: source: '{'b' * 200}…': "),
        ('[[model]]\nname = "a"\nsource = "b\\u0000c"', "a: source: 'b\\x00c': a source has 1,024 printable"),
        (
            "[[model]]\nname='a'\nsource='s3://b/x.vocab'",
            "a: source: s3://b/x.vocab: a compiled vocabulary is not",
        ),
        ('[[model]]\nname = "a"\nsource = "gone.vocab"', "a: source: gone.vocab: no such file"),
        ('[[model]]\nname = "a"\nsource = "org/name"', "a: revision: org/name is no folder here"),
        (
            '[[model]]\nname = "a"\nsource = "org/name"\nrevision = "main"',
            "a: revision: org/name is no folder here",
        ),
        (
            '[[model]]\nname = "done"\nsource = "done.vocab"\ntool_call_parser = "none"',
            "done: tool_call_parser: done.vocab is compiled already",
        ),
        (TINY + TINY, "tiny: tiny is also a name of tiny"),
        (TINY + "aliases = ['x']\n" + SPM + "aliases = ['x']", "org/spm: x is also a name of tiny"),
        (SPM + SPM.replace("org/", "org--"), "org--spm: name: it would have the file of org/spm"),
    ],
)
def test_what_is_wrong_names_the_model_and_the_field(
    listed: Callable[[str], Path], text: str, problem: str
) -> None:
    path = listed(text)
    with pytest.raises(ModelsFileError) as refusal:
        read_models(path)
    assert str(refusal.value).startswith(f"{path}: {problem}")
    assert "\n" not in str(refusal.value)


def test_a_list_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelsFileError, match="can't be read: No such file"):
        read_models(tmp_path / "models.toml")


def build(path: Path, out: Path) -> int:
    return main(["layer", "build", "--models", str(path), "--out", str(out)])


def test_a_layer_holds_what_is_listed(
    listed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = listed(
        TINY
        + "aliases = ['small']\nmax_model_len = 99\nlicence = 'MIT'\n"
        + SPM
        + "tool_call_parser = 'none'\nreasoning_parser = 'none'\n"
        + "[[model]]\nname = 'done'\nsource = 'done.vocab'\n"
    )
    assert build(path, tmp_path / "out") == 0
    printed = capsys.readouterr()
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "done.vocab",
        "org--spm.vocab",
        "tiny.vocab",
    ]
    assert (tmp_path / "out" / "done.vocab").read_bytes() == (tmp_path / "done.vocab").read_bytes()
    tiny = load(tmp_path / "out" / "tiny.vocab").manifest
    assert (tiny.max_model_len, tiny.origins["max_model_len"], tiny.licence) == (99, "given", "MIT")
    heading, *rows, hint = printed.out.splitlines()
    assert heading.split() == ["model", "ids", "rule", "parsers", "size", "licence", "source"]
    assert rows[0].split()[:4] == ["tiny", "500", "byte-level", "none"]
    assert rows[2].split()[:4] == ["done", "500", "byte-level", "hermes"]
    assert hint.endswith("DERENDER_SERVED_MODEL_NAME=tiny=tiny,small=tiny")
    assert "org/spm: no vocab_size in config.json" in printed.err


def test_the_same_list_gives_the_same_bytes(listed: Callable[[str], Path], tmp_path: Path) -> None:
    path = listed(TINY + SPM)
    outs = [tmp_path / "one", tmp_path / "two"]
    for out in (*outs, outs[0]):
        assert build(path, out) == 0
    one, two = ({path.name: path.read_bytes() for path in out.iterdir()} for out in outs)
    assert one == two
    assert len(one) == 2


def test_where_one_model_fails_nothing_is_written(
    listed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = listed(TINY + SPM + "tool_call_parser = 'openai'\nreasoning_parser = 'qwen3'\n")
    assert build(path, tmp_path / "out") == 1
    assert "org/spm: openai parses whole messages" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


def test_what_fails_in_a_list_of_one_names_the_list_and_the_model(
    listed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = listed(SPM + "tool_call_parser = 'openai'\nreasoning_parser = 'qwen3'\n")
    assert build(path, tmp_path / "out") == 1
    assert f"derender: {path}: org/spm: openai parses whole messages" in capsys.readouterr().err


def test_a_folder_with_other_vocabularies_is_left_alone(
    listed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(listed(TINY + SPM), tmp_path / "out") == 0
    capsys.readouterr()
    assert build(listed(TINY), tmp_path / "out") == 1
    assert "org--spm.vocab: is none of the models that are listed" in capsys.readouterr().err


def test_a_compiled_vocabulary_has_to_be_the_models(
    listed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(listed('[[model]]\nname = "other"\nsource = "done.vocab"'), tmp_path / "out") == 1
    assert "is the vocabulary of done, not of other" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--name=a", "--revision=a", "--licence=a", "--max-model-len=1", "source"])
def test_a_list_says_it_all(
    listed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert main(["layer", "build", flag, "--models", str(listed(TINY)), "--out", str(tmp_path / "out")]) == 1
    assert "says it all" in capsys.readouterr().err


def test_the_list_that_comes_with_the_project_needs_no_network() -> None:
    (model,) = read_models(default_layer().parent / "models.toml")
    assert model.is_compiled
    assert model.source == "default/Qwen3.vocab"
