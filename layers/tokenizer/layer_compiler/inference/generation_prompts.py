"""Find how a model's prompts end, by rendering its chat template."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from derender.vocabulary import MAX_GENERATION_PROMPT, GenerationPrompt
from layer_compiler.errors import LayerError

from .evidence import read_evidence
from .rendering import render_prompts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from derender.vocabulary import Vocabulary
    from layer_compiler.formats.parsed import ReferenceLibrary

    from .rendering import RenderedPrompt

__all__ = ["find_generation_prompts"]

_SWITCHES: Final = ("enable_thinking", "thinking")
"""Names that templates give to the switch for thinking."""
_VALUES: Final = (True, False)
_ARGUMENTS: Final = ({}, *({name: value} for name in _SWITCHES for value in _VALUES))


def find_generation_prompts(
    folder: Path, vocabulary: Vocabulary, library: ReferenceLibrary, special_tokens: Mapping[str, str]
) -> tuple[tuple[GenerationPrompt, ...], tuple[str, ...]]:
    """Find how prompts end.

    Args:
        folder: The model's files.
        vocabulary: The model's compiled vocabulary.
        library: Encodes text.
        special_tokens: The variables of a chat template that name special tokens.

    Returns:
        The ends, none if nothing tells; and warnings.
    """
    evidence = read_evidence(folder)
    if evidence.tekken_version is not None:
        # Servers render with that tokenizer, not with the template.
        return (), ()
    if evidence.template is None:
        return (), tuple(line for line in evidence.unreadable if "chat_template" in line)
    try:
        rendered = render_prompts(evidence.template, special_tokens, _ARGUMENTS)
    except LayerError as error:
        return (), (f"chat template: not rendered, so the layer does not say how prompts end: {error}",)
    tokens = {text: token_id for text, token_id in vocabulary.added_tokens().items() if text.strip()}
    ends = [_encode(_cut(prompt, tokens), tokens, library) for prompt in rendered]
    return tuple(_list_switches(ends)), ()


def _cut(prompt: RenderedPrompt, tokens: Mapping[str, int]) -> str:
    """Return the end of a prompt from the generation prompt on, or from the added token before it."""
    text = prompt.whole
    pairs = zip_longest(*prompt)
    begin = next((place for place, (one, other) in enumerate(pairs) if one != other), len(text))
    places = ((text.rfind(token, 0, begin + len(token)), len(token)) for token in tokens)
    # Of tokens that begin at one place, the longest is there.
    place, _ = max(((place, length) for place, length in places if place >= 0), default=(begin, 0))
    return text[place:]


def _encode(text: str, tokens: Mapping[str, int], library: ReferenceLibrary) -> tuple[int, ...]:
    found = [token for token in tokens if token in text]
    longest_first = sorted(found, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if found else [text]
    token_ids = [
        token_id
        for part in parts
        if part
        for token_id in ([tokens[part]] if part in tokens else library.encode(part)[0])
    ]
    return tuple(token_ids[-MAX_GENERATION_PROMPT:])


def _list_switches(ends: list[tuple[int, ...]]) -> Iterator[GenerationPrompt]:
    """Yield the ends that a switch changes, then the one without a switch."""
    unset, *switched = ends
    for number, name in enumerate(_SWITCHES):
        both = switched[len(_VALUES) * number :][: len(_VALUES)]
        if set(both) != {unset}:
            for value, token_ids in zip(_VALUES, both, strict=True):
                yield GenerationPrompt(token_ids, {name: value})
    if unset:
        yield GenerationPrompt(unset)
