"""Where an output ends: stop tokens and stop strings (protocol/README.md, "Detokenization")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.protocol.derender import ClientRequest
    from derender.vocabulary import Manifest

__all__ = [
    "StopReason",
    "cut_stop_string",
    "drop_stop_token",
    "may_be_stop_token",
    "stop_string_begun",
    "stop_strings",
]

StopReason = int | str | None


def drop_stop_token(
    token_ids: Sequence[int],
    finish_reason: str | None,
    stop_reason: StopReason,
    client: ClientRequest,
    manifest: Manifest,
) -> tuple[Sequence[int], StopReason]:
    """Leave out the token that ended the generation.

    An int `stop_reason` names it. Null is the primary EOS from servers that report reasons, and nothing at
    all from those that don't; so the last id is looked up among the model's and the request's stop tokens.

    Returns:
        The ids to decode, and the stop reason: the id where one was found that is not the primary EOS.
    """
    if finish_reason != "stop" or isinstance(stop_reason, str) or not token_ids:
        return token_ids, stop_reason
    last = token_ids[-1]
    if stop_reason is not None:
        stopped = last == stop_reason
    elif not client.ignore_eos and last == manifest.eos_token_id:
        stopped = True
    else:
        stopped = last in client.stop_token_ids or (not client.ignore_eos and last in manifest.stop_token_ids)
        stop_reason = last if stopped else None
    return (token_ids[:-1] if stopped and not client.include_stop_str_in_output else token_ids), stop_reason


def may_be_stop_token(token_id: int, client: ClientRequest, manifest: Manifest) -> bool:
    """Whether `drop_stop_token` takes a token for what stopped the generation, should it end there."""
    ends = token_id == manifest.eos_token_id or token_id in manifest.stop_token_ids
    return token_id in client.stop_token_ids or (ends and not client.ignore_eos)


def stop_strings(finish_reason: str | None, stop_reason: StopReason, client: ClientRequest) -> Sequence[str]:
    """The stop strings that may have ended a generation: the reported one, or else the request's."""
    if finish_reason != "stop" or isinstance(stop_reason, int):
        return ()
    return (stop_reason,) if stop_reason else client.stop


def cut_stop_string(text: str, exempt: int, strings: Sequence[str], *, include: bool) -> tuple[str, str | None]:
    """End a text at the stop string that is complete first; of those that end together, the first listed.

    Args:
        text: The whole text.
        exempt: Characters from the start within which no stop string may end (`min_tokens`).
        strings: The stop strings.
        include: Keep the stop string.

    Returns:
        The text, and the stop string that was found.
    """
    first_end, found = len(text) + 1, None
    for string in strings:
        start = text.find(string, max(0, exempt + 1 - len(string)))
        if start >= 0 and start + len(string) < first_end:
            first_end, found = start + len(string), string
    if found is None:
        return text, None
    return text[: first_end if include else first_end - len(found)], found


def stop_string_begun(text: str, strings: Sequence[str]) -> int:
    """How many of a text's last characters may be the beginning of a stop string."""
    longest = max(map(len, strings), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(string.startswith(text[-length:]) for string in strings):
            return length
    return 0
