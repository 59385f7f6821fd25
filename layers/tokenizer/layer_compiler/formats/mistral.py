"""Which control tokens of Mistral's models are part of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["find_answer_markers"]

_ANSWER_MARKERS: Final = ("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]")
"""The control tokens that vLLM doesn't skip (`vllm.tokenizers.mistral`)."""


def find_answer_markers(control_tokens: Mapping[str, int]) -> frozenset[int]:
    """Return the ids of control tokens that `skip_special_tokens` keeps.

    Args:
        control_tokens: Control token → id.
    """
    return frozenset(control_tokens[text] for text in _ANSWER_MARKERS if text in control_tokens)
