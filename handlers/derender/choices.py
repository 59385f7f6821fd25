"""The choices of a generate response → their texts and why they ended; what chat and completions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .detokenizer import detokenize, start
from .protocol.openai import Usage
from .stopping import cut_stop_string, drop_stop_token, stop_strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .detokenizer import DetokenizerState
    from .protocol.derender import ClientRequest
    from .protocol.generate import GenerateChoice, GenerateResponse
    from .stopping import StopReason
    from .vocabulary import Vocabulary

__all__ = ["DecodedChoice", "decode_choices", "usage"]


class DecodedChoice(NamedTuple):
    """A complete generation with its text."""

    generated: GenerateChoice
    text: str
    stop_reason: StopReason


def decode_choices(
    vocabulary: Vocabulary,
    response: GenerateResponse,
    prompt_token_ids: Sequence[int] | None,
    client: ClientRequest,
) -> list[DecodedChoice]:
    """Decode complete generations, each up to where it was stopped.

    Args:
        vocabulary: The model's.
        response: The generate response, checked.
        prompt_token_ids: The prompt, or a suffix of it; the response's own where there is none.
        client: What the client asked.
    """
    prompt = response.prompt_token_ids if prompt_token_ids is None else prompt_token_ids
    # All choices continue the same prompt.
    state = start(vocabulary, prompt, skip_special_tokens=client.skip_special_tokens)
    return [_decode(vocabulary, state, choice, client) for choice in response.choices]


def _decode(
    vocabulary: Vocabulary, state: DetokenizerState, choice: GenerateChoice, client: ClientRequest
) -> DecodedChoice:
    token_ids = choice.token_ids or []
    visible, stop_reason = drop_stop_token(
        token_ids, choice.finish_reason, choice.stop_reason, client, vocabulary.manifest
    )
    strings = stop_strings(choice.finish_reason, choice.stop_reason, client)
    exempt, text = 0, ""
    if strings and client.min_tokens:
        text, state = detokenize(
            vocabulary, state, visible[: client.min_tokens], skip_special_tokens=client.skip_special_tokens
        )
        exempt = len(text)
        visible = visible[client.min_tokens :]
    rest, _ = detokenize(vocabulary, state, visible, skip_special_tokens=client.skip_special_tokens)
    text += rest
    if strings:
        text, found = cut_stop_string(text, exempt, strings, include=client.include_stop_str_in_output)
        stop_reason = found or stop_reason
    return DecodedChoice(choice, text, stop_reason)


def usage(prompt_tokens: int, responses: Sequence[GenerateResponse]) -> Usage:
    """Tokens in and out; the ids received, the stop token included."""
    completion_tokens = sum(len(choice.token_ids or ()) for each in responses for choice in each.choices)
    return Usage(
        prompt_tokens=prompt_tokens,
        total_tokens=prompt_tokens + completion_tokens,
        completion_tokens=completion_tokens,
    )
