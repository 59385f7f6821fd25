"""Texts as token ids of the bundled vocabulary, Qwen3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from derender.models.layer import load_models
from derender.settings import Settings

__all__ = ["END", "PROMPT", "Qwen3", "qwen3"]

END: Final = 151_645
"""The id that ends a turn."""
PROMPT: Final = [151_644, 872, 198, 13_048, END, 198, 151_644, 77_091, 198]
"""A prompt: the user says "Hi"."""


@dataclass(frozen=True)
class Qwen3:
    """An encoder of the bundled vocabulary, which prefers long tokens."""

    ids: dict[bytes, int]
    markers: re.Pattern[bytes]
    longest: int = 24

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text. The names of markers become markers."""
        encoded: list[int] = []
        for part in self.markers.split(text.encode()):
            if self.markers.fullmatch(part):
                encoded.append(self.ids[part])
                continue
            begin = 0
            while begin < len(part):
                for size in range(min(self.longest, len(part) - begin), 0, -1):
                    token_id = self.ids.get(part[begin : begin + size])
                    if token_id is not None:
                        encoded.append(token_id)
                        begin += size
                        break
        return encoded


@cache
def qwen3() -> Qwen3:
    """Return the encoder."""
    vocabulary = load_models(Settings.from_environment({})).find(None).model.vocabulary
    manifest = vocabulary.manifest
    ids = {vocabulary.pieces[token_id]: token_id for token_id in reversed(range(manifest.named))}
    markers = b"|".join(re.escape(vocabulary.pieces[token_id]) for token_id in manifest.added_token_ids)
    return Qwen3(ids, re.compile(b"(" + markers + b")"))
