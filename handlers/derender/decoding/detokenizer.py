r"""Turn token ids into text, piece by piece.

    text, state = detokenize(vocabulary, state, token_ids, …)

The state is a value. A complete output is one piece, and any split of the same ids gives the same text.

Text comes up to the last token that ends a character. The tokens after it are held until the next ones
complete the character, and a generation that is cut there never shows them. A token is held whole: if its
bytes are " \xe2\x88", a space and the beginning of "∞", the space waits, too.
"""

from __future__ import annotations

import codecs
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from derender.vocabulary import TokenId, catch_panics

from .utf8 import REPLACEMENT, continues, decode_valid, ends_character

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from derender.vocabulary import Rule, Vocabulary

__all__ = ["DetokenizerState", "decode_text", "detokenize", "pending_text", "start", "token_text"]

_PROMPT_TAIL: Final = 8
"""Number of prompt ids that are read for a character they may begin. A character has at most four bytes."""
_LIBRARY_CONTEXT: Final = 8
"""Number of ids that the `tokenizers` library sees before a new one: some decoders look at the neighbours."""
_MAX_LIBRARY_PENDING: Final = 32
"""Maximum number of ids held for the `tokenizers` library. No character has so many."""
_MAX_PENDING: Final = 256
"""Maximum number of bytes held, twice the longest token's. More bytes that end no character never will."""


class DetokenizerState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of decoding between two pieces of an output."""

    text_started: bool = False
    """Whether there was text before (rule "byte-fallback"): the first space of a new text may be dropped."""
    prompt_bytes: Annotated[bytes, Meta(max_length=3)] = b""
    """Bytes of a character that the prompt begins. They are shown only if the output completes it."""
    pending: Annotated[bytes, Meta(max_length=_MAX_PENDING)] = b""
    """Bytes of the tokens that are held."""
    window: Annotated[tuple[TokenId, ...], Meta(max_length=_LIBRARY_CONTEXT + _MAX_LIBRARY_PENDING)] = ()
    """The last ids (rule "tokenizers"), for decoders that look at the neighbours."""
    pending_ids: Annotated[int, Meta(ge=0, lt=_MAX_LIBRARY_PENDING)] = 0
    """Number of ids at the end of the window that are held."""
    prompt_ids: Annotated[int, Meta(ge=0, le=_PROMPT_TAIL)] = 0
    """Number of ids before those that begin a character in the prompt."""


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
    tail = list(islice(visible, _PROMPT_TAIL))[::-1]
    state = DetokenizerState(text_started=next(visible, None) is not None)
    _, state = _RULES[vocabulary.manifest.rule](vocabulary, state, tail, False)
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
    return _RULES[vocabulary.manifest.rule](vocabulary, state, token_ids, skip_special_tokens)


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


@catch_panics()
def pending_text(vocabulary: Vocabulary, state: DetokenizerState) -> str:
    """Return the text of what is held, for an output that ends here and shows it.

    Raises:
        TokenizersError: The `tokenizers` library panicked.
    """
    match vocabulary.manifest.rule:
        case "byte-level":
            return (state.prompt_bytes + state.pending).decode(errors="replace")
        case "byte-fallback":
            return REPLACEMENT * len(state.pending)
        case "tokenizers":
            decode_window = _window_decoder(vocabulary)
            text = decode_window(state.window)
            return _added_text(decode_window, state.window, text, state.pending_ids, state.prompt_ids)


def token_text(vocabulary: Vocabulary, token_ids: Sequence[int]) -> str:
    """Decode a few ids without context: nothing is held, stripped or skipped."""
    data = b"".join(map(vocabulary.pieces.__getitem__, token_ids))
    if vocabulary.byte_tokens:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return REPLACEMENT * len(data)
    return data.decode(errors="replace")


def _byte_level(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], skip_special_tokens: bool
) -> tuple[str, DetokenizerState]:
    pieces = vocabulary.visible_pieces if skip_special_tokens else vocabulary.pieces
    data = state.pending + b"".join(map(pieces.__getitem__, token_ids))
    prompt_bytes = state.prompt_bytes if state.prompt_bytes and continues(state.prompt_bytes, data) else b""
    data = prompt_bytes + data
    end, text, pending = len(data), "", state.pending
    for place in range(len(token_ids), 0, -1):
        if ends_character(data[max(end - 4, 0) : end]):
            text, prompt_bytes, pending = data[:end].decode(errors="replace"), b"", b""
            token_ids = token_ids[place:]
            break
        end -= len(pieces[token_ids[place - 1]])
    else:
        end = len(prompt_bytes)
    if len(data) - end <= _MAX_PENDING:
        return text, DetokenizerState(prompt_bytes=prompt_bytes, pending=data[end:])
    for token_id in token_ids:
        pending += pieces[token_id]
        if len(pending) > _MAX_PENDING:
            more, end = codecs.utf_8_decode(prompt_bytes + pending, "replace", False)
            text, prompt_bytes, pending = text + more, b"", (prompt_bytes + pending)[end:]
    return text, DetokenizerState(prompt_bytes=prompt_bytes, pending=pending)


def _byte_fallback(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], skip_special_tokens: bool
) -> tuple[str, DetokenizerState]:
    pieces = vocabulary.visible_pieces if skip_special_tokens else vocabulary.pieces
    text, prompt_bytes, pending = _byte_fallback_text(vocabulary, state, token_ids, pieces)
    started = state.text_started or bool(text or pending)
    if vocabulary.manifest.strip_leading_space and not state.text_started:
        text = text.removeprefix(" ")
    if len(pending) > _MAX_PENDING:
        # In a run of byte tokens whose first byte fits no character, each byte is one U+FFFD.
        text += REPLACEMENT * (len(pending) - _MAX_PENDING)
        pending = b"\xff" * _MAX_PENDING
    return text, DetokenizerState(text_started=started, prompt_bytes=prompt_bytes, pending=pending)


def _byte_fallback_text(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], pieces: Mapping[int, bytes]
) -> tuple[str, bytes, bytes]:
    """Return the text, the bytes that the prompt begins, and the bytes that are held."""
    if not state.prompt_bytes:
        try:
            # Other tokens contain whole characters, so all bytes are UTF-8 if every run of byte tokens is.
            return (state.pending + b"".join(map(pieces.__getitem__, token_ids))).decode(), b"", b""
        except UnicodeDecodeError:
            pass
    parts: list[str] = []
    prompt_bytes, pending = state.prompt_bytes, state.pending
    for are_bytes, ids in groupby(token_ids, vocabulary.byte_tokens.__contains__):
        data = b"".join(map(pieces.__getitem__, ids))
        if are_bytes:
            pending += data
            if prompt_bytes and not continues(prompt_bytes, pending):
                prompt_bytes = b""
            # `tokenizers` decodes a run that is not UTF-8 as one U+FFFD for each byte. Here that starts at the
            # first byte that fits no character: a stream has already sent the characters before it.
            text, rest = decode_valid(prompt_bytes + pending)
            parts.append(text)
            prompt_bytes, pending = (b"", rest) if text else (prompt_bytes, pending)
        elif data:
            # The run of byte tokens ends: what is held of it can't become a character any more.
            parts.append(REPLACEMENT * len(pending) + data.decode())
            prompt_bytes = pending = b""
    return "".join(parts), prompt_bytes, pending


@catch_panics()
def _library(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], skip_special_tokens: bool
) -> tuple[str, DetokenizerState]:
    """Decode with the `tokenizers` library, id by id: the text of each is what the window's text gains."""
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
            and pending < _MAX_LIBRARY_PENDING
        ):
            continue
        parts.append(_added_text(decode_window, window, text, pending, prompt_ids))
        window, pending, prompt_ids = window[-_LIBRARY_CONTEXT:], 0, 0
    return "".join(parts), DetokenizerState(window=tuple(window), pending_ids=pending, prompt_ids=prompt_ids)


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


_RULES: Final[
    dict[
        Rule,
        Callable[[Vocabulary, DetokenizerState, Sequence[int], bool], tuple[str, DetokenizerState]],
    ]
] = {"byte-level": _byte_level, "byte-fallback": _byte_fallback, "tokenizers": _library}
