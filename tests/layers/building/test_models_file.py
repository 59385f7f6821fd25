"""models.toml is read, and errors name the model and the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from layer_compiler import LayerError
from layer_compiler.building.models_file import Model, read_models
from tests.support.paths import BUNDLED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"
TINY: Final = '[[model]]\nname = "tiny"\nsource = "tiny"\n'
SPM: Final = '[[model]]\nname = "org/spm"\nsource = "spm"\n'


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write a list of models beside the sources that it may name."""
    for name in ("tiny", "spm"):
        (tmp_path / name).mkdir()
    (tmp_path / "done.vocab").touch()

    def write(text: str) -> Path:
        path = tmp_path / "models.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_all_fields_are_read(write: Callable[[str], Path]) -> None:
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
    assert read_models(write(text)) == (
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


def model(name: str = "a", source: str = "tiny", fields: str = "") -> str:
    """Write a model's table."""
    return f'[[model]]\nname = "{name}"\nsource = "{source}"\n{fields}\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "lists no [[model]]"),
        ("model = 1", "lists no [[model]]"),
        ("model = [1]", "model 1: Input should be a valid dictionary"),
        ("[[model]", "not TOML"),
        (f"model = {'[' * 5_000}{']' * 5_000}", "not TOML: nested too deeply"),
        (f"model = {'{a = ' * 5_000}1{'}' * 5_000}", "not TOML: nested too deeply"),
        (f"[[model]]\nname.{'a.' * 5_000}a = 1", "model 1: name: Input should be a valid string"),
        (f"{'a' * 5_000} = 1", f"{'a' * 200}…: unknown; a list holds [[model]] tables"),
        ('"a\\nb" = 1', "'a\\nb': unknown; a list holds [[model]] tables"),
        (TINY + "'a\tb' = 1", "tiny: 'a\\tb': Extra inputs are not permitted"),
        (
            TINY + f"tool_call_parser = '{'x' * 5_000}'",
            f"tiny: tool_call_parser: '{'x' * 200}…' does not exist",
        ),
        ("[models]\n" + TINY, "models: unknown; a list holds [[model]] tables"),
        ('[[model]]\nname = "tiny"', "tiny: source: Field required"),
        ('[[model]]\nsource = "tiny"', "model 1: name: Field required"),
        ('[[model]]\nname = 7\nsource = "tiny"', "model 1: name: Input should be a valid string"),
        (TINY + "license = 'MIT'", "tiny: license: Extra inputs are not permitted"),
        (TINY + "max_model_len = 0", "tiny: max_model_len: Input should be greater than or equal to 1"),
        (TINY + "max_model_len = true", "tiny: max_model_len: Input should be a valid integer"),
        (TINY + f"max_model_len = {2**53 + 1}", "tiny: max_model_len: Input should be less than or equal to"),
        (TINY + "aliases = 'a'", "tiny: aliases: Input should be a valid tuple"),
        (TINY + "aliases = ['a,b']", "tiny: aliases.0: 'a,b': a name has no spaces"),
        (model("a=b"), "model 1: name: 'a=b': a name has letters, digits"),
        (TINY + "tool_call_parser = 'herms'", "tiny: tool_call_parser: 'herms' does not exist; use auto, none"),
        (TINY + "reasoning_parser = 'hermes'", "tiny: reasoning_parser: 'hermes' does not exist"),
        (model(source="./gone"), "a: source: './gone': no such folder"),
        (model("ö/x"), "model 1: name: 'ö/x': a name has letters, digits"),
        (model("/x"), "model 1: name: '/x': a name has letters, digits"),
        (model("../x"), "model 1: name: '../x': a name has letters, digits"),
        (model("a\\nb"), "model 1: name: 'a\\nb': a name has letters, digits"),
        (model("a" * 201), f"model 1: name: '{'a' * 200}': a name has letters"),
        (model(source="b" * 5000), f"a: source: '{'b' * 200}…': a source has at most 1,024"),
        (model(source="b" * 300), f"a: source: '{'b' * 200}…': "),
        (model(source="b\\u0000c"), "a: source: 'b\\x00c': a source has at most 1,024 printable"),
        (model(source="s3://b/x.vocab"), "a: source: 's3://b/x.vocab': a compiled vocabulary is not fetched"),
        (model(source="gone.vocab"), "a: source: 'gone.vocab': no such file"),
        (model(source="org/name"), "a: revision: org/name is not a folder, and a repository needs a commit"),
        (model(source="org/name", fields='revision = "main"'), "a: revision: org/name is not a folder"),
        (
            model(source="done.vocab", fields='tool_call_parser = "none"'),
            "a: tool_call_parser: done.vocab is compiled already",
        ),
        (TINY + TINY, "tiny: tiny is also a name of tiny"),
        (TINY + "aliases = ['x']\n" + SPM + "aliases = ['x']", "org/spm: x is also a name of tiny"),
        (SPM + SPM.replace("org/", "org--"), "org--spm: name: its file would be that of org/spm"),
    ],
)
def test_an_error_names_the_file_the_model_and_the_field(
    write: Callable[[str], Path], text: str, problem: str
) -> None:
    path = write(text)
    with pytest.raises(LayerError) as refusal:
        read_models(path)
    assert str(refusal.value).startswith(f"{path}: {problem}")
    assert "\n" not in str(refusal.value)


def test_a_missing_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LayerError, match="can't be read: No such file"):
        read_models(tmp_path / "models.toml")


def test_the_projects_list_needs_no_network() -> None:
    (listed,) = read_models(BUNDLED.parent / "models.toml")
    assert listed.source == "default/Qwen3.vocab"
