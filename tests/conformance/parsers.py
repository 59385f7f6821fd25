"""The parsers of each model, by the names of vLLM's flags."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["PARSERS", "ParserNames", "parsers_of"]


class ParserNames(NamedTuple):
    """The values of `--tool-call-parser` and `--reasoning-parser`; None for a model without reasoning."""

    tool_call: str
    reasoning: str | None


PARSERS: Final = (
    # model, the first that matches: --tool-call-parser, --reasoning-parser
    (r"/DeepSeek-V4\.1", ParserNames("deepseek_v41", "deepseek_v41")),
    (r"/DeepSeek-V4", ParserNames("deepseek_v4", "deepseek_v4")),
    (r"/DeepSeek-V3\.2", ParserNames("deepseek_v32", "deepseek_v3")),
    (r"/DeepSeek-V3\.1", ParserNames("deepseek_v31", "deepseek_v3")),
    (r"/DeepSeek-R1", ParserNames("deepseek_v3", "deepseek_r1")),
    (r"/DeepSeek-V3", ParserNames("deepseek_v3", None)),
    (r"/gemma-4", ParserNames("gemma4", "gemma4")),
    (r"/GLM-4\.[56]", ParserNames("glm45", "glm45")),
    (r"/GLM-(4\.7|5)", ParserNames("glm47", "glm47")),
    (r"/gpt-oss", ParserNames("openai", "openai_gptoss")),
    (r"/Kimi-K3", ParserNames("kimi_k3", "kimi_k3")),
    (r"/Kimi-K2-Instruct", ParserNames("kimi_k2", None)),
    (r"/Kimi-K2", ParserNames("kimi_k2", "kimi_k2")),
    (r"/Llama-4", ParserNames("llama4_pythonic", None)),
    (r"/Llama-3", ParserNames("llama3_json", None)),
    (
        r"/(Magistral|Mistral-Medium-3\.5|Mistral-Small-4|Ministral-3-.*Reasoning)",
        ParserNames("mistral", "mistral"),
    ),
    (r"^mistralai/", ParserNames("mistral", None)),
    (r"/Qwen3-Coder", ParserNames("qwen3_coder", None)),
    (r"/Qwen3\.[5-9]", ParserNames("qwen3_coder", "qwen3")),
    (r"/Qwen3-.*Instruct-2507", ParserNames("hermes", None)),
    (r"/Qwen3-.*Thinking-2507", ParserNames("hermes", "deepseek_r1")),
    (r"/Qwen3-", ParserNames("hermes", "qwen3")),
)


def parsers_of(model: str) -> ParserNames:
    """Return the parsers of a model.

    Raises:
        LookupError: No parsers are known for it.
    """
    for pattern, names in PARSERS:
        if re.search(pattern, model):
            return names
    raise LookupError(f"no parsers for {model}")
