"""Calls that guided decoding writes: bare JSON instead of the family's markup.

`tool_choice` "required" gives a list of objects with a name and parameters, a named tool its arguments alone.
"""

from __future__ import annotations

import json
from typing import Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, CallObjects, Edge, Format
from derender.parsing.patterns import SPACE, ahead, one_of

__all__ = ["REQUIRED", "named"]

_OBJECTS: Final = CallObjects(closes=True)

REQUIRED: Final = Format(
    first=(Edge((SPACE, ahead(one_of("{", ("[", SPACE, "{")))), "forced objects", Act.BEGIN),),
    regions={"forced objects": _OBJECTS},
)


def named(name: str) -> Format:
    """Return the format of one tool's arguments, or of a whole call of it."""
    key = (SPACE, ":", SPACE)
    call = ("{", SPACE, '"name"', *key, json.dumps(name, ensure_ascii=False), SPACE, ",")
    arguments = (SPACE, one_of('"arguments"', '"parameters"'), *key, "{")
    return Format(
        first=(
            Edge((SPACE, ahead(*call, *arguments)), "forced objects", Act.BEGIN),
            Edge((SPACE, ahead("[", SPACE, *call, *arguments)), "forced objects", Act.BEGIN),
            Edge((SPACE, ahead("{")), "forced arguments", Act.OPEN, name=name),
        ),
        regions={
            "forced objects": _OBJECTS,
            "forced arguments": Arguments(JSON, closes=True),
        },
    )
