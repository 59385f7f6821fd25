r"""What an expression of a chat template writes.

    '<tool_call>' + tool_call.name + ('\n' if more else '')     →  "<tool_call>￼\n", "<tool_call>￼"

Its string constants are text, what it computes is a hole. Arguments of calls, subscripts, conditions and what
is compared are not written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["HOLE", "LONGEST", "MOST", "TOKEN", "Texts", "joined", "written"]

HOLE: Final = "\ufffc"
"""Where a value goes."""
MOST: Final = 32
"""Texts of alternatives that are followed."""
LONGEST: Final = 1 << 14
"""Characters of a text that is followed."""
TOKEN: Final = re.compile(
    r"\s+|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[A-Za-z_]\w*|[0-9][\w.]*|[=!<>]=|//|\*\*|.", re.DOTALL
)
Texts = tuple[str, ...]
"""What may be written: the texts of all alternatives."""

_VALUE: Final = (HOLE,)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_COMPARING: Final = {"==", "!=", "<", ">", "<=", ">=", "in", "is", "not"}
_CALCULATING: Final = {"-", "*", "/", "//", "%", "**"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r"}
_DEEPEST: Final = 50


def written(expression: str, variables: Mapping[str, Texts]) -> Texts:
    """The texts that an expression may write.

    Args:
        expression: Its source.
        variables: Name → the texts it may be, of variables that hold constants.
    """
    tokens = [match[0] for match in TOKEN.finditer(expression) if not match[0].isspace()]
    return _Reader(tokens, variables).alternatives(0)


def joined(first: Texts, second: Texts) -> Texts:
    """Each text of the first, followed by each of the second."""
    texts = dict.fromkeys(_followed(a, b) for a in first for b in second)
    return tuple(texts)[:MOST]


def _followed(text: str, more: str) -> str:
    # Two values in a row are as one.
    whole = text + more.removeprefix(HOLE) if text.endswith(HOLE) else text + more
    return whole if len(whole) <= LONGEST else HOLE


class _Reader:
    """Jinja's grammar, as far as it says what is text."""

    def __init__(self, tokens: Sequence[str], variables: Mapping[str, Texts]) -> None:
        self._tokens = tokens
        self._variables = variables
        self._at = 0

    def alternatives(self, depth: int) -> Texts:
        """`a if condition else b`"""
        texts = self._either(depth)
        while self._take("if"):
            self._either(depth)
            other = self._either(depth) if self._take("else") else ("",)
            texts = tuple(dict.fromkeys((*texts, *other)))[:MOST]
        return texts

    def _either(self, depth: int) -> Texts:
        """`a or b` is one of the two; what is compared is a value."""
        texts = self._joined(depth)
        while True:
            if self._take("or"):
                texts = tuple(dict.fromkeys((*texts, *self._joined(depth))))[:MOST]
            elif self._take("and"):
                texts = self._joined(depth)
            elif self._next in _COMPARING:
                self._at += 1
                self._joined(depth)
                texts = _VALUE
            else:
                return texts

    def _joined(self, depth: int) -> Texts:
        texts = self._filtered(depth)
        while True:
            if self._take("+") or self._take("~"):
                texts = joined(texts, self._filtered(depth))
            elif self._next in _CALCULATING:
                self._at += 1
                self._filtered(depth)
                texts = _VALUE
            else:
                return texts

    def _filtered(self, depth: int) -> Texts:
        texts, name = self._primary(depth)
        while True:
            if self._take("."):
                name = f"{name}.{self._next}" if name else ""
                self._at += 1
                texts = self._variables.get(name, _VALUE)
            elif self._next in {"(", "["}:
                self._skip()
                texts, name = _VALUE, ""
            elif self._take("|"):
                # What filters do to a constant (trim it, mostly) leaves its markers.
                self._at += 1
                if self._next == "(":
                    self._skip()
            else:
                return texts

    def _primary(self, depth: int) -> tuple[Texts, str]:
        word = self._next
        if word in {"not", "-", "+"}:
            self._at += 1
            if depth < _DEEPEST:
                self._filtered(depth + 1)
            return _VALUE, ""
        if word == "(" and depth < _DEEPEST:
            self._at += 1
            texts = self.alternatives(depth + 1)
            if self._take(")"):
                return texts, ""
            while self._next not in {")", ""}:
                self._skip()
            self._at += 1
            return _VALUE, ""
        if word in _CLOSING:
            self._skip()
            return _VALUE, ""
        text = ""
        while self._next[:1] in {"'", '"'} and len(self._next) > 1:
            text += _unescaped(self._next[1:-1])
            self._at += 1
        if text or word in {"''", '""'}:
            return (text,), ""
        self._at += 1
        return self._variables.get(word, _VALUE), word

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        taken = self._next == token
        self._at += taken
        return taken

    def _skip(self) -> None:
        """Skip one token, or all that is between two brackets."""
        open_brackets: list[str] = []
        while self._at < len(self._tokens):
            token = self._next
            self._at += 1
            if token in _CLOSING:
                open_brackets.append(_CLOSING[token])
            elif open_brackets and token == open_brackets[-1]:
                open_brackets.pop()
            if not open_brackets:
                return


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _CONTROL.get(match[2], match[2]), text
    )
