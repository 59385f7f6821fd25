"""From what a model's files hold to its parsers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .expression import HOLE
from .families import FAMILIES, NAMES, OTHERS, Family, Thinking
from .template import read_template

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .evidence import Evidence
    from .template import Template

__all__ = ["Inference", "infer"]

_THINKS: Final = re.compile(rf"<think>\s*{HOLE}|{HOLE}\s*</think>|\[THINK\]{HOLE}")
"""What a template writes around reasoning. Prompts that only speak of the markers don't."""
_MARKER: Final = re.compile(r"</?think>")
_STRIPS_THINKING: Final = re.compile(r"split\(\s*['\"]</think>")
_SPEAKS_OF_CALLS: Final = re.compile(r"\b(?:tool_calls|\w*tools)\b")
_SPEAKS_OF_REASONING: Final = re.compile(r"\b(?:reasoning_content|reasoning|thinking)\b")
_TELLING: Final = re.compile(r"tool|think|call|chann|python|DSML|function|reason", re.IGNORECASE)
"""Added tokens that are shown."""
_MOST_SHOWN: Final = 12
_ARCHITECTURE_ENDS: Final = re.compile(r"(?:ForCausalLM|ForConditionalGeneration|LMHeadModel|Model)$")
_MAGISTRAL: Final = re.compile(r"\[THINK\]|<think>")

_BEFORE_REASONING: Final = {"v1", "v2", "v3", "v7"}
"""Versions of Mistral's tokenizer before models that reason."""

_Parsers = tuple[str | None, str | None]
"""The names of a tool-call parser and a reasoning parser."""


@dataclass(frozen=True, slots=True)
class Inference:
    """A model's parsers, as far as its files tell them.

    Attributes:
        tool_call_parser: The tool-call parser; None where there is none, or none that is known.
        reasoning_parser: The reasoning parser, likewise.
        seen: What was seen, for people; a line each.
        certain: Whether the files tell both. Else the model's name told them, or a None means "not known".
    """

    tool_call_parser: str | None
    reasoning_parser: str | None
    seen: tuple[str, ...]
    certain: bool


@dataclass(frozen=True, slots=True)
class _Finding:
    """What one kind of evidence leaves."""

    candidates: frozenset[_Parsers]
    seen: tuple[str, ...] = ()
    complete: bool = True
    """Whether nothing was seen that no parser here is for."""


def infer(evidence: Evidence, name: str | None = None) -> Inference:
    """Decide by the evidence; by the name only between what the evidence leaves.

    Args:
        evidence: What the model's files hold.
        name: The model's name.
    """
    finding = _find(evidence)
    seen = [*evidence.faults, *_seen(evidence), *finding.seen]
    candidates = finding.candidates
    certain = finding.complete and len(candidates) == 1
    if len(candidates) > 1:
        seen.append("could be " + " or ".join(sorted(map(_shown, candidates))))
        named = _by_name(candidates, name)
        if named:
            seen.append(f"the name {name!r} says {_shown(named)}")
            candidates = frozenset({named})
        else:
            seen.append("the model's name does not say which")
    tools, reasoning = ({pair[index] for pair in candidates} for index in (0, 1))
    return Inference(
        tool_call_parser=_only(tools),
        reasoning_parser=_only(reasoning),
        seen=tuple(seen),
        certain=certain,
    )


def _find(evidence: Evidence) -> _Finding:
    """The parsers that the evidence leaves, by the first kind of evidence that there is."""
    if evidence.response_template:
        return _Finding(frozenset({("hf", "hf")}), ("tokenizer carries a response template",))
    if evidence.tekken is not None:
        return _by_mistral(evidence.tekken, f"tekken.json, version {evidence.tekken}", evidence.template)
    if evidence.template is not None:
        return _by_template(read_template(evidence.template))
    if evidence.sentence_piece is not None:
        return _by_mistral(
            evidence.sentence_piece, f"Mistral's SentencePiece model, version {evidence.sentence_piece}"
        )
    return _by_tokens(evidence)


def _by_template(template: Template) -> _Finding:
    """The families whose calls the template writes; one, as a rule."""
    thinking = _thinking(template)
    families = [family for family in FAMILIES if family.calls.search(template.text)]
    seen = [f"template writes {family.shown}" for family in families]
    seen.append(_THINKING_SEEN[thinking])
    speaks = _SPEAKS_OF_CALLS.search(template.code)
    if not families:
        seen.append("template has calls in no form that is known" if speaks else "template has no tools")
    candidates: set[_Parsers] = {
        (family.tools, family.reasoning[_of_family(family, thinking, template)]) for family in families
    } or {(None, OTHERS[thinking])}
    complete = bool(families) or not speaks
    if candidates == {(None, None)} and _SPEAKS_OF_REASONING.search(template.code):
        seen.append("template has reasoning in no form that is known")
        complete = False
    return _Finding(frozenset(candidates), tuple(seen), complete)


def _thinking(template: Template) -> Thinking:
    """How the model comes to reason between `<think>` and `</think>`, by its chat template."""
    lasts = {markers[-1] if (markers := _MARKER.findall(prompt)) else "" for prompt in template.prompts}
    if lasts == {"<think>"}:
        return Thinking.ALWAYS
    if "<think>" in lasts:
        return Thinking.SWITCHED
    return Thinking.WRITTEN if "</think>" in lasts or _THINKS.search(template.text) else Thinking.NONE


def _of_family(family: Family, thinking: Thinking, template: Template) -> Thinking:
    """The same, where a family has signs of its own."""
    if thinking is not Thinking.NONE:
        return thinking
    sign = {"mistral": _MAGISTRAL.search(template.text), "deepseek_v3": _STRIPS_THINKING.search(template.code)}
    return Thinking.WRITTEN if sign.get(family.tools) else thinking


_THINKING_SEEN: Final = {
    Thinking.NONE: "template writes no reasoning",
    Thinking.WRITTEN: "template writes reasoning, the model opens it",
    Thinking.SWITCHED: "prompts open <think> unless the client asks otherwise, or where it asks",
    Thinking.ALWAYS: "each prompt opens <think>",
}


def _by_mistral(version: str, what: str, template: str | None = None) -> _Finding:
    """Servers render requests with Mistral's own tokenizer, not with the chat template; that only shows whether
    the model reasons. Without one, what the system prompt says of it is in no file."""
    reasoning: set[str | None] = {None} if version in _BEFORE_REASONING else {None, "mistral"}
    seen = "no chat template"
    if template is not None:
        reasons = _MAGISTRAL.search(read_template(template).text)
        reasoning = {"mistral" if reasons else None}
        seen = f"template writes {'reasoning' if reasons else 'no reasoning'}"
    return _Finding(
        frozenset(("mistral", parser) for parser in reasoning),
        (what, seen),
    )


def _by_tokens(evidence: Evidence) -> _Finding:
    """Without a chat template: the families whose tokens the vocabulary has, and of these the ones that have
    models of this architecture, where any has."""
    models = {_normal(model) for model in evidence.models}
    families = [
        family
        for family in FAMILIES
        if family.tokens and family.tokens <= evidence.tokens and not family.without & evidence.tokens
    ]
    families = [family for family in families if family.models & models] or families
    candidates = {
        (family.tools, parser)
        for family in families
        for thinking, parser in family.reasoning.items()
        if family.marks <= evidence.tokens or thinking is Thinking.NONE
    }
    if candidates:
        return _Finding(frozenset(candidates), ("no chat template",))
    return _Finding(frozenset({(None, None)}), ("no chat template",), complete=False)


def _normal(model: str) -> str:
    return _ARCHITECTURE_ENDS.sub("", model).replace("_", "").lower()


def _by_name(candidates: Iterable[_Parsers], name: str | None) -> _Parsers | None:
    """What the name says, if it is one of the candidates."""
    said = next((named for named in NAMES if named.name.search(name or "")), None)
    return next((pair for pair in candidates if said and pair == (said.tools, said.reasoning)), None)


def _only(names: set[str | None]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None


def _shown(parsers: _Parsers) -> str:
    return "/".join(name or "none" for name in parsers)


def _seen(evidence: Evidence) -> list[str]:
    telling = sorted(token for token in evidence.tokens if _TELLING.search(token))
    seen = [f"added tokens {', '.join(telling[:_MOST_SHOWN])}"] if telling else []
    if len(telling) > _MOST_SHOWN:
        seen[0] += f" and {len(telling) - _MOST_SHOWN} more"
    return [*seen, *(f"architecture {model}" for model in evidence.models)]
