"""Parsers and families for which a property does not hold yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import Phase, given, settings

from .examples import tried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from _pytest.mark.structures import ParameterSet
    from hypothesis.strategies import SearchStrategy

__all__ = ["quickly", "with_known"]

KNOWN: Final[dict[str, frozenset[str]]] = {
    "mixed": frozenset(
        (
            "None",
            "deepseek_v3",
            "deepseek_v31",
            "deepseek_v32",
            "deepseek_v4",
            "deepseek_v41",
            "gemma4",
            "glm45",
            "glm47",
            "hermes",
            "hf",
            "kimi_k2",
            "kimi_k3",
            "llama3_json",
            "llama4_json",
            "llama4_pythonic",
            "mistral",
            "openai",
            "pythonic",
            "qwen3_coder",
            "qwen3_json",
            "qwen3_xml",
        )
    ),
    "altered": frozenset(
        (
            "deepseek_r1",
            "deepseek_v3",
            "deepseek_v31",
            "deepseek_v32",
            "deepseek_v4",
            "deepseek_v41",
            "gemma4",
            "glm, markers as text",
            "glm45",
            "glm47",
            "hermes",
            "hermes, always thinking",
            "hermes, markers as text",
            "kimi_k2",
            "kimi_k3",
            "llama3_json",
            "llama4_json, tag as text",
            "llama4_pythonic",
            "mistral v11",
            "mistral v13",
            "mistral v3",
            "mistral, markers as text",
            "named",
            "openai",
            "pythonic, thinking",
            "qwen3_coder",
            "qwen3_coder, markers as text",
            "qwen3_xml",
            "required",
        )
    ),
    "mixed deliveries": frozenset(
        (
            "deepseek_v31",
            "deepseek_v32",
            "deepseek_v4",
            "deepseek_v41",
            "gemma4",
            "llama3_json",
            "llama4_json",
            "mistral",
            "pythonic",
        )
    ),
    "altered deliveries": frozenset(
        (
            "deepseek_r1",
            "deepseek_v3",
            "deepseek_v31",
            "deepseek_v32",
            "deepseek_v4",
            "deepseek_v41",
            "gemma4",
            "glm, markers as text",
            "glm45",
            "glm47",
            "hermes",
            "hermes, always thinking",
            "hermes, markers as text",
            "kimi_k2",
            "kimi_k3",
            "llama3_json",
            "llama4_json, tag as text",
            "llama4_pythonic",
            "mistral v11",
            "mistral v13",
            "mistral v3",
            "mistral, markers as text",
            "named",
            "pythonic",
            "pythonic, thinking",
            "qwen3_coder, markers as text",
            "required",
        )
    ),
}


def with_known(name: str, values: Iterable[Any]) -> list[ParameterSet]:
    """Return the parameters of a test. It fails for those that are known, if not with few examples."""
    marks = [pytest.mark.xfail(raises=AssertionError, strict=False)]
    names = [(value, str(getattr(value, "name", value))) for value in values]
    assert {each for _, each in names} >= KNOWN[name]
    return [pytest.param(value, id=each, marks=marks * (each in KNOWN[name])) for value, each in names]


def quickly(
    examples: int,
    check: Callable[[Any, Any], None],
    output: SearchStrategy[Any],
    choice: SearchStrategy[Any],
) -> None:
    """Try some examples, without looking for smaller ones."""

    def run(output: Any, choice: Any) -> None:
        check(output, choice)

    settings(tried(examples), phases=[Phase.generate])(given(output, choice)(run))()
