"""The rule "tokenizers": the `tokenizers` library decodes, because no other rule fits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from derender.vocabulary import catch_panics

from .state import LIBRARY_CONTEXT, MAX_LIBRARY_PENDING, DetokenizerState
from .utf8 import REPLACEMENT, ends_character

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from derender.vocabulary import Vocabulary

__all__ = ["decode", "pending_text"]


@catch_panics()
def decode(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], skip_special_tokens: bool
) -> tuple[str, DetokenizerState]:
    """Decode the next ids of an output, one by one: the text of each is what the window's text gains."""
    decode_window = _window_decoder(vocabulary)
    parts: list[str] = []
    window, pending, prompt_ids = list(state.window), state.pending_ids, state.prompt_ids
    for token_id in token_ids:
        if skip_special_tokens and token_id in vocabulary.special:
            continue
        window.append(token_id)
        pending += 1
        text = decode_window(window)
        if (
            text.endswith(REPLACEMENT)
            and not ends_character(vocabulary.pieces[token_id])
            and pending < MAX_LIBRARY_PENDING
        ):
            continue
        parts.append(_added_text(decode_window, window, text, pending, prompt_ids))
        window, pending, prompt_ids = window[-LIBRARY_CONTEXT:], 0, 0
    return "".join(parts), DetokenizerState(window=tuple(window), pending_ids=pending, prompt_ids=prompt_ids)


@catch_panics()
def pending_text(vocabulary: Vocabulary, state: DetokenizerState) -> str:
    """Return the text of what is held."""
    decode_window = _window_decoder(vocabulary)
    text = decode_window(state.window)
    return _added_text(decode_window, state.window, text, state.pending_ids, state.prompt_ids)


def _window_decoder(vocabulary: Vocabulary) -> Callable[[Sequence[int]], str]:
    assert vocabulary.tokenizer is not None
    # Special tokens are those of the manifest, not those that the library's flags name.
    return partial(vocabulary.tokenizer.decode, skip_special_tokens=False)


def _added_text(
    decode_window: Callable[[Sequence[int]], str],
    window: Sequence[int],
    text: str,
    pending: int,
    prompt_ids: int,
) -> str:
    """Return what the last `pending` ids of a window add to its text."""
    read = len(window) - pending
    before = decode_window(window[: read - prompt_ids])
    if prompt_ids and text[len(before) :].startswith(REPLACEMENT):
        before = decode_window(window[:read])
    return text[len(before) :]
