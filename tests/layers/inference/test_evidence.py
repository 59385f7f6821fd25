"""Evidence is read from the files; malformed ones are left out with a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from layer_compiler.inference.evidence import Evidence, read_evidence
from tests.layers.model_folders import sentence_piece_folder

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, name: str, content: object) -> None:
    """Write a file: bytes and text as they are, other values as JSON."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def listed(*names: str) -> list[dict[str, str]]:
    """Return named templates whose text is their name."""
    return [{"name": name, "template": name} for name in names]


@pytest.mark.parametrize(
    ("files", "template"),
    [
        ({"tokenizer_config.json": {"chat_template": "A"}}, "A"),
        ({"chat_template.json": {"chat_template": "A"}}, "A"),
        ({"chat_template.jinja": "A"}, "A"),
        ({"chat_template.jinja": "A", "tokenizer_config.json": {"chat_template": "B"}}, "A"),
        ({"tokenizer_config.json": {"chat_template": "A"}, "chat_template.json": {"chat_template": "B"}}, "A"),
        ({"tokenizer_config.json": {"chat_template": listed("default", "rag")}}, "default"),
        ({"tokenizer_config.json": {"chat_template": listed("default", "tool_use")}}, "tool_use"),
        ({"chat_template.jinja": "A", "additional_chat_templates/tool_use.jinja": "B"}, "B"),
        ({"chat_template.jinja": "A", "additional_chat_templates/rag.jinja": "B"}, "A"),
        ({"tokenizer_config.json": {}}, None),
        ({}, None),
    ],
)
def test_the_template_is_the_one_for_tools(
    files: dict[str, object], template: str | None, tmp_path: Path
) -> None:
    for name, content in files.items():
        write(tmp_path, name, content)
    assert read_evidence(tmp_path) == Evidence(template=template)


def test_architectures_are_those_of_the_model_then_of_its_language_model(tmp_path: Path) -> None:
    inner = {"model_type": "b", "architectures": ["C", "A"]}
    write(tmp_path, "config.json", {"architectures": ["A"], "model_type": "a", "text_config": inner})
    assert read_evidence(tmp_path).architectures == ("A", "a", "C", "b")


@pytest.mark.parametrize("name", ["tekken.json", "tekken_240911.json"])
def test_the_version_of_tekken_is_read(name: str, tmp_path: Path) -> None:
    write(tmp_path, name, {"config": {"version": "v3"}})
    assert read_evidence(tmp_path).tekken_version == "v3"


@pytest.mark.parametrize(("name", "version"), [("a.model.v3", "v3"), ("a.model.v7m1", "v7"), ("a.model", None)])
def test_the_version_of_a_sentence_piece_model_is_in_its_name(
    tmp_path: Path, name: str, version: str | None
) -> None:
    sentence_piece_folder(tmp_path, name=name)
    assert read_evidence(tmp_path, {"[TOOL_CALLS]"}).sentence_piece_version == version


def test_a_sentence_piece_model_without_the_token_of_calls_is_not_mistrals(tmp_path: Path) -> None:
    sentence_piece_folder(tmp_path, name="tokenizer.model.v1")
    assert read_evidence(tmp_path, {"<s>"}).sentence_piece_version is None


@pytest.mark.parametrize(
    ("template", "usable"),
    [(None, False), ({"fields": {"content": {}}}, True), ({"fields": {}}, False), ({}, False)],
)
def test_a_response_template_needs_fields(
    tmp_path: Path, template: dict[str, object] | None, usable: bool
) -> None:
    evidence = read_evidence(tmp_path, response_template=template)
    assert evidence.response_template is usable
    problem = "response_template: not an object with fields"
    assert evidence.unreadable == (() if usable or template is None else (problem,))


LARGE: Final = "x" * ((1 << 20) + 1)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("tokenizer_config.json", "{", "can't be read: Expecting"),
        ("tokenizer_config.json", "[1]", "not a JSON object"),
        ("tokenizer_config.json", b"\xff", "can't be read: 'utf-8'"),
        ("tokenizer_config.json", "[" * 100_000, "more than|can't be read|recursion"),
        ("tokenizer_config.json", {"chat_template": 5}, "not a name and a template"),
        ("tokenizer_config.json", {"chat_template": [{"name": "default"}]}, "not a name and a template"),
        ("tokenizer_config.json", {"chat_template": LARGE}, "not a name and a template"),
        ("chat_template.jinja", LARGE, "larger than 1 MB"),
        ("chat_template.jinja", b"\xff", "can't be read: 'utf-8'"),
        ("additional_chat_templates/tool_use.jinja", LARGE, "larger than 1 MB"),
        ("config.json", '"text"', "not a JSON object"),
        ("tekken.json", "[]", "not a JSON object"),
        ("chat_template.jinja", b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
    ],
)
def test_a_malformed_file_is_left_out_with_a_line(
    name: str, content: object, problem: str, tmp_path: Path
) -> None:
    write(tmp_path, name, content)
    evidence = read_evidence(tmp_path)
    (line,) = evidence.unreadable
    assert line.startswith(("chat_template", name))
    assert "\n" not in line
    assert any(part in line for part in problem.split("|"))
    assert evidence == Evidence(unreadable=(line,))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", {"chat_template": None}),
        ("tekken.json", {"config": {"version": 3}}),
        ("tekken.json", {"config": []}),
        ("config.json", {"architectures": [None, 5], "model_type": [], "text_config": 5}),
    ],
)
def test_odd_values_are_ignored(name: str, content: object, tmp_path: Path) -> None:
    write(tmp_path, name, content)
    assert read_evidence(tmp_path) == Evidence()
