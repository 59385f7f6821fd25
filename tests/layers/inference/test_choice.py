"""Parsers are given, inferred or left out, with warnings that say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.vocabulary import load
from layer_compiler import LayerError, build
from layer_compiler.inference import choose_parsers
from tests.layers.model_folders import sentence_piece_folder, tekken, tekken_folder
from tests.support.compiled import compile_small, compiled_layer, tokenizer_folder
from tests.support.small_tokenizers import byte_level_tokenizer, write_folder

from .chat_templates import ALWAYS, HERMES, XML

if TYPE_CHECKING:
    from pathlib import Path

    from derender.vocabulary import Manifest
    from layer_compiler.inference import ParserChoice


def choose(folder: Path, name: str = "tiny", *, tools: str = "auto", reasoning: str = "auto") -> ParserChoice:
    vocabulary, _ = compile_small("byte-level")
    return choose_parsers(folder, name, vocabulary, tool_call_parser=tools, reasoning_parser=reasoning)


def build_automatically(folder: Path) -> Manifest:
    built = build(folder, "tiny", folder / "out", tool_call_parser="auto", reasoning_parser="auto")
    return built.manifest


def test_given_parsers_are_taken(tmp_path: Path) -> None:
    choice = choose(tmp_path, tools="hermes", reasoning="none")
    assert choice.parsers == {"tool_call_parser": "hermes", "reasoning_parser": None}
    assert (choice.origins, choice.warnings) == ({}, ())


def test_given_parsers_must_combine(tmp_path: Path) -> None:
    with pytest.raises(LayerError, match="openai"):
        choose(tmp_path, tools="openai", reasoning="qwen3")


def test_certain_parsers_are_inferred_without_warnings(tmp_path: Path) -> None:
    write_folder(tmp_path, None, tokenizer_config={"chat_template": HERMES + ALWAYS})
    choice = choose(tmp_path)
    assert choice.parsers == {"tool_call_parser": "hermes", "reasoning_parser": "deepseek_r1"}
    assert choice.origins == dict.fromkeys(choice.parsers, "inferred")
    assert choice.warnings == ()


def test_parsers_that_the_name_chose_are_warned_of(tmp_path: Path) -> None:
    write_folder(tmp_path, None, tokenizer_config={"chat_template": HERMES + XML})
    choice = choose(tmp_path, "org/Qwen3-Coder-30B")
    assert choice.parsers == {"tool_call_parser": "qwen3_coder", "reasoning_parser": None}
    assert choice.warnings[0].startswith("tool_call_parser: qwen3_coder, which the model's files alone")
    assert choice.warnings[1].startswith("reasoning_parser: no parser is set")
    assert choice.warnings[-1] == "  observed: the name 'org/Qwen3-Coder-30B' says qwen3_coder/none"


def test_files_that_do_not_tell_set_no_parser(tmp_path: Path) -> None:
    choice = choose(tmp_path)
    assert choice.parsers == {"tool_call_parser": None, "reasoning_parser": None}
    assert choice.warnings == (
        "tool_call_parser: no parser is set, because the model's files don't tell it; name a parser or none",
        "reasoning_parser: no parser is set, because the model's files don't tell it; name a parser or none",
        "  observed: added tokens <think>",
        "  observed: no chat template",
    )


@pytest.mark.parametrize(
    ("given", "parsers", "warning"),
    [
        ({}, (None, None), "no parser is set, because"),
        ({"tools": "hermes"}, ("hermes", None), "reasoning_parser: no parser is set, because"),
    ],
)
def test_inferred_parsers_that_fail_are_not_set(
    tmp_path: Path, given: dict[str, Any], parsers: tuple[str | None, ...], warning: str
) -> None:
    """The response template needs both parsers, and more than the vocabulary has."""
    template: dict[str, Any] = {"fields": {"content": {}}}
    folder = write_folder(tmp_path, byte_level_tokenizer(), tokenizer_config={"response_template": template})
    vocabulary = load(build(folder, "tiny", tmp_path / "out").path)
    options = {"tools": "auto", "reasoning": "auto", **given}
    choice = choose_parsers(
        folder,
        "tiny",
        vocabulary,
        tool_call_parser=options["tools"],
        reasoning_parser=options["reasoning"],
    )
    assert tuple(choice.parsers.values()) == parsers
    assert choice.origins == {}
    assert choice.warnings[0].startswith(warning)


# --- whole folders --------------------------------------------------------------------------------------------

REAL: Final = {
    "qwen3": ("hermes", "qwen3", True),
    "deepseek_v3": ("deepseek_v3", None, True),
    # gpt-oss has no template, but tokens of its own.
    "gptoss": ("openai", "openai_gptoss", True),
    "gemma3": (None, None, True),
    # Its template is Llama 3's, which has no tools.
    "llama3_1": (None, None, True),
    # Neither a template nor a telling token.
    "llama2": (None, None, False),
}


@pytest.mark.parametrize("model", REAL)
def test_the_files_of_a_real_model_decide(model: str) -> None:
    folder = tokenizer_folder(model)
    (path,) = compiled_layer(folder, model).glob("*.vocab")
    choice = choose_parsers(folder, model, load(path), tool_call_parser="auto", reasoning_parser="auto")
    assert (*choice.parsers.values(), not choice.warnings) == REAL[model], choice.warnings


@pytest.mark.parametrize(
    ("version", "template", "expected"),
    [
        ("v3", None, ("mistral", None)),
        ("v13", None, ("mistral", None)),
        ("v13", "{{ '[THINK]' + thinking + '[/THINK]' }}", ("mistral", "mistral")),
        # Servers don't render with this template, which has no tools.
        ("v11", "[INST]{{ content }}[/INST]", ("mistral", None)),
    ],
)
def test_tekken_decides_with_the_template(
    version: str, template: str | None, expected: tuple[str | None, str | None], tmp_path: Path
) -> None:
    special = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[THINK]", "[/THINK]")
    tokens = [{"rank": n, "token_str": text, "is_control": True} for n, text in enumerate(special)]
    tekken_folder(tmp_path, tekken(special_tokens=tokens, config={"version": version}))
    if template is not None:
        (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    manifest = build_automatically(tmp_path)
    assert (manifest.tool_call_parser, manifest.reasoning_parser) == expected


@pytest.mark.parametrize("version", ["v2", "v3", "v7", "v7m1"])
def test_a_sentence_piece_model_of_mistral_decides(version: str, tmp_path: Path) -> None:
    sentence_piece_folder(tmp_path, name=f"mistral_instruct_tokenizer_240323.model.{version}")
    manifest = build_automatically(tmp_path)
    assert (manifest.tool_call_parser, manifest.reasoning_parser) == ("mistral", None)
    assert manifest.origins["tool_call_parser"] == "inferred"


def test_a_chat_template_outweighs_a_sentence_piece_model(tmp_path: Path) -> None:
    sentence_piece_folder(tmp_path, name="tokenizer.model.v3", tokenizer_config={"chat_template": HERMES})
    assert build_automatically(tmp_path).tool_call_parser == "hermes"
