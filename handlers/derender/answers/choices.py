"""The choices of a complete generation, decoded: what chat and text completions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from derender.decoding.output import OutputDecoder
from derender.decoding.stop import StopRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.decoding.pieces import Piece
    from derender.decoding.stop import StopReason
    from derender.decoding.token_places import TokenRun
    from derender.parsing import Parser
    from derender.protocol.client import ClientRequest
    from derender.protocol.generate import GenerateChoice, GenerateChunk, GenerateResponse
    from derender.vocabulary import Manifest, Vocabulary

__all__ = [
    "DecodedChoice",
    "Prompt",
    "decode_choices",
    "output_decoder",
    "resolve_prompt",
    "stop_rule",
]


class Prompt(NamedTuple):
    """The prompt of a generation, as far as it is known."""

    token_ids: Sequence[int] | None
    """Its ids or the last few of them."""
    tokens: int | None
    """Its length, for `usage`; None if only the generate server knows it."""


class DecodedChoice(NamedTuple):
    """A complete generation with its text."""

    generated: GenerateChoice
    pieces: Sequence[Piece]
    """Text and, for a parser, markers."""
    finish_reason: str | None
    stop_reason: StopReason
    runs: Sequence[TokenRun]
    """The runs of tokens that a parser's pieces come from."""

    @property
    def text(self) -> str:
        """The text of an output without markers."""
        return "".join(map(str, self.pieces))


def stop_rule(client: ClientRequest, manifest: Manifest, *, reported: bool) -> StopRule:
    """Return what ends the outputs for a client's request.

    Args:
        client: The client's request.
        manifest: The manifest of the model's vocabulary.
        reported: Whether the generate server reports stop strings (`StopRule`).
    """
    stop_token_ids = () if client.ignore_eos else manifest.stop_token_ids
    return StopRule(
        strings=client.stop,
        token_ids=frozenset((*client.stop_token_ids, *stop_token_ids)),
        eos_token_id=None if client.ignore_eos else manifest.eos_token_id,
        include=client.include_stop_str_in_output,
        min_tokens=client.min_tokens,
        reported=reported,
    )


def output_decoder(
    vocabulary: Vocabulary, client: ClientRequest, parser: Parser | None, *, stops_reported: bool
) -> OutputDecoder:
    """Return the decoder of the outputs for a client's request.

    Args:
        vocabulary: The model's vocabulary.
        client: The client's request.
        parser: The parser of the outputs, for its markers.
        stops_reported: Whether the generate server finds stop strings and reports the one that ended a
            generation. If not, an output ends at the first one, whatever ended the generation.
    """
    stop = stop_rule(client, vocabulary.manifest, reported=stops_reported)
    skip = client.skip_special_tokens
    if parser is None:
        return OutputDecoder(vocabulary, stop, skip)
    return OutputDecoder(vocabulary, stop, skip, parser.markers, parser.grammar.uncut)


def decode_choices(
    decoder: OutputDecoder, response: GenerateResponse, prompt_token_ids: Sequence[int] | None
) -> list[DecodedChoice]:
    """Decode the choices of a generate response.

    Args:
        decoder: The decoder for the client's request.
        response: The generate response, checked.
        prompt_token_ids: The prompt or a suffix of it, if known. All choices continue it.
    """
    state = decoder.start(prompt_token_ids)
    decoded = []
    for choice in response.choices:
        output = decoder.decode(state, choice.token_ids or [], choice.finish_reason, choice.stop_reason)
        decoded.append(
            DecodedChoice(choice, output.pieces, output.finish_reason, output.stop_reason, output.runs)
        )
    return decoded


def resolve_prompt(
    requested: Sequence[int] | None, generated: GenerateResponse | GenerateChunk
) -> Sequence[int] | None:
    """Return the prompt's ids: those of the request, or else those that the generate server sent."""
    return generated.prompt_token_ids if requested is None else requested
