"""Proof that a compiled vocabulary decodes as the `tokenizers` library does."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from derender.detokenizer import REPLACEMENT, DetokenizerState, detokenize

from .corpus import TEXTS
from .errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenizers import Tokenizer

    from derender.vocabulary import Vocabulary

__all__ = ["Proof", "prove"]

SEQUENCES: Final = 600
LONGEST: Final = 48


@dataclass(frozen=True, slots=True)
class Proof:
    """What was compared, and found equal."""

    ids: int
    texts: int
    sequences: int


def prove(vocabulary: Vocabulary, tokenizer: Tokenizer) -> Proof:
    """Compare every id, a corpus of texts and random sequences, with and without special tokens, whole and in
    pieces.

    Raises:
        BuildError: Names the first ids that decode otherwise.
    """
    count = vocabulary.manifest.size
    for token_id in range(count):
        _compare(vocabulary, tokenizer, [token_id])
    encoded = [
        tokenizer.encode(text, add_special_tokens=special).ids for text in TEXTS for special in (False, True)
    ]
    for ids in encoded:
        _compare(vocabulary, tokenizer, ids)
    # Seeded: a build is reproducible, its proof too.
    rng = random.Random(vocabulary.manifest.source_sha256)  # noqa: S311
    for ids in _sequences(rng, vocabulary, encoded):
        _compare(vocabulary, tokenizer, ids)
        _compare_pieces(rng, vocabulary, ids)
    return Proof(ids=count, texts=len(TEXTS), sequences=SEQUENCES)


def _sequences(rng: random.Random, vocabulary: Vocabulary, encoded: list[list[int]]) -> Iterator[list[int]]:
    """Ids drawn from all, with special tokens, with bytes of characters, and texts cut at random."""
    everything = range(vocabulary.manifest.size)
    special = sorted(vocabulary.special) or [0]
    partial = [n for n in everything if _ends_inside(vocabulary.pieces[n])] or [0]
    for number in range(SEQUENCES):
        length = rng.randint(1, LONGEST)
        match number % 4:
            case 0:
                yield rng.choices(everything, k=length)
            case 1:
                yield [rng.choice(rng.choice((everything, partial, special))) for _ in range(length)]
            case 2:
                yield rng.choices(partial, k=length)
            case _:
                ids = rng.choice(encoded)
                start = rng.randrange(max(len(ids), 1))
                yield ids[start : start + length]


def _ends_inside(piece: bytes) -> bool:
    return piece.decode(errors="replace").endswith(REPLACEMENT)


def _comparable(vocabulary: Vocabulary, ids: list[int], hidden: frozenset[int]) -> list[int]:
    """Leave out what is decoded otherwise on purpose.

    Where a run of byte tokens is no UTF-8, `tokenizers` takes back the complete characters before the fault too
    (`derender.detokenizer`). So of such a run only what follows them is kept. What is hidden, or has no bytes,
    ends no run.
    """
    dropped: set[int] = set()
    run: list[int] = []
    for place, token_id in enumerate([*ids, None]):
        if token_id in vocabulary.byte_tokens:
            run.append(place)
        elif token_id is None or (token_id not in hidden and vocabulary.pieces[token_id]):
            data = b"".join(vocabulary.pieces[ids[each]] for each in run)
            try:
                data.decode()
            except UnicodeDecodeError as error:
                dropped.update(run[: error.start])
            run = []
    return [token_id for place, token_id in enumerate(ids) if place not in dropped]


def _compare(vocabulary: Vocabulary, tokenizer: Tokenizer, ids: list[int]) -> None:
    for skip in (False, True):
        hidden = vocabulary.special if skip else frozenset()
        given = _comparable(vocabulary, ids, hidden)
        expected = tokenizer.decode([n for n in given if n not in hidden], skip_special_tokens=False)
        text, state = detokenize(vocabulary, DetokenizerState(), given, skip_special_tokens=skip)
        # The library shows what ends inside a character; bytes of a byte-fallback one by one.
        held = state.pending
        text += REPLACEMENT * len(held) if vocabulary.byte_tokens else held.decode(errors="replace")
        if text != expected:
            raise BuildError(f"ids {given} decode to {text!r}, but the tokenizers library says {expected!r}")


def _compare_pieces(rng: random.Random, vocabulary: Vocabulary, ids: list[int]) -> None:
    whole = detokenize(vocabulary, DetokenizerState(), ids)
    state, text, rest = DetokenizerState(), "", ids
    while rest:
        cut = rng.randint(1, len(rest))
        piece, state = detokenize(vocabulary, state, rest[:cut])
        text, rest = text + piece, rest[cut:]
    if (text, state.pending) != (whole[0], whole[1].pending):
        raise BuildError(f"ids {ids} decode to {whole[0]!r}, but in pieces to {text!r}")
