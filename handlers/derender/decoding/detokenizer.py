r"""Token ids → text, in pieces.

    detokenize(vocabulary, state, token_ids, …) → (text, state)

The state is a value: what is held back, and whether the text has begun. A whole output is one piece; any split
of the same ids gives the same text.

Text is given up to the last token that ends a character. What follows it, the tokens of a character that is not
complete, is held until the next tokens say what it is; a generation that was cut there never shows it. A token
is held whole: of " \xe2\x88", a space and the beginning of "∞", the space waits too.
"""

from __future__ import annotations

import codecs
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from derender.vocabulary import MAX_SIZE, catch_panics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from derender.vocabulary import Rule, Vocabulary

__all__ = ["DetokenizerState", "decode", "detokenize", "ends_character", "held_text", "start"]

REPLACEMENT: Final = "\ufffd"
_PROMPT_TAIL: Final = 8
"""Ids of the prompt that decide what the first output bytes continue. A character has at most four bytes."""
_LIBRARY_WINDOW: Final = 8
"""Ids that the `tokenizers` library sees before a new one, for decoders that look at the neighbours."""
_LIBRARY_HELD: Final = 32
"""Most ids that are held for it; a character is never in so many."""
_MOST_HELD: Final = 256
"""Most bytes that are held. More that end no character are none: the longest tokens have half as many."""

_TokenId = Annotated[int, Meta(ge=0, lt=MAX_SIZE)]


class DetokenizerState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What decoding carries from one piece of an output to the next."""

    text_started: bool = False
    """Whether anything came before (byte-fallback): a new text may lose its first space."""
    begun: Annotated[bytes, Meta(max_length=3)] = b""
    """The bytes of a character that the prompt began. Shown only if the output completes it."""
    pending: Annotated[bytes, Meta(max_length=_MOST_HELD)] = b""
    """The bytes of the tokens that are held."""
    window: Annotated[tuple[_TokenId, ...], Meta(max_length=_LIBRARY_WINDOW + _LIBRARY_HELD)] = ()
    """The last ids (rule "tokenizers"), for decoders that look at the neighbours."""
    unread: Annotated[int, Meta(ge=0, lt=_LIBRARY_HELD)] = 0
    """How many of the window's last ids are held."""
    begun_ids: Annotated[int, Meta(ge=0, le=_PROMPT_TAIL)] = 0
    """How many ids before those began a character in the prompt."""


def start(
    vocabulary: Vocabulary, prompt_token_ids: Sequence[int] | None, *, skip_special_tokens: bool = True
) -> DetokenizerState:
    """The state after a prompt, so that decoding continues it (protocol/README.md, "Detokenization").

    Args:
        vocabulary: The model's.
        prompt_token_ids: The prompt, or a suffix of it; none starts a new text.
        skip_special_tokens: As for the output.
    """
    if not prompt_token_ids:
        return DetokenizerState()
    hidden = vocabulary.special if skip_special_tokens else frozenset()
    visible = (token_id for token_id in reversed(prompt_token_ids) if token_id not in hidden)
    tail = list(islice(visible, _PROMPT_TAIL))[::-1]
    state = DetokenizerState(text_started=next(visible, None) is not None)
    _, state = _RULES[vocabulary.manifest.rule](vocabulary, state, tail, False)
    _, begins = codecs.utf_8_decode(state.pending, "replace", False)
    return replace(state, begun=state.pending[begins:], pending=b"", unread=0, begun_ids=state.unread)


def detokenize(
    vocabulary: Vocabulary,
    state: DetokenizerState,
    token_ids: Sequence[int],
    *,
    skip_special_tokens: bool = True,
) -> tuple[str, DetokenizerState]:
    """The text that ids add to an output, and the state after them.

    Args:
        vocabulary: The model's; every id is below `vocabulary.manifest.size`.
        state: What came before.
        token_ids: The ids, in order.
        skip_special_tokens: Leave special tokens out of the text.
    """
    if not token_ids:
        return "", state
    return _RULES[vocabulary.manifest.rule](vocabulary, state, token_ids, skip_special_tokens)


def held_text(state: DetokenizerState) -> str:
    """What is held, as an output that ends there would show it."""
    return (state.begun + state.pending).decode(errors="replace")


def decode(vocabulary: Vocabulary, token_ids: Sequence[int]) -> str:
    """The text of a few ids alone, in any context: nothing withheld, stripped or skipped."""
    data = b"".join(map(vocabulary.pieces.__getitem__, token_ids))
    if vocabulary.byte_tokens:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return REPLACEMENT * len(data)
    return data.decode(errors="replace")


def ends_character(data: bytes) -> bool:
    """Whether bytes end with a complete character, or are none."""
    for length in range(1, min(4, len(data)) + 1):
        first = data[-length]
        if first < 0x80:
            return length == 1
        if first >= 0xC0:
            try:
                data[-length:].decode()
            except UnicodeDecodeError:
                return False
            return True
    return not data


def _byte_level(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], skip_special_tokens: bool
) -> tuple[str, DetokenizerState]:
    pieces = vocabulary.visible_pieces if skip_special_tokens else vocabulary.pieces
    data = state.pending + b"".join(map(pieces.__getitem__, token_ids))
    begun = state.begun if state.begun and _continues(state.begun, data) else b""
    data = begun + data
    end, text, held = len(data), "", state.pending
    for place in range(len(token_ids), 0, -1):
        if ends_character(data[max(end - 4, 0) : end]):
            text, begun, held = data[:end].decode(errors="replace"), b"", b""
            token_ids = token_ids[place:]
            break
        end -= len(pieces[token_ids[place - 1]])
    else:
        end = len(begun)
    if len(data) - end <= _MOST_HELD:
        return text, DetokenizerState(begun=begun, pending=data[end:])
    for token_id in token_ids:
        held += pieces[token_id]
        if len(held) > _MOST_HELD:
            shown, end = codecs.utf_8_decode(begun + held, "replace", False)
            text, begun, held = text + shown, b"", (begun + held)[end:]
    return text, DetokenizerState(begun=begun, pending=held)


def _byte_fallback(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], skip_special_tokens: bool
) -> tuple[str, DetokenizerState]:
    pieces = vocabulary.visible_pieces if skip_special_tokens else vocabulary.pieces
    text, begun, pending = _byte_fallback_text(vocabulary, state, token_ids, pieces)
    started = state.text_started or bool(text or pending)
    if vocabulary.manifest.strip_leading_space and not state.text_started:
        text = text.removeprefix(" ")
    if len(pending) > _MOST_HELD:
        # A run of byte tokens whose first byte fits no character: each of its bytes is one U+FFFD.
        text += REPLACEMENT * (len(pending) - _MOST_HELD)
        pending = b"\xff" * _MOST_HELD
    return text, DetokenizerState(text_started=started, begun=begun, pending=pending)


def _byte_fallback_text(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], pieces: Mapping[int, bytes]
) -> tuple[str, bytes, bytes]:
    """The text, what is still begun, and what is held."""
    if not state.begun:
        try:
            # Other tokens hold whole characters: the bytes are UTF-8 exactly where each run of byte tokens is.
            return (state.pending + b"".join(map(pieces.__getitem__, token_ids))).decode(), b"", b""
        except UnicodeDecodeError:
            pass
    parts: list[str] = []
    begun, pending = state.begun, state.pending
    for single_bytes, ids in groupby(token_ids, vocabulary.byte_tokens.__contains__):
        data = b"".join(map(pieces.__getitem__, ids))
        if single_bytes:
            pending += data
            if begun and not _continues(begun, pending):
                begun = b""
            text, rest = _byte_run(begun + pending)
            parts.append(text)
            begun, pending = (b"", rest) if text else (begun, pending)
        elif data:
            # A run of byte tokens ends here: what is held of it can't become a character any more.
            parts.append(REPLACEMENT * len(pending) + data.decode())
            begun = pending = b""
    return "".join(parts), begun, pending


def _continues(begun: bytes, data: bytes) -> bool:
    """Whether bytes complete a character that was begun, or may yet."""
    text, _ = codecs.utf_8_decode((begun + data)[:4], "replace", False)
    return not text.startswith(REPLACEMENT)


def _byte_run(data: bytes) -> tuple[str, bytes]:
    """The complete characters of a run of byte tokens, and the bytes after them.

    `tokenizers` gives a run that is no UTF-8 as one U+FFFD a byte. Here that begins at the first byte which
    fits no character: those before it are complete, and a stream has sent them.
    """
    try:
        text, end = codecs.utf_8_decode(data, "strict", False)
    except UnicodeDecodeError as error:
        end = error.start
        text = data[:end].decode()
    return text, data[end:]


@catch_panics()
def _library(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], skip_special_tokens: bool
) -> tuple[str, DetokenizerState]:
    """Decode with the `tokenizers` library, id by id: what the text of the window gains.

    Raises:
        TokenizersError: The library panicked.
    """
    assert vocabulary.tokenizer is not None
    # The library would look at flags, not at what the manifest calls special.
    decode_window = partial(vocabulary.tokenizer.decode, skip_special_tokens=False)
    parts: list[str] = []
    window, unread, begun = list(state.window), state.unread, state.begun_ids
    for token_id in token_ids:
        if skip_special_tokens and token_id in vocabulary.special:
            continue
        window.append(token_id)
        unread += 1
        text = decode_window(window)
        if (
            text.endswith(REPLACEMENT)
            and not ends_character(vocabulary.pieces[token_id])
            and unread < _LIBRARY_HELD
        ):
            continue
        read = len(window) - unread
        before = decode_window(window[: read - begun])
        if begun and text[len(before) :].startswith(REPLACEMENT):
            before = decode_window(window[:read])
        parts.append(text[len(before) :])
        window, unread, begun = window[-_LIBRARY_WINDOW:], 0, 0
    return "".join(parts), DetokenizerState(window=tuple(window), unread=unread, begun_ids=begun)


_RULES: Final[
    dict[
        Rule,
        Callable[[Vocabulary, DetokenizerState, Sequence[int], bool], tuple[str, DetokenizerState]],
    ]
] = {"byte-level": _byte_level, "byte-fallback": _byte_fallback, "tokenizers": _library}
