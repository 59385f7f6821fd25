"""The stop rule: which stop token or stop string ends an output (protocol/README.md, "Text")."""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec import Struct

__all__ = ["StopReason", "StopRule", "cut_stop_string", "partial_stop_string"]

StopReason = int | str | None


class StopRule(Struct, frozen=True):
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

    def strings_to_find(self, finish_reason: str | None, stop_reason: StopReason) -> Sequence[str]:
        """Return the stop strings to look for in an output.

        Args:
            finish_reason: Why the generation ended; None if it goes on.
            stop_reason: What the generate server reports.
        """
        named = stop_reason if isinstance(stop_reason, str) else ""
        if not self.reported:
            if not named:
                return self.strings
            if finish_reason not in (None, "stop"):
                # The generate server names a string that did not stop it.
                return () if named in self.strings else self.strings
            return self.strings if named in self.strings else [*self.strings, named]
        if finish_reason != "stop" or isinstance(stop_reason, int):
            return ()
        return [named] if named else self.strings


def cut_stop_string(text: str, exempt: int, strings: Sequence[str], *, include: bool) -> tuple[str, str | None]:
    """Cut a text at the stop string that is complete first. If several end together, the first listed counts.

    Args:
        text: The text.
        exempt: Length of the beginning within which no stop string may end (`min_tokens`).
        strings: The stop strings.
        include: Whether to keep the stop string.

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


def partial_stop_string(text: str, strings: Sequence[str]) -> int:
    """Return the length of the longest end of a text that may become a stop string."""
    longest = max(map(len, strings), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(string.startswith(text[-length:]) for string in strings):
            return length
    return 0
