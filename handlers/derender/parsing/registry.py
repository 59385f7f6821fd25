"""The parsers by name. The names are those of vLLM's `--tool-call-parser` and `--reasoning-parser`.

Each name maps to `module:ATTRIBUTE` in `formats`: a `Format`, or a function that makes one for a vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["REASONING_PARSERS", "TOOL_CALL_PARSERS"]

TOOL_CALL_PARSERS: Final[Mapping[str, str]] = {
    "deepseek_v3": "deepseek:TOOLS_V3",
    "deepseek_v31": "deepseek:TOOLS_V31",
    "deepseek_v32": "dsml:TOOLS_V32",
    "deepseek_v4": "dsml:TOOLS_V4",
    "deepseek_v41": "dsml:TOOLS_V41",
    "gemma4": "gemma4:TOOLS",
    "glm45": "glm:TOOLS",
    "glm47": "glm:TOOLS",
    "hermes": "hermes:TOOLS",
    "hf": "hf:from_vocabulary",
    "kimi_k2": "kimi_k2:TOOLS",
    "kimi_k3": "kimi_k3:MESSAGES",
    "llama3_json": "llama:TOOLS",
    "llama4_json": "llama:TOOLS",
    "llama4_pythonic": "pythonic:LLAMA4",
    "mistral": "mistral:TOOLS",
    "openai": "harmony:MESSAGES",
    "pythonic": "pythonic:TOOLS",
    "qwen3_coder": "qwen3_xml:TOOLS",
    "qwen3_json": "hermes:TOOLS",
    "qwen3_xml": "qwen3_xml:TOOLS",
}
REASONING_PARSERS: Final[Mapping[str, str]] = {
    "deepseek_r1": "think:DEEPSEEK_R1",
    "deepseek_v3": "think:DEEPSEEK_V3",
    "deepseek_v4": "think:DEEPSEEK_V3",
    "deepseek_v41": "think:DEEPSEEK_V3",
    "gemma4": "gemma4:REASONING",
    "glm45": "think:GLM45",
    "glm47": "think:GLM47",
    "hf": "hf:from_vocabulary",
    "kimi_k2": "think:KIMI_K2",
    "kimi_k3": "kimi_k3:MESSAGES",
    "mistral": "mistral:REASONING",
    "openai_gptoss": "harmony:MESSAGES",
    "qwen3": "think:QWEN3",
}
