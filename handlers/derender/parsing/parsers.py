"""The parsers of a model: its formats, loaded by name and compiled for its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .arguments.schema import Tools
from .engine.format import Format, FormatError, Ids
from .engine.grammar import compile_grammar
from .engine.parser import Parser
from .formats.bare import REQUIRED, named
from .registry import REASONING_PARSERS, TOOL_CALL_PARSERS
from .tool_choice import AUTO, NONE, ToolChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from derender.vocabulary import GenerationPrompt, Vocabulary

    from .engine.grammar import Grammar

__all__ = ["ParserError", "Parsers", "load_parsers"]

_MAX_GRAMMARS: Final = 64
"""Compiled grammars that are kept. Each tool that clients force by name has its own."""


class ParserError(ValueError):
    """A parser that can't be used. The message is one line."""


@dataclass(frozen=True, eq=False)
class Parsers:
    """A model's parsers.

    Attributes:
        tools: The tool-call format.
        reasoning: The reasoning format.
        grammar: Compiles the formats, with the bare JSON that guided decoding writes if a tool is forced.
        names: The parsers' names.
        prompts: How prompts end, as the model's chat template writes them.
        default_chat_template_kwargs: Arguments of the chat template that requests may override.
    """

    tools: Format | None
    reasoning: Format | None
    grammar: Callable[[ToolChoice], Grammar] = field(repr=False)
    names: tuple[str, ...]
    prompts: Sequence[GenerationPrompt] = ()
    default_chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def markers(self) -> frozenset[str]:
        """The texts of the formats' markers."""
        return frozenset(marker for each in (self.tools, self.reasoning) if each for marker in each.markers)

    @property
    def ids(self) -> Ids:
        """The form of tool-call ids."""
        return self.tools.ids if self.tools else Ids.OPENAI

    def for_request(
        self,
        tools: Mapping[str, object],
        tool_choice: ToolChoice = AUTO,
        *,
        parallel_tool_calls: bool = True,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        whole_calls: bool,
    ) -> Parser:
        """Return the parser for the outputs of one request.

        Args:
            tools: JSON schema of the parameters by tool name (`offered_tools`).
            tool_choice: Which tools may or must be called.
            parallel_tool_calls: Whether to keep more than the first call.
            chat_template_kwargs: Arguments of the chat template: `enable_thinking` or `thinking` says whether
                reasoning comes first, if the prompt is not known.
            whole_calls: Whether to emit a call when it is complete instead of its arguments as they come.
        """
        given = {name: value for name, value in (chat_template_kwargs or {}).items() if value is not None}
        arguments = {**self.default_chat_template_kwargs, **given}
        prompt = self._find_prompt(arguments)
        # A template that does not read the switch does not switch.
        thinking = _read_switch(prompt.arguments if prompt else arguments)
        wanted = self.tools is not None and tool_choice.mode != "none" and bool(tools or tool_choice.is_forced)
        if self.tools and not wanted:
            choice = NONE
        else:
            choice = tool_choice if wanted and tool_choice.is_forced else AUTO
        return Parser(
            grammar=self.grammar(choice),
            start=self._start(thinking),
            thinking=thinking,
            prompt=prompt.token_ids if prompt else (),
            tools=Tools(tools),
            calls_wanted=wanted,
            one_call=not parallel_tool_calls,
            whole_calls=whole_calls,
        )

    def _find_prompt(self, arguments: Mapping[str, Any]) -> GenerationPrompt | None:
        """Return how the prompt of a request ends, as the chat template writes it with these arguments."""
        return next(
            (
                prompt
                for prompt in self.prompts
                if all(arguments.get(name) is value for name, value in prompt.arguments.items())
            ),
            None,
        )

    def _start(self, thinking: bool | None) -> str:
        form = self.reasoning or self.tools or Format()
        if thinking is None:
            return form.start
        return form.start_thinking if thinking else form.start_answering


def _read_switch(chat_template_kwargs: Mapping[str, Any]) -> bool | None:
    """Return whether thinking is switched on or off; None if it is neither."""
    switches = [chat_template_kwargs.get(name) for name in ("enable_thinking", "thinking")]
    return next((switch for switch in switches if isinstance(switch, bool)), None)


def load_parsers(
    vocabulary: Vocabulary, tool_call_parser: str | None, reasoning_parser: str | None
) -> Parsers | None:
    """Load parsers by name. Returns None if neither is named.

    Args:
        vocabulary: The model's vocabulary.
        tool_call_parser: Name of the tool-call parser.
        reasoning_parser: Name of the reasoning parser.

    Raises:
        ParserError: A name is unknown, or the two parsers can't be combined.
    """
    if tool_call_parser is None and reasoning_parser is None:
        return None
    formats: dict[str, Format] = {}
    tools = _load("tool-call", TOOL_CALL_PARSERS, tool_call_parser, vocabulary, formats)
    reasoning = _load("reasoning", REASONING_PARSERS, reasoning_parser, vocabulary, formats)
    for whole, other, name in ((tools, reasoning, tool_call_parser), (reasoning, tools, reasoning_parser)):
        if whole and whole.whole and other and other is not whole:
            raise ParserError(
                f"{name} parses whole messages, reasoning and calls together; it can't be combined with "
                f"{reasoning_parser if whole is tools else tool_call_parser}"
            )

    @lru_cache(_MAX_GRAMMARS)
    def grammar(choice: ToolChoice) -> Grammar:
        bare = named(choice.name) if choice.mode == "named" else REQUIRED if choice.is_forced else None
        read = tools.without_calls() if tools and choice == NONE else tools
        return compile_grammar(vocabulary, read, read if reasoning is tools else reasoning, bare)

    grammar(AUTO)
    names = tuple(dict.fromkeys(name for name in (tool_call_parser, reasoning_parser) if name is not None))
    return Parsers(tools, reasoning, grammar, names, vocabulary.manifest.generation_prompts)


def _load(
    kind: str,
    registry: Mapping[str, str],
    name: str | None,
    vocabulary: Vocabulary,
    formats: dict[str, Format],
) -> Format | None:
    """Load a format. `formats` holds those that are loaded, so that one that does both is made once."""
    if name is None:
        return None
    if name not in registry:
        raise ParserError(f"no {kind} parser {name!r}; there are {', '.join(sorted(registry))}")
    path = registry[name]
    if path not in formats:
        # Only the formats that are served are imported.
        module, attribute = path.split(":")
        found: Format | Callable[[Vocabulary], Format] = getattr(
            import_module(f"{__package__}.formats.{module}"), attribute
        )
        try:
            formats[path] = found if isinstance(found, Format) else found(vocabulary)
        except FormatError as error:
            raise ParserError(f"{name}: {error}") from error
    return formats[path]
