"""The stop rule: which stop token or stop string ends an output (protocol/README.md, "Text")."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property

from msgspec import Struct

from .stop_strings import StopStrings

__all__ = ["StopReason", "StopRule"]

StopReason = int | str | None


class StopRule(Struct, frozen=True, dict=True):
    """What ends an output.

    Attributes:
        strings: Stop strings.
        token_ids: Ids that end a generation: the client's, and the model's unless they are ignored.
        eos_token_id: The model's primary end-of-sequence id, which is never a stop reason; None if ignored.
        include: Whether the stop token or stop string stays in the output.
        min_tokens: A stop string counts only if it ends after this many tokens.
        reported: Whether the generate server finds stop strings and reports the one that ended a generation.
            If not, they are looked for here, whatever ended the generation.
    """

    strings: Sequence[str] = ()
    token_ids: Container[int] = ()
    eos_token_id: int | None = None
    include: bool = False
    min_tokens: int = 0
    reported: bool = True

    def is_stop_token(self, token_id: int) -> bool:
        """Return whether a generation that ends with this id was stopped by it."""
        return token_id == self.eos_token_id or token_id in self.token_ids

    def drop_stop_token(
        self, token_ids: Sequence[int], finish_reason: str | None, stop_reason: StopReason
    ) -> tuple[Sequence[int], StopReason]:
        """Drop the token that ended a generation, unless it is to stay.

        An int `stop_reason` names the token. Null means the primary end-of-sequence id or, from servers that
        don't report reasons, nothing: then the last id is looked up. A server without a tokenizer does not know
        which id is the primary one, and names it like any other.

        Returns:
            The ids to decode, and the stop reason: the id that stopped the generation, or None for the primary
            one.
        """
        if finish_reason != "stop" or isinstance(stop_reason, str):
            return token_ids, stop_reason
        last = token_ids[-1] if token_ids else None
        if stop_reason is None and last is not None and self.is_stop_token(last):
            stop_reason = last
        stopped = last is not None and last == stop_reason
        reason = None if stop_reason == self.eos_token_id else stop_reason
        return (token_ids[:-1] if stopped and not self.include else token_ids), reason

    def strings_to_find(self, finish_reason: str | None, stop_reason: StopReason) -> Sequence[StopStrings]:
        """Return the stop strings to look for in an output. If several end together, the first counts.

        Args:
            finish_reason: Why the generation ended; None if it goes on.
            stop_reason: What the generate server reports.
        """
        named = StopStrings([stop_reason]) if isinstance(stop_reason, str) and stop_reason else None
        if self.reported:
            if finish_reason != "stop" or isinstance(stop_reason, int):
                return ()
            return self._listed if named is None else (named,)
        if named is None:
            return self._listed
        is_listed = stop_reason in self.strings
        if finish_reason not in (None, "stop"):
            # The generate server names a string that did not stop it.
            return () if is_listed else self._listed
        return self._listed if is_listed else (*self._listed, named)

    @cached_property
    def _listed(self) -> Sequence[StopStrings]:
        return (StopStrings(self.strings),) if self.strings else ()
