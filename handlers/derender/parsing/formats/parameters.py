"""Parameters that are bare text between markers, or one JSON object in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import NO_CALL, Act, Arguments, Edge, Markup, Slip, Value
from derender.parsing.patterns import END, SPACE, ahead, any_of, optional

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.parsing.arguments.values import DeclaredType
    from derender.parsing.engine.format import Region
    from derender.parsing.patterns import Part, Pattern

__all__ = ["parameter_regions"]


def parameter_regions(
    name: str,
    begins: Sequence[Edge],
    values: Mapping[str, DeclaredType | None],
    value_ends: str,
    ends: Pattern,
    no_ends: Sequence[Pattern],
    *,
    follows: Part,
    no_value_ends: Sequence[Pattern],
    line: Pattern = (),
    then: str = "called",
    otherwise: Edge = NO_CALL,
) -> dict[str, Region]:
    """Return the regions of a call's parameters: `name` between them, `name body` for an object in their place,
    and those of their values.

    Args:
        name: The region between them.
        begins: Edges where a parameter begins.
        values: The regions of values → the type that the model declares there.
        value_ends: The marker that ends a value.
        ends: What ends the call.
        no_ends: What ends a call without its end.
        follows: Markup that may follow a value. A value ends only if it does.
        no_value_ends: What ends a value without its end.
        line: White space of the template before the end of a value.
        then: The region after the call.
        otherwise: The edge if other text follows.
    """
    call_ends = (
        Edge(ends, then, Act.CLOSE),
        *(Edge(each, then, Act.CLOSE, slip=Slip.NO_END) for each in no_ends),
    )
    value_edges = (
        Edge((*line, value_ends, ahead(SPACE, optional(value_ends, SPACE), follows)), name),
        # The output ends in other text.
        Edge((*line, value_ends, ahead(any_of("^<", least=1), END)), otherwise.to),
        *(Edge(each, name, slip=Slip.NO_END) for each in no_value_ends),
    )
    stray = Edge((SPACE, value_ends), name, slip=Slip.TWICE)
    return {
        name: Markup((*begins, *call_ends, stray, otherwise), ends=True),
        f"{name} body": Arguments(JSON, then=f"after {name} body", otherwise=otherwise.to),
        f"after {name} body": Markup((*call_ends, otherwise), ends=True),
        **{value: Value(value_edges, declared) for value, declared in values.items()},
    }
