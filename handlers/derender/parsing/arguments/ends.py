"""The markers that end a region of arguments, looked for where no string is open."""

from __future__ import annotations

__all__ = ["at_end"]


def at_end(ends: tuple[str, ...], text: str, at: int, *, final: bool) -> bool | None:
    """Return whether a region ends at a place; None if that takes more text to know.

    Args:
        ends: What ends the region, as it is in the parsed text.
        text: The text.
        at: The place.
        final: Whether the output ends with the text.
    """
    if text.startswith(ends, at):
        return True
    if final or not any(len(text) - at < len(end) and end.startswith(text[at:]) for end in ends):
        return False
    return None
