"""Changes to any part of a JSON document."""

from __future__ import annotations

import copy
from typing import Any, Final

from hypothesis import strategies as st

__all__ = ["Place", "at", "deleted", "json_values", "mutated", "places", "replaced"]


Place = tuple[str | int, ...]


json_values: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(
        [0, -1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**400, "", "0", "token_id:1", "stop"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, here: Place = ()) -> list[Place]:
    """List the path to each value in a JSON document, beginning with the document itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for name, item in inner for place in places(item, (*here, name)))]


def at(value: Any, place: Place) -> Any:
    """Return the value at a path."""
    for name in place:
        value = value[name]
    return value


def replaced(value: Any, place: Place, new: Any) -> Any:
    """Return the document with another value at a path."""
    if not place:
        return new
    value = copy.deepcopy(value)
    at(value, place[:-1])[place[-1]] = new
    return value


def deleted(value: Any, place: Place) -> Any:
    """Return the document without the value at a path."""
    value = copy.deepcopy(value)
    del at(value, place[:-1])[place[-1]]
    return value


@st.composite
def mutated(draw: st.DrawFn, value: Any, most: int = 3) -> Any:
    """Draw a document in which a few values are deleted, replaced or wrapped."""
    for _ in range(draw(st.integers(1, most))):
        place = draw(st.sampled_from(places(value)))
        match draw(st.sampled_from(("replace", "delete", "list", "object"))):
            case "delete" if place:
                value = deleted(value, place)
            case "list":
                value = replaced(value, place, [at(value, place)])
            case "object":
                value = replaced(value, place, {"a": at(value, place)})
            case _:
                value = replaced(value, place, draw(json_values))
    return value
