"""The state of detokenizing an output."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from derender.vocabulary import TokenId

__all__ = ["LIBRARY_CONTEXT", "MAX_LIBRARY_PENDING", "MAX_PENDING", "PROMPT_TAIL", "DetokenizerState"]

PROMPT_TAIL: Final = 8
"""Number of prompt ids that are read for a character they may begin. A character has at most four bytes."""
LIBRARY_CONTEXT: Final = 8
"""Number of ids that the `tokenizers` library sees before a new one: some decoders look at the neighbours."""
MAX_LIBRARY_PENDING: Final = 32
"""Maximum number of ids held for the `tokenizers` library. No character has so many."""
MAX_PENDING: Final = 256
"""Maximum number of bytes held, twice the longest token's. More bytes that end no character never will."""


class DetokenizerState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of decoding between two pieces of an output."""

    text_started: bool = False
    """Whether there was text before (rule "byte-fallback"): the first space of a new text may be dropped."""
    prompt_bytes: Annotated[bytes, Meta(max_length=3)] = b""
    """Bytes of a character that the prompt begins. They are shown only if the output completes it."""
    pending: Annotated[bytes, Meta(max_length=MAX_PENDING)] = b""
    """Bytes of the tokens that are held."""
    window: Annotated[tuple[TokenId, ...], Meta(max_length=LIBRARY_CONTEXT + MAX_LIBRARY_PENDING)] = ()
    """The last ids (rule "tokenizers"), for decoders that look at the neighbours."""
    pending_ids: Annotated[int, Meta(ge=0, lt=MAX_LIBRARY_PENDING)] = 0
    """Number of ids at the end of the window that are held."""
    prompt_ids: Annotated[int, Meta(ge=0, le=PROMPT_TAIL)] = 0
    """Number of ids before those that begin a character in the prompt."""
