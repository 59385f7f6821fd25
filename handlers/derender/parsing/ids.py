"""Ids of tool calls.

They are derived from what is asked and from the call, so that derendering it again gives the same id, and no
other call of the conversation has it: gateways may give all requests of a conversation one id.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from .engine.format import Ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .engine.events import CallStart

__all__ = ["SEED_BYTES", "EarlierCalls", "call_id", "make_seed", "read_earlier_calls"]

SEED_BYTES: Final = 16
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MISTRAL_LENGTH: Final = 9
_NUMBER: Final = re.compile(r"functions\.[^:]*:([0-9]{1,9})")
"""An id of Kimi's form."""
_MISTRAL: Final = re.compile(rf"[0-9A-Za-z]{{{_MISTRAL_LENGTH}}}")


class EarlierCalls(Struct, frozen=True):
    """The tool calls of a conversation before an answer."""

    count: int = 0
    ids: frozenset[str] = frozenset()
    next_number: int = 0
    """The least number above those of all ids of Kimi's form."""


def read_earlier_calls(messages: Any) -> EarlierCalls:
    """Read the tool calls of a conversation, which may be malformed.

    Args:
        messages: The `messages` of a chat request.
    """
    conversation = messages if isinstance(messages, list) else []
    calls = [message.get("tool_calls") for message in conversation if isinstance(message, dict)]
    found = [call for each in calls if isinstance(each, list) for call in each]
    ids = [call["id"] for call in found if isinstance(call, dict) and isinstance(call.get("id"), str)]
    numbers = [int(match[1]) for match in map(_NUMBER.fullmatch, ids) if match]
    return EarlierCalls(len(found), frozenset(ids), max(numbers, default=-1) + 1)


def make_seed(request_id: str, prompt_token_ids: Sequence[int] | None, earlier: EarlierCalls) -> bytes:
    """Return what the ids of a generation's calls are made from. It differs in each turn of a conversation.

    Args:
        request_id: The generation's id.
        prompt_token_ids: The prompt or a suffix of it, if known.
        earlier: The calls of the conversation.
    """
    # Only chats with tools pay for the import.
    from hashlib import sha256

    digest = sha256("\0".join((request_id, *sorted(earlier.ids), "")).encode(errors="replace"))
    digest.update(array("I", (earlier.count, *(prompt_token_ids or ()))))
    return digest.digest()[:SEED_BYTES]


def call_id(ids: Ids, call: CallStart, *, seed: bytes, choice: int, earlier: EarlierCalls) -> str:
    """Return the id of a tool call.

    It is the one that the model wrote, if the family's clients depend on it and no earlier call can have it.

    Args:
        ids: The form of ids.
        call: The call.
        seed: What ids of the generation are made from (`make_seed`).
        choice: The choice's index.
        earlier: The calls of the conversation.
    """
    written = call.written_id
    if ids is Ids.KIMI:
        # Numbers count on over the conversation. A model that begins again would repeat ids.
        least = max(earlier.count, earlier.next_number, call.lead) + call.index
        if call.written_number is None or call.written_number < least:
            written = str(least)
        return f"functions.{call.name}:{written}"
    if ids is Ids.MISTRAL and _MISTRAL.fullmatch(written) and written not in earlier.ids:
        return written
    from hashlib import sha256

    digest = sha256(b"%b%d\0%d" % (seed, choice, call.index))
    if ids is not Ids.MISTRAL:
        return f"call_{digest.hexdigest()[:24]}"
    number = int.from_bytes(digest.digest())
    return "".join(_DIGITS[number // len(_DIGITS) ** place % len(_DIGITS)] for place in range(_MISTRAL_LENGTH))
