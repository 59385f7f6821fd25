"""Response templates, checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from derender.parsing.engine.format import FormatError
from derender.parsing.patterns import Regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regex import Pattern as CompiledRegex

    from derender.parsing.patterns import Pattern

__all__ = [
    "CALLS",
    "PLACEHOLDER",
    "REASONING",
    "SCOPE",
    "Field",
    "Literals",
    "Template",
    "Word",
    "compile_regex",
    "convert",
    "delimiters",
    "strings",
]

SCOPE: Final = "response_template"
CALLS: Final = "tool_calls"
REASONING: Final = ("reasoning_content", "reasoning", "thinking")
"""Names of fields that are reasoning. Fields of other names, but for `content` and `tool_calls`, are left
out."""
PLACEHOLDER: Final = re.compile(r"\{(\w+(?:\.\w+)*)\}")

StructT = TypeVar("StructT", bound=Struct)
Word = Annotated[str, Meta(min_length=1)]
Literals = Word | Annotated[list[Word], Meta(min_length=1)]


class Template(Struct, frozen=True, forbid_unknown_fields=True):
    """A response template. Its fields are checked one by one (`Field`)."""

    fields: Annotated[dict[str, Any], Meta(min_length=1)]
    version: Literal[1] = 1
    defaults: dict[str, Any] = {}
    start_anchor: Literals | None = None
    start_anchor_pattern: str | None = None


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
        if self.join is not None and not self.repeats:
            raise ValueError("join needs repeats")
        if self.transform_each and self.transform is None:
            raise ValueError("transform_each needs transform")
        for text in strings(self.transform):
            if (placeholder := PLACEHOLDER.search(text)) and placeholder[0] != text:
                raise ValueError(f"transform may not mix a placeholder with other text, got {text!r}")


def convert(scope: str, value: object, kind: type[StructT]) -> StructT:
    """Convert part of a template.

    Raises:
        FormatError: It is malformed.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise FormatError(f"{scope}: {error}") from error


def delimiters(
    scope: str, name: str, literals: str | list[str] | None, expression: str | None
) -> tuple[Pattern | Regex, ...]:
    """Return what opens or closes a field, the longest literal first.

    Args:
        scope: Where it is in the template.
        name: Its key.
        literals: The literals.
        expression: The regular expression.

    Raises:
        FormatError: There are both, or the expression is malformed.
    """
    if literals is not None and expression is not None:
        raise FormatError(f"{scope}: use {name} or {name}_pattern, not both")
    if expression is not None:
        compile_regex(f"{scope}: {name}_pattern", expression)
        return (Regex(expression),)
    texts = {literals} if isinstance(literals, str) else set(literals or ())
    return tuple((text,) for text in sorted(texts, key=lambda text: (-len(text), text)))


def compile_regex(scope: str, expression: str) -> CompiledRegex[str]:
    """Compile a regular expression.

    Raises:
        FormatError: It is malformed.
    """
    # Only templates with regular expressions pay for the import.
    from derender.parsing.patterns import regexes

    try:
        return regexes.compile_regex(expression)[0]
    except regexes.error as error:
        raise FormatError(f"{scope} is not a valid regular expression: {error}") from error


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
