"""Response templates → formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from derender.parsing.characters import MAX_MARKERS, WHITESPACE
from derender.parsing.engine.format import UNREAD, Act, Body, Edge, Format, FormatError, Markup, Shows, Text
from derender.parsing.patterns import SPACE, Regex

from .calls import call_reader
from .contents import compile_regex
from .template import CALLS, REASONING, Field, Template, strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from derender.parsing.engine.format import Region
    from derender.parsing.patterns import Pattern
    from derender.vocabulary import Vocabulary

__all__ = ["from_vocabulary"]

StructT = TypeVar("StructT", bound=msgspec.Struct)

_SCOPE: Final = "response_template"
_SPACE: Final = r"[ \t\r\n]{0,128}+"
"""White space behind a regular expression. What the expression itself matches of it comes first."""
_ASCII: Final = [chr(code) for code in range(128)]


def from_vocabulary(vocabulary: Vocabulary) -> Format:
    """Return the format that a vocabulary's response template describes.

    Raises:
        FormatError: There is no template, or it is malformed.
    """
    given = vocabulary.manifest.response_template
    if given is None:
        raise FormatError("the layer's tokenizer has no response_template")
    template = _convert(_SCOPE, given, Template)
    fields = {
        name: _convert(f"{_SCOPE}: field {name!r}", template.fields[name], Field)
        for name in sorted(template.fields)
    }
    _check(fields)
    patterns = [each for field in fields.values() for each in (*field.opens, *field.closes)]
    plain = any(isinstance(each, Regex) for each in (*template.anchors, *patterns))
    markers = tuple(_markers(given, vocabulary, plain=plain))
    if len(markers) > MAX_MARKERS and not plain:
        raise FormatError(f"{_SCOPE}: names {len(markers)} added tokens, at most {MAX_MARKERS} can be markers")
    content, regions = _regions(fields)
    return Format(
        markers=markers,
        content=content,
        regions=regions,
        whole=True,
        plain=plain,
        anchors=template.anchors,
    )


def _convert(scope: str, value: object, kind: type[StructT]) -> StructT:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise FormatError(f"{scope}: {error}") from error


def _check(fields: Mapping[str, Field]) -> None:
    """Check constraints that depend on the names of fields."""
    left_over = [name for name, field in fields.items() if not field.opens]
    if len(left_over) > 1:
        names = ", ".join(map(repr, left_over))
        raise FormatError(f"{_SCOPE}: only one field may have neither open nor open_pattern, got {names}")
    if CALLS in left_over:
        raise FormatError(f"{_SCOPE}: field {CALLS!r} needs open or open_pattern")
    for name in ("content", *REASONING):
        if name in fields and fields[name].transform not in (None, "{content}"):
            raise FormatError(
                f"{_SCOPE}: field {name!r}: only {CALLS} may have a transform; text is emitted as it arrives"
            )


def _markers(template: Mapping[str, Any], vocabulary: Vocabulary, *, plain: bool) -> Iterator[str]:
    literals = [text for written in strings(template) for text in (written, written.replace("\\", ""))]
    for text, token_id in vocabulary.added_tokens().items():
        # Nobody knows what an expression can match, and of special tokens only markers are in the text.
        if token_id in vocabulary.special if plain else text.strip() and any(text in each for each in literals):
            yield text


def _regions(fields: Mapping[str, Field]) -> tuple[tuple[Edge, ...], dict[str, Region]]:
    """Return the edges out of text that is left over, and the regions."""
    opened = {name: field for name, field in fields.items() if field.opens}
    name = next(iter(fields.keys() - opened.keys()), "" if "content" in fields else "content")
    rest = fields.get(name) or Field()
    # What opens a field may begin with white space itself.
    spaced = rest.strip and not any(
        _begins_with_space(each) for field in opened.values() for each in field.opens
    )
    edges = [
        Edge(
            _add_space(pattern, before=rest.strip, after=field.strip),
            f"field {name}",
            Act.BEGIN if name == CALLS else Act.NONE,
        )
        for name, field in opened.items()
        for pattern in field.opens
    ]
    # Behind the end of the answer, another begins.
    to = "answer" if name == "content" else "content"
    edges += [Edge(_add_space(pattern, before=rest.strip, after=spaced), to) for pattern in rest.closes]
    content = _sort_edges(edges)
    regions = {"content": _region(name, rest, content), UNREAD: Text(Shows.CONTENT)}
    for name, field in opened.items():
        # After the reasoning the answer begins, which may be the JSON of guided decoding.
        to, act = "answer" if name in REASONING else "content", Act.CLOSE if name == CALLS else Act.NONE
        closing = [
            Edge(_add_space(pattern, before=field.strip, after=spaced), to, act) for pattern in field.closes
        ]
        regions[f"field {name}"] = _region(name, field, _sort_edges(closing))
    return content, regions


def _region(name: str, field: Field, edges: tuple[Edge, ...]) -> Region:
    if name == CALLS:
        return Body(edges, call_reader(field))
    if name == "content":
        return Text(Shows.CONTENT, edges)
    return Text(Shows.REASONING, edges) if name in REASONING else Markup(edges)


def _add_space(pattern: Pattern | Regex, *, before: bool, after: bool) -> Pattern | Regex:
    """Add the white space that does not belong to the texts around a pattern."""
    if isinstance(pattern, Regex):
        return Regex(f"(?:{pattern.expression}){_SPACE if after else ''}", WHITESPACE if before else "")
    return (*((SPACE,) if before else ()), *pattern, *((SPACE,) if after else ()))


def _begins_with_space(pattern: Pattern | Regex) -> bool:
    if not isinstance(pattern, Regex):
        return _literal(pattern)[0].isspace()
    matches = compile_regex(pattern.expression).match
    begins = {character for character in _ASCII if matches(character, partial=True)}
    return bool(begins) and "".join(begins).isspace()


def _sort_edges(edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """Order edges so that of literals that begin alike, the longest is read."""
    if any(isinstance(edge.pattern, Regex) for edge in edges):
        return tuple(edges)
    return tuple(sorted(edges, key=lambda edge: -len(_literal(edge.pattern))))


def _literal(pattern: Pattern | Regex) -> str:
    return "".join([part for part in pattern if isinstance(part, str)])
