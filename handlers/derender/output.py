"""One generated sequence → its text and why it ended; what chat and completions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .detokenizer import DetokenizerState, detokenize
from .stopping import Stopping, StopReason, cut_stop_string, drop_stop_token, stop_strings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .protocol.generate import GenerateChoice
    from .vocabulary import Vocabulary

__all__ = ["Output", "agreed", "output"]


class Output(NamedTuple):
    """The text of a complete generation."""

    text: str
    finish_reason: str
    stop_reason: StopReason


def output(
    vocabulary: Vocabulary,
    state: DetokenizerState,
    choice: GenerateChoice,
    token_ids: Sequence[int],
    stopping: Stopping,
    *,
    skip_special_tokens: bool,
) -> Output:
    """Decode a complete generation up to where it was stopped.

    Args:
        vocabulary: The model's.
        state: After the prompt; all choices of a response share it.
        choice: The generated sequence.
        token_ids: Its ids, not empty.
        stopping: What the client asked about stopping.
        skip_special_tokens: Leave special tokens out of the text.
    """
    finish_reason = choice.finish_reason or "stop"
    visible, stop_reason = drop_stop_token(
        token_ids, finish_reason, choice.stop_reason, stopping, vocabulary.manifest
    )
    strings = stop_strings(finish_reason, choice.stop_reason, stopping)
    exempt = 0
    text = ""
    if strings and stopping.min_tokens:
        text, state = detokenize(
            vocabulary, state, visible[: stopping.min_tokens], skip_special_tokens=skip_special_tokens
        )
        exempt = len(text)
        visible = visible[stopping.min_tokens :]
    rest, _ = detokenize(vocabulary, state, visible, skip_special_tokens=skip_special_tokens)
    text += rest
    if strings:
        text, found = cut_stop_string(text, exempt, strings, include=stopping.include_stop)
        stop_reason = found or stop_reason
    return Output(text, finish_reason, stop_reason)


def agreed(values: Iterable[Any]) -> Any:
    """What all responses of a request say, or None where they differ."""
    first, *others = values
    return first if all(value == first for value in others) else None
