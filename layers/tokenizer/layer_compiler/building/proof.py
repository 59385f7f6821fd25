"""Prove that a compiled vocabulary decodes as its format's own library does."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from derender.decoding.detokenizer import detokenize, start
from derender.decoding.state import DetokenizerState
from derender.decoding.utf8 import REPLACEMENT
from layer_compiler.corpus import TEXTS
from layer_compiler.decoding import decode_output
from layer_compiler.errors import LayerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from derender.vocabulary import Vocabulary
    from layer_compiler.formats.parsed import ReferenceLibrary

__all__ = ["Proof", "prove"]

SEQUENCES: Final = 600
MAX_SEQUENCE_IDS: Final = 48


@dataclass(frozen=True, slots=True)
class Proof:
    """Counts of what was compared and found equal."""

    ids: int
    texts: int
    sequences: int
    library: str


def prove(vocabulary: Vocabulary, library: ReferenceLibrary) -> Proof:
    """Compare every id, a corpus of texts and random sequences.

    Texts and sequences are compared with and without special tokens. Texts are also compared as the
    continuation of a prompt, and sequences in pieces.

    Raises:
        LayerError: The message names the first ids that decode differently.
    """
    size = vocabulary.manifest.size
    for token_id in range(size):
        _compare(vocabulary, library, [token_id], skip=False)
        if token_id in vocabulary.special or vocabulary.visible_pieces[token_id] != vocabulary.pieces[token_id]:
            _compare(vocabulary, library, [token_id], skip=True)
    # The seed makes the proof reproducible, as the build is.
    rng = random.Random(vocabulary.manifest.source_sha256)  # noqa: S311
    encoded = [ids for text in TEXTS for ids in library.encode(text)]
    for ids in encoded:
        for skip in (False, True):
            _compare(vocabulary, library, ids, skip=skip)
        _compare_continuation(rng, vocabulary, library, ids)
    for ids in _draw_sequences(rng, vocabulary, encoded):
        for skip in (False, True):
            _compare(vocabulary, library, ids, skip=skip)
        _compare_pieces(rng, vocabulary, ids)
    return Proof(ids=size, texts=len(TEXTS), sequences=SEQUENCES, library=library.name)


def _draw_sequences(
    rng: random.Random, vocabulary: Vocabulary, encoded: Sequence[list[int]]
) -> Iterator[list[int]]:
    """Yield sequences of any ids, of special tokens and incomplete characters, and of texts cut at random."""
    every_id = range(vocabulary.manifest.size)
    special = sorted(vocabulary.special) or [0]
    incomplete = [n for n in every_id if _ends_inside_character(vocabulary.pieces[n])] or [0]
    for number in range(SEQUENCES):
        length = rng.randint(1, MAX_SEQUENCE_IDS)
        match number % 4:
            case 0:
                yield rng.choices(every_id, k=length)
            case 1:
                yield [rng.choice(rng.choice((every_id, incomplete, special))) for _ in range(length)]
            case 2:
                yield rng.choices(incomplete, k=length)
            case _:
                ids = rng.choice(encoded)
                first = rng.randrange(max(len(ids), 1))
                yield ids[first : first + length]


def _ends_inside_character(piece: bytes) -> bool:
    return piece.decode(errors="replace").endswith(REPLACEMENT)


def _drop_incomparable(
    vocabulary: Vocabulary, library: ReferenceLibrary, ids: list[int], hidden: frozenset[int]
) -> list[int]:
    """Drop the byte tokens that the library decodes differently on purpose (`ReferenceLibrary.comparable`).

    Hidden tokens and ids without bytes don't end a run of byte tokens.
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
            kept = run[library.comparable(data, starts_text=starts_text)]
            dropped.update(set(run).difference(kept))
            starts_text = starts_text and not kept and token_id is None
            run = []
    return [token_id for place, token_id in enumerate(ids) if place not in dropped]


def _compare(vocabulary: Vocabulary, library: ReferenceLibrary, ids: list[int], *, skip: bool) -> None:
    hidden = vocabulary.special if skip else frozenset()
    ids = _drop_incomparable(vocabulary, library, ids, hidden)
    expected = library.decode([n for n in ids if n not in hidden] if skip else ids)
    text = "".join(decode_output(vocabulary, ids, skip_special_tokens=skip))
    if text != expected:
        raise LayerError(f"ids {ids} decode to {text!r}, but {library.name} decodes them to {expected!r}")


def _compare_pieces(rng: random.Random, vocabulary: Vocabulary, ids: list[int]) -> None:
    whole = detokenize(vocabulary, DetokenizerState(), ids)
    state, text, rest = DetokenizerState(), "", ids
    while rest:
        cut = rng.randint(1, len(rest))
        piece, state = detokenize(vocabulary, state, rest[:cut])
        text, rest = text + piece, rest[cut:]
    if (text, state.pending) != (whole[0], whole[1].pending):
        raise LayerError(f"ids {ids} decode to {whole[0]!r}, but in pieces to {text!r}")


def _compare_continuation(
    rng: random.Random, vocabulary: Vocabulary, library: ReferenceLibrary, ids: list[int]
) -> None:
    """Cut a text's ids into a prompt and an output, which continues the prompt's text."""
    cut = rng.randint(0, len(ids))
    expected = library.decode(ids)
    if REPLACEMENT in expected:
        # It can't be told from a character that the cut divides.
        return
    state = start(vocabulary, ids[:cut], skip_special_tokens=False)
    text, _ = detokenize(vocabulary, state, ids[cut:], skip_special_tokens=False)
    before, prompt = detokenize(vocabulary, DetokenizerState(), ids[:cut], skip_special_tokens=False)
    # What the prompt holds before the character that it began belongs to the prompt.
    before += prompt.pending.removesuffix(state.prompt_bytes).decode()
    if before + text != expected:
        raise LayerError(
            f"ids {ids[cut:]} after {ids[:cut]} decode to {text!r}, but {library.name} decodes them to "
            f"{expected.removeprefix(before)!r}"
        )
