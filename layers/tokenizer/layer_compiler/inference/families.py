"""What tells each family of models, and the parsers that it has: the table of all that is known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from .expression import HOLE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FAMILIES", "NAMES", "OTHERS", "Family", "Named", "Thinking"]


class Thinking(StrEnum):
    """How a model comes to reason."""

    NONE = "none"
    """Its chat template has nothing of it."""
    WRITTEN = "written"
    """The model begins it itself, where the prompt doesn't end it."""
    SWITCHED = "switched"
    """The prompt begins it, or doesn't, as the client asks."""
    ALWAYS = "always"
    """Each prompt begins it."""


def _reasoning(
    parser: str, *, switched: str | None = None, always: str | None = None
) -> dict[Thinking, str | None]:
    """The parser of models that reason, and of those whose prompts begin it where that is another."""
    return {
        Thinking.NONE: None,
        Thinking.WRITTEN: parser,
        Thinking.SWITCHED: switched or parser,
        Thinking.ALWAYS: always or switched or parser,
    }


def _whole(parser: str) -> dict[Thinking, str | None]:
    """The parser of models that can reason whatever their template says of it."""
    return dict.fromkeys(Thinking, parser)


OTHERS: Final[Mapping[Thinking, str | None]] = _reasoning("qwen3", always="deepseek_r1")
"""How a model reasons → its reasoning parser, where its family has none of its own: reasoning between `<think>`
and `</think>`."""


@dataclass(frozen=True, slots=True)
class Family:
    """Models that write calls in one way.

    Attributes:
        tools: Their tool-call parser.
        reasoning: How the model reasons → its reasoning parser.
        calls: How a chat template of theirs writes a call.
        shown: The same, for people.
        tokens: The added tokens that such a call is made of.
        without: Added tokens that none of them has.
        marks: Added tokens of their reasoning: a vocabulary without them is of one that doesn't reason.
        models: Their model types and architectures, in lower case and without `_`, `ForCausalLM` and the like.
    """

    tools: str
    reasoning: Mapping[Thinking, str | None]
    calls: re.Pattern[str]
    shown: str
    tokens: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset({"<think>"})
    models: frozenset[str] = frozenset()


def _calls(pattern: str) -> re.Pattern[str]:
    """A pattern in which `NAME` and `ARGS` are values."""
    return re.compile(pattern.replace("NAME", HOLE).replace("ARGS", HOLE))


_DSML: Final = frozenset({"｜DSML｜"})
_DEEPSEEK: Final = frozenset({"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"})
_TOOL_CALL: Final = frozenset({"<tool_call>", "</tool_call>"})
_GLM: Final = _TOOL_CALL | {"<arg_key>", "<arg_value>"}
_GLM_REASONING: Final = _reasoning("glm45", switched="glm47")

FAMILIES: Final = (
    Family(
        "openai",
        _whole("openai_gptoss"),
        _calls(r"\bfunctions\.NAME<\|channel\|>|<\|channel\|>commentary to=functions\.NAME"),
        "to=functions.NAME<|channel|>",
        frozenset({"<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>"}),
        models=frozenset({"gptoss"}),
    ),
    Family(
        "kimi_k3",
        _whole("kimi_k3"),
        _calls(r"<\|open\|>(?:NAME|call tool=)"),
        "<|open|>call",
        frozenset({"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"}),
        models=frozenset({"kimik3"}),
    ),
    Family(
        "kimi_k2",
        _reasoning("kimi_k2"),
        _calls(r"<\|tool_call_begin\|>\s*(?:functions\.)?NAME(?::NAME)?\s*<\|tool_call_argument_begin\|>"),
        "<|tool_call_begin|>NAME<|tool_call_argument_begin|>",
        frozenset({"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>"}),
        models=frozenset({"kimik2", "kimik25"}),
    ),
    Family(
        "gemma4",
        _whole("gemma4"),
        _calls(r"<\|tool_call>call:NAME\{"),
        "<|tool_call>call:NAME{",
        frozenset({"<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>"}),
        models=frozenset({"gemma4"}),
    ),
    Family(
        "deepseek_v41",
        _whole("deepseek_v41"),
        _calls(r'<｜DSML｜ calls>\s*<｜DSML｜ invoke name="NAME'),
        "<｜DSML｜ calls>",
        _DSML,
        models=frozenset({"deepseekv41"}),
    ),
    Family(
        "deepseek_v4",
        _whole("deepseek_v4"),
        _calls(r'<｜DSML｜tool_calls>\s*<｜DSML｜invoke name="NAME'),
        "<｜DSML｜tool_calls>",
        _DSML,
        models=frozenset({"deepseekv4"}),
    ),
    Family(
        "deepseek_v32",
        _whole("deepseek_v3"),
        _calls(r'<｜DSML｜function_calls>\s*<｜DSML｜invoke name="NAME'),
        "<｜DSML｜function_calls>",
        _DSML,
        models=frozenset({"deepseekv32"}),
    ),
    Family(
        "deepseek_v31",
        _reasoning("deepseek_v3"),
        _calls(r"<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGS(?!\s*```)"),
        "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>",
        _DEEPSEEK,
        without=_DSML,
        models=frozenset({"deepseekv3", "deepseekv32"}),
    ),
    Family(
        "deepseek_v3",
        _reasoning("deepseek_r1"),
        _calls(r"<｜tool▁call▁begin｜>(?:NAME|function)<｜tool▁sep｜>NAME\s*```"),
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME",
        _DEEPSEEK,
        without=_DSML,
        models=frozenset({"deepseekv3"}),
    ),
    Family(
        "glm47",
        _GLM_REASONING,
        _calls(r"<tool_call>NAME<arg_key>"),
        "<tool_call>NAME<arg_key>",
        _GLM,
        models=frozenset({"glm4moe", "glm4moelite", "glmmoedsa", "glm5next"}),
    ),
    Family(
        "glm45",
        _GLM_REASONING,
        _calls(r"<tool_call>NAME\s+<arg_key>"),
        r"<tool_call>NAME\n<arg_key>",
        _GLM,
        models=frozenset({"glm4moe", "glm4vmoe"}),
    ),
    Family(
        "qwen3_coder",
        OTHERS,
        _calls(r"<tool_call>\s*<function=NAME>"),
        "<tool_call><function=NAME>",
        _TOOL_CALL,
        without=_GLM - _TOOL_CALL,
        models=frozenset({"qwen3moe", "qwen3next", "qwen35", "qwen35moe", "qwen35text", "qwen35moetext"}),
    ),
    Family(
        "hermes",
        OTHERS,
        _calls(r'<tool_call>\s*(?:\{\s*"name":\s*"?NAME|NAME\s*</tool_call>)'),
        '<tool_call>{"name": NAME',
        _TOOL_CALL,
        without=_GLM - _TOOL_CALL,
        models=frozenset(
            {"qwen2", "qwen2moe", "qwen3", "qwen3moe", "qwen3next", "qwen3vl", "qwen3vlmoe", "qwen3vltext"}
        ),
    ),
    Family(
        "mistral",
        _reasoning("mistral"),
        _calls(r"\[TOOL_CALLS\]\s*(?:NAME|\[)"),
        "[TOOL_CALLS]",
        frozenset({"[TOOL_CALLS]"}),
        # Magistral's first version writes them as text.
        marks=frozenset(),
    ),
    Family(
        "llama4_json",
        OTHERS,
        _calls(r'(?:<\|header_end\|>|<\|python_end\|>)\s*\{"name": "NAME'),
        '<|header_end|>{"name": NAME',
        frozenset({"<|python_start|>", "<|header_start|>"}),
        models=frozenset({"llama4", "llama4text"}),
    ),
    Family(
        "llama4_pythonic",
        OTHERS,
        _calls(r"(?:<\|header_end\|>|<\|python_start\|>)\s*\[NAME\("),
        "<|header_end|>[NAME(",
        frozenset({"<|python_start|>", "<|header_start|>"}),
        models=frozenset({"llama4", "llama4text"}),
    ),
    Family(
        "llama3_json",
        OTHERS,
        _calls(r'(?:<\|end_header_id\|>|<\|python_tag\|>)\s*\{"name": "NAME'),
        '<|end_header_id|>{"name": NAME',
        frozenset({"<|python_tag|>", "<|start_header_id|>"}),
        models=frozenset({"llama", "mllama"}),
    ),
    Family(
        "pythonic",
        OTHERS,
        _calls(
            r"(?:<\|end_header_id\|>|<\|im_start\|>(?:assistant|NAME)|<start_of_turn>(?:model|NAME))\s*\[NAME\("
        ),
        "[NAME(",
    ),
)
"""All families. A template's calls are of one; tokens and architectures may be of several."""


@dataclass(frozen=True, slots=True)
class Named:
    """The parsers of models whose name is such."""

    name: re.Pattern[str]
    tools: str
    reasoning: str | None


def _named(name: str, tools: str, reasoning: str | None) -> Named:
    # A space is any separator: Qwen3-Coder, qwen3_coder, "Qwen3 Coder".
    return Named(re.compile(name.replace(" ", r"[-_.: ]?"), re.IGNORECASE), tools, reasoning)


NAMES: Final = (
    _named(r"deepseek v4[.p_]1", "deepseek_v41", "deepseek_v41"),
    _named(r"deepseek v4(?!\d)", "deepseek_v4", "deepseek_v4"),
    _named(r"deepseek v3[.p_]2 exp", "deepseek_v31", "deepseek_v3"),
    _named(r"deepseek v3[.p_]2", "deepseek_v32", "deepseek_v3"),
    _named(r"deepseek v3[.p_]1", "deepseek_v31", "deepseek_v3"),
    _named(r"deepseek r1", "deepseek_v3", "deepseek_r1"),
    _named(r"deepseek v3(?![.p_]\d)", "deepseek_v3", None),
    _named(r"qwen3 (?:\d+b a\d+b |\d+b )?coder", "qwen3_coder", None),
    _named(r"qwen3[.p_][5-9](?!\d*b)", "qwen3_coder", "qwen3"),
    _named(r"qwen3(?![.p_]\d(?!\d*b)).*thinking", "hermes", "deepseek_r1"),
    _named(r"qwen3(?![.p_]\d(?!\d*b)).*instruct", "hermes", None),
    _named(r"qwq", "hermes", "deepseek_r1"),
    _named(r"qwen3(?![.p_]\d(?!\d*b))", "hermes", "qwen3"),
    _named(r"qwen2", "hermes", None),
    _named(r"kimi k2.*thinking|kimi k2[.p_][5-9]", "kimi_k2", "kimi_k2"),
    _named(r"kimi k2.*instruct", "kimi_k2", None),
    _named(r"glm 4[.p_][56]", "glm45", "glm45"),
    _named(r"glm 4[.p_][7-9]|glm 5", "glm47", "glm47"),
    _named(r"magistral|(?:mini|mi)stral.*reasoning", "mistral", "mistral"),
    _named(r"(?:mini|mi|dev)stral.*instruct|devstral", "mistral", None),
)
"""Names that tell a model's parsers, the first that is found in a name first. They only choose between what the
files leave."""
