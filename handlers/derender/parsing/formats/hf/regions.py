"""Response templates → formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from derender.parsing.characters import MAX_MARKERS
from derender.parsing.engine.format import Act, Body, Edge, Format, FormatError, Markup, Reader, Shows, Text
from derender.parsing.patterns import SPACE, Pattern, Regex

from .calls import call_reader
from .contents import content_parser
from .template import (
    CALLS,
    PLACEHOLDER,
    REASONING,
    SCOPE,
    Field,
    Template,
    compile_regex,
    convert,
    delimiters,
    strings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from derender.parsing.engine.format import Region
    from derender.vocabulary import Vocabulary

__all__ = ["from_vocabulary"]

_SPACE: Final = r"[ \t\r\n]{0,128}"
"""White space around a regular expression. What the expression itself matches of it comes first."""
_ASCII: Final = [chr(code) for code in range(128)]


class _Field(Struct, frozen=True):
    """A field that is ready to be a region."""

    name: str
    strip: bool
    """Whether white space at its ends does not belong to it."""
    opens: tuple[Pattern | Regex, ...] = ()
    """What opens it. Nothing opens the field that is left over."""
    closes: tuple[Pattern | Regex, ...] = ()
    """What closes it. If nothing does, the end of the output."""
    reader: Reader | None = None
    """Reads its calls."""

    @property
    def region_name(self) -> str:
        """The name of its region."""
        return f"field {self.name}"

    def region(self, edges: tuple[Edge, ...]) -> Region:
        """Return its region."""
        if self.reader is not None:
            return Body(edges, self.reader)
        if self.name == "content":
            return Text(Shows.CONTENT, edges)
        return Text(Shows.REASONING, edges) if self.name in REASONING else Markup(edges)


def from_vocabulary(vocabulary: Vocabulary) -> Format:
    """Return the format that a vocabulary's response template describes.

    Raises:
        FormatError: There is no template, or it is malformed.
    """
    given = vocabulary.manifest.response_template
    if given is None:
        raise FormatError("the layer's tokenizer has no response_template")
    template = convert(SCOPE, given, Template)
    fields = [_field(name, template.fields[name]) for name in sorted(template.fields)]
    left_over = [field for field in fields if not field.opens]
    if len(left_over) > 1:
        names = ", ".join(repr(field.name) for field in left_over)
        raise FormatError(f"{SCOPE}: only one field may have neither open nor open_pattern, got {names}")
    if left_over and left_over[0].reader:
        raise FormatError(f"{SCOPE}: field {CALLS!r} needs open or open_pattern")
    anchors = delimiters(SCOPE, "start_anchor", template.start_anchor, template.start_anchor_pattern)
    if not anchors:
        raise FormatError(f"{SCOPE}: needs start_anchor or start_anchor_pattern")
    patterns = [each for field in fields for each in (*field.opens, *field.closes)]
    plain = any(isinstance(each, Regex) for each in (*anchors, *patterns))
    markers = tuple(_markers(given, vocabulary, plain=plain))
    if len(markers) > MAX_MARKERS and not plain:
        raise FormatError(f"{SCOPE}: names {len(markers)} added tokens, at most {MAX_MARKERS} can be markers")
    content, regions = _regions(fields, left_over[0] if left_over else None)
    return Format(
        markers=markers,
        content=content,
        regions=regions,
        whole=True,
        plain=plain,
        anchors=anchors,
    )


def _field(name: str, value: object) -> _Field:
    scope = f"{SCOPE}: field {name!r}"
    given = convert(scope, value, Field)
    parse = content_parser(scope, given.content, given.content_args)
    opens = delimiters(scope, "open", given.open, given.open_pattern)
    closes = delimiters(scope, "close", given.close, given.close_pattern)
    _check_transform(scope, name, given, (*opens, *closes))
    return _Field(
        name=name,
        strip=given.content != "text" or given.content_args.get("strip", True),
        opens=opens,
        closes=closes,
        reader=call_reader(given, parse) if name == CALLS else None,
    )


def _check_transform(scope: str, name: str, field: Field, patterns: Sequence[Pattern | Regex]) -> None:
    """Check that a transform and the groups of patterns fit."""
    expressions = [pattern.expression for pattern in patterns if isinstance(pattern, Regex)]
    groups = {group for each in expressions for group in compile_regex(scope, each).groupindex}
    if field.transform is None:
        if groups:
            raise FormatError(f"{scope}: groups of its patterns ({', '.join(sorted(groups))}) need a transform")
        return
    if name in ("content", *REASONING) and field.transform != "{content}":
        raise FormatError(f"{scope}: only {CALLS} may have a transform; text is emitted as it arrives")
    for text in strings(field.transform):
        placeholder = PLACEHOLDER.fullmatch(text)
        if placeholder and not field.transform_each:
            used = placeholder[1].split(".")[0]
            if used not in {"content", *groups}:
                raise FormatError(
                    f"{scope}: transform uses {used!r}, which is neither content nor a group of a pattern"
                )


def _markers(template: Mapping[str, Any], vocabulary: Vocabulary, *, plain: bool) -> Iterator[str]:
    literals = [text for written in strings(template) for text in (written, written.replace("\\", ""))]
    for text, token_id in vocabulary.added_tokens().items():
        # Nobody knows what an expression can match, and of special tokens only markers are in the text.
        if token_id in vocabulary.special if plain else text.strip() and any(text in each for each in literals):
            yield text


def _regions(fields: Sequence[_Field], left_over: _Field | None) -> tuple[tuple[Edge, ...], dict[str, Region]]:
    """Return the edges out of text that is left over, and the regions."""
    explicit = [field for field in fields if field.opens]
    missing = all(field.name != "content" for field in fields)
    rest = left_over or _Field("content" if missing else "", strip=True)
    # What opens a field may begin with white space itself.
    spaced = rest.strip and not any(_begins_with_space(each) for field in explicit for each in field.opens)
    edges = _ordered(
        [
            *(
                Edge(
                    _spaced(pattern, before=rest.strip, after=field.strip),
                    field.region_name,
                    Act.BEGIN if field.reader else Act.NONE,
                )
                for field in explicit
                for pattern in field.opens
            ),
            *(Edge(_spaced(pattern, before=rest.strip, after=spaced), "content") for pattern in rest.closes),
        ]
    )
    regions = {"content": rest.region(edges)}
    for field in explicit:
        # After the reasoning the answer begins, which may be the JSON of guided decoding.
        to = "answer" if field.name in REASONING else "content"
        act = Act.CLOSE if field.reader else Act.NONE
        closing = [
            Edge(_spaced(pattern, before=field.strip, after=spaced), to, act) for pattern in field.closes
        ]
        regions[field.region_name] = field.region(_ordered(closing))
    return edges, regions


def _spaced(pattern: Pattern | Regex, *, before: bool, after: bool) -> Pattern | Regex:
    """Add the white space that does not belong to the texts around a pattern."""
    if isinstance(pattern, Regex):
        begin, end = (_SPACE if spaced else "" for spaced in (before, after))
        return Regex(f"{begin}(?:{pattern.expression}){end}")
    return (*((SPACE,) if before else ()), *pattern, *((SPACE,) if after else ()))


def _begins_with_space(pattern: Pattern | Regex) -> bool:
    if not isinstance(pattern, Regex):
        return _literal(pattern)[0].isspace()
    matches = compile_regex(SCOPE, pattern.expression).match
    begins = {character for character in _ASCII if matches(character, partial=True)}
    return bool(begins) and "".join(begins).isspace()


def _ordered(edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """Order edges so that of literals that begin alike, the longest is read."""
    if any(isinstance(edge.pattern, Regex) for edge in edges):
        return tuple(edges)
    return tuple(sorted(edges, key=lambda edge: -len(_literal(edge.pattern))))


def _literal(pattern: Pattern | Regex) -> str:
    return "".join([part for part in pattern if isinstance(part, str)])
