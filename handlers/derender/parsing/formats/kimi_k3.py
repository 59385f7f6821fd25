"""Messages of Kimi K3: elements between control tokens, `<|open|>NAME<|sep|>` to `<|close|>NAME<|sep|>`.

<|open|>think<|sep|>…<|close|>think<|sep|>
<|open|>response<|sep|>…<|close|>response<|sep|>
<|open|>tools<|sep|>
  <|open|>call tool="get_weather" index="1"<|sep|>
    <|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>
  <|close|>call<|sep|>
<|close|>tools<|sep|>
"""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import NO_CALL, Act, Edge, Format, Markup, Shows, Text, Thoughts, Value
from derender.parsing.patterns import ANYTHING, END, SPACE, ahead, any_of, capture, one_of

__all__ = ["MESSAGES"]


def _open_tag(name: str) -> str:
    return f"<|open|>{name}<|sep|>"


def _close_tag(name: str) -> str:
    return f"<|close|>{name}<|sep|>"


_ELEMENTS: Final = (
    Edge((_open_tag("think"),), "reasoning"),
    Edge((_open_tag("response"),), "answer"),
    Edge((_open_tag("tools"),), "calls"),
    Edge(("<|open|>message", any_of("^<"), "<|sep|>"), "message"),
)
_ENDS: Final = (Edge((_close_tag("message"),), "message"),)
_ARGUMENT: Final = ('<|open|>argument key="', capture("key", r'^"\n'), '" type="')
_ARGUMENT_ENDS: Final = (
    _close_tag("argument"),
    ahead(one_of("<|open|>argument", "<|close|>call", END)),
)

MESSAGES: Final = Format(
    markers=("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    content=(*_ELEMENTS, Edge((_close_tag("response"),), "message"), *_ENDS),
    reasoning=(*_ELEMENTS, Edge((_close_tag("think"),), "message"), *_ENDS),
    regions={
        "message": Markup(_ELEMENTS),
        "thinking": Text(
            Shows.REASONING,
            (Edge((_open_tag("think"),), "reasoning"), Edge((ahead(ANYTHING),), "reasoning")),
        ),
        "calls": Markup(
            (
                Edge(
                    ('<|open|>call tool="', capture("name", r'^"\n'), '"', any_of("^<"), "<|sep|>"),
                    "arguments",
                    Act.OPEN,
                ),
                Edge((_close_tag("tools"),), "message"),
                *_ENDS,
            ),
        ),
        "arguments": Markup(
            (
                Edge((*_ARGUMENT, 'string"', SPACE, "<|sep|>"), "text", Act.PARAMETER, entities=True),
                Edge((*_ARGUMENT, any_of("a-z"), '"', SPACE, "<|sep|>"), "json", Act.PARAMETER, entities=True),
                Edge((_close_tag("call"),), "calls", Act.CLOSE),
                NO_CALL,
            ),
        ),
        "text": Value((Edge(_ARGUMENT_ENDS, "arguments"),), declared="string"),
        "json": Value((Edge(_ARGUMENT_ENDS, "arguments"),), declared="json"),
    },
    start="thinking",
    start_thinking="thinking",
    start_answering="answer",
    thoughts=(Thoughts(_open_tag("think"), _close_tag("think")),),
    whole=True,
)
