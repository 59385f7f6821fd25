"""Whether a vocabulary decodes as the GPU side does: its server is asked, or what was recorded of it is read.

A server without a tokenizer says nothing of whose ids it sends. Where the layer is another model's, or another
version's, derendering gives text, and it is wrong; this tells before clients do.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from derender.decoding.detokenizer import DetokenizerState, detokenize
from derender.decoding.utf8 import REPLACEMENT
from derender.vocabulary import MAX_SIZE
from layer_compiler.corpus import TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from derender.vocabulary import Manifest, Vocabulary

__all__ = ["Check", "Difference", "Peer", "Recorded", "Tokenized", "check_peer", "check_recorded"]

_BATCH: Final = 2048
"""Ids that are decoded at once."""
_MOST_DIFFERENCES: Final = 10
"""After so many it is another tokenizer, and more say no more."""
_SPECIAL_SAMPLE: Final = 16
_MOST_ADDED: Final = 1024
"""Added tokens of which is asked whether they are special; models have some dozens."""
_BEYOND: Final = 1024
"""Ids above the layer's that are looked at."""
_NOBODYS: Final = MAX_SIZE - 1
"""An id that no model has: a server that has text even for it says nothing with it."""
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
    special: int = 0
    """Ids of which the server told whether they are special."""
    length: bool = False
    """Whether the longest sequence was compared."""
    differences: tuple[Difference, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the layer itself does not know, and nobody can be asked."""


class Peer(Protocol):
    """A server that knows the model's tokenizer. Where it has no such endpoint, it gives None."""

    def tokenize(self, text: str) -> Tokenized | None:
        """The ids of a text, without those that only begin a sequence."""

    def detokenize(self, token_ids: Sequence[int]) -> str | None:
        """The text of ids, special tokens included."""

    def detokenize_any(self, token_ids: Sequence[int]) -> str | None:
        """The same of ids that it may not have; None where it refuses them."""

    def visible(self, token_ids: Sequence[int]) -> tuple[str, ...] | None:
        """What a client would see of each id by itself: nothing of special tokens."""

    def length(self) -> int | None:
        """The longest sequence that it serves, if it says so without a text."""


def check_recorded(vocabulary: Vocabulary, recorded: Iterable[Recorded]) -> Check:
    """Compare with texts whose ids are known."""
    check = Check(warnings=_unsaid(vocabulary.manifest))
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
    """Compare with a server: the ids that it gives for texts, the text that it gives for every id, which of
    them are special, and the longest sequence.
    """
    check = Check(warnings=_unsaid(vocabulary.manifest))
    for compare in (_with_texts, _with_ids, _with_nameless, _with_special):
        if len(check.differences) < _MOST_DIFFERENCES:
            check = compare(vocabulary, peer, check)
    return check


def _unsaid(manifest: Manifest) -> tuple[str, ...]:
    """What a layer was built without, and what follows."""
    warnings = []
    if manifest.eos_token_id is None and not manifest.stop_token_ids:
        warnings.append(
            "the layer has no id that ends a text, and no server tells one; build it from a folder with the "
            "model's configuration"
        )
    # A configuration's is said with its field.
    if ": " not in manifest.origins.get("size", ""):
        warnings.append(
            f"the layer's {manifest.size:,} ids are those of the tokenizer's file, where the model can emit "
            "more if its table is padded; no server tells how many"
        )
    return tuple(warnings)


def _with_texts(vocabulary: Vocabulary, peer: Peer, check: Check) -> Check:
    length = None
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
    # With a text, it is known that the model is there; only then is it asked without one.
    if length is None and (length := peer.length()) is None:
        return check
    own = vocabulary.manifest.max_model_len
    difference = None
    if own != length:
        ours = "not known" if own is None else f"{own:,} tokens"
        difference = Difference("max_model_len", ours, f"{length:,} tokens")
    return _with(replace(check, length=True), difference)


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


def _with_nameless(vocabulary: Vocabulary, peer: Peer, check: Check) -> Check:
    """Look for ids that are text at the server, and have no token in the layer: in its padding, or above it."""
    if peer.detokenize_any([_NOBODYS]):
        return check
    size = vocabulary.manifest.size
    padding = [each for each in range(size) if not vocabulary.pieces[each] and each not in vocabulary.special]

    def agrees(token_ids: Sequence[int]) -> bool:
        theirs = peer.detokenize_any(token_ids)
        return not theirs or (token_ids[-1] < size and _same(_text(vocabulary, token_ids), theirs))

    # The first one above alone, too: with others, it is refused where one of them is.
    for ids in (padding, range(size, size + 1), range(size, size + _BEYOND)):
        for start in range(0, len(ids), _BATCH):
            if agrees(token_ids := ids[start : start + _BATCH]):
                continue
            first, *_ = _narrowed(token_ids, agrees)
            ours = "has no token of this id"
            if first >= size:
                ours = f"has no id {first}: its ids are 0 to {size - 1}"
            theirs = peer.detokenize_any([first]) or peer.detokenize_any(token_ids) or ""
            return _with(check, Difference(f"id {first}", ours, _quoted(theirs)))
    return check


def _with_special(vocabulary: Vocabulary, peer: Peer, check: Check) -> Check:
    """Compare which of the added tokens no client sees."""
    added = sorted(vocabulary.special.union(vocabulary.manifest.added_token_ids))[:_MOST_ADDED]
    visible = peer.visible(added) if added else None
    if visible is None or len(visible) != len(added):
        return check
    for token_id, theirs in zip(added, visible, strict=True):
        check = replace(check, special=check.special + 1)
        special, ours = token_id in vocabulary.special, _text(vocabulary, [token_id])
        # White space may be left out for what it is, at the start of a text.
        if not ours.strip() or special is not bool(theirs) or not (theirs or peer.detokenize([token_id])):
            continue
        sides = ("special, and left out", f"shown as {_quoted(theirs or ours)}")
        difference = Difference(f"id {token_id}, {_quoted(ours)}", *(sides if special else sides[::-1]))
        check = _with(check, difference)
        if len(check.differences) >= _MOST_DIFFERENCES:
            break
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
