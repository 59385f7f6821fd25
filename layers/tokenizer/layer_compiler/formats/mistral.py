"""What Mistral's formats have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["shown_markers"]

_SHOWN: Final = ("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]")
"""Control tokens that vLLM does not skip with the others (`vllm.tokenizers.mistral`)."""


def shown_markers(ids: Mapping[str, int]) -> frozenset[int]:
    """The ids of control tokens that are part of an answer: `skip_special_tokens` leaves them in.

    Args:
        ids: Control token → id.
    """
    return frozenset(ids[text] for text in _SHOWN if text in ids)
