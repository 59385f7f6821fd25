"""Decide a model's parsers from the evidence in its files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .expression import HOLE
from .families import DEFAULT_REASONING, FAMILIES, NAMES, Family, Thinking
from .template import read_template

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .evidence import Evidence
    from .template import Template

__all__ = ["Inference", "infer"]

_WRITTEN_REASONING: Final = re.compile(rf"<think>\s*{HOLE}|{HOLE}\s*</think>|\[THINK\]{HOLE}")
"""Reasoning as a template writes it. Prompts that only mention the markers don't match."""
_THINK_MARKER: Final = re.compile(r"</?think>")
_STRIPS_REASONING: Final = re.compile(r"split\(\s*['\"]</think>")
_MENTIONS_CALLS: Final = re.compile(r"\b(?:tool_calls|\w*tools)\b")
_MENTIONS_REASONING: Final = re.compile(r"\b(?:reasoning_content|reasoning|thinking)\b")
_MAGISTRAL: Final = re.compile(r"\[THINK\]|<think>")
_TELLING_TOKEN: Final = re.compile(r"tool|think|call|chann|python|DSML|function|reason", re.IGNORECASE)
"""Added tokens that observations list."""
_MAX_LISTED_TOKENS: Final = 12
_ARCHITECTURE_SUFFIX: Final = re.compile(r"(?:ForCausalLM|ForConditionalGeneration|LMHeadModel|Model)$")
_VERSIONS_BEFORE_REASONING: Final = {"v1", "v2", "v3", "v7"}
"""Versions of Mistral's tokenizer that are older than Mistral's reasoning models."""

_Parsers = tuple[str | None, str | None]
"""The names of a tool-call parser and a reasoning parser."""


@dataclass(frozen=True, slots=True)
class Inference:
    """A model's parsers, as far as its files tell.

    Attributes:
        tool_call_parser: The tool-call parser, or None if the model has none or it is unknown.
        reasoning_parser: The reasoning parser, or None if the model has none or it is unknown.
        observations: Lines for people.
        certain: True if the files decide both. If not, the model's name decided, or None means "unknown".
    """

    tool_call_parser: str | None
    reasoning_parser: str | None
    observations: tuple[str, ...]
    certain: bool


@dataclass(frozen=True, slots=True)
class _Finding:
    """The parsers that one kind of evidence leaves."""

    candidates: frozenset[_Parsers]
    observations: tuple[str, ...] = ()
    complete: bool = True
    """True if a parser exists for everything that was observed."""


def infer(evidence: Evidence, name: str | None = None) -> Inference:
    """Decide by the evidence.

    Args:
        evidence: The evidence in the model's files.
        name: The model's name. It only chooses between candidates that the evidence leaves.
    """
    finding = _find(evidence)
    observations = [*evidence.unreadable, *_describe(evidence), *finding.observations]
    candidates = finding.candidates
    certain = finding.complete and len(candidates) == 1
    if len(candidates) > 1:
        observations.append("could be " + " or ".join(sorted(map(_join, candidates))))
        named = _choose_by_name(candidates, name)
        if named:
            observations.append(f"the name {name!r} says {_join(named)}")
            candidates = frozenset({named})
        else:
            observations.append("the model's name does not say which")
    tools, reasoning = ({pair[index] for pair in candidates} for index in (0, 1))
    return Inference(
        tool_call_parser=_single(tools),
        reasoning_parser=_single(reasoning),
        observations=tuple(observations),
        certain=certain,
    )


def _find(evidence: Evidence) -> _Finding:
    """Return the candidates of the strongest kind of evidence that exists."""
    if evidence.response_template:
        return _Finding(frozenset({("hf", "hf")}), ("the tokenizer has a response template",))
    if (version := evidence.tekken_version) is not None:
        return _find_by_mistral(version, f"tekken.json, version {version}", evidence.template)
    if evidence.template is not None:
        return _find_by_template(read_template(evidence.template))
    if (version := evidence.sentence_piece_version) is not None:
        return _find_by_mistral(version, f"Mistral's SentencePiece model, version {version}")
    return _find_by_tokens(evidence)


def _find_by_template(template: Template) -> _Finding:
    """Return the families whose calls the template writes. Most templates write one family's."""
    thinking = _find_thinking(template)
    families = [family for family in FAMILIES if family.calls.search(template.text)]
    observations = [f"the template writes {family.example}" for family in families]
    observations.append(_THINKING_OBSERVED[thinking])
    mentions_calls = _MENTIONS_CALLS.search(template.code)
    if not families:
        observations.append(
            "the template writes calls in no known format" if mentions_calls else "the template has no tools"
        )
    candidates: set[_Parsers] = {
        (family.tools, family.reasoning[_find_family_thinking(family, thinking, template)])
        for family in families
    } or {(None, DEFAULT_REASONING[thinking])}
    complete = bool(families) or not mentions_calls
    if candidates == {(None, None)} and _MENTIONS_REASONING.search(template.code):
        observations.append("the template writes reasoning in no known format")
        complete = False
    return _Finding(frozenset(candidates), tuple(observations), complete)


def _find_thinking(template: Template) -> Thinking:
    """Return how the model starts to reason between `<think>` and `</think>`."""
    last_markers = {
        markers[-1] if (markers := _THINK_MARKER.findall(prompt)) else "" for prompt in template.prompts
    }
    if last_markers == {"<think>"}:
        return Thinking.ALWAYS
    if "<think>" in last_markers:
        return Thinking.SWITCHED
    if "</think>" in last_markers or _WRITTEN_REASONING.search(template.text):
        return Thinking.WRITTEN
    return Thinking.NONE


def _find_family_thinking(family: Family, thinking: Thinking, template: Template) -> Thinking:
    """Return the same, with the special signs of some families."""
    if thinking is not Thinking.NONE:
        return thinking
    signs = {
        "mistral": _MAGISTRAL.search(template.text),
        "deepseek_v3": _STRIPS_REASONING.search(template.code),
    }
    return Thinking.WRITTEN if signs.get(family.tools) else thinking


_THINKING_OBSERVED: Final = {
    Thinking.NONE: "the template writes no reasoning",
    Thinking.WRITTEN: "the template writes reasoning, which the model opens",
    Thinking.SWITCHED: "prompts open <think> depending on the request",
    Thinking.ALWAYS: "each prompt opens <think>",
}


def _find_by_mistral(version: str, observation: str, template: str | None = None) -> _Finding:
    """Return the candidates for a tokenizer of Mistral's.

    Servers render requests with that tokenizer, not with the chat template. The template only shows whether the
    model reasons. Without it no file tells, because the instruction to reason is in the system prompt.
    """
    reasoning: set[str | None] = {None} if version in _VERSIONS_BEFORE_REASONING else {None, "mistral"}
    about_template = "no chat template"
    if template is not None:
        reasons = _MAGISTRAL.search(read_template(template).text)
        reasoning = {"mistral" if reasons else None}
        about_template = f"the template writes {'reasoning' if reasons else 'no reasoning'}"
    return _Finding(frozenset(("mistral", parser) for parser in reasoning), (observation, about_template))


def _find_by_tokens(evidence: Evidence) -> _Finding:
    """Return the families whose tokens the vocabulary has, if possible only those of the architecture."""
    architectures = {_normalize(name) for name in evidence.architectures}
    tokens = evidence.added_tokens
    families = [
        family
        for family in FAMILIES
        if family.tokens and family.tokens <= tokens and not family.absent_tokens & tokens
    ]
    families = [family for family in families if family.architectures & architectures] or families
    candidates: set[_Parsers] = {
        (family.tools, parser)
        for family in families
        for thinking, parser in family.reasoning.items()
        if family.reasoning_tokens <= tokens or thinking is Thinking.NONE
    }
    return _Finding(frozenset(candidates or {(None, None)}), ("no chat template",), complete=bool(candidates))


def _normalize(architecture: str) -> str:
    return _ARCHITECTURE_SUFFIX.sub("", architecture).replace("_", "").lower()


def _choose_by_name(candidates: Iterable[_Parsers], name: str | None) -> _Parsers | None:
    """Return the parsers of the first name pattern that matches, if they are a candidate."""
    row = next((row for row in NAMES if row.name.search(name or "")), None)
    return next((pair for pair in candidates if row and pair == (row.tools, row.reasoning)), None)


def _single(names: set[str | None]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None


def _join(parsers: _Parsers) -> str:
    return "/".join(name or "none" for name in parsers)


def _describe(evidence: Evidence) -> list[str]:
    telling = sorted(token for token in evidence.added_tokens if _TELLING_TOKEN.search(token))
    lines = [f"added tokens {', '.join(telling[:_MAX_LISTED_TOKENS])}"] if telling else []
    if len(telling) > _MAX_LISTED_TOKENS:
        lines[0] += f" and {len(telling) - _MAX_LISTED_TOKENS} more"
    return [*lines, *(f"architecture {name}" for name in evidence.architectures)]
