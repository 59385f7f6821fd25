"""The markup of each format, in the order in which a message has it, with `W` for each word.

Formats that read the same markup have the same name here. Text that no format declares is in `PIECES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["HEADERS", "PIECES", "PROMPTS", "STEPS", "TAGS", "THINK"]

_OBJECT: Final = ('{"W": ', '"W W"', ', "W": ["W", {"W": 1}]', "}")
_CALL: Final = ('{"name": "f", ', '"arguments": ', *_OBJECT, "}")
THINK: Final = ("<think>", "\n", "W W", "\n", "</think>", "\n\n")
_FUNCTION: Final = (
    "<tool_call>", "\n", "<function=f>", "\n", "<parameter=W>\n", "W W", "\n</parameter>\n",
    '<parameter=W>["W"]', "</parameter>", "</function>", "\n", "</tool_call>",
)  # fmt: skip
_GEMMA: Final = (
    "<|tool_call>", "call:f", "{W:", '<|"|>', "W W", '<|"|>', ',W:[<|"|>W<|"|>]', "}", "<tool_call|>",
)  # fmt: skip
_THOUGHT: Final = ("<|channel>", "thought\n", "W W", "<channel|>")
_LIST: Final = ("[", "f(", "W='W W'", ", W=[1, {'W': 'W'}]", ")", ", ", "g()", "]")


def _deepseek(before: str, after: str) -> tuple[str, ...]:
    return (
        "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", *before.split("|"), *_OBJECT, after,
        "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
    )  # fmt: skip


def _dsml(calls: str, space: str = "") -> tuple[str, ...]:
    return (
        f"<｜DSML｜{space}{calls}>",
        f'\n<｜DSML｜{space}invoke name="f">\n',
        f'<｜DSML｜{space}parameter name="W" string="true">',
        "W W",
        f"</｜DSML｜{space}parameter>\n",
        f'<｜DSML｜{space}parameter name="W" string="false">["W"]</｜DSML｜{space}parameter>',
        f"</｜DSML｜{space}invoke>\n",
        f'<｜DSML｜{space}invoke name="g"/>\n',
        f"</｜DSML｜{space}{calls}>",
    )


STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "deepseek:TOOLS_V3": _deepseek("function|<｜tool▁sep｜>|f|\n```json\n", "\n```"),
    "deepseek:TOOLS_V31": _deepseek("f|<｜tool▁sep｜>", ""),
    "dsml:TOOLS_V32": _dsml("function_calls"),
    "dsml:TOOLS_V4": _dsml("tool_calls"),
    "dsml:TOOLS_V41": _dsml("calls", " "),
    "gemma4:TOOLS": _GEMMA,
    "gemma4:REASONING": _THOUGHT,
    "glm:TOOLS": (
        "<tool_call>", "f", "\n", "<arg_key>", "W", "</arg_key>", "<arg_value>", "W W", "</arg_value>",
        "<arg_key>W</arg_key>", '<arg_value>["W"]', "</arg_value>", "</tool_call>",
    ),
    "harmony:MESSAGES": (
        "<|channel|>", "analysis", "<|message|>", "W W", "<|end|>", "<|start|>", "assistant", "<|channel|>",
        "commentary", " to=functions.f ", "<|constrain|>", "json", "<|message|>", *_OBJECT, "<|call|>",
        "<|start|>assistant", " to=functions.g", "<|channel|>commentary<|message|>", "{}", "<|call|>",
        "<|start|>assistant", "<|channel|>", "final", "<|message|>", "W W", "<|return|>",
    ),
    "hermes:TOOLS": ("<tool_call>", "\n", *_CALL, "\n", "</tool_call>", "\n"),
    "kimi_k2:TOOLS": (
        "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.", "f", ":0",
        "<|tool_call_argument_begin|>", *_OBJECT, "<|tool_call_end|>", "<|tool_calls_section_end|>",
    ),
    "kimi_k3:MESSAGES": (
        "<|open|>think<|sep|>", "W W", "<|close|>", "think", "<|sep|>", "<|open|>response<|sep|>", "W W",
        "<|close|>response<|sep|>", "<|open|>tools<|sep|>", '<|open|>call tool="f"', ' index="1"', "<|sep|>",
        '<|open|>argument key="W" type="string"<|sep|>', "W W", "<|close|>argument<|sep|>",
        '<|open|>argument key="W" type="object"<|sep|>', '{"W": "W"}', "<|close|>argument<|sep|>",
        "<|close|>call<|sep|>", "<|close|>tools<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>",
    ),
    "llama:TOOLS": ("<|python_tag|>", *_CALL, "; "),
    "mistral:TOOLS": (
        "[TOOL_CALLS]", "f", "[CALL_ID]", "W", "[ARGS]", *_OBJECT, "[TOOL_CALLS]", "[", *_CALL, "]",
    ),
    "mistral:REASONING": ("[THINK]", "W W", "[/THINK]", "\n", "<think>W</think>"),
    "pythonic:LLAMA4": ("<|python_start|>", *_LIST, "<|python_end|>"),
    "pythonic:TOOLS": _LIST,
    "qwen3_xml:TOOLS": _FUNCTION,
    # Response templates.
    "json": (*THINK, "<tool_call>", "\n", *_CALL, "\n", "</tool_call>", "\n"),
    "channels": (
        "<|channel|>analysis<|message|>", "W W", "<|end|>", "<|start|>assistant",
        " to=functions.f<|channel|>commentary", "<|constrain|>json", "<|message|>", *_OBJECT, "<|call|>",
        "<|channel|>final<|message|>", "W W", "<|return|>",
    ),
    "dialect": (*_THOUGHT, *_GEMMA),
    "tags": (*THINK, *_FUNCTION),
    "lines": ("<tool_call>f\n", "W: W W", "\n", 'W: ["W"]', "\n", "</tool_call>"),
}  # fmt: skip
"""Format in the registry, or response template → its markup. Formats that are missing read `THINK`."""
_HEADERS: Final = (
    # Words in a header that goes on.
    r"(?:<\|(?:start|channel|constrain)\|>|to=\s*[^\s<{]*)(?:\s*+[\w.:/+-]++(?!=))*+(?=\s*(?:<\|(?:message|channel|constrain)\|>|to=))",
    # A header in which the output ends.
    r"(?:<\|(?:start|channel|constrain|call|end|return)\|>|to=)(?:\s*+[^\s<]++){0,4}+\s*(?:<\|?)?$",
    # A channel, a type or a recipient.
    r"""(?:<\|(?:channel|constrain)\|>|to=)\s*(?:to=\s*)?["']?[^\s<{"']*["']?""",
    r"<\|(?:channel|constrain)\|>\s*[\w.:/+-]*",
    # A message for the model's own tools.
    r"""(?s)to=\s*["']?(?:python|browser|container)(?:(?!<\|(?:end|return|call|start)\|>).)*""",
)
# Text before the first call of a section.
_PREFACE: Final = (
    r"(?s)<\|tool_calls_section_begin\|>((?:(?!<\|tool_call_begin\|>|<\|tool_calls_section_end\|>).)*)<\|tool_call_begin",
)
HEADERS: Final[Mapping[str, Sequence[str]]] = {
    "channels": _HEADERS,
    # Other attributes, which follow those that are read.
    "dsml": (r"""<｜DSML｜ ?invoke\s+name\s*=\s*["'][^"'<]*["']([^<>/]*)/?>""",),
    "harmony": _HEADERS,
    "kimi_k2": _PREFACE,
    "kimi_k3": (
        r"""<\|open\|>call\s+tool\s*=\s*["'][^"'<]*["']([^<>/]*)/?(?:<\|sep\|>|$)""",
        r"<\|open\|>message([^<]*)(?:<\|sep\|>|$)",
    ),
}
"""Module of a format, or response template → regular expressions of markup with words that may be left out."""
_HEADER_TAGS: Final = (
    *_HEADERS,
    # A role, a channel or a type, with its marker or without.
    r"<\|start\|>(?:\s*assistant)+",
    r"<\|channel\|>\s*(?:analysis|commentary|final)",
    r"(?:(?:assistant|analysis|commentary|final|json)\s*)+(?=\s*(?:<\||to=|{))",
)
TAGS: Final[Mapping[str, Sequence[str]]] = {
    "channels": _HEADER_TAGS,
    "dialect": (r"<\|channel>thought|<\|?(?:channel|tool_call)\|?>|<turn\|>",),
    "dsml": (r"</?｜DSML｜[^>\n]*>",),
    "gemma4": (r"<\|channel>thought",),
    "harmony": _HEADER_TAGS,
    "json": (r"</?think>|</?tool_call>|<\|(?:im_end|endoftext)\|>",),
    "kimi_k2": _PREFACE,
    # A tag, or a tag in which the output ends.
    "kimi_k3": (r"<\|(?:open|close)\|>[^<]*<\|sep\|>", r"<\|(?:open|close)\|>[^<]*(?:<\|?s?e?p?\|?)?$"),
    "lines": (r"</?tool_call>|<\|im_end\|>",),
    "tags": (r"</?think>|</?tool_call>|<\|im_end\|>",),
}
"""Module of a format, or response template → regular expressions of markup that is more than a marker."""
PROMPTS: Final[Mapping[str | None, str]] = {
    "kimi_k3": '<|open|>message role="assistant"<|sep|>',
    "openai": "<|start|>assistant",
}
"""Tool-call parser → the end of a prompt."""
PIECES: Final = (
    "W", " W ", "W. ", "\n", "\n\n", " ", "   ", '"', "'", "{", "}", "[", "]", "(", ")", ":", ", ", "=", "<",
    "</", "<|", "\\", "null", "1", "é🌸", '"W"', '"W": ', '{"W": "W"}', '{"name": "g"}',
    '{"name": "f", "arguments": {"W": "W"}}',
)  # fmt: skip
