"""What writes outputs: every pair of parsers with a vocabulary of bytes, and the families with real ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from derender.parsing import REASONING_PARSERS, TOOL_CALL_PARSERS, load_parsers
from tests.conformance import vocabularies
from tests.unit.parsing.formats.hf.support import MARKERS as TEMPLATE_MARKERS
from tests.unit.parsing.formats.hf.support import TEMPLATES
from tests.unit.parsing.support import NAMES, combine, marked_vocabulary, marker_texts
from tests.unit.parsing.support import encode as encode_marked

from .encoding import encode, prompt_ids
from .markup import HEADERS, PROMPTS, STEPS, TAGS, THINK
from .values import MARKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from derender.parsing import Parsers
    from derender.vocabulary import Vocabulary

    from .outputs import Family

__all__ = ["PARSERS", "Source", "family_source", "sources"]

PARSERS: Final[tuple[str | None, ...]] = (*sorted(TOOL_CALL_PARSERS), None)
"""The tool-call parsers."""
_CONTROL: Final = ("<eos>", "<|im_start|>", "<｜Assistant｜>")
_MARK: Final = re.compile(f"([{chr(MARKS.start)}-{chr(MARKS.stop - 1)}])")


@dataclass(frozen=True, eq=False)
class Source:
    """Parsers, and a vocabulary in which outputs are written for them.

    Attributes:
        name: Its name.
        vocabulary: The vocabulary.
        parsers: The parsers.
        markers: Markers that are tokens → the characters that stand for them in an output.
        tags: Regular expressions of markup that is more than a marker.
        headers: Regular expressions of markup whose words may be left out.
        keeps_all: Whether all text belongs to the message. Some response templates leave text out.
        prompts: Ends of prompts. The first opens the model's message and nothing else.
        steps: The markup of a message, in order.
        encode: Encodes an output.
    """

    name: str
    vocabulary: Vocabulary
    parsers: Parsers
    markers: Mapping[str, str]
    tags: tuple[str, ...]
    headers: tuple[str, ...]
    keeps_all: bool
    prompts: tuple[tuple[int, ...], ...]
    steps: tuple[str, ...]
    encode: Callable[[str], list[int]]

    def marked(self, text: str) -> str:
        """Return markup with its markers as tokens."""
        for marker in sorted(self.markers, key=len, reverse=True):
            text = text.replace(marker, self.markers[marker])
        return text

    def plain(self, text: str) -> str:
        """Return an output with its markers as text."""
        for marker, character in self.markers.items():
            text = text.replace(character, marker)
        return text


@cache
def sources(tools: str | None) -> tuple[Source, ...]:
    """Return a tool-call parser with each reasoning parser, and with markers as tokens and as text."""
    if tools == "hf":
        pairs: list[tuple[str | None, str | None, str]] = [("hf", "hf", template) for template in TEMPLATES]
    else:
        pairs = [
            (tools, reasoning, "") for each, reasoning in NAMES if each == tools and combine(tools, reasoning)
        ]
    return tuple(_source(*pair, marked=marked) for pair in pairs for marked in (True, False))


def _source(tools: str | None, reasoning: str | None, template: str, *, marked: bool) -> Source:
    texts = sorted(TEMPLATE_MARKERS if template else marker_texts(tools, reasoning))
    vocabulary = marked_vocabulary(texts if marked else (), ("<eos>",) if template else _CONTROL)
    if template:
        vocabulary.manifest = replace(vocabulary.manifest, response_template=TEMPLATES[template])
    parsers = load_parsers(vocabulary, tools, reasoning)
    assert parsers
    known = vocabulary.added_tokens()
    markers = {text: chr(MARKS.start + number) for number, text in enumerate(texts) if text in known}
    ids = {character: known[text] for text, character in markers.items()}

    def encode_text(text: str) -> list[int]:
        return [
            token_id
            for part in _MARK.split(text)
            for token_id in ([ids[part]] if part in ids else part.encode())
        ]

    formats = [template] if template else _formats(tools, reasoning)
    prompt = (
        str(TEMPLATES[template]["start_anchor"]) if template else PROMPTS.get(tools, "<|im_start|>assistant\n")
    )
    thinks = "<think>" in (STEPS[template] if template else texts)
    openings = ["", *("<think>\n", "<think>\n\n</think>\n\n") * thinks]
    if tools == "kimi_k3":
        openings += ["<|open|>think<|sep|>", "<|open|>response<|sep|>"]
    return Source(
        name="/".join(filter(None, (tools, reasoning, template, "text" * (not marked)))),
        vocabulary=vocabulary,
        parsers=parsers,
        markers=markers,
        tags=_expressions(TAGS, formats),
        headers=_expressions(HEADERS, formats),
        keeps_all=not template or "open" not in TEMPLATES[template]["fields"]["content"],
        prompts=tuple(tuple(encode_marked(vocabulary, prompt + opening)) for opening in openings),
        steps=tuple(step for each in formats for step in (*STEPS.get(each, THINK), "W W")),
        encode=encode_text,
    )


@cache
def family_source(family: Family, widest: int) -> Source:
    """Return the source of a family's outputs.

    Args:
        family: The family.
        widest: Most bytes of a token.
    """
    formats = _formats(family.tools, family.reasoning)
    return Source(
        name=family.name,
        vocabulary=vocabularies.vocabulary(family.vocabulary),
        parsers=family.parsers(),
        markers=family.markers(),
        tags=_expressions(TAGS, formats),
        headers=_expressions(HEADERS, formats),
        keeps_all=True,
        prompts=(prompt_ids(family, family.prompt),),
        steps=(),
        encode=lambda text: encode(family, text, widest),
    )


def _formats(tools: str | None, reasoning: str | None) -> list[str]:
    """Return the formats of two parsers, as the registry names them: reasoning first, as in an output."""
    paths = (REASONING_PARSERS.get(reasoning or ""), TOOL_CALL_PARSERS.get(tools or ""))
    return list(dict.fromkeys(path for path in paths if path))


def _expressions(expressions: Mapping[str, Sequence[str]], formats: list[str]) -> tuple[str, ...]:
    """Return the regular expressions of formats."""
    names = dict.fromkeys(each.split(":")[0] for each in formats)
    return tuple(expression for name in names for expression in expressions.get(name, ()))
