"""Whether a vocabulary decodes as the GPU side does: its server is asked, or what was recorded of it is read.

A server without a tokenizer says nothing of whose ids it sends. Where the layer is another model's, or another
version's, derendering gives text, and it is wrong; this tells before clients do.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from derender.detokenizer import REPLACEMENT, DetokenizerState, detokenize

from .corpus import TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from derender.vocabulary import Vocabulary

__all__ = ["Check", "Difference", "Peer", "Recorded", "Tokenized", "check_peer", "check_recorded"]

_BATCH: Final = 2048
"""Ids that are decoded at once."""
_MOST_DIFFERENCES: Final = 10
"""After so many it is another tokenizer, and more say no more."""
_SPECIAL_SAMPLE: Final = 16
_CLEANED: Final = (
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'")),
    *((" n't", "n't"), (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)
"""What transformers' `clean_up_tokenization_spaces` replaces: in /detokenize, and in no generation."""


@dataclass(frozen=True)
class Tokenized:
    """A text in a server's ids."""

    token_ids: tuple[int, ...]
    max_model_len: int | None
    """The longest sequence that it serves, if it says so."""


@dataclass(frozen=True)
class Recorded:
    """Ids and the text that they are, as another decoder said."""

    where: str
    token_ids: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Difference:
    """Where the two sides don't agree, in lines for people."""

    where: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Check:
    """What was compared, and what differs."""

    texts: int = 0
    ids: int = 0
    differences: tuple[Difference, ...] = ()


class Peer(Protocol):
    """A server that knows the model's tokenizer. Where it has no such endpoint, it gives None."""

    def tokenize(self, text: str) -> Tokenized | None:
        """The ids of a text, without those that only begin a sequence."""

    def detokenize(self, token_ids: Sequence[int]) -> str | None:
        """The text of ids, special tokens included."""


def check_recorded(vocabulary: Vocabulary, recorded: Iterable[Recorded]) -> Check:
    """Compare with texts whose ids are known."""
    check = Check()
    for each in recorded:
        check = replace(check, texts=check.texts + 1)
        difference = _unknown(vocabulary, each.where, each.token_ids)
        if difference is None and each.text not in _shown(vocabulary, each.token_ids):
            difference = Difference(each.where, _quoted(_text(vocabulary, each.token_ids)), _quoted(each.text))
        check = _with(check, difference)
        if len(check.differences) >= _MOST_DIFFERENCES:
            break
    return check


def check_peer(vocabulary: Vocabulary, peer: Peer) -> Check:
    """Compare with a server: the ids that it gives for texts, the text that it gives for every id, and the
    longest sequence.
    """
    check = _with_lengths(vocabulary, peer)
    if len(check.differences) < _MOST_DIFFERENCES:
        check = _with_ids(vocabulary, peer, check)
    return check


def _with_lengths(vocabulary: Vocabulary, peer: Peer) -> Check:
    check, length = Check(), None
    for text in TEXTS:
        tokenized = peer.tokenize(text)
        if tokenized is None:
            break
        length = tokenized.max_model_len
        check = _with(
            replace(check, texts=check.texts + 1), _differs(vocabulary, peer, text, tokenized.token_ids)
        )
        if len(check.differences) >= _MOST_DIFFERENCES:
            break
    own = vocabulary.manifest.max_model_len
    if length is not None and own is not None and own != length:
        check = _with(check, Difference("max_model_len", f"{own:,} tokens", f"{length:,} tokens"))
    return check


def _differs(vocabulary: Vocabulary, peer: Peer, text: str, token_ids: Sequence[int]) -> Difference | None:
    where = f"text {_quoted(text)}"
    if (unknown := _unknown(vocabulary, where, token_ids)) is not None:
        return unknown
    shown = _shown(vocabulary, token_ids)
    if text in shown or _normal(text) in map(_normal, shown):
        return None
    # A tokenizer may lower, fold or forget what it encodes: then what the server decodes is what is right.
    theirs = peer.detokenize(token_ids)
    ours = _text(vocabulary, token_ids)
    if theirs is not None and _same(ours, theirs):
        return None
    return Difference(where, _quoted(ours), _quoted(text if theirs is None else theirs))


def _with_ids(vocabulary: Vocabulary, peer: Peer, check: Check) -> Check:
    """Compare every id that is text by itself, many at a time; of special tokens a few."""

    def agrees(token_ids: Sequence[int]) -> bool | None:
        theirs = peer.detokenize(token_ids)
        return None if theirs is None else _same(_text(vocabulary, token_ids), theirs)

    plain = list(_plain(vocabulary))
    for start in range(0, len(plain), _BATCH):
        token_ids = plain[start : start + _BATCH]
        agreed = agrees(token_ids)
        if agreed is None:
            return check
        difference = None
        if not agreed:
            differing = _narrowed(token_ids, agrees)
            where = f"id {differing[0]}" if len(differing) == 1 else f"ids {differing[0]} to {differing[-1]}"
            theirs = peer.detokenize(differing) or ""
            difference = Difference(where, _quoted(_text(vocabulary, differing)), _quoted(theirs))
        check = _with(replace(check, ids=check.ids + len(token_ids)), difference)
        if len(check.differences) >= _MOST_DIFFERENCES:
            return check
    for token_id in sorted(vocabulary.special)[:_SPECIAL_SAMPLE]:
        shown, ours = peer.detokenize([token_id]), _text(vocabulary, [token_id])
        difference = None
        # Some decoders never show them.
        if shown and not _same(ours, shown):
            difference = Difference(f"special id {token_id}", _quoted(ours), _quoted(shown))
        check = _with(replace(check, ids=check.ids + 1), difference)
    return check


def _plain(vocabulary: Vocabulary) -> Iterator[int]:
    """Ids whose text does not depend on what is beside them."""
    for token_id in range(vocabulary.manifest.size):
        piece = vocabulary.pieces[token_id]
        if piece and token_id not in vocabulary.special and token_id not in vocabulary.byte_tokens:
            try:
                piece.decode()
            except UnicodeDecodeError:
                continue
            yield token_id


def _narrowed(token_ids: Sequence[int], agrees: Callable[[Sequence[int]], bool | None]) -> Sequence[int]:
    """As few neighbours as still differ."""
    while len(token_ids) > 1:
        half = len(token_ids) // 2
        for part in (token_ids[:half], token_ids[half:]):
            if agrees(part) is False:
                token_ids = part
                break
        else:
            break
    return token_ids


def _unknown(vocabulary: Vocabulary, where: str, token_ids: Sequence[int]) -> Difference | None:
    size = vocabulary.manifest.size
    unknown = next((token_id for token_id in token_ids if not 0 <= token_id < size), None)
    if unknown is None:
        return None
    return Difference(where, f"has no id {unknown}: its ids are 0 to {size - 1}", f"id {unknown}")


def _shown(vocabulary: Vocabulary, token_ids: Sequence[int]) -> set[str]:
    """The texts that ids may be: with special tokens and without, with what is held at the end and without."""
    texts = set()
    for skip in (True, False):
        text, state = detokenize(vocabulary, DetokenizerState(), token_ids, skip_special_tokens=skip)
        texts |= {text, text + _held(vocabulary, state)}
    return texts


def _text(vocabulary: Vocabulary, token_ids: Sequence[int]) -> str:
    text, state = detokenize(vocabulary, DetokenizerState(), token_ids, skip_special_tokens=False)
    return text + _held(vocabulary, state)


def _held(vocabulary: Vocabulary, state: DetokenizerState) -> str:
    held = state.pending
    return REPLACEMENT * len(held) if vocabulary.byte_tokens else held.decode(errors="replace")


def _same(ours: str, theirs: str) -> bool:
    return ours == theirs or _cleaned(ours) == _cleaned(theirs)


def _cleaned(text: str) -> str:
    for found, replacement in _CLEANED:
        text = text.replace(found, replacement)
    return text


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _with(check: Check, difference: Difference | None) -> Check:
    return check if difference is None else replace(check, differences=(*check.differences, difference))


def _quoted(text: str, most: int = 120) -> str:
    """A text in one line, its end cut."""
    return repr(text if len(text) <= most else f"{text[:most]}…")
