"""Response templates, checked when they are converted to structs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from derender.parsing.patterns import Regex

from .contents import Word, compile_regex, content_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from derender.parsing.patterns import Pattern

__all__ = ["CALLS", "PLACEHOLDER", "REASONING", "Field", "Template", "strings"]

CALLS: Final = "tool_calls"
REASONING: Final = ("reasoning_content", "reasoning", "thinking")
"""Names of fields that are reasoning. Fields of other names, except `content` and `tool_calls`, are left
out."""
PLACEHOLDER: Final = re.compile(r"\{(\w+)(?:\.\w+)*\}")
"""A name in a transform, and keys to look up in its value."""
Literals = Word | Annotated[list[Word], Meta(min_length=1)]


class Template(Struct, frozen=True, forbid_unknown_fields=True):
    """A response template. Its fields are converted one by one."""

    fields: Annotated[dict[str, Any], Meta(min_length=1)]
    version: Literal[1] = 1
    defaults: dict[str, Any] = {}
    start_anchor: Literals | None = None
    start_anchor_pattern: str | None = None

    def __post_init__(self) -> None:
        if not self.anchors:
            raise ValueError("needs start_anchor or start_anchor_pattern")

    @property
    def anchors(self) -> tuple[Pattern | Regex, ...]:
        """What begins the model's message in a prompt."""
        return _delimiters("start_anchor", self.start_anchor, self.start_anchor_pattern)


class Field(Struct, frozen=True, forbid_unknown_fields=True):
    """A field of a response template."""

    open: Literals | None = None
    open_pattern: str | None = None
    close: Literals | None = None
    close_pattern: str | None = None
    content: str = "text"
    content_args: dict[str, Any] = {}
    repeats: bool = False
    join: str | None = None
    optional: bool = False
    transform: str | dict[str, Any] | list[Any] | None = None
    transform_each: bool = False

    def __post_init__(self) -> None:
        content_parser(self.content, self.content_args)
        patterns = (*self.opens, *self.closes)
        groups = {
            group
            for pattern in patterns
            if isinstance(pattern, Regex)
            for group in compile_regex(pattern.expression).groupindex
        }
        if self.join is not None and not self.repeats:
            raise ValueError("join needs repeats")
        if self.transform is None and (groups or self.transform_each):
            raise ValueError("transform_each and groups in patterns need a transform")
        for text in strings(self.transform):
            placeholder = PLACEHOLDER.search(text)
            if placeholder and placeholder[0] != text:
                raise ValueError(f"transform may not mix a placeholder with other text, got {text!r}")
            if placeholder and not self.transform_each and placeholder[1] not in {"content", *groups}:
                raise ValueError(
                    f"transform uses {placeholder[1]!r}, which is neither content nor a group of a pattern"
                )

    @property
    def opens(self) -> tuple[Pattern | Regex, ...]:
        """What opens it. Nothing opens the field that takes what is left over."""
        return _delimiters("open", self.open, self.open_pattern)

    @property
    def closes(self) -> tuple[Pattern | Regex, ...]:
        """What closes it. If nothing does, the end of the output."""
        return _delimiters("close", self.close, self.close_pattern)

    @property
    def strip(self) -> bool:
        """Whether white space at its ends does not belong to it."""
        return self.content != "text" or self.content_args.get("strip", True) is True


def _delimiters(
    name: str, literals: str | list[str] | None, expression: str | None
) -> tuple[Pattern | Regex, ...]:
    """Return patterns, the longest literal first."""
    if literals is not None and expression is not None:
        raise ValueError(f"use {name} or {name}_pattern, not both")
    if expression is not None:
        compile_regex(expression)
        return (Regex(expression),)
    texts = {literals} if isinstance(literals, str) else set(literals or ())
    return tuple((text,) for text in sorted(texts, key=lambda text: (-len(text), text)))


def strings(value: object) -> Iterator[str]:
    """Yield all strings in a JSON value, without keys."""
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from strings(each)
        case list():
            for each in value:
                yield from strings(each)
