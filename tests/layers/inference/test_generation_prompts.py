"""How prompts end is read off the chat template."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.vocabulary import load
from layer_compiler import build
from layer_compiler.formats.parsed import ReferenceLibrary
from layer_compiler.inference import find_generation_prompts
from tests.layers.model_folders import sentence_piece_folder, tekken_folder, tiktoken_folder
from tests.support.paths import BUNDLED
from tests.support.small_tokenizers import byte_level_tokenizer, write_folder
from tests.unit.parsing.support import marked_vocabulary

from .chat_templates import ALWAYS, HYBRID, SWITCHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Manifest, Vocabulary

TEMPLATES: Final = Path(__file__).parent / "templates"
"""Templates of real models."""
TOKENS: Final = (
    *("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<｜Assistant｜>", "<|assistant|>", "<|user|>"),
    *("<|start|>", "<|start|>user", "<|message|>", "<|end|>", "[/INST]", "<|channel|>", "\n\n"),
)
OPENED: Final = "<|im_start|>assistant\n"
CLOSED: Final = f"{OPENED}<think>\n\n</think>\n\n"

Ends = dict[str, str]
"""The argument that changes a prompt's end, empty if none does → the end."""


class Bytes(ReferenceLibrary):
    """Encodes text as the vocabularies of `marked_vocabulary` have it."""

    name = "bytes"

    def encode(self, text: str) -> list[list[int]]:
        return [list(text.encode())]

    def decode(self, token_ids: Sequence[int]) -> str:
        raise NotImplementedError


def find(folder: Path) -> tuple[Ends, tuple[str, ...]]:
    """Return how the prompts of a folder's template end, and warnings."""
    vocabulary = marked_vocabulary(TOKENS)
    prompts, warnings = find_generation_prompts(folder, vocabulary, Bytes(), {"bos_token": "<s>"})
    ends = {
        "".join(f"{name}={value}" for name, value in prompt.arguments.items()): decode(
            vocabulary, prompt.token_ids
        )
        for prompt in prompts
    }
    assert len(ends) == len(prompts)
    for prompt in prompts:
        # A token is one id. It is not spelled.
        spelled = decode(vocabulary, [token_id for token_id in prompt.token_ids if token_id < 256])
        assert not any(token in spelled for token in TOKENS if token.strip())
    return ends, warnings


def decode(vocabulary: Vocabulary, token_ids: Sequence[int]) -> str:
    return b"".join(vocabulary.pieces[token_id] for token_id in token_ids).decode()


def write_template(folder: Path, template: str) -> Path:
    """Write a folder that has nothing but a template."""
    folder.mkdir(exist_ok=True)
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen2_5", {"": OPENED}),
        ("qwen3_instruct_2507", {"": OPENED}),
        (
            "qwen3_8",
            {
                "enable_thinking=True": f"{OPENED}<think>\n",
                "enable_thinking=False": CLOSED,
                "": f"{OPENED}<think>\n",
            },
        ),
        ("deepseek_r1_distill", {"": "<｜Assistant｜><think>\n"}),
        (
            "glm4moe",
            {
                "enable_thinking=True": "<|assistant|>",
                "enable_thinking=False": "<|assistant|>\n<think></think>",
                "": "<|assistant|>",
            },
        ),
        ("gptoss", {"": "<|start|>assistant"}),
    ],
)
def test_prompts_of_real_templates(tmp_path: Path, name: str, expected: Ends) -> None:
    template = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    assert find(write_template(tmp_path, template)) == (expected, ())


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (HYBRID, {"enable_thinking=True": OPENED, "enable_thinking=False": CLOSED, "": CLOSED}),
        (
            SWITCHED.replace("enable_thinking", "thinking"),
            {"thinking=True": f"{OPENED}<think>\n", "thinking=False": CLOSED, "": CLOSED},
        ),
        (ALWAYS, {"": f"{OPENED}<think>\n"}),
        # The control token before is needed to tell where the message begins.
        ("<|user|>Hi[/INST]{% if add_generation_prompt %} {% endif %}", {"": "[/INST] "}),
        ("<|user|>Hi[/INST]", {"": "[/INST]"}),
        ("<|user|>Hi<|assistant|><think>", {"": "<think>"}),
        # Of tokens that begin alike, the longest is the one.
        ("{% if add_generation_prompt %}<|start|>user{% endif %}", {"": "<|start|>user"}),
        # White space is no control token.
        ("Hi\n\n{% if add_generation_prompt %}ASSISTANT:{% endif %}", {"": "ASSISTANT:"}),
        ("<|user|>{% if add_generation_prompt %}" + "a" * 99 + "{% endif %}", {"": "a" * 64}),
        ("Hi", {}),
        ("", {}),
    ],
)
def test_prompts_end_from_the_control_token_on_that_begins_the_message(
    tmp_path: Path, template: str, expected: Ends
) -> None:
    assert find(write_template(tmp_path, template)) == (expected, ())


@pytest.mark.parametrize(
    ("template", "warning"),
    [
        (
            "{{ raise_exception('no') }}",
            "chat template: not rendered, so the layer does not say how prompts end: ",
        ),
        ("{% if enable_thinking %}{{ raise_exception('no') }}{% endif %}", "chat template: not rendered"),
        ("{% if %}", "chat template: not rendered"),
    ],
)
def test_a_template_that_fails_is_told_in_one_line(tmp_path: Path, template: str, warning: str) -> None:
    ends, (told,) = find(write_template(tmp_path, template))
    assert ends == {}
    assert told.startswith(warning)
    assert "\n" not in told


def test_a_template_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    ends, (told,) = find(tmp_path)
    assert ends == {}
    assert told.startswith("chat_template.jinja: can't be read")


def test_without_a_template_nothing_is_told(tmp_path: Path) -> None:
    assert find(tmp_path) == ({}, ())


def test_the_template_of_a_tokenizer_of_mistrals_is_not_rendered(tmp_path: Path) -> None:
    folder = write_template(tekken_folder(tmp_path), "{{ raise_exception('no') }}")
    assert find(folder) == ({}, ())


# --- whole builds ---------------------------------------------------------------------------------------------


def built(folder: Path) -> tuple[Manifest, Vocabulary]:
    path, manifest, *_ = build(folder, "tiny", folder / "out")
    return manifest, load(path)


@pytest.mark.parametrize(
    ("write", "token"),
    [
        (lambda folder: write_folder(folder, byte_level_tokenizer()), "<|stop|>"),
        (tiktoken_folder, "<|end|>"),
        (sentence_piece_folder, "<think>"),
    ],
)
def test_each_format_encodes_the_prompt(tmp_path: Path, write: Any, token: str) -> None:
    write(tmp_path)
    write_template(tmp_path, "Hello{% if add_generation_prompt %}" + f"{token}Hello world{{% endif %}}")
    manifest, vocabulary = built(tmp_path)
    ((token_ids, arguments),) = [(each.token_ids, each.arguments) for each in manifest.generation_prompts]
    assert (arguments, manifest.origins["generation_prompts"]) == ({}, "chat template")
    assert token_ids[0] == vocabulary.added_tokens()[token]
    assert decode(vocabulary, token_ids).replace(" ", "") == f"{token}Helloworld"


def test_special_tokens_have_the_names_of_the_configuration(tmp_path: Path) -> None:
    config = {"eos_token": {"content": "<|end|>"}, "bos_token": None, "pad_token": "<|pad|>"}
    folder = write_folder(tmp_path, byte_level_tokenizer(), tokenizer_config=config)
    write_template(
        folder, "{{ bos_token }}{{ eos_token }}{% if add_generation_prompt %}{{ pad_token }}{% endif %}"
    )
    manifest, vocabulary = built(folder)
    (prompt,) = manifest.generation_prompts
    assert decode(vocabulary, prompt.token_ids) == "<|pad|>"


def test_a_failing_template_does_not_fail_the_build(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, byte_level_tokenizer())
    write_template(folder, "{{ raise_exception('no') }}")
    _, manifest, _, warnings = build(folder, "tiny", tmp_path / "out")
    assert manifest.generation_prompts == ()
    assert "generation_prompts" not in manifest.origins
    assert warnings[-1].startswith("chat template: not rendered")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deepseek_v3", {"": "<｜Assistant｜>"}),
        ("llama3_1", {"": "<|start_header_id|>assistant<|end_header_id|>\n\n"}),
    ],
)
def test_prompts_of_real_tokenizers(layer: Any, name: str, expected: Ends) -> None:
    (path,) = layer(name).glob("*.vocab")
    vocabulary = load(path)
    ends = {
        "".join(each.arguments): decode(vocabulary, each.token_ids)
        for each in vocabulary.manifest.generation_prompts
    }
    assert ends == expected


def test_the_bundled_layer_says_how_prompts_of_qwen3_end() -> None:
    (path,) = BUNDLED.glob("*.vocab")
    vocabulary = load(path)
    assert [
        (each.arguments, decode(vocabulary, each.token_ids)) for each in vocabulary.manifest.generation_prompts
    ] == [({"enable_thinking": True}, OPENED), ({"enable_thinking": False}, CLOSED), ({}, OPENED)]
