r"""Read the text that a chat template writes, without executing it.

    {%- for call in message.tool_calls %}{{ '<tool_call>' + call.name }}{% endfor %}     →  "<tool_call>￼"

A hole stands for a value, which tells the text around a tool's name from an example in a system prompt.
Comments, conditions and arguments are left out. All branches follow each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .expression import HOLE, MAX_ALTERNATIVES, TOKEN, Texts, concatenate, read_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Template", "read_template"]

_OPENING: Final = re.compile(r"\{[{%#]")
_CLOSING: Final = {"{{": "}}", "{%": "%}", "{#": "#}"}
_SET: Final = re.compile(r"set\s+([\w.]+)\s*=(?!=)(.*)", re.DOTALL)
_BLOCK: Final = re.compile(r"(?:end)?(if|for|macro|filter|call|block|generation|set)\b")
_PROMPT: Final = re.compile(r"\badd_generation_prompt\b(?!\s+is\b)")
_NO_PROMPT: Final = re.compile(r"\bnot\s+add_generation_prompt\b")
_MAX_PROMPT_CHARACTERS: Final = 1000
"""How much of a prompt's end is kept."""
_RAISES: Final = re.compile(r"raise_exception\b")


@dataclass(frozen=True, slots=True)
class Template:
    """A chat template's text and code.

    Attributes:
        text: All text, in the template's order.
        prompts: The texts that may end a prompt, after which the model generates.
        code: The statements and expressions.
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
    """A block while its branches are read: the texts before it, and at the end of each branch."""

    kind: str
    before: Texts
    ends: Texts = ()
    has_else: bool = False


def read_template(source: str) -> Template:
    """Read a chat template in Jinja's language."""
    parts = _split(source)
    text = re.sub(f"{HOLE}+", HOLE, "".join("".join(part.texts) for part in parts))
    return Template(text, _find_prompts(parts), "\n".join(part.statement or part.expression for part in parts))


def _split(source: str) -> list[_Part]:
    parts: list[_Part] = []
    variables: dict[str, Texts] = {}
    place = 0
    strip = ""
    while place <= len(source):
        match = _OPENING.search(source, place)
        opening = match[0] if match else ""
        end = match.start() if match else len(source)
        text = source[place:end]
        text = text.lstrip() if strip == "-" else text.removeprefix("\n") if strip == "line" else text
        inner, place = _read_inner(source, end, opening) if match else ("", end + 1)
        if opening and inner.startswith("-"):
            text = text.rstrip()
        elif opening in {"{%", "{#"}:
            # transformers renders blocks on a line of their own without that line (lstrip_blocks).
            text = re.sub(r"(^|\n)[ \t]+\Z", r"\1", text)
        if text:
            parts.append(_Part((text,)))
        strip = "-" if inner.endswith("-") else "" if opening == "{{" else "line"
        code = inner.strip("-+ \t\r\n")
        if opening == "{{" and code and not _RAISES.match(code):
            parts.append(_Part(read_expression(code, variables), expression=code))
        elif opening == "{%":
            if assignment := _SET.fullmatch(code):
                _assign(variables, assignment[1], read_expression(assignment[2], variables))
            parts.append(_Part(statement=code))
    return parts


def _read_inner(source: str, start: int, opening: str) -> tuple[str, int]:
    """Return the code between delimiters, and where it ends. Delimiters in strings are text."""
    closing = _CLOSING[opening]
    start += 2
    if opening == "{#":
        end = source.find(closing, start)
        return (source[start:end], end + 2) if end >= 0 else ("", len(source) + 1)
    place = start
    depth = 0
    while place < len(source):
        if not depth and source.startswith(closing, place):
            return source[start:place], place + 2
        token = TOKEN.match(source, place)
        if token is None or token[0] in {"'", '"'}:
            break
        depth = max(depth + (token[0] == "{") - (token[0] == "}"), 0)
        place = token.end()
    # Without an end, nothing after it is text, as in Jinja.
    return "", len(source) + 1


def _assign(variables: dict[str, Texts], name: str, texts: Texts) -> None:
    """Remember a variable that may hold text."""
    if all(text in {"", HOLE} for text in texts):
        variables.pop(name, None)
    else:
        variables[name] = texts


def _find_prompts(parts: Sequence[_Part]) -> tuple[str, ...]:
    """Return what the last branch for a generation prompt writes, for each way through it."""
    found: Texts = ()
    for index, part in enumerate(parts):
        code = part.statement
        if code.startswith(("if", "elif")) and _PROMPT.search(code) and not _NO_PROMPT.search(code):
            found = _follow_branch(parts[index + 1 :])
        elif _PROMPT.search(part.expression):
            found = part.texts
    return tuple(text for text in found if text)


def _follow_branch(parts: Sequence[_Part]) -> Texts:
    """Return the texts of each way through a branch, up to its end."""
    texts: Texts = ("",)
    blocks: list[_Block] = []
    for part in parts:
        code = part.statement
        if not code:
            texts = tuple(text[-_MAX_PROMPT_CHARACTERS:] for text in concatenate(texts, part.texts))
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
                skipped = () if closed.has_else else closed.before
                texts = tuple(dict.fromkeys((*closed.ends, *texts, *skipped)))[:MAX_ALTERNATIVES]
        elif block and not _SET.fullmatch(code):
            blocks.append(_Block(block[1], texts))
    return texts
