"""Calls as elements in a section, with an element for each parameter. A dialect names tags and attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from derender.parsing.engine.format import Act, Edge, Slip, section
from derender.parsing.patterns import (
    END,
    GAP,
    LINES,
    OTHER_TEXT,
    SPACE,
    ahead,
    any_of,
    capture,
    one_of,
    optional,
    same,
)

from .parameters import parameter_regions

if TYPE_CHECKING:
    from derender.parsing.engine.format import Section
    from derender.parsing.patterns import Part, Pattern

__all__ = ["Dialect", "calls_of"]


class Dialect(NamedTuple):
    """How elements are written.

    Attributes:
        opens: What tags begin with.
        closes: What closing tags begin with.
        ends: What tags end with.
        sections: The elements around all calls. Models may write any of them.
        call: The element of a call.
        name: Its attribute with the tool's name.
        parameter: The element of a parameter.
        key: Its attribute with the parameter's name.
        kind: Its attribute that tells how the value is written.
        text: The kind of values that are text.
        json: The kind of values that are JSON.
        after: Tags that may follow the section.
        entities: Whether keys have XML entities for quotes and the like.
    """

    opens: str
    closes: str
    ends: str
    sections: tuple[str, ...]
    call: str
    name: str
    parameter: str
    key: str
    kind: str
    text: Part | str
    json: Part | str
    after: tuple[str, ...] = ()
    entities: bool = False

    def open(self, name: Part | str, *attributes: Part | str) -> Pattern:
        """Return the pattern of a tag."""
        return (self.opens, name, *attributes, SPACE, self.ends)

    def close(self, name: str) -> str:
        """Return a closing tag."""
        return f"{self.closes}{name}{self.ends}"


_OTHER: Final = any_of("^<>/")
"""Other attributes."""
_QUOTE: Final = any_of("\"'", least=1, most=1)
_QUOTED: Final = r"^\"'\n<"
"""Characters of a name, whatever quotes it has."""


def _attribute(name: str, value: Part | str) -> Pattern:
    return (SPACE, f'{name}="', value, '"')


def _loose(name: str, value: Part | str) -> Pattern:
    """Return the pattern of an attribute with any quotes and white space."""
    return (SPACE, name, SPACE, "=", SPACE, _QUOTE, value, _QUOTE)


def calls_of(dialect: Dialect, *, besides: tuple[Edge, ...] = ()) -> Section:
    """Return the parts of a format whose calls are elements of a dialect.

    Args:
        dialect: How elements are written.
        besides: Other edges out of the text among the calls.
    """
    call_opens, call_ends = f"{dialect.opens}{dialect.call}", dialect.close(dialect.call)
    parameter_opens, parameter_ends = f"{dialect.opens}{dialect.parameter}", dialect.close(dialect.parameter)
    section_ends = one_of(*map(dialect.close, dialect.sections))
    call = (SPACE, call_opens, *_attribute(dialect.name, capture("name", r'^"\n')), _OTHER)
    again = dialect.open(dialect.call, *_loose(dialect.name, same("name")), _OTHER)
    quoted = _loose(dialect.name, capture("name", _QUOTED))
    counted = optional(*_loose("index", any_of("0-9")))
    calls = section(
        (SPACE, *dialect.open(one_of(*dialect.sections))),
        section_ends,
        call_opens,
        call_ends,
        (
            Edge(
                (*call, dialect.ends, SPACE, ahead("{")), "parameters body", Act.OPEN, slip=Slip.OTHER_NOTATION
            ),
            Edge((*call, dialect.ends, SPACE, *again), "parameters", Act.OPEN, slip=Slip.TWICE),
            Edge((*call, dialect.ends), "parameters", Act.OPEN),
            Edge((*call, f"/{dialect.ends}"), "call ended", Act.OPEN_CLOSE),
            Edge(
                (SPACE, *dialect.open(dialect.call, counted, *quoted, _OTHER)),
                "parameters",
                Act.OPEN,
                slip=Slip.OTHER_NOTATION,
            ),
        ),
        besides=besides,
    )
    next_call = one_of(call_ends, call_opens, section_ends)
    follows = one_of(call_opens, section_ends, *dialect.after, END)
    no_end = one_of(
        dialect.open(dialect.parameter, *_loose(dialect.key, any_of(_QUOTED)), _OTHER),
        dialect.open(dialect.parameter, *_loose(dialect.kind, any_of(_QUOTED)), _OTHER),
        (*dialect.open(dialect.call, SPACE, _OTHER), SPACE, one_of(parameter_opens, call_ends)),
        (call_ends, SPACE, follows),
        (section_ends, SPACE, one_of(*dialect.after, END)),
    )

    parameters = parameter_regions(
        "parameters",
        (
            *_parameter(dialect, "text", dialect.text),
            *_parameter(dialect, "json", dialect.json),
            *_parameter(dialect, "value"),
        ),
        {"text": "string", "json": "json", "value": None},
        parameter_ends,
        (call_ends,),
        ((ahead(SPACE, next_call),),),
        follows=one_of(parameter_opens, next_call, END),
        # A value may quote part of what follows it.
        no_value_ends=((LINES, ahead(no_end)),),
        then="call ended",
        otherwise=Edge(OTHER_TEXT, "calls"),
    )
    return calls._replace(regions=calls.regions | parameters)


def _parameter(dialect: Dialect, region: str, kind: Part | str = "") -> tuple[Edge, ...]:
    """Return the edges where a parameter begins.

    Args:
        dialect: How it is written.
        region: The region of its value.
        kind: How the value is written; empty if the element does not tell.
    """
    written = _attribute(dialect.kind, kind) if kind else ()
    loose_kind = _loose(dialect.kind, kind) if kind else ()
    loose_key = _loose(dialect.key, capture("key", _QUOTED))
    begins = Edge(
        dialect.open(dialect.parameter, *_attribute(dialect.key, capture("key", r'^"\n')), *written),
        region,
        Act.PARAMETER,
        entities=dialect.entities,
    )
    again = dialect.open(dialect.parameter, *_loose(dialect.key, same("key")), *loose_kind)
    return (
        replace(begins, pattern=(*begins.pattern, GAP, *again), slip=Slip.TWICE),
        begins,
        *(
            replace(begins, pattern=dialect.open(dialect.parameter, *each), slip=Slip.OTHER_NOTATION)
            for each in dict.fromkeys(((*loose_key, *loose_kind), (*loose_kind, *loose_key)))
        ),
    )
