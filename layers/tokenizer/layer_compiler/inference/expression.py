r"""Read the text that an expression of a chat template may write.

    '<tool_call>' + tool_call.name + ('\n' if more else '')     →  "<tool_call>￼\n", "<tool_call>￼"

String constants are text, computed values are holes. Arguments of calls, subscripts, conditions and compared
values are not written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["HOLE", "MAX_ALTERNATIVES", "TOKEN", "Texts", "concatenate", "read_expression"]

HOLE: Final = "\ufffc"
"""Stands for a value."""
MAX_ALTERNATIVES: Final = 32
MAX_CHARACTERS: Final = 1 << 14
"""Maximum length of a text. A longer one becomes a hole."""
TOKEN: Final = re.compile(
    r"\s+|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[A-Za-z_]\w*|[0-9][\w.]*|[=!<>]=|//|\*\*|.", re.DOTALL
)
Texts = tuple[str, ...]
"""The alternatives that may be written."""

_VALUE: Final = (HOLE,)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_COMPARISONS: Final = {"==", "!=", "<", ">", "<=", ">=", "in", "is", "not"}
_ARITHMETIC: Final = {"-", "*", "/", "//", "%", "**"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL_CHARACTERS: Final = {"n": "\n", "t": "\t", "r": "\r"}
_MAX_DEPTH: Final = 50


def read_expression(source: str, variables: Mapping[str, Texts]) -> Texts:
    """Return the texts that an expression may write.

    Args:
        source: The expression.
        variables: Name → texts, for variables that hold constants.
    """
    tokens = [match[0] for match in TOKEN.finditer(source) if not match[0].isspace()]
    return _Reader(tokens, variables).read_alternatives(0)


def concatenate(first: Texts, second: Texts) -> Texts:
    """Return each text of the first followed by each text of the second."""
    texts = dict.fromkeys(_append(a, b) for a in first for b in second)
    return tuple(texts)[:MAX_ALTERNATIVES]


def _append(text: str, more: str) -> str:
    # Two adjacent values count as one.
    whole = text + more.removeprefix(HOLE) if text.endswith(HOLE) else text + more
    return whole if len(whole) <= MAX_CHARACTERS else HOLE


def _unite(first: Texts, second: Texts) -> Texts:
    return tuple(dict.fromkeys((*first, *second)))[:MAX_ALTERNATIVES]


class _Reader:
    """Reads Jinja's expression grammar as far as it decides what is text."""

    def __init__(self, tokens: Sequence[str], variables: Mapping[str, Texts]) -> None:
        self._tokens = tokens
        self._variables = variables
        self._place = 0

    def read_alternatives(self, depth: int) -> Texts:
        """Read `a if condition else b`."""
        texts = self._read_logic(depth)
        while self._take("if"):
            self._read_logic(depth)
            texts = _unite(texts, self._read_logic(depth) if self._take("else") else ("",))
        return texts

    def _read_logic(self, depth: int) -> Texts:
        """Read `a or b`, which is one of the two, and comparisons, which are values."""
        texts = self._read_sum(depth)
        while True:
            if self._take("or"):
                texts = _unite(texts, self._read_sum(depth))
            elif self._take("and"):
                texts = self._read_sum(depth)
            elif self._next in _COMPARISONS:
                self._place += 1
                self._read_sum(depth)
                texts = _VALUE
            else:
                return texts

    def _read_sum(self, depth: int) -> Texts:
        texts = self._read_filtered(depth)
        while True:
            if self._take("+") or self._take("~"):
                texts = concatenate(texts, self._read_filtered(depth))
            elif self._next in _ARITHMETIC:
                self._place += 1
                self._read_filtered(depth)
                texts = _VALUE
            else:
                return texts

    def _read_filtered(self, depth: int) -> Texts:
        texts, name = self._read_primary(depth)
        while True:
            if self._take("."):
                name = f"{name}.{self._next}" if name else ""
                self._place += 1
                texts = self._variables.get(name, _VALUE)
            elif self._next in {"(", "["}:
                self._skip()
                texts, name = _VALUE, ""
            elif self._take("|"):
                # Most filters trim; they leave the markers in a constant.
                self._place += 1
                if self._next == "(":
                    self._skip()
            else:
                return texts

    def _read_primary(self, depth: int) -> tuple[Texts, str]:
        word = self._next
        if word in {"not", "-", "+"}:
            self._place += 1
            if depth < _MAX_DEPTH:
                self._read_filtered(depth + 1)
            return _VALUE, ""
        if word == "(" and depth < _MAX_DEPTH:
            self._place += 1
            texts = self.read_alternatives(depth + 1)
            if self._take(")"):
                return texts, ""
            while self._next not in {")", ""}:
                self._skip()
            self._place += 1
            return _VALUE, ""
        if word in _CLOSING:
            self._skip()
            return _VALUE, ""
        text = ""
        while self._next[:1] in {"'", '"'} and len(self._next) > 1:
            text += _unescape(self._next[1:-1])
            self._place += 1
        if text or word in {"''", '""'}:
            return (text,), ""
        self._place += 1
        return self._variables.get(word, _VALUE), word

    @property
    def _next(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        taken = self._next == token
        self._place += taken
        return taken

    def _skip(self) -> None:
        """Skip one token, or everything up to the closing bracket."""
        open_brackets: list[str] = []
        while self._place < len(self._tokens):
            token = self._next
            self._place += 1
            if token in _CLOSING:
                open_brackets.append(_CLOSING[token])
            elif open_brackets and token == open_brackets[-1]:
                open_brackets.pop()
            if not open_brackets:
                return


def _unescape(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _CONTROL_CHARACTERS.get(match[2], match[2]), text
    )
