"""A model's parsers, by the names of vLLM's flags."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .engine.format import Format, FormatError, Ids
from .engine.grammar import compile_grammar
from .engine.machine import Parser
from .formats.bare import REQUIRED, named
from .names import REASONING_PARSERS, TOOL_CALL_PARSERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from derender.vocabulary import Vocabulary

    from .engine.grammar import Grammar

__all__ = ["ANY_TOOL", "ParserError", "Parsers", "forced_tool", "load_parsers", "offered_tools"]

_MOST_GRAMMARS: Final = 64
"""Grammars kept, of tools that clients force by name."""


class ParserError(ValueError):
    """Parsers that can't be used; one line."""


@dataclass(frozen=True, eq=False)
class Parsers:
    """A model's parsers.

    Attributes:
        tools: The tool-call format.
        reasoning: The reasoning format.
        grammar: Name of a tool that must be called, `ANY_TOOL`, or nothing → the formats, ready to run.
        names: What the parsers are called.
    """

    tools: Format | None
    reasoning: Format | None
    grammar: Callable[[str], Grammar]
    names: tuple[str, ...]

    @cached_property
    def markers(self) -> frozenset[str]:
        """The texts of the markers that the formats have."""
        return frozenset(marker for each in (self.tools, self.reasoning) if each for marker in each.markers)

    @property
    def ids(self) -> Ids:
        """How ids of calls look."""
        return self.tools.ids if self.tools else Ids.OPENAI

    def for_request(
        self,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tool_choice: str | Mapping[str, Any] | None = None,
        parallel_tool_calls: bool = True,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        whole_calls: bool = False,
    ) -> Parser:
        """The parser of the outputs for one request.

        Args:
            tools: The tools offered, as the client sent them.
            tool_choice: "none", "auto", "required", or the tool to call; by default "auto" where tools are
                offered.
            parallel_tool_calls: Whether more than the first call is kept.
            chat_template_kwargs: What the client told the chat template, `enable_thinking` or `thinking`.
            whole_calls: Whether a call is given once it is complete; else its arguments are given as they come.
        """
        offered = offered_tools(tools)
        forced = forced_tool(tool_choice)
        wanted = self.tools is not None and tool_choice != "none" and bool(offered or forced)
        return Parser(
            grammar=self.grammar(forced if wanted else ""),
            start=self._start(chat_template_kwargs or {}),
            tools=offered,
            calls_wanted=wanted,
            one_call=not parallel_tool_calls,
            whole_calls=whole_calls,
        )

    def _start(self, chat_template_kwargs: Mapping[str, Any]) -> str:
        form = self.reasoning or self.tools
        if form is None:
            return "answer"
        for name in ("enable_thinking", "thinking"):
            if isinstance(switch := chat_template_kwargs.get(name), bool):
                return form.start_thinking if switch else form.start_answering
        return form.start


ANY_TOOL: Final = "\n"
"""In place of the name of a tool that must be called: any. No tool has this name."""


def forced_tool(tool_choice: str | Mapping[str, Any] | None) -> str:
    """The name of the tool that must be called, or `ANY_TOOL`; empty for none."""
    if isinstance(tool_choice, str):
        return ANY_TOOL if tool_choice == "required" else ""
    function = (tool_choice or {}).get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) and name != ANY_TOOL else ""


def offered_tools(tools: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Name → JSON schema of the parameters."""
    functions = [tool.get("function", tool) for tool in tools]
    return {
        function["name"]: function.get("parameters")
        for function in functions
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    }


def load_parsers(
    vocabulary: Vocabulary, tool_call_parser: str | None, reasoning_parser: str | None
) -> Parsers | None:
    """The parsers of those names; None where there are none.

    Args:
        vocabulary: The model's vocabulary.
        tool_call_parser: Name of the tool-call parser.
        reasoning_parser: Name of the reasoning parser.

    Raises:
        ParserError: There is none of that name, or the two don't go together.
    """
    if tool_call_parser is None and reasoning_parser is None:
        return None
    made: dict[tuple[str, str], Format] = {}
    tools = _format("tool-call", TOOL_CALL_PARSERS, tool_call_parser, vocabulary, made)
    reasoning = _format("reasoning", REASONING_PARSERS, reasoning_parser, vocabulary, made)
    for whole, other, name in ((tools, reasoning, tool_call_parser), (reasoning, tools, reasoning_parser)):
        if whole and whole.whole and other and other is not whole:
            raise ParserError(
                f"{name} reads whole messages, reasoning and calls together: it does not go with "
                f"{reasoning_parser if whole is tools else tool_call_parser}"
            )

    @lru_cache(_MOST_GRAMMARS)
    def grammar(forced: str) -> Grammar:
        bare = REQUIRED if forced == ANY_TOOL else named(forced) if forced else None
        return compile_grammar(vocabulary, tools, reasoning, bare)

    grammar("")
    names = tuple(dict.fromkeys(name for name in (tool_call_parser, reasoning_parser) if name is not None))
    return Parsers(tools, reasoning, grammar, names)


def _format(
    kind: str,
    known: Mapping[str, tuple[str, str]],
    name: str | None,
    vocabulary: Vocabulary,
    made: dict[tuple[str, str], Format],
) -> Format | None:
    if name is None:
        return None
    if name not in known:
        raise ParserError(f"no {kind} parser {name!r}; there are {', '.join(sorted(known))}")
    place = module, attribute = known[name]
    if place not in made:
        # Only the formats that are served are imported.
        found: Format | Callable[[Vocabulary], Format] = getattr(
            import_module(f"{__package__}.formats.{module}"), attribute
        )
        try:
            made[place] = found if isinstance(found, Format) else found(vocabulary)
        except FormatError as error:
            raise ParserError(f"{name}: {error}") from error
    return made[place]
