"""The table of model families: the signs that identify each, and its parsers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from .expression import HOLE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_REASONING", "FAMILIES", "NAMES", "Family", "NamePattern", "Thinking"]


class Thinking(StrEnum):
    """How a model starts to reason."""

    NONE = "none"
    """Its chat template writes no reasoning."""
    WRITTEN = "written"
    """The model opens the reasoning, unless the prompt closes it."""
    SWITCHED = "switched"
    """The prompt opens the reasoning or not, depending on the request."""
    ALWAYS = "always"
    """Every prompt opens the reasoning."""


def _by_thinking(
    parser: str, *, switched: str | None = None, always: str | None = None
) -> dict[Thinking, str | None]:
    """Name the parser of models that reason, and the others for models whose prompts open the reasoning."""
    return {
        Thinking.NONE: None,
        Thinking.WRITTEN: parser,
        Thinking.SWITCHED: switched or parser,
        Thinking.ALWAYS: always or switched or parser,
    }


def _for_all(parser: str) -> dict[Thinking, str | None]:
    """Name the parser of models that can reason whatever their template writes."""
    return dict.fromkeys(Thinking, parser)


DEFAULT_REASONING: Final[Mapping[Thinking, str | None]] = _by_thinking("qwen3", always="deepseek_r1")
"""The reasoning parsers of families without their own: reasoning between `<think>` and `</think>`."""


@dataclass(frozen=True, slots=True)
class Family:
    """Models that write tool calls in the same way.

    Attributes:
        tools: The tool-call parser.
        reasoning: How a model reasons → its reasoning parser.
        calls: A call as a chat template writes it.
        example: The same, for people.
        tokens: The added tokens in such a call.
        absent_tokens: Added tokens that no model of the family has.
        reasoning_tokens: Added tokens of the reasoning. A model without them doesn't reason.
        architectures: Model types and architectures, in lower case, without `_` and suffixes such as
            `ForCausalLM`.
    """

    tools: str
    reasoning: Mapping[Thinking, str | None]
    calls: re.Pattern[str]
    example: str
    tokens: frozenset[str] = frozenset()
    absent_tokens: frozenset[str] = frozenset()
    reasoning_tokens: frozenset[str] = frozenset({"<think>"})
    architectures: frozenset[str] = frozenset()


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which `NAME` and `ARGS` stand for values."""
    return re.compile(pattern.replace("NAME", HOLE).replace("ARGS", HOLE))


_DSML: Final = frozenset({"｜DSML｜"})
_DEEPSEEK: Final = frozenset({"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"})
_TOOL_CALL: Final = frozenset({"<tool_call>", "</tool_call>"})
_GLM: Final = _TOOL_CALL | {"<arg_key>", "<arg_value>"}
_GLM_REASONING: Final = _by_thinking("glm45", switched="glm47")

FAMILIES: Final = (
    Family(
        "openai",
        _for_all("openai_gptoss"),
        _compile(r"\bfunctions\.NAME<\|channel\|>|<\|channel\|>commentary to=functions\.NAME"),
        "to=functions.NAME<|channel|>",
        frozenset({"<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>"}),
        architectures=frozenset({"gptoss"}),
    ),
    Family(
        "kimi_k3",
        _for_all("kimi_k3"),
        _compile(r"<\|open\|>(?:NAME|call tool=)"),
        "<|open|>call",
        frozenset({"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"}),
        architectures=frozenset({"kimik3"}),
    ),
    Family(
        "kimi_k2",
        _by_thinking("kimi_k2"),
        _compile(r"<\|tool_call_begin\|>\s*(?:functions\.)?NAME(?::NAME)?\s*<\|tool_call_argument_begin\|>"),
        "<|tool_call_begin|>NAME<|tool_call_argument_begin|>",
        frozenset({"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>"}),
        architectures=frozenset({"kimik2", "kimik25"}),
    ),
    Family(
        "gemma4",
        _for_all("gemma4"),
        _compile(r"<\|tool_call>call:NAME\{"),
        "<|tool_call>call:NAME{",
        frozenset({"<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>"}),
        architectures=frozenset({"gemma4"}),
    ),
    Family(
        "deepseek_v41",
        _for_all("deepseek_v41"),
        _compile(r'<｜DSML｜ calls>\s*<｜DSML｜ invoke name="NAME'),
        "<｜DSML｜ calls>",
        _DSML,
        architectures=frozenset({"deepseekv41"}),
    ),
    Family(
        "deepseek_v4",
        _for_all("deepseek_v4"),
        _compile(r'<｜DSML｜tool_calls>\s*<｜DSML｜invoke name="NAME'),
        "<｜DSML｜tool_calls>",
        _DSML,
        architectures=frozenset({"deepseekv4"}),
    ),
    Family(
        "deepseek_v32",
        _for_all("deepseek_v3"),
        _compile(r'<｜DSML｜function_calls>\s*<｜DSML｜invoke name="NAME'),
        "<｜DSML｜function_calls>",
        _DSML,
        architectures=frozenset({"deepseekv32"}),
    ),
    Family(
        "deepseek_v31",
        _by_thinking("deepseek_v3"),
        _compile(r"<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGS(?!\s*```)"),
        "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>",
        _DEEPSEEK,
        absent_tokens=_DSML,
        architectures=frozenset({"deepseekv3", "deepseekv32"}),
    ),
    Family(
        "deepseek_v3",
        _by_thinking("deepseek_r1"),
        _compile(r"<｜tool▁call▁begin｜>(?:NAME|function)<｜tool▁sep｜>NAME\s*```"),
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME",
        _DEEPSEEK,
        absent_tokens=_DSML,
        architectures=frozenset({"deepseekv3"}),
    ),
    Family(
        "glm47",
        _GLM_REASONING,
        _compile(r"<tool_call>NAME<arg_key>"),
        "<tool_call>NAME<arg_key>",
        _GLM,
        architectures=frozenset({"glm4moe", "glm4moelite", "glmmoedsa", "glm5next"}),
    ),
    Family(
        "glm45",
        _GLM_REASONING,
        _compile(r"<tool_call>NAME\s+<arg_key>"),
        r"<tool_call>NAME\n<arg_key>",
        _GLM,
        architectures=frozenset({"glm4moe", "glm4vmoe"}),
    ),
    Family(
        "qwen3_coder",
        DEFAULT_REASONING,
        _compile(r"<tool_call>\s*<function=NAME>"),
        "<tool_call><function=NAME>",
        _TOOL_CALL,
        absent_tokens=_GLM - _TOOL_CALL,
        architectures=frozenset(
            {"qwen3moe", "qwen3next", "qwen35", "qwen35moe", "qwen35text", "qwen35moetext"}
        ),
    ),
    Family(
        "hermes",
        DEFAULT_REASONING,
        _compile(r'<tool_call>\s*(?:\{\s*"name":\s*"?NAME|NAME\s*</tool_call>)'),
        '<tool_call>{"name": NAME',
        _TOOL_CALL,
        absent_tokens=_GLM - _TOOL_CALL,
        architectures=frozenset(
            {"qwen2", "qwen2moe", "qwen3", "qwen3moe", "qwen3next", "qwen3vl", "qwen3vlmoe", "qwen3vltext"}
        ),
    ),
    Family(
        "mistral",
        _by_thinking("mistral"),
        _compile(r"\[TOOL_CALLS\]\s*(?:NAME|\[)"),
        "[TOOL_CALLS]",
        frozenset({"[TOOL_CALLS]"}),
        # Magistral's first version writes its markers as text.
        reasoning_tokens=frozenset(),
    ),
    Family(
        "llama4_json",
        DEFAULT_REASONING,
        _compile(r'(?:<\|header_end\|>|<\|python_end\|>)\s*\{"name": "NAME'),
        '<|header_end|>{"name": NAME',
        frozenset({"<|python_start|>", "<|header_start|>"}),
        architectures=frozenset({"llama4", "llama4text"}),
    ),
    Family(
        "llama4_pythonic",
        DEFAULT_REASONING,
        _compile(r"(?:<\|header_end\|>|<\|python_start\|>)\s*\[NAME\("),
        "<|header_end|>[NAME(",
        frozenset({"<|python_start|>", "<|header_start|>"}),
        architectures=frozenset({"llama4", "llama4text"}),
    ),
    Family(
        "llama3_json",
        DEFAULT_REASONING,
        _compile(r'(?:<\|end_header_id\|>|<\|python_tag\|>)\s*\{"name": "NAME'),
        '<|end_header_id|>{"name": NAME',
        frozenset({"<|python_tag|>", "<|start_header_id|>"}),
        architectures=frozenset({"llama", "mllama"}),
    ),
    Family(
        "pythonic",
        DEFAULT_REASONING,
        _compile(
            r"(?:<\|end_header_id\|>|<\|im_start\|>(?:assistant|NAME)|<start_of_turn>(?:model|NAME))\s*\[NAME\("
        ),
        "[NAME(",
    ),
)
"""A template identifies one family. Tokens and architectures may leave several."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """The parsers of models whose names match."""

    name: re.Pattern[str]
    tools: str
    reasoning: str | None


def _match(name: str, tools: str, reasoning: str | None) -> NamePattern:
    # A space stands for any separator: Qwen3-Coder, qwen3_coder, "Qwen3 Coder".
    return NamePattern(re.compile(name.replace(" ", r"[-_.: ]?"), re.IGNORECASE), tools, reasoning)


NAMES: Final = (
    _match(r"deepseek v4[.p_]1", "deepseek_v41", "deepseek_v41"),
    _match(r"deepseek v4(?!\d)", "deepseek_v4", "deepseek_v4"),
    _match(r"deepseek v3[.p_]2 exp", "deepseek_v31", "deepseek_v3"),
    _match(r"deepseek v3[.p_]2", "deepseek_v32", "deepseek_v3"),
    _match(r"deepseek v3[.p_]1", "deepseek_v31", "deepseek_v3"),
    _match(r"deepseek r1", "deepseek_v3", "deepseek_r1"),
    _match(r"deepseek v3(?![.p_]\d)", "deepseek_v3", None),
    _match(r"qwen3 (?:\d+b a\d+b |\d+b )?coder", "qwen3_coder", None),
    _match(r"qwen3[.p_][5-9](?!\d*b)", "qwen3_coder", "qwen3"),
    _match(r"qwen3(?![.p_]\d(?!\d*b)).*thinking", "hermes", "deepseek_r1"),
    _match(r"qwen3(?![.p_]\d(?!\d*b)).*instruct", "hermes", None),
    _match(r"qwq", "hermes", "deepseek_r1"),
    _match(r"qwen3(?![.p_]\d(?!\d*b))", "hermes", "qwen3"),
    _match(r"qwen2", "hermes", None),
    _match(r"kimi k2.*thinking|kimi k2[.p_][5-9]", "kimi_k2", "kimi_k2"),
    _match(r"kimi k2.*instruct", "kimi_k2", None),
    _match(r"glm 4[.p_][56]", "glm45", "glm45"),
    _match(r"glm 4[.p_][7-9]|glm 5", "glm47", "glm47"),
    _match(r"magistral|(?:mini|mi)stral.*reasoning", "mistral", "mistral"),
    _match(r"(?:mini|mi|dev)stral.*instruct|devstral", "mistral", None),
)
"""The first pattern that matches a model's name decides, but only between parsers that the files leave."""
