"""Parsers and families for which a property does not hold yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import Phase, settings

from .examples import tried

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark.structures import ParameterSet

__all__ = ["quickly", "with_known"]

KNOWN: Final[dict[str, frozenset[str]]] = {
    "mixed": frozenset(
        {
            "None",
            "deepseek_v3",
            "deepseek_v4",
            "deepseek_v41",
            "gemma4",
            "hf",
            "kimi_k3",
            "openai",
            "qwen3_coder",
        }
    ),
    "altered": frozenset(
        {
            "deepseek_r1",
            "deepseek_v3",
            "deepseek_v31",
            "gemma4",
            "glm47",
            "kimi_k2",
            "kimi_k3",
            "llama3_json",
            "mistral v11",
            "mistral v13",
            "mistral v3",
            "openai",
            "pythonic, thinking",
            "qwen3_xml",
        }
    ),
    "mixed deliveries": frozenset({"llama4_json"}),
    "altered deliveries": frozenset({"deepseek_r1", "hermes"}),
}


def with_known(name: str, values: Iterable[Any]) -> list[ParameterSet]:
    """Return the parameters of a test. Those for which it is known to fail must fail."""
    marks = [pytest.mark.xfail(raises=(AssertionError, IndexError), strict=True)]
    names = [(value, str(getattr(value, "name", value))) for value in values]
    assert {each for _, each in names} >= KNOWN[name]
    return [pytest.param(value, id=each, marks=marks * (each in KNOWN[name])) for value, each in names]


def quickly(examples: int) -> settings:
    """Try some examples, without looking for smaller ones."""
    return settings(tried(examples), phases=[Phase.generate])
