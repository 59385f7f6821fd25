"""Calls without a name: their arguments tell which of the tools that the client offered is called."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from derender.parsing.arguments.notation import JSON, to_json
from derender.parsing.engine.state import Call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["name_by_arguments"]


def name_by_arguments(text: str, _: Mapping[str, str], tools: Mapping[str, object]) -> Sequence[Call] | None:
    """Return the call of the one tool that has these parameters; None if none or several have.

    Args:
        text: The arguments, an object in JSON.
        tools: The tools offered: name → JSON schema of the parameters.
    """
    written = to_json(JSON, text)
    if written is None or written[:1] != "{":
        return None
    keys = set(json.loads(written))
    names = [name for name, parameters in tools.items() if _fits(keys, parameters)]
    return [Call(names[0], arguments=written)] if len(names) == 1 else None


def _fits(keys: set[str], parameters: object) -> bool:
    """Return whether a call may have these parameters, and no other that it must have."""
    schema = parameters if isinstance(parameters, dict) else {}
    known, required = schema.get("properties"), schema.get("required")
    needed = {each for each in required if isinstance(each, str)} if isinstance(required, list) else set()
    return isinstance(known, dict) and needed <= keys <= known.keys()
