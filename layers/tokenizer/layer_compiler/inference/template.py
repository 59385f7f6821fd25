r"""What a chat template writes, as text; nothing of it is executed.

    {%- for call in message.tool_calls %}{{ '<tool_call>' + call.name }}{% endfor %}     →  "<tool_call>￼"

A hole stands where a value goes, so what a template writes around a tool's name is told from an example in a
system prompt. Comments, conditions and arguments are no part of it. All branches follow each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .expression import HOLE, MOST, TOKEN, Texts, joined, written

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Template", "read_template"]

_BEGINS: Final = re.compile(r"\{[{%#]")
_ENDS: Final = {"{{": "}}", "{%": "%}", "{#": "#}"}
_SET: Final = re.compile(r"set\s+([\w.]+)\s*=(?!=)(.*)", re.DOTALL)
_BLOCK: Final = re.compile(r"(?:end)?(if|for|macro|filter|call|block|generation|set)\b")
_PROMPT: Final = re.compile(r"\badd_generation_prompt\b(?!\s+is\b)")
_NO_PROMPT: Final = re.compile(r"\bnot\s+add_generation_prompt\b")
_LONGEST_PROMPT: Final = 1000
"""Characters of a prompt's end."""
_REFUSES: Final = re.compile(r"raise_exception\b")


@dataclass(frozen=True, slots=True)
class Template:
    """What a chat template writes.

    Attributes:
        text: All of it, in the template's order.
        prompts: What it may end a prompt with, for the model to go on.
        code: Its statements and expressions.
    """

    text: str
    prompts: tuple[str, ...]
    code: str


@dataclass(frozen=True, slots=True)
class _Part:
    """Text, an expression or a statement."""

    texts: Texts = ()
    expression: str = ""
    statement: str = ""


@dataclass(slots=True)
class _Block:
    """An `if` while its branches are read: what is written before it, and at the end of each branch."""

    before: Texts
    ends: Texts = ()
    has_else: bool = False
    kind: str = field(default="if")


def read_template(source: str) -> Template:
    """Read a chat template, in Jinja's language."""
    parts = _parts(source)
    alternatives = ("".join(part.texts) for part in parts)
    text = re.sub(f"{HOLE}+", HOLE, "".join(alternatives))
    return Template(text, _prompts(parts), "\n".join(part.statement or part.expression for part in parts))


def _parts(source: str) -> list[_Part]:
    parts: list[_Part] = []
    variables: dict[str, Texts] = {}
    at = 0
    strip = ""
    while at <= len(source):
        begin = _BEGINS.search(source, at)
        opening = begin[0] if begin else ""
        end = begin.start() if begin else len(source)
        text = source[at:end]
        text = text.lstrip() if strip == "-" else text.removeprefix("\n") if strip == "line" else text
        inner, after = _inner(source, end, opening) if begin else ("", end + 1)
        if opening and inner.startswith("-"):
            text = text.rstrip()
        elif opening in {"{%", "{#"}:
            # As transformers renders: blocks on a line of their own leave none.
            text = re.sub(r"(^|\n)[ \t]+\Z", r"\1", text)
        if text:
            parts.append(_Part((text,)))
        strip = "-" if inner.endswith("-") else "" if opening == "{{" else "line"
        code = inner.strip("-+ \t\r\n")
        at = after
        if opening == "{{" and code and not _REFUSES.match(code):
            parts.append(_Part(written(code, variables), expression=code))
        elif opening == "{%":
            if assignment := _SET.fullmatch(code):
                _assign(variables, assignment[1], written(assignment[2], variables))
            parts.append(_Part(statement=code))
    return parts


def _inner(source: str, begin: int, opening: str) -> tuple[str, int]:
    """What is between delimiters, and where it ends. Delimiters in strings are text."""
    closing = _ENDS[opening]
    begin += 2
    if opening == "{#":
        end = source.find(closing, begin)
        return (source[begin:end], end + 2) if end >= 0 else ("", len(source) + 1)
    at = begin
    depth = 0
    while at < len(source):
        if not depth and source.startswith(closing, at):
            return source[begin:at], at + 2
        token = TOKEN.match(source, at)
        if token is None or token[0] in {"'", '"'}:
            break
        depth = max(depth + (token[0] == "{") - (token[0] == "}"), 0)
        at = token.end()
    # It has no end: as in Jinja, nothing after it is text.
    return "", len(source) + 1


def _assign(variables: dict[str, Texts], name: str, texts: Texts) -> None:
    """Remember a variable that holds text; of what it may be, all is remembered."""
    if all(text in {"", HOLE} for text in texts):
        variables.pop(name, None)
    else:
        variables[name] = texts


def _prompts(parts: Sequence[_Part]) -> tuple[str, ...]:
    """What the last branch for a generation prompt writes, each way through it."""
    found: Texts = ()
    for index, part in enumerate(parts):
        code = part.statement
        if code.startswith(("if", "elif")) and _PROMPT.search(code) and not _NO_PROMPT.search(code):
            found = _ways(parts[index + 1 :])
        elif _PROMPT.search(part.expression):
            found = part.texts
    return tuple(text for text in found if text)


def _ways(parts: Sequence[_Part]) -> Texts:
    """The texts of each way through a branch, up to its end."""
    texts: Texts = ("",)
    blocks: list[_Block] = []
    for part in parts:
        code = part.statement
        if not code:
            if part.texts:
                texts = tuple(text[-_LONGEST_PROMPT:] for text in joined(texts, part.texts))
            continue
        word = code.split(None, 1)[0]
        if not blocks and word in {"endif", "elif", "else"}:
            break
        block = _BLOCK.match(code)
        if word in {"elif", "else"} and blocks[-1].kind == "if":
            blocks[-1].ends += texts
            blocks[-1].has_else |= word == "else"
            texts = blocks[-1].before
        elif block and word.startswith("end"):
            if not blocks:
                break
            closed = blocks.pop()
            if closed.kind == "if":
                rest = () if closed.has_else else closed.before
                texts = tuple(dict.fromkeys((*closed.ends, *texts, *rest)))[:MOST]
        elif block and not _SET.fullmatch(code):
            blocks.append(_Block(texts, kind=block[1]))
    return texts
