"""Encode outputs as token ids, with tokens of any width."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from tests.conformance.vocabularies import vocabulary

from .values import MARKS, loads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Vocabulary
    from tests.support.parsers import Message

    from .outputs import Family, Output
    from .values import Value

__all__ = ["encode", "ids_of", "prompt_ids", "read_calls", "split"]

WIDEST: Final = 12


class Encoder:
    """Encodes text with a vocabulary's tokens, all of them or the narrow ones only."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.added = vocabulary.added_tokens()
        fallback = bool(vocabulary.byte_tokens)
        markers = {token_id for text, token_id in self.added.items() if text.strip()}
        self._ids: dict[bytes, int] = {}
        for token_id in range(vocabulary.manifest.size):
            piece = vocabulary.pieces[token_id]
            if not 0 < len(piece) <= WIDEST or token_id in vocabulary.special or token_id in markers:
                continue
            if token_id in vocabulary.byte_tokens:
                self._ids.setdefault(piece, token_id)
            elif not fallback or _is_text(piece):
                self._ids[piece] = token_id

    def text(self, text: str, widest: int) -> list[int]:
        """Ids of ordinary text.

        Args:
            text: The text.
            widest: Most bytes of a token.
        """
        data, at, ids = text.encode(), 0, []
        while at < len(data):
            for width in range(min(widest, len(data) - at), 0, -1):
                token_id = self._ids.get(data[at : at + width])
                if token_id is not None:
                    ids.append(token_id)
                    at += width
                    break
            else:
                raise AssertionError(f"no token for {data[at:]!r}")
        return ids


def _is_text(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


@cache
def _encoder(name: str) -> Encoder:
    return Encoder(vocabulary(name))


def encode(family: Family, text: str, widest: int) -> list[int]:
    """Encode an output. Its marks become the tokens they stand for."""
    encoder = _encoder(family.vocabulary)
    texts = {character: marker for marker, character in family.markers().items()}
    ids: list[int] = []
    begin = 0
    for place, character in enumerate(text):
        if ord(character) in MARKS:
            ids += encoder.text(text[begin:place], widest)
            ids.append(encoder.added[texts[character]])
            begin = place + 1
    return ids + encoder.text(text[begin:], widest)


def ids_of(family: Family, output: Output, widest: int) -> list[int]:
    """Encode an output."""
    return encode(family, output.text, widest)


@cache
def prompt_ids(family: Family, prompt: str | None) -> tuple[int, ...]:
    """Encode a prompt. Each added token in it is a token."""
    encoder = _encoder(family.vocabulary)
    ids: list[int] = []
    begin = at = 0
    text = prompt or ""
    longest = sorted(encoder.added, key=len, reverse=True)
    while at < len(text):
        token = next((each for each in longest if each.strip() and text.startswith(each, at)), None)
        if token is None:
            at += 1
            continue
        ids += [*encoder.text(text[begin:at], WIDEST), encoder.added[token]]
        begin = at = at + len(token)
    return (*ids, *encoder.text(text[begin:], WIDEST))


def read_calls(message: Message) -> list[tuple[str, Value]]:
    """Return the calls of a message with their arguments read."""
    return [(name, loads(arguments)) for name, arguments in message.calls]


def split(ids: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
    """Split ids into chunks of these sizes. The last chunk has the rest."""
    chunks, at = [], 0
    for size in sizes:
        chunks.append(ids[at : at + size])
        at += size
    return [*chunks, ids[at:]]
