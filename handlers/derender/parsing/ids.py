"""Ids of tool calls. They are derived from the call, so that derendering it again gives the same id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .engine.format import Ids

if TYPE_CHECKING:
    from .engine.events import CallStart

__all__ = ["call_id"]

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MISTRAL_LENGTH: Final = 9


def call_id(ids: Ids, call: CallStart, *, request_id: str, choice: int, earlier: int) -> str:
    """Return the id of a tool call: the one that the model wrote, if the family's clients depend on it.

    Args:
        ids: The form of ids.
        call: The call.
        request_id: The id of the generation.
        choice: The choice's index.
        earlier: Number of calls in the conversation before this answer.
    """
    match ids:
        case Ids.KIMI:
            return f"functions.{call.name}:{call.written_id or earlier + call.index}"
        case Ids.MISTRAL if len(call.written_id) == _MISTRAL_LENGTH and call.written_id.isalnum():
            return call.written_id
    # Only answers with calls pay for the import.
    from hashlib import sha256

    digest = sha256(f"{request_id}\0{choice}\0{call.index}".encode(errors="replace"))
    if ids is not Ids.MISTRAL:
        return f"call_{digest.hexdigest()[:24]}"
    number = int.from_bytes(digest.digest())
    return "".join(_DIGITS[number // len(_DIGITS) ** place % len(_DIGITS)] for place in range(_MISTRAL_LENGTH))
