"""Evidence decides the parsers: families, near misses, ties."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from derender.parsing.registry import REASONING_PARSERS, TOOL_CALL_PARSERS
from layer_compiler.inference.decision import Inference, infer
from layer_compiler.inference.evidence import Evidence
from layer_compiler.inference.families import DEFAULT_REASONING, FAMILIES, NAMES

from .chat_templates import (
    ALWAYS,
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    DSML,
    GLM,
    HERMES,
    HYBRID,
    KIMI_K2,
    LLAMA3,
    LLAMA4,
    MISTRAL,
    PYTHONIC,
    SWITCHED,
    XML,
)

TEMPLATES: Final = Path(__file__).parent / "templates"
"""Templates of real models."""

BY_TEMPLATE: Final[dict[str, tuple[str, str | None, str | None]]] = {
    "Hermes, Qwen2.5": (HERMES, "hermes", None),
    "Hermes as one value": ("<tool_call>\n{{ call | tojson }}\n</tool_call>", "hermes", None),
    "Qwen3": (HERMES + HYBRID, "hermes", "qwen3"),
    "Qwen3-Thinking, QwQ": (HERMES + ALWAYS, "hermes", "deepseek_r1"),
    "Qwen3-Coder": (XML, "qwen3_coder", None),
    "Qwen3.5 and later": (XML + SWITCHED, "qwen3_coder", "qwen3"),
    "DeepSeek V3": (DEEPSEEK_V3, "deepseek_v3", None),
    "DeepSeek R1": (DEEPSEEK_V3 + ALWAYS, "deepseek_v3", "deepseek_r1"),
    "DeepSeek R1, first template": (
        DEEPSEEK_V3 + "{% set content = content.split('</think>')[-1] %}",
        "deepseek_v3",
        "deepseek_r1",
    ),
    "DeepSeek V3.1": (DEEPSEEK_V31 + SWITCHED, "deepseek_v31", "deepseek_v3"),
    "DeepSeek V3.2": (
        DSML.replace("CALLS", "function_calls").replace("INVOKE", "invoke"),
        "deepseek_v32",
        "deepseek_v3",
    ),
    "DeepSeek V4": (
        DSML.replace("CALLS", "tool_calls").replace("INVOKE", "invoke"),
        "deepseek_v4",
        "deepseek_v4",
    ),
    "DeepSeek V4.1": (
        DSML.replace("CALLS", " calls").replace("INVOKE", " invoke"),
        "deepseek_v41",
        "deepseek_v41",
    ),
    "Kimi K2": (KIMI_K2, "kimi_k2", None),
    "Kimi K2, id made of the name": (
        "{% set id = 'functions.' + call.name + ':' + number %}" + KIMI_K2,
        "kimi_k2",
        None,
    ),
    "Kimi K2 Thinking": ("<think>{{ reasoning }}</think>" + KIMI_K2, "kimi_k2", "kimi_k2"),
    "Kimi K3": ("{% macro open_tag(tag) %}{{ '<|open|>' + tag }}<|sep|>{% endmacro %}", "kimi_k3", "kimi_k3"),
    "GLM 4.5": (GLM.replace("SPACE", "\n") + HYBRID, "glm45", "glm45"),
    "GLM 4.7": (GLM.replace("SPACE", "") + SWITCHED, "glm47", "glm47"),
    "gpt-oss": ("{{ ' to=functions.' + call.name + '<|channel|>commentary json' }}", "openai", "openai_gptoss"),
    "Gemma 4": ("{{ '<|tool_call>call:' + call.name + '{' }}", "gemma4", "gemma4"),
    "Mistral": (MISTRAL, "mistral", None),
    "Mistral, version 3": ("{{ '[TOOL_CALLS] [' }}{{ call | tojson }}", "mistral", None),
    "Magistral": (MISTRAL + "{{ '[THINK]' + block.thinking + '[/THINK]' }}", "mistral", "mistral"),
    "Magistral, first version": (
        "{% set default = 'Think first: <think>\nYour thoughts</think>' %}{{ default }}" + MISTRAL,
        "mistral",
        "mistral",
    ),
    "Llama 3": (LLAMA3, "llama3_json", None),
    "Llama 4, JSON": (LLAMA4 + '{"name": "{{ call.name }}"', "llama4_json", None),
    "Llama 4, Python": (LLAMA4 + PYTHONIC, "llama4_pythonic", None),
    "Python": ("<|im_start|>assistant\n" + PYTHONIC, "pythonic", None),
    "none": ("<start_of_turn>{{ message.role }}\n{{ message.content }}", None, None),
}


@pytest.mark.parametrize(("template", "tools", "reasoning"), BY_TEMPLATE.values(), ids=BY_TEMPLATE)
def test_a_template_identifies_the_family(template: str, tools: str | None, reasoning: str | None) -> None:
    found = infer(Evidence(template=template))
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == (tools, reasoning, True), (
        found.observations
    )


REAL: Final = {
    "qwen2_5": ("hermes", None),
    "qwen3_instruct_2507": ("hermes", None),
    "qwen3_8": ("qwen3_coder", "qwen3"),
    "glm4moe": ("glm45", "glm45"),
    "gptoss": ("openai", "openai_gptoss"),
    "deepseek_r1_distill": ("deepseek_v3", "deepseek_r1"),
}


@pytest.mark.parametrize("model", REAL)
def test_the_template_of_a_real_model_identifies_the_family(model: str) -> None:
    found = infer(Evidence(template=(TEMPLATES / f"{model}.jinja").read_text(encoding="utf-8")))
    assert (found.tool_call_parser, found.reasoning_parser) == REAL[model], found.observations
    assert found.certain


NEAR_MISSES: Final[dict[str, tuple[str, str | None, str | None, bool]]] = {
    "a comment": ("{# " + HERMES + " #}{{ content }}", None, None, True),
    "an example in the system prompt": (
        '{{ tools }}<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
        None,
        None,
        False,
    ),
    "an example of XML": ("{{ tools }}<tool_call>\n<function=example>\n<parameter=key>", None, None, False),
    "a condition": ("{% if '<tool_call>' in content %}{{ content }}{% endif %}", None, None, True),
    "another model's wrapper": (
        "{% for call in tool_calls %}<seed:tool_call>\n<function={{ call.name }}>\n",
        None,
        None,
        False,
    ),
    "a list in a wrapper": ("<|tool_call_start|>" + PYTHONIC, None, None, False),
    "tools that are no calls": ("{{ tools | tojson }}", None, None, False),
    "a system prompt of reasoning": (
        "Write your thoughts between <think></think>.{{ content }}",
        None,
        None,
        True,
    ),
    "unknown reasoning": ("<|think_begin|>{{ message.reasoning_content }}", None, None, False),
    "known reasoning, unknown calls": (
        "{{ tools }}<call>{{ name }}</call>" + ALWAYS,
        None,
        "deepseek_r1",
        False,
    ),
    "two forms of calls": (HERMES + XML, None, None, False),
    "two forms, one reasoning": (HERMES + XML + SWITCHED, None, "qwen3", False),
}


@pytest.mark.parametrize(("template", "tools", "reasoning", "certain"), NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_a_near_miss_is_not_guessed(
    template: str, tools: str | None, reasoning: str | None, certain: bool
) -> None:
    found = infer(
        Evidence(added_tokens=frozenset({"<tool_call>", "</tool_call>", "<think>"}), template=template)
    )
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == (tools, reasoning, certain), (
        found.observations
    )


QWEN: Final = ("<tool_call>", "</tool_call>")
DEEPSEEK: Final = ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>")
K2: Final = ("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>")
GLM_TOKENS: Final = (*QWEN, "<arg_key>", "<arg_value>", "<think>")
LLAMA4_TOKENS: Final = ("<|python_start|>", "<|header_start|>")

# Added tokens, architectures, name → tool-call parser, reasoning parser, certain.
Row = tuple[tuple[str, ...], tuple[str, ...], str | None, str | None, str | None, bool]
BY_TOKENS: Final[dict[str, Row]] = {
    "nothing": ((), (), None, None, None, False),
    "unknown tokens": (("<|call_me|>",), ("OddForCausalLM",), "Qwen3-8B", None, None, False),
    "think alone": (("<think>",), (), None, None, None, False),
    "Qwen2.5": (QWEN, ("Qwen2ForCausalLM",), None, "hermes", None, True),
    "Qwen3": ((*QWEN, "<think>"), ("Qwen3ForCausalLM",), None, "hermes", None, False),
    "Qwen3 by name": ((*QWEN, "<think>"), ("Qwen3ForCausalLM",), "Qwen/Qwen3-8B", "hermes", "qwen3", False),
    "Qwen3-Thinking by name": (
        (*QWEN, "<think>"),
        ("Qwen3MoeForCausalLM",),
        "Qwen/Qwen3-30B-A3B-Thinking-2507",
        "hermes",
        "deepseek_r1",
        False,
    ),
    "Qwen3-Coder by name": (
        (*QWEN, "<think>"),
        ("Qwen3MoeForCausalLM",),
        "Qwen3-Coder-30B-A3B-Instruct",
        "qwen3_coder",
        None,
        False,
    ),
    "a name that the files contradict": (
        (*QWEN, "<think>"),
        ("Qwen3ForCausalLM",),
        "DeepSeek-R1-0528-Qwen3-8B",
        "hermes",
        None,
        False,
    ),
    "DeepSeek V3 or V3.1": (DEEPSEEK, ("DeepseekV3ForCausalLM",), None, None, None, False),
    "DeepSeek R1 by name": (
        (*DEEPSEEK, "<think>"),
        ("DeepseekV3ForCausalLM",),
        "deepseek-ai/DeepSeek-R1-0528",
        "deepseek_v3",
        "deepseek_r1",
        False,
    ),
    "DSML": ((*DEEPSEEK, "｜DSML｜"), (), None, None, None, False),
    "DSML by name": (("｜DSML｜",), (), "DeepSeek-V4.1-Flash", "deepseek_v41", "deepseek_v41", False),
    "DeepSeek V3.2": (("｜DSML｜",), ("DeepseekV32ForCausalLM",), None, "deepseek_v32", "deepseek_v3", True),
    "DeepSeek V4": (("｜DSML｜",), ("DeepseekV4ForCausalLM",), None, "deepseek_v4", "deepseek_v4", True),
    "DeepSeek V4.1": (("｜DSML｜",), ("deepseek_v41",), None, "deepseek_v41", "deepseek_v41", True),
    "Kimi K2": (K2, ("DeepseekV3ForCausalLM", "kimi_k2"), None, "kimi_k2", None, True),
    "Kimi K2, may think": ((*K2, "<think>"), ("kimi_k2",), None, "kimi_k2", None, False),
    "Kimi K2 Thinking": ((*K2, "<think>"), ("kimi_k2",), "Kimi-K2-Thinking", "kimi_k2", "kimi_k2", False),
    "Kimi K3": (("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"), (), None, "kimi_k3", "kimi_k3", True),
    "GLM 4.5 or 4.7": (GLM_TOKENS, ("Glm4MoeForCausalLM",), None, None, None, False),
    "GLM 4.7 by name": (GLM_TOKENS, ("Glm4MoeForCausalLM",), "zai-org/GLM-4.7", "glm47", "glm47", False),
    "Mistral": (("[TOOL_CALLS]",), ("MistralForCausalLM",), None, "mistral", None, False),
    "Magistral by name": (("[TOOL_CALLS]", "[THINK]"), (), "Magistral-Small-2509", "mistral", "mistral", False),
    "Llama 3": (
        ("<|python_tag|>", "<|start_header_id|>"),
        ("LlamaForCausalLM",),
        None,
        "llama3_json",
        None,
        True,
    ),
    "Llama 4": (LLAMA4_TOKENS, ("Llama4ForConditionalGeneration",), "Llama-4-Scout", None, None, False),
}


@pytest.mark.parametrize(
    ("tokens", "architectures", "name", "tools", "reasoning", "certain"), BY_TOKENS.values(), ids=BY_TOKENS
)
def test_without_a_template_tokens_and_architecture_decide(
    tokens: tuple[str, ...],
    architectures: tuple[str, ...],
    name: str | None,
    tools: str | None,
    reasoning: str | None,
    certain: bool,
) -> None:
    found = infer(Evidence(added_tokens=frozenset(tokens), architectures=architectures), name)
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == (tools, reasoning, certain), (
        found.observations
    )


def test_files_outweigh_the_name() -> None:
    found = infer(
        Evidence(template=HERMES + HYBRID, architectures=("Qwen3MoeForCausalLM",)), "Qwen3-Coder-30B-A3B"
    )
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == ("hermes", "qwen3", True)


def test_the_name_chooses_between_two_formats_in_a_template() -> None:
    found = infer(Evidence(template=HERMES + XML), "qwen3_coder_30b")
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == ("qwen3_coder", None, False)
    assert found.observations[-1] == "the name 'qwen3_coder_30b' says qwen3_coder/none"


def test_observations_list_what_was_found() -> None:
    evidence = Evidence(
        added_tokens=frozenset((*QWEN, "<|im_end|>")),
        template=XML + ALWAYS,
        architectures=("Qwen3NextForCausalLM", "qwen3_next"),
        unreadable=("chat_template.json: not a JSON object",),
    )
    assert infer(evidence) == Inference(
        "qwen3_coder",
        "deepseek_r1",
        (
            "chat_template.json: not a JSON object",
            "added tokens </tool_call>, <tool_call>",
            "architecture Qwen3NextForCausalLM",
            "architecture qwen3_next",
            "the template writes <tool_call><function=NAME>",
            "each prompt opens <think>",
        ),
        certain=True,
    )


def test_observations_list_some_of_many_tokens() -> None:
    evidence = Evidence(added_tokens=frozenset(f"<tool_{number:02}>" for number in range(14)))
    assert infer(evidence).observations[0].endswith("<tool_11> and 2 more")


def test_a_response_template_comes_first() -> None:
    found = infer(Evidence(response_template=True, template=HERMES))
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == ("hf", "hf", True)


def test_no_evidence_decides_nothing() -> None:
    assert infer(Evidence(), "Qwen3-8B") == Inference(None, None, ("no chat template",), certain=False)


def test_the_table_names_existing_parsers() -> None:
    tools = {row.tools for table in (FAMILIES, NAMES) for row in table}
    reasoning = {parser for row in FAMILIES for parser in row.reasoning.values()}
    reasoning |= {*DEFAULT_REASONING.values(), *(row.reasoning for row in NAMES)}
    assert tools <= TOOL_CALL_PARSERS.keys()
    assert reasoning - {None} <= REASONING_PARSERS.keys()


def test_each_family_has_a_template_that_identifies_it() -> None:
    assert {tools for _, tools, _ in BY_TEMPLATE.values()} - {None} == {family.tools for family in FAMILIES}
