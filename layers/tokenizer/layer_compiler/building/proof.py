"""Proof that a compiled vocabulary decodes as its format's own library does."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from derender.decoding.detokenizer import DetokenizerState, detokenize, start
from derender.decoding.utf8 import REPLACEMENT
from layer_compiler.corpus import TEXTS
from layer_compiler.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from derender.vocabulary import Vocabulary
    from layer_compiler.formats.parsed import Authority

__all__ = ["Proof", "prove"]

SEQUENCES: Final = 600
LONGEST: Final = 48


@dataclass(frozen=True, slots=True)
class Proof:
    """What was compared, and found equal."""

    ids: int
    texts: int
    sequences: int
    library: str
    """What it was compared with."""


def prove(vocabulary: Vocabulary, authority: Authority) -> Proof:
    """Compare every id, a corpus of texts and random sequences, with and without special tokens, whole, in
    pieces and after a prompt.

    Args:
        vocabulary: The compiled one.
        authority: The library of its source's format.

    Raises:
        BuildError: Names the first ids that decode otherwise.
    """
    count = vocabulary.manifest.size
    for token_id in range(count):
        if token_id in vocabulary.special or vocabulary.visible_pieces[token_id] != vocabulary.pieces[token_id]:
            _compare(vocabulary, authority, [token_id], skip=True)
        _compare(vocabulary, authority, [token_id], skip=False)
    # Seeded: a build is reproducible, its proof too.
    rng = random.Random(vocabulary.manifest.source_sha256)  # noqa: S311
    encoded: list[list[int]] = []
    for text in TEXTS:
        for ids in authority.encode(text):
            encoded.append(ids)
            for skip in (False, True):
                _compare(vocabulary, authority, ids, skip=skip)
            _compare_continued(rng, vocabulary, authority, ids)
    for ids in _sequences(rng, vocabulary, encoded):
        for skip in (False, True):
            _compare(vocabulary, authority, ids, skip=skip)
        _compare_pieces(rng, vocabulary, ids)
    return Proof(ids=count, texts=len(TEXTS), sequences=SEQUENCES, library=authority.library)


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


def _comparable(
    vocabulary: Vocabulary, authority: Authority, ids: list[int], hidden: frozenset[int]
) -> list[int]:
    """Leave out what is decoded otherwise on purpose, of each run of byte tokens (`Authority.agrees`).

    What is hidden, or has no bytes, ends no run.
    """
    if vocabulary.byte_tokens.isdisjoint(ids):
        return ids
    dropped: set[int] = set()
    run: list[int] = []
    starts_text = True
    for place, token_id in enumerate([*ids, None]):
        if token_id in vocabulary.byte_tokens:
            run.append(place)
        elif token_id is None or (token_id not in hidden and vocabulary.pieces[token_id]):
            data = b"".join(vocabulary.pieces[ids[each]] for each in run)
            kept = run[authority.agrees(data, starts_text=starts_text)]
            dropped.update(set(run).difference(kept))
            starts_text = starts_text and not kept and token_id is None
            run = []
    return [token_id for place, token_id in enumerate(ids) if place not in dropped]


def _compare(vocabulary: Vocabulary, authority: Authority, ids: list[int], *, skip: bool) -> None:
    hidden = vocabulary.special if skip else frozenset()
    given = _comparable(vocabulary, authority, ids, hidden)
    expected = authority.decode([n for n in given if n not in hidden] if skip else given)
    text, state = detokenize(vocabulary, DetokenizerState(), given, skip_special_tokens=skip)
    # The library shows what ends inside a character; bytes of a byte-fallback one by one.
    held = state.pending
    text += REPLACEMENT * len(held) if vocabulary.byte_tokens else held.decode(errors="replace")
    if text != expected:
        raise BuildError(
            f"ids {given} decode to {text!r}, but the {authority.library} library says {expected!r}"
        )


def _compare_pieces(rng: random.Random, vocabulary: Vocabulary, ids: list[int]) -> None:
    whole = detokenize(vocabulary, DetokenizerState(), ids)
    state, text, rest = DetokenizerState(), "", ids
    while rest:
        cut = rng.randint(1, len(rest))
        piece, state = detokenize(vocabulary, state, rest[:cut])
        text, rest = text + piece, rest[cut:]
    if (text, state.pending) != (whole[0], whole[1].pending):
        raise BuildError(f"ids {ids} decode to {whole[0]!r}, but in pieces to {text!r}")


def _compare_continued(
    rng: random.Random, vocabulary: Vocabulary, authority: Authority, ids: list[int]
) -> None:
    """Cut the ids of a text in two, a prompt and what is generated after it: that continues its text."""
    cut = rng.randint(0, len(ids))
    expected = authority.decode(ids)
    if REPLACEMENT in expected:
        # A character that the cut divides could not be told from this one.
        return
    state = start(vocabulary, ids[:cut], skip_special_tokens=False)
    text, _ = detokenize(vocabulary, state, ids[cut:], skip_special_tokens=False)
    before, held = detokenize(vocabulary, DetokenizerState(), ids[:cut], skip_special_tokens=False)
    # Of a token that ends inside a character, what is before that character is the prompt's.
    before += held.pending.removesuffix(state.prompt_bytes).decode()
    if before + text != expected:
        raise BuildError(
            f"ids {ids[cut:]} after {ids[:cut]} decode to {text!r}, but the {authority.library} library says "
            f"{expected.removeprefix(before)!r}"
        )
