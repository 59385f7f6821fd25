"""Where derendering a stream is: a value, so that nothing is kept between two chunks of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from derender.decoding.detokenizer import DetokenizerState
from derender.logprobs.writer import CONTEXT
from derender.parsing import ParserState
from derender.parsing.engine.pieces import Piece
from derender.protocol.generate import MAX_REQUEST_ID
from derender.vocabulary import MAX_SIZE

__all__ = ["ChoiceState", "GenerationState"]

TokenId = Annotated[int, Meta(ge=0, lt=MAX_SIZE)]
Count = Annotated[int, Meta(ge=0, lt=2**62)]


class ChoiceState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where one choice is."""

    decoding: DetokenizerState = DetokenizerState()
    """What decoding carries."""
    parsing: ParserState | None = None
    """Where parsing is; None without a parser."""
    held_token: TokenId | None = None
    """The last id, if it is what stopped the generation should it end there."""
    held: tuple[Piece, ...] = ()
    """Text that may become a stop string."""
    exempt: Count = 0
    """Characters of it within which no stop string may end (`min_tokens`)."""
    tokens: Count = 0
    """How many ids were read, of the first `min_tokens`."""
    stopped: str | None = None
    """The stop string that was found."""
    begun: Annotated[tuple[TokenId, ...], Meta(max_length=CONTEXT)] = ()
    """The last sampled tokens that end inside a character, for log probabilities."""
    offset: Count = 0
    """Characters of the tokens so far, for log probabilities of completions."""
    calls: Count = 0
    """How many calls were given."""
    received: Count = 0
    """How many ids came."""
    finished: bool = False
    """Whether the generation has ended."""


class GenerationState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a generation is: its choices."""

    request_id: Annotated[str, Meta(max_length=MAX_REQUEST_ID)]
    created: Count
    """Unix time in seconds of the first chunk."""
    beginning: ChoiceState = ChoiceState()
    """Where every choice begins: after the prompt."""
    counted: bool = False
    """Whether usage came, with the end of the last choice or after it."""
    choices: dict[int, ChoiceState] = {}
    """Index → where the choice is, of those that have begun."""

    def finished(self, count: int = 1) -> bool:
        """Whether all choices have ended.

        Args:
            count: How many there are at least.
        """
        return len(self.choices) >= count and all(choice.finished for choice in self.choices.values())
