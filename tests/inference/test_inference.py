"""Parsers by what a model's files hold: families, near misses, ties."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from derender.parsing.registry import REASONING_PARSERS, TOOL_CALL_PARSERS
from layer_compiler.building.layer import compile_layer
from layer_compiler.building.models_file import Model
from layer_compiler.inference import Evidence, Inference, infer, infer_parsers, read_evidence
from layer_compiler.inference.families import FAMILIES, NAMES, OTHERS

from ..formats.files import PIECES, model, sentence_piece_folder

TEMPLATES: Final = Path(__file__).parent / "templates"
"""Of real models."""

# The lines that decide, of templates that can't be copied.
ASSISTANT: Final = "{% if add_generation_prompt %}<|im_start|>assistant\n"
HERMES: Final = (
    '<tool_call>\n{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson }}}\n</tool_call>'
)
XML: Final = "<tool_call>\n<function={{ call.name }}>\n<parameter={{ key }}>\n{{ value }}\n</parameter>"
HYBRID: Final = ASSISTANT + "{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
SWITCHED: Final = (
    ASSISTANT + "{% if not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}"
)
ALWAYS: Final = ASSISTANT + "<think>\n{% endif %}"
DEEPSEEK_V3: Final = (
    "{{ '<｜tool▁call▁begin｜>' + call.type + '<｜tool▁sep｜>' + call.name + '\n```json\n' + arguments }}"
)
DEEPSEEK_V31: Final = (
    "{{ '<｜tool▁call▁begin｜>' + call.name + '<｜tool▁sep｜>' + arguments }}<｜tool▁call▁end｜>"
)
DSML: Final = (
    "{% set dsml = '｜DSML｜' %}{{ '<' + dsml + 'CALLS>\n' }}"
    "{{ '<' + dsml + 'INVOKE name=\"' + call.name + '\">' }}{% if add_generation_prompt %}<think>{% endif %}"
)
KIMI_K2: Final = "<|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>{{ arguments }}<|tool_call_end|>"
GLM: Final = "{{ '<tool_call>' + call.name }}SPACE{% for k, v in call.arguments %}<arg_key>{{ k }}</arg_key>"
MISTRAL: Final = "{{ '[TOOL_CALLS]' + call.name + '[ARGS]' + arguments }}"
LLAMA3: Final = (
    "<|start_header_id|>assistant<|end_header_id|>\n\n{{ '{\"name\": \"' + call.name + '\", ' }}"
    '"parameters": {{ call.arguments }}'
)
LLAMA4: Final = "<|header_start|>assistant<|header_end|>\n\n"
PYTHONIC: Final = "[{% for call in message.tool_calls %}{{ call.name }}({{ key }}={{ value }}){% endfor %}]"

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
def test_template_tells(template: str, tools: str | None, reasoning: str | None) -> None:
    found = infer(Evidence(template=template))
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == (tools, reasoning, True), (
        found.seen
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
def test_template_of_a_model_tells(model: str) -> None:
    found = infer(Evidence(template=(TEMPLATES / f"{model}.jinja").read_text(encoding="utf-8")))
    assert (found.tool_call_parser, found.reasoning_parser) == REAL[model], found.seen
    assert found.certain


TOKENIZERS: Final = {
    "qwen3": ("hermes", "qwen3", True),
    "deepseek_v3": ("deepseek_v3", None, True),
    # Of gpt-oss there is no template: its tokens are its own.
    "gptoss": ("openai", "openai_gptoss", True),
    "gemma3": (None, None, True),
    # Its template is that of Llama 3, which has no tools.
    "llama3_1": (None, None, True),
    # Neither a template nor a token that tells.
    "llama2": (None, None, False),
}


@pytest.mark.parametrize("model", TOKENIZERS)
def test_tokenizer_folder_tells(model: str, tokenizer: Any) -> None:
    found = infer_parsers(tokenizer(model))
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == TOKENIZERS[model], found.seen


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
def test_near_miss_is_no_guess(template: str, tools: str | None, reasoning: str | None, certain: bool) -> None:
    found = infer(Evidence(tokens=frozenset({"<tool_call>", "</tool_call>", "<think>"}), template=template))
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == (tools, reasoning, certain), (
        found.seen
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
    ("tokens", "models", "name", "tools", "reasoning", "certain"), BY_TOKENS.values(), ids=BY_TOKENS
)
def test_tokens_and_architecture_tell_without_a_template(
    tokens: tuple[str, ...],
    models: tuple[str, ...],
    name: str | None,
    tools: str | None,
    reasoning: str | None,
    certain: bool,
) -> None:
    found = infer(Evidence(tokens=frozenset(tokens), models=models), name)
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == (tools, reasoning, certain), (
        found.seen
    )


def test_files_come_before_the_name() -> None:
    found = infer(Evidence(template=HERMES + HYBRID, models=("Qwen3MoeForCausalLM",)), "Qwen3-Coder-30B-A3B")
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == ("hermes", "qwen3", True)


def test_name_chooses_between_two_forms_in_a_template() -> None:
    found = infer(Evidence(template=HERMES + XML), "qwen3_coder_30b")
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == ("qwen3_coder", None, False)
    assert found.seen[-1] == "the name 'qwen3_coder_30b' says qwen3_coder/none"


@pytest.mark.parametrize(
    ("version", "template", "expected"),
    [
        ("v3", None, ("mistral", None, True)),
        ("v13", None, ("mistral", None, False)),
        ("v13", "{{ '[THINK]' + thinking + '[/THINK]' }}", ("mistral", "mistral", True)),
        # A chat template without tools: servers don't render with it.
        ("v11", "[INST]{{ content }}[/INST]", ("mistral", None, True)),
    ],
)
def test_tekken_tells(
    version: str, template: str | None, expected: tuple[str | None, str | None, bool], tmp_path: Path
) -> None:
    _write(tmp_path, "tekken.json", {"config": {"version": version}, "special_tokens": []})
    if template is not None:
        tmp_path.joinpath("chat_template.jinja").write_text(template, encoding="utf-8")
    found = infer_parsers(tmp_path)
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == expected


@pytest.mark.parametrize("name", ["tekken.json", "tekken_240911.json"])
def test_tekken_is_found_by_the_names_that_are_compiled(name: str, tmp_path: Path) -> None:
    _write(tmp_path, name, {"config": {"version": "v3"}, "special_tokens": [{"token_str": "[TOOL_CALLS]"}]})
    evidence = read_evidence(tmp_path)
    assert (evidence.tekken, evidence.tokens) == ("v3", frozenset({"[TOOL_CALLS]"}))


@pytest.mark.parametrize("version", ["v2", "v3", "v7", "v7m1"])
def test_a_sentence_piece_model_of_mistral_tells(version: str, tmp_path: Path) -> None:
    sentence_piece_folder(tmp_path, name=f"mistral_instruct_tokenizer_240323.model.{version}")
    found = infer_parsers(tmp_path)
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == ("mistral", None, True)
    assert f"Mistral's SentencePiece model, version {version[:2]}" in found.seen


def test_a_sentence_piece_model_without_the_token_of_calls_does_not(tmp_path: Path) -> None:
    pieces = [(text, kind) for text, kind in PIECES if text != "[TOOL_CALLS]"]
    sentence_piece_folder(tmp_path, model(pieces), name="tokenizer.model.v1")
    evidence = read_evidence(tmp_path)
    assert (evidence.sentence_piece, infer(evidence).tool_call_parser) == (None, None)


def test_a_chat_template_comes_before_a_sentence_piece_model(tmp_path: Path) -> None:
    sentence_piece_folder(tmp_path, name="tokenizer.model.v3", tokenizer_config={"chat_template": HERMES})
    assert infer_parsers(tmp_path).tool_call_parser == "hermes"


def test_the_parser_of_a_sentence_piece_model_is_in_its_vocabulary(tmp_path: Path) -> None:
    folder = sentence_piece_folder(tmp_path / "source", name="tokenizer.model.v3")
    (compiled,) = compile_layer([Model(name="tiny", source=str(folder))], tmp_path / "out")
    assert compiled.manifest.tool_call_parser == "mistral"
    assert compiled.manifest.origins["tool_call_parser"] == "inferred"


@pytest.mark.parametrize("names", [["tekken_1.json", "tekken_2.json"], ["a.model", "b.model"]])
def test_several_files_of_a_format_are_left_out_with_a_line(names: list[str], tmp_path: Path) -> None:
    for name in names:
        _write(tmp_path, name, "{}")
    (fault,) = read_evidence(tmp_path).faults
    assert "several" in fault


def test_response_template_comes_first(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "tokenizer_config.json",
        {"chat_template": HERMES, "response_template": {"fields": {"content": {}}}},
    )
    found = infer_parsers(tmp_path)
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == ("hf", "hf", True)


def test_seen_says_what_was_seen(tmp_path: Path) -> None:
    _write(tmp_path, "tokenizer.json", {"added_tokens": [{"content": t} for t in (*QWEN, "<|im_end|>")]})
    _write(tmp_path, "tokenizer_config.json", {"chat_template": XML + ALWAYS})
    _write(tmp_path, "config.json", {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next"})
    assert infer_parsers(tmp_path) == Inference(
        "qwen3_coder",
        "deepseek_r1",
        (
            "added tokens </tool_call>, <tool_call>",
            "architecture Qwen3NextForCausalLM",
            "architecture qwen3_next",
            "template writes <tool_call><function=NAME>",
            "each prompt opens <think>",
        ),
        certain=True,
    )


@pytest.mark.parametrize(
    ("files", "template"),
    [
        ({"tokenizer_config.json": {"chat_template": "A"}}, "A"),
        ({"chat_template.json": {"chat_template": "A"}}, "A"),
        ({"chat_template.jinja": "A"}, "A"),
        ({"chat_template.jinja": "A", "tokenizer_config.json": {"chat_template": "B"}}, "A"),
        ({"tokenizer_config.json": {"chat_template": "A"}, "chat_template.json": {"chat_template": "B"}}, "A"),
        (
            {
                "tokenizer_config.json": {
                    "chat_template": [{"name": n, "template": n} for n in ("default", "rag")]
                }
            },
            "default",
        ),
        (
            {
                "tokenizer_config.json": {
                    "chat_template": [{"name": n, "template": n} for n in ("default", "tool_use")]
                }
            },
            "tool_use",
        ),
        ({"chat_template.jinja": "A", "additional_chat_templates/tool_use.jinja": "B"}, "B"),
        ({"chat_template.jinja": "A", "additional_chat_templates/rag.jinja": "B"}, "A"),
        ({"tokenizer_config.json": {}}, None),
    ],
)
def test_template_is_the_one_for_tools(files: dict[str, object], template: str | None, tmp_path: Path) -> None:
    for name, content in files.items():
        _write(tmp_path, name, content)
    evidence = read_evidence(tmp_path)
    assert (evidence.template, evidence.faults) == (template, ())


def test_tokens_and_architectures_are_gathered(tmp_path: Path) -> None:
    _write(tmp_path, "tokenizer.json", {"added_tokens": [{"id": 1, "content": "<a>"}]})
    _write(tmp_path, "tokenizer_config.json", {"added_tokens_decoder": {"2": {"content": "<b>"}}})
    _write(tmp_path, "tekken.json", {"config": {"version": "v13"}, "special_tokens": [{"token_str": "<c>"}]})
    inner = {"model_type": "b", "architectures": ["C"]}
    _write(tmp_path, "config.json", {"architectures": ["A"], "model_type": "a", "text_config": inner})
    evidence = read_evidence(tmp_path)
    assert evidence.tokens == {"<a>", "<b>", "<c>"}
    assert evidence.models == ("A", "a", "C", "b")
    assert evidence.tekken == "v13"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", "[1]"),
        ("tokenizer.json", b"\xff"),
        ("tokenizer.json", "[" * 100_000),
        ("tokenizer_config.json", {"chat_template": 5}),
        ("tokenizer_config.json", {"chat_template": [{"name": "default"}]}),
        ("tokenizer_config.json", {"response_template": []}),
        ("chat_template.jinja", "x" * ((1 << 20) + 1)),
        ("config.json", '"text"'),
        ("tokenizer.model", b"\x0a\xff"),
        ("tokenizer.model.v3", b"version https://git-lfs"),
    ],
)
def test_malformed_file_is_left_out_with_a_line(name: str, content: object, tmp_path: Path) -> None:
    _write(tmp_path, name, content)
    found = infer_parsers(tmp_path)
    assert (found.tool_call_parser, found.reasoning_parser, found.certain) == (None, None, False)
    assert "not read" in found.seen[0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", {"added_tokens": [5, {"content": 5}, {}]}),
        ("tokenizer_config.json", {"added_tokens_decoder": [5], "chat_template": None}),
        ("tekken.json", {"special_tokens": {"a": 5}}),
        ("config.json", {"architectures": [None, 5], "model_type": [], "text_config": 5}),
    ],
)
def test_odd_values_are_ignored(name: str, content: object, tmp_path: Path) -> None:
    _write(tmp_path, name, content)
    assert read_evidence(tmp_path) == Evidence()


def test_empty_folder_tells_nothing(tmp_path: Path) -> None:
    assert infer_parsers(tmp_path, "Qwen3-8B") == Inference(None, None, ("no chat template",), certain=False)


def test_table_names_parsers_that_there_are() -> None:
    assert {family.tools for family in FAMILIES} | {named.tools for named in NAMES} <= TOOL_CALL_PARSERS.keys()
    reasoning = {parser for family in FAMILIES for parser in family.reasoning.values()} | set(OTHERS.values())
    assert (reasoning | {named.reasoning for named in NAMES}) - {None} <= REASONING_PARSERS.keys()


def test_each_family_is_told_by_a_template() -> None:
    assert {tools for _, tools, _ in BY_TEMPLATE.values()} - {None} == {family.tools for family in FAMILIES}


def _write(folder: Path, name: str, content: object) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
