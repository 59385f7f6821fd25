"""The state of a stream: a value that travels between two requests, so that nothing is kept here."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from derender.decoding.output import OutputState
from derender.logprobs.strings import MAX_CONTEXT
from derender.parsing import ParserState
from derender.parsing.ids import SEED_BYTES
from derender.protocol.generate import MAX_REQUEST_ID
from derender.vocabulary import TokenId

__all__ = ["ChoiceState", "GenerationState"]

Count = Annotated[int, Meta(ge=0, lt=2**62)]


class ChoiceState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of one choice."""

    output: OutputState = OutputState()
    """The state of decoding."""
    parsing: ParserState | None = None
    """The state of parsing; None without a parser."""
    logprob_context: Annotated[tuple[TokenId, ...], Meta(max_length=MAX_CONTEXT)] = ()
    """The last sampled tokens that end inside a character, for the strings of logprobs."""
    offset: Count = 0
    """Length of the text of all tokens so far, for the logprobs of text completions."""
    calls: Count = 0
    """Number of tool calls so far."""
    reasoning_tokens: Count = 0
    """Number of tokens of the reasoning so far."""
    received: Count = 0
    """Number of ids so far."""
    finished: bool = False
    """Whether the generate server has sent the finish reason."""


class GenerationState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of a generation."""

    request_id: Annotated[str, Meta(max_length=MAX_REQUEST_ID)]
    created: Count
    """Unix time of the first chunk, in seconds."""
    beginning: ChoiceState = ChoiceState()
    """The state that every choice begins with, after the prompt."""
    seed: Annotated[bytes, Meta(max_length=SEED_BYTES)] = b""
    """What the ids of tool calls are made from."""
    counted: bool = False
    """Whether usage has come, with the end of the last choice or after it."""
    choices: dict[int, ChoiceState] = {}
    """The states of the choices that have begun, by index."""
    finished: Count = 0
    """How many of them have finished."""
    reasoning_tokens: Count = 0
    """Number of tokens of their reasoning."""

    def with_choice(self, index: int, choice: ChoiceState) -> GenerationState:
        """Return the state with another state of a choice, or with one more."""
        before = self.choices.get(index, self.beginning)
        return replace(
            self,
            choices={**self.choices, index: choice},
            finished=self.finished + choice.finished - before.finished,
            reasoning_tokens=self.reasoning_tokens + choice.reasoning_tokens - before.reasoning_tokens,
        )

    def has_finished(self, n: int) -> bool:
        """Return whether all choices, at least `n`, have finished."""
        return self.finished == len(self.choices) >= n
