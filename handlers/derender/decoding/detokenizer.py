r"""Turn token ids into text, piece by piece.

    text, state = detokenize(vocabulary, state, token_ids, …)

The state is a value. A complete output is one piece, and any split of the same ids gives the same text.

Text comes up to the last token that ends a character. The tokens after it are held until the next ones
complete the character, and a generation that is cut there never shows them. A token is held whole: if its
bytes are " \xe2\x88", a space and the beginning of "∞", the space waits, too.
"""

from __future__ import annotations

import codecs
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from . import byte_fallback, byte_level, library
from .state import PROMPT_TAIL, DetokenizerState
from .utf8 import REPLACEMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from derender.vocabulary import Rule, Vocabulary

    Decode = Callable[[Vocabulary, DetokenizerState, Sequence[int], bool], tuple[str, DetokenizerState]]
    PendingText = Callable[[Vocabulary, DetokenizerState], str]

__all__ = ["decode_text", "detokenize", "pending_text", "start", "token_text"]

_DECODE: Final[Mapping[Rule, Decode]] = {
    "byte-level": byte_level.decode,
    "byte-fallback": byte_fallback.decode,
    "tokenizers": library.decode,
}
_PENDING_TEXT: Final[Mapping[Rule, PendingText]] = {
    "byte-level": byte_level.pending_text,
    "byte-fallback": byte_fallback.pending_text,
    "tokenizers": library.pending_text,
}


def start(
    vocabulary: Vocabulary, prompt_token_ids: Sequence[int] | None, *, skip_special_tokens: bool = True
) -> DetokenizerState:
    """Return the state after a prompt, so that decoding continues it (protocol/README.md, "Text").

    Args:
        vocabulary: The model's vocabulary.
        prompt_token_ids: The prompt or a suffix of it. Without one, a new text starts.
        skip_special_tokens: Whether to leave special tokens out, as in the output.
    """
    if not prompt_token_ids:
        return DetokenizerState()
    hidden = vocabulary.special if skip_special_tokens else frozenset()
    visible = (token_id for token_id in reversed(prompt_token_ids) if token_id not in hidden)
    tail = list(islice(visible, PROMPT_TAIL))[::-1]
    state = DetokenizerState(text_started=next(visible, None) is not None)
    _, state = _DECODE[vocabulary.manifest.rule](vocabulary, state, tail, False)
    _, begins = codecs.utf_8_decode(state.pending, "replace", False)
    return replace(
        state, prompt_bytes=state.pending[begins:], pending=b"", pending_ids=0, prompt_ids=state.pending_ids
    )


def detokenize(
    vocabulary: Vocabulary,
    state: DetokenizerState,
    token_ids: Sequence[int],
    *,
    skip_special_tokens: bool = True,
) -> tuple[str, DetokenizerState]:
    """Decode the next ids of an output.

    Args:
        vocabulary: The model's vocabulary.
        state: The state after the ids before.
        token_ids: The ids, each below `vocabulary.manifest.size`.
        skip_special_tokens: Whether to leave special tokens out of the text.

    Returns:
        The text that the ids add, and the state after them.

    Raises:
        TokenizersError: The `tokenizers` library panicked.
    """
    if not token_ids:
        return "", state
    return _DECODE[vocabulary.manifest.rule](vocabulary, state, token_ids, skip_special_tokens)


def decode_text(vocabulary: Vocabulary, token_ids: Sequence[int]) -> str:
    """Decode a text of its own: special tokens stay, and a character that is cut off at the end is U+FFFD.

    Args:
        vocabulary: The model's vocabulary.
        token_ids: The ids, each below `vocabulary.manifest.size`.

    Raises:
        TokenizersError: The `tokenizers` library panicked.
    """
    text, state = detokenize(vocabulary, DetokenizerState(), token_ids, skip_special_tokens=False)
    return text + pending_text(vocabulary, state)


def pending_text(vocabulary: Vocabulary, state: DetokenizerState) -> str:
    """Return the text of what is held, for an output that ends here and shows it.

    Raises:
        TokenizersError: The `tokenizers` library panicked.
    """
    return _PENDING_TEXT[vocabulary.manifest.rule](vocabulary, state)


def token_text(vocabulary: Vocabulary, token_ids: Sequence[int]) -> str:
    """Decode a few ids without context: nothing is held, stripped or skipped."""
    data = b"".join(map(vocabulary.pieces.__getitem__, token_ids))
    if vocabulary.byte_tokens:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return REPLACEMENT * len(data)
    return data.decode(errors="replace")
