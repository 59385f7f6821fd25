"""How the outputs for one request are parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from derender.parsing.arguments.schema import Tools

from .grammar import Grammar

__all__ = ["Parser"]


class Parser(Struct, frozen=True):
    """How the outputs for one request are parsed.

    Attributes:
        grammar: The formats.
        start: The region an output begins in if nothing else tells.
        thinking: Whether thinking is switched on or off; None if nothing says so.
        prompt: The end of the prompt as the model's chat template writes it; empty if the layer does not say.
        tools: The tools offered: name → JSON schema of the parameters.
        calls_wanted: Whether there may be calls. Otherwise they are text, without the markers.
        one_call: Whether only the first call is kept.
        whole_calls: Whether a call is emitted once it is complete. Otherwise it is emitted as it arrives.
    """

    grammar: Grammar
    start: str
    thinking: bool | None
    prompt: Sequence[int]
    tools: Tools
    calls_wanted: bool
    one_call: bool
    whole_calls: bool

    @property
    def markers(self) -> Mapping[int, str]:
        """Token ids of markers → the characters that stand for them."""
        return self.grammar.markers

    def may_call(self, name: str, *, offered: bool) -> bool:
        """Return whether there may be a call of a tool.

        Args:
            name: The tool's name.
            offered: Whether the client must have offered it. In some formats it must always.
        """
        must = offered or self.grammar.offered_only
        return self.calls_wanted and (not must or name in self.tools)
