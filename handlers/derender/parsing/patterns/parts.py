"""Parts of patterns, compiled to regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from derender.parsing.characters import WHITESPACE, encode_markers

__all__ = [
    "ANYTHING",
    "END",
    "GAP",
    "LINES",
    "OTHER_TEXT",
    "SPACE",
    "Expression",
    "Part",
    "Pattern",
    "Regex",
    "ahead",
    "any_of",
    "capture",
    "either",
    "join",
    "one_of",
    "optional",
    "same",
    "some",
]

MAX_SPACE: Final = 128
"""Longest white space that belongs to a marker after it. Of a longer run, the last characters do."""
MAX_LINES: Final = 128
"""Most line breaks that belong to a marker before them."""
MAX_CAPTURED: Final = 200
"""Maximum length of a name, key or id."""
MAX_REPEATS: Final = 8
"""Most times that a marker is read as one."""
NUMBER: Final = "\x01"
"""In an expression: the number of its pattern, so that several patterns may capture under one name."""
END_OF_OUTPUT: Final = "\x02"
"""In an expression: the end of the output."""
NO_SPACE: Final = "\x03"
"""In an expression: a character that is no white space."""


class Expression(NamedTuple):
    """A part as regular expressions."""

    whole: str
    """Matches the part."""
    partial: str
    r"""Matches a beginning of the part that runs into the end of the text; ends with \Z."""
    first: str | None = None
    """What the part can begin with: a set without its brackets; None for any character."""
    empty: bool = False
    """Whether the part may be empty."""


Part = Callable[[Mapping[str, str]], Expression]
"""A part of a pattern: marker text → character, to an expression."""
Pattern = tuple[Part | str, ...]
"""Parts in sequence. A string stands for itself."""


class Regex(NamedTuple):
    """A pattern that someone else wrote as a regular expression."""

    expression: str
    leading: str = ""
    """White space that belongs to it if it stands before it."""


def _space(_: Mapping[str, str]) -> Expression:
    some = f"[{WHITESPACE}]*+"
    return Expression(some, rf"{some}\Z", WHITESPACE, empty=True)


SPACE: Final[Part] = _space
"""White space, or none."""


def _gap(_: Mapping[str, str]) -> Expression:
    some = rf"[{WHITESPACE}]{{0,{MAX_SPACE}}}+"
    return Expression(some, rf"{some}\Z", WHITESPACE, empty=True)


GAP: Final[Part] = _gap
"""White space before a part that the text may lack, or none. After a longer run, it lacks the part."""


def _lines(_: Mapping[str, str]) -> Expression:
    some = rf"[\r\n]{{0,{MAX_LINES}}}+"
    return Expression(some, rf"{some}\Z", "\r\n", empty=True)


LINES: Final[Part] = _lines
"""Line breaks, or none."""


def _anything(_: Mapping[str, str]) -> Expression:
    return Expression(NO_SPACE, r"\Z")


ANYTHING: Final[Part] = _anything
"""A character that is not white space; it may stand for a marker. It never matches at the end of the output:
what is held there was to become another pattern."""


def _end(_: Mapping[str, str]) -> Expression:
    return Expression(END_OF_OUTPUT, r"\Z", "")


END: Final[Part] = _end
"""The end of the output."""


def _literal(text: str) -> Part:
    def expression(markers: Mapping[str, str]) -> Expression:
        encoded = encode_markers(text, markers)
        return Expression(re.escape(encoded), _beginning(encoded), re.escape(encoded[0]))

    return expression


def _beginning(text: str) -> str:
    r"""Return what matches a beginning of a text that ends with \Z.

    It halves the text, because clients choose some texts: groups may be nested less deeply than a text is long.
    """
    if len(text) == 1:
        return r"\Z"
    first, second = text[: len(text) // 2], text[len(text) // 2 :]
    return f"(?:{_beginning(first)}|{re.escape(first)}{_beginning(second)})"


def any_of(characters: str, *, least: int = 0, most: int = MAX_CAPTURED) -> Part:
    r"""Match characters of a set, as many as there are.

    Args:
        characters: The set as regular expressions write it, without brackets: `^>\s`. Markers never belong to
            it.
        least: Minimum number of characters.
        most: Maximum number of characters.
    """
    negated = characters.startswith("^")
    chosen = rf"[{characters}\ud800-\udfff]" if negated else f"[{characters}]"

    def expression(_: Mapping[str, str]) -> Expression:
        return Expression(
            rf"{chosen}{{{least},{most}}}+",
            rf"{chosen}{{0,{most}}}+\Z",
            None if negated else characters,
            empty=not least,
        )

    return expression


def capture(name: str, characters: str, *, most: int = MAX_CAPTURED) -> Part:
    """Match one or more characters of a set (see `any_of`) and keep them under a name."""
    some = any_of(characters, least=1, most=most)

    def expression(markers: Mapping[str, str]) -> Expression:
        captured = some(markers)
        return captured._replace(whole=f"(?P<{name}_{NUMBER}>{captured.whole})")

    return expression


def optional(*pattern: Part | str) -> Part:
    """Match a pattern or nothing."""

    def expression(markers: Mapping[str, str]) -> Expression:
        inner = join(pattern, markers)
        return inner._replace(whole=f"(?:{inner.whole})?", empty=True)

    return expression


def one_of(*patterns: Pattern | Part | str) -> Part:
    """Match the first of several patterns that fits."""
    sequences = [each if isinstance(each, tuple) else (each,) for each in patterns]

    def expression(markers: Mapping[str, str]) -> Expression:
        wholes, partials, firsts, empty = zip(*(join(each, markers) for each in sequences), strict=True)
        return Expression(
            f"(?:{'|'.join(wholes)})", f"(?:{'|'.join(partials)})", either(firsts), empty=any(empty)
        )

    return expression


def same(name: str) -> Part:
    """Match what was captured before, under a name, once more."""
    captured = f"(?P={name}_{NUMBER})"
    expression = Expression(captured, rf"(?:{captured})?\Z")
    return lambda _: expression


def some(text: str, *, least: int = 1) -> Part:
    """Match a text that is written several times, with white space between.

    Args:
        text: The text.
        least: Minimum number of times.
    """

    def expression(markers: Mapping[str, str]) -> Expression:
        one, again = join((text,), markers), join((GAP, text), markers)
        more = f"(?:{again.whole}){{{least - 1},{MAX_REPEATS - 1}}}+"
        some = f"(?:{again.whole}){{0,{MAX_REPEATS - 1}}}+"
        return one._replace(
            whole=f"{one.whole}{more}", partial=f"(?:{one.partial}|{one.whole}{some}{again.partial})"
        )

    return expression


def ahead(*pattern: Part | str) -> Part:
    """Match the place before a pattern, without reading the pattern."""

    def expression(markers: Mapping[str, str]) -> Expression:
        inner = join(pattern, markers)
        return inner._replace(whole=f"(?={inner.whole})")

    return expression


OTHER_TEXT: Final[Pattern] = (ahead(ANYTHING),)
"""The last pattern of a region that other text ends."""


def join(pattern: Sequence[Part | str], markers: Mapping[str, str]) -> Expression:
    """Compile a sequence of parts.

    Args:
        pattern: The parts.
        markers: Marker text → character.
    """
    expressions = [(_literal(part) if isinstance(part, str) else part)(markers) for part in pattern]
    *before, last = expressions
    partial, firsts = last.partial, [last.first]
    for part in reversed(before):
        partial = f"(?:{part.partial}|{part.whole}{partial})"
        firsts = [part.first, *firsts] if part.empty else [part.first]
    return Expression(
        "".join([part.whole for part in expressions]),
        partial,
        either(firsts),
        empty=all(part.empty for part in expressions),
    )


def either(firsts: Iterable[str | None]) -> str | None:
    """Merge what several expressions can begin with."""
    sets = list(firsts)
    return None if None in sets else "".join(first for first in sets if first is not None)
