r"""Patterns that know when more text could change them. Imports `characters` only.

A pattern is a sequence of parts. Text arrives in pieces that may be cut anywhere, so each part also says what a
*beginning* of it is that runs into the end of the text. Text from there on is held back until the next piece
decides.

    scanner = Scanner([("<tool_call>", SPACE, ahead("{")), ("</think>", SPACE)], {})
    scanner.search("text <tool", 0)            # a partial match from 5 on
    scanner.search("text <tool_call>\n{", 0)   # the first pattern, from 5 to 17
"""

from .parts import (
    ANYTHING,
    END,
    GAP,
    LINES,
    OTHER_TEXT,
    SPACE,
    Part,
    Pattern,
    Regex,
    ahead,
    any_of,
    capture,
    one_of,
    optional,
    same,
    some,
)
from .scanner import Match, Scanner

__all__ = [
    "ANYTHING",
    "END",
    "GAP",
    "LINES",
    "OTHER_TEXT",
    "SPACE",
    "Match",
    "Part",
    "Pattern",
    "Regex",
    "Scanner",
    "ahead",
    "any_of",
    "capture",
    "one_of",
    "optional",
    "same",
    "some",
]
