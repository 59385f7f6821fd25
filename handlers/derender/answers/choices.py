"""The choices of a generate response → their texts and why they ended; what chat and completions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from derender.decoding.detokenizer import detokenize, held_text, start
from derender.decoding.stopping import cut_stop_string, drop_stop_token, stop_strings
from derender.parsing.engine.pieces import cut_pieces, piece_text, read_pieces
from derender.protocol.openai import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from derender.decoding.detokenizer import DetokenizerState
    from derender.decoding.stopping import StopReason
    from derender.parsing.engine.grammar import Grammar
    from derender.parsing.engine.pieces import Piece
    from derender.protocol.derender import ClientRequest
    from derender.protocol.generate import GenerateChoice, GenerateChunk, GenerateResponse
    from derender.vocabulary import Vocabulary

    Read = Callable[[DetokenizerState, Sequence[int]], tuple[list[Piece], DetokenizerState]]
    """Decodes ids, as the next of an output."""

__all__ = ["DecodedChoice", "Read", "decode_choices", "prompt_ids", "reader", "usage"]


class DecodedChoice(NamedTuple):
    """A complete generation with its text."""

    generated: GenerateChoice
    pieces: Sequence[Piece]
    """Its text, and the markers in it where a parser looks for them."""
    finish_reason: str | None
    stop_reason: StopReason

    @property
    def text(self) -> str:
        """Its text, where no markers are looked for."""
        return "".join(map(str, self.pieces))


def prompt_ids(
    given: Sequence[int] | None, generated: GenerateResponse | GenerateChunk
) -> Sequence[int] | None:
    """The prompt as the request gives it, or else as the generate server does."""
    return generated.prompt_token_ids if given is None else given


def decode_choices(
    vocabulary: Vocabulary,
    response: GenerateResponse,
    prompt_token_ids: Sequence[int] | None,
    client: ClientRequest,
    grammar: Grammar | None = None,
    *,
    unseen_stops: bool = False,
) -> list[DecodedChoice]:
    """Decode complete generations, each up to where it was stopped.

    Args:
        vocabulary: The model's.
        response: The generate response, checked.
        prompt_token_ids: The prompt, or a suffix of it; the response's own where there is none.
        client: What the client asked.
        grammar: What parses them, for the markers that it looks for.
        unseen_stops: Whether the engine could not see stop strings: a text ends at one whatever ended the
            generation.
    """
    prompt = prompt_ids(prompt_token_ids, response)
    # All choices continue the same prompt.
    state = start(vocabulary, prompt, skip_special_tokens=client.skip_special_tokens)

    read = reader(vocabulary, client, grammar)
    if grammar and grammar.uncut:
        return [_decode_uncut(vocabulary, state, choice, client, read) for choice in response.choices]
    return [
        _decode(vocabulary, state, choice, client, read, unseen_stops=unseen_stops)
        for choice in response.choices
    ]


def reader(vocabulary: Vocabulary, client: ClientRequest, grammar: Grammar | None) -> Read:
    """What decodes the ids of outputs: to text, or to the pieces that a parser reads."""
    skip = client.skip_special_tokens
    if grammar is not None:
        markers = grammar.markers
        return lambda state, token_ids: read_pieces(
            vocabulary, markers, state, token_ids, skip_special_tokens=skip
        )

    def read(state: DetokenizerState, token_ids: Sequence[int]) -> tuple[list[Piece], DetokenizerState]:
        text, state = detokenize(vocabulary, state, token_ids, skip_special_tokens=skip)
        return [text], state

    return read


def _decode(
    vocabulary: Vocabulary,
    state: DetokenizerState,
    choice: GenerateChoice,
    client: ClientRequest,
    read: Read,
    *,
    unseen_stops: bool = False,
) -> DecodedChoice:
    visible, stop_reason = drop_stop_token(
        choice.token_ids or [], choice.finish_reason, choice.stop_reason, client, vocabulary.manifest
    )
    finish_reason = choice.finish_reason
    strings = stop_strings(finish_reason, choice.stop_reason, client)
    if unseen_stops and not isinstance(choice.stop_reason, str):
        strings = client.stop
    exempt: list[Piece] = []
    if strings and client.min_tokens:
        exempt, state = read(state, visible[: client.min_tokens])
        visible = visible[client.min_tokens :]
    rest, _ = read(state, visible)
    pieces = exempt + rest
    if strings:
        text, found = cut_stop_string(
            piece_text(vocabulary, pieces),
            len(piece_text(vocabulary, exempt)),
            strings,
            include=client.include_stop_str_in_output,
        )
        if found:
            pieces = cut_pieces(vocabulary, pieces, len(text))
            finish_reason, stop_reason = "stop", found
    return DecodedChoice(choice, pieces, finish_reason, stop_reason)


def _decode_uncut(
    vocabulary: Vocabulary, state: DetokenizerState, choice: GenerateChoice, client: ClientRequest, read: Read
) -> DecodedChoice:
    """As it was generated; only the stop reason is that of the text that was stopped."""
    stopped = _decode(vocabulary, state, choice, client, read)
    token_ids: Sequence[int] = choice.token_ids or []
    visible, _ = drop_stop_token(
        token_ids, choice.finish_reason, choice.stop_reason, client, vocabulary.manifest
    )
    # A control token that ended it is no text.
    ended = len(visible) < len(token_ids) and token_ids[-1] in vocabulary.special
    pieces, state = read(state, visible if ended else token_ids)
    return stopped._replace(pieces=[*pieces, held_text(state)])


def usage(prompt_tokens: int, responses: Sequence[GenerateResponse]) -> Usage:
    """Tokens in and out; the ids received, the stop token included."""
    completion_tokens = sum(len(choice.token_ids or ()) for each in responses for choice in each.choices)
    return Usage(
        prompt_tokens=prompt_tokens,
        total_tokens=prompt_tokens + completion_tokens,
        completion_tokens=completion_tokens,
    )
