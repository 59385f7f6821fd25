"""Compare a vocabulary with a server or a recording."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from derender.vocabulary import MAX_SIZE
from layer_compiler.corpus import TEXTS
from layer_compiler.decoding import decode_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from derender.vocabulary import Manifest, Vocabulary

    from .recording import RecordedText
    from .vllm_server import VllmServer

__all__ = ["Comparison", "Counts", "Difference", "compare_with_recording", "compare_with_server"]

_BATCH: Final = 2048
"""Ids in one request."""
_MAX_DIFFERENCES: Final = 10
"""After so many, the server has another tokenizer."""
_MAX_SPECIAL_IDS: Final = 16
_MAX_ADDED_IDS: Final = 1024
"""Added tokens that are compared as special or not. Models have some dozens."""
_IDS_BEYOND: Final = 1024
"""Ids above the layer's that are looked at."""
_NO_MODELS_ID: Final = MAX_SIZE - 1
"""No model has this id. A server that has text even for it shows every unknown id."""
_CLEANED_UP: Final = (
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'")),
    *((" n't", "n't"), (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)
"""Replacements of transformers' `clean_up_tokenization_spaces`. /detokenize may do them, generation doesn't."""


@dataclass(frozen=True)
class Difference:
    """A disagreement between the two sides, for people."""

    subject: str
    ours: str
    theirs: str


@dataclass
class Counts:
    """Counts of what was compared."""

    texts: int = 0
    ids: int = 0
    special: int = 0
    """Added tokens that were compared as special or not."""
    length: bool = False
    """Whether the longest sequence was compared."""


@dataclass(frozen=True)
class Comparison:
    """The result: counts, differences and warnings."""

    counts: Counts
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]
    """Facts that the layer lacks and no server can tell."""


def compare_with_recording(vocabulary: Vocabulary, recording: Iterable[RecordedText]) -> Comparison:
    """Decode recorded token ids and compare the texts."""

    def compare(counts: Counts) -> Iterator[Difference]:
        for recorded in recording:
            counts.texts += 1
            if (unknown := _find_unknown_id(vocabulary, recorded.place, recorded.token_ids)) is not None:
                yield unknown
            elif recorded.text not in _possible_texts(vocabulary, recorded.token_ids):
                ours = _quote(_decode(vocabulary, recorded.token_ids))
                yield Difference(recorded.place, ours, _quote(recorded.text))

    return _collect(vocabulary, compare)


def compare_with_server(vocabulary: Vocabulary, server: VllmServer) -> Comparison:
    """Compare texts, the longest sequence, every id that is text alone, unnamed ids, and special tokens."""

    def compare(counts: Counts) -> Iterator[Difference]:
        yield from _compare_texts(vocabulary, server, counts)
        yield from _compare_ids(vocabulary, server, counts)
        yield from _compare_unnamed_ids(vocabulary, server)
        yield from _compare_special_tokens(vocabulary, server, counts)

    return _collect(vocabulary, compare)


def _collect(vocabulary: Vocabulary, compare: Callable[[Counts], Iterator[Difference]]) -> Comparison:
    counts = Counts()
    differences = tuple(islice(compare(counts), _MAX_DIFFERENCES))
    return Comparison(counts, differences, tuple(_warn(vocabulary.manifest)))


def _warn(manifest: Manifest) -> Iterator[str]:
    if manifest.eos_token_id is None and not manifest.stop_token_ids:
        yield (
            "the layer has no id that ends a generation, and no server tells it; build the layer from a folder "
            "with the model's configuration"
        )
    # An origin with a field is a configuration file's.
    if ": " not in manifest.origins.get("size", ""):
        yield (
            f"the layer has the {manifest.size:,} ids of the tokenizer's file; the model can emit more if its "
            "embedding table is padded, and no server tells how many"
        )


def _compare_texts(vocabulary: Vocabulary, server: VllmServer, counts: Counts) -> Iterator[Difference]:
    """Decode the token ids that the server encodes texts to. Compare the longest sequence as well."""
    length = None
    for text in TEXTS:
        tokenized = server.tokenize(text)
        if tokenized is None:
            break
        length = tokenized.max_model_len
        counts.texts += 1
        yield from _compare_text(vocabulary, server, text, tokenized.token_ids)
    # Ask after a text, which shows that the server has the model.
    length = server.get_max_model_len() if length is None else length
    if length is None:
        return
    counts.length = True
    own = vocabulary.manifest.max_model_len
    if own != length:
        ours = "unknown" if own is None else f"{own:,} tokens"
        yield Difference("max_model_len", ours, f"{length:,} tokens")


def _compare_text(
    vocabulary: Vocabulary, server: VllmServer, text: str, token_ids: Sequence[int]
) -> Iterator[Difference]:
    subject = f"text {_quote(text)}"
    if (unknown := _find_unknown_id(vocabulary, subject, token_ids)) is not None:
        yield unknown
        return
    texts = _possible_texts(vocabulary, token_ids)
    if text in texts or _normalize(text) in map(_normalize, texts):
        return
    # A tokenizer may lower, fold or drop what it encodes. Then the server's own decoding is right.
    theirs = server.detokenize(token_ids)
    ours = _decode(vocabulary, token_ids)
    if theirs is None or not _equal(ours, theirs):
        yield Difference(subject, _quote(ours), _quote(text if theirs is None else theirs))


def _compare_ids(vocabulary: Vocabulary, server: VllmServer, counts: Counts) -> Iterator[Difference]:
    """Compare every id that is text alone, in batches, and some special tokens."""

    def agrees(token_ids: Sequence[int]) -> bool | None:
        theirs = server.detokenize(token_ids)
        return None if theirs is None else _equal(_decode(vocabulary, token_ids), theirs)

    ordinary = list(_list_ordinary_ids(vocabulary))
    for start in range(0, len(ordinary), _BATCH):
        token_ids = ordinary[start : start + _BATCH]
        agreed = agrees(token_ids)
        if agreed is None:
            return
        counts.ids += len(token_ids)
        if not agreed:
            differing = _narrow_down(token_ids, agrees)
            subject = f"id {differing[0]}" if len(differing) == 1 else f"ids {differing[0]} to {differing[-1]}"
            theirs = server.detokenize(differing) or ""
            yield Difference(subject, _quote(_decode(vocabulary, differing)), _quote(theirs))
    for token_id in sorted(vocabulary.special)[:_MAX_SPECIAL_IDS]:
        counts.ids += 1
        ours, shown = _decode(vocabulary, [token_id]), server.detokenize([token_id])
        # Some decoders never show special tokens.
        if shown and not _equal(ours, shown):
            yield Difference(f"special id {token_id}", _quote(ours), _quote(shown))


def _compare_unnamed_ids(vocabulary: Vocabulary, server: VllmServer) -> Iterator[Difference]:
    """Look for an id that has text on the server but no token in the layer, in its padding or above it."""
    if server.detokenize_unknown([_NO_MODELS_ID]):
        return
    size = vocabulary.manifest.size
    padding = [n for n in range(size) if not vocabulary.pieces[n] and n not in vocabulary.special]

    def agrees(token_ids: Sequence[int]) -> bool:
        theirs = server.detokenize_unknown(token_ids)
        return not theirs or (token_ids[-1] < size and _equal(_decode(vocabulary, token_ids), theirs))

    # The first id above is also asked for alone: a server refuses a batch with an id that it doesn't have.
    for ids in (padding, range(size, size + 1), range(size, size + _IDS_BEYOND)):
        for start in range(0, len(ids), _BATCH):
            if agrees(token_ids := ids[start : start + _BATCH]):
                continue
            first, *_ = _narrow_down(token_ids, agrees)
            ours = "has no token of this id" if first < size else _describe_range(first, size)
            theirs = server.detokenize_unknown([first]) or server.detokenize_unknown(token_ids) or ""
            yield Difference(f"id {first}", ours, _quote(theirs))
            return


def _compare_special_tokens(vocabulary: Vocabulary, server: VllmServer, counts: Counts) -> Iterator[Difference]:
    """Compare which added tokens are special: clients don't see those."""
    added = sorted(vocabulary.special.union(vocabulary.manifest.added_token_ids))[:_MAX_ADDED_IDS]
    shown = server.show_each(added) if added else None
    if shown is None or len(shown) != len(added):
        return
    for token_id, theirs in zip(added, shown, strict=True):
        counts.special += 1
        special, ours = token_id in vocabulary.special, _decode(vocabulary, [token_id])
        # A server may drop white space at the start of a text even if the token isn't special.
        if not ours.strip() or special is not bool(theirs) or not (theirs or server.detokenize([token_id])):
            continue
        sides = ("special, not shown", f"shown as {_quote(theirs or ours)}")
        yield Difference(f"id {token_id}, {_quote(ours)}", *(sides if special else sides[::-1]))


def _list_ordinary_ids(vocabulary: Vocabulary) -> Iterator[int]:
    """Yield the ids whose text doesn't depend on their neighbours."""
    for token_id in range(vocabulary.manifest.size):
        piece = vocabulary.pieces[token_id]
        if piece and token_id not in vocabulary.special and token_id not in vocabulary.byte_tokens:
            try:
                piece.decode()
            except UnicodeDecodeError:
                continue
            yield token_id


def _narrow_down(token_ids: Sequence[int], agrees: Callable[[Sequence[int]], bool | None]) -> Sequence[int]:
    """Return as few neighbouring ids as still differ."""
    while len(token_ids) > 1:
        half = len(token_ids) // 2
        for part in (token_ids[:half], token_ids[half:]):
            if agrees(part) is False:
                token_ids = part
                break
        else:
            break
    return token_ids


def _find_unknown_id(vocabulary: Vocabulary, subject: str, token_ids: Sequence[int]) -> Difference | None:
    size = vocabulary.manifest.size
    unknown = next((token_id for token_id in token_ids if token_id >= size), None)
    return None if unknown is None else Difference(subject, _describe_range(unknown, size), f"id {unknown}")


def _describe_range(token_id: int, size: int) -> str:
    return f"has no id {token_id}: its ids are 0 to {size - 1}"


def _possible_texts(vocabulary: Vocabulary, token_ids: Sequence[int]) -> set[str]:
    """Return the text with and without special tokens, with and without an incomplete character at its end."""
    outputs = (decode_output(vocabulary, token_ids, skip_special_tokens=skip) for skip in (True, False))
    return {shown for text, incomplete in outputs for shown in (text, text + incomplete)}


def _decode(vocabulary: Vocabulary, token_ids: Sequence[int]) -> str:
    return "".join(decode_output(vocabulary, token_ids))


def _equal(ours: str, theirs: str) -> bool:
    return ours == theirs or _clean_up(ours) == _clean_up(theirs)


def _clean_up(text: str) -> str:
    for found, replacement in _CLEANED_UP:
        text = text.replace(found, replacement)
    return text


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _quote(text: str, most: int = 120) -> str:
    """Return a text in one line, cut to a length."""
    return repr(text if len(text) <= most else f"{text[:most]}…")
