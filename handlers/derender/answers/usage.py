"""Usage: the tokens of a complete generation, as the generate server counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from derender.protocol.base import MAX_TOKEN_COUNT
from derender.protocol.generate import GenerateUsage
from derender.protocol.openai.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from derender.protocol.base import Json
    from derender.protocol.generate import GenerateResponse

__all__ = ["add_usages", "count_usage", "write_usage"]


def count_usage(
    prompt_tokens: int | None, response: GenerateResponse, reasoning_tokens: int | None = None
) -> Usage:
    """Count the tokens in and out of a generation. Stop tokens count.

    Args:
        prompt_tokens: Length of the prompt, if the request says it.
        response: The generate response. Of its own count and the ids that it contains, the higher counts.
        reasoning_tokens: Tokens of the reasoning; None if it is not parsed.
    """
    counted = response.usage or GenerateUsage()
    received = sum(len(choice.token_ids or ()) for choice in response.choices)
    if prompt_tokens is None:
        prompt_tokens = counted.prompt_tokens or len(response.prompt_token_ids or ())
    return write_usage(prompt_tokens, max(counted.completion_tokens or 0, received), counted, reasoning_tokens)


def write_usage(
    prompt_tokens: int, completion_tokens: int, counted: GenerateUsage, reasoning_tokens: int | None = None
) -> Usage:
    """Return the usage of a generation.

    Args:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens generated.
        counted: The generate server's usage, whose details are passed on.
        reasoning_tokens: Tokens of the reasoning, which are added to the details; None if it is not parsed.
    """
    details = counted.completion_tokens_details
    if reasoning_tokens is not None:
        details = {**(details if isinstance(details, dict) else {}), "reasoning_tokens": reasoning_tokens}
    return Usage(
        prompt_tokens=prompt_tokens,
        total_tokens=prompt_tokens + completion_tokens,
        completion_tokens=completion_tokens,
        prompt_tokens_details=counted.prompt_tokens_details,
        completion_tokens_details=details,
    )


def add_usages(usages: Sequence[Usage]) -> Usage:
    """Add up the usages of several generations."""
    if len(usages) == 1:
        return usages[0]
    return Usage(
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        total_tokens=sum(usage.total_tokens for usage in usages),
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        prompt_tokens_details=_add_details(usage.prompt_tokens_details for usage in usages),
        completion_tokens_details=_add_details(usage.completion_tokens_details for usage in usages),
    )


def _add_details(details: Iterable[Json]) -> dict[str, Any] | None:
    """Add up the numbers of tokens in details, also in objects inside them. Other values are left out."""
    sums: dict[str, Any] = {}
    for each in details:
        if isinstance(each, dict):
            _add_to(sums, each)
    return sums or None


def _add_to(sums: dict[str, Any], details: dict[str, Json]) -> None:
    for name, value in details.items():
        before = sums.get(name, 0)
        if isinstance(value, dict):
            inner = before if isinstance(before, dict) else {}
            _add_to(inner, value)
            if inner:
                sums[name] = inner
        elif type(value) is type(before) is int and 0 <= value <= MAX_TOKEN_COUNT:
            sums[name] = before + value
