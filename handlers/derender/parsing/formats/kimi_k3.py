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

from msgspec.structs import replace

from derender.parsing.engine.format import Edge, Format, Markup, Shows, Slip, Text, Thoughts
from derender.parsing.patterns import OTHER_TEXT, SPACE, any_of, one_of

from .elements import Dialect, calls_of

__all__ = ["MESSAGES"]


def _open_tag(name: str) -> str:
    return f"<|open|>{name}<|sep|>"


def _close_tag(name: str) -> str:
    return f"<|close|>{name}<|sep|>"


_ELEMENTS: Final = (
    Edge((SPACE, _open_tag("think")), "reasoning"),
    Edge((SPACE, _open_tag("response")), "answer"),
    Edge((SPACE, "<|open|>message", any_of("^<"), "<|sep|>"), "message"),
)
_THINK_ENDS: Final = Edge((_close_tag("think"),), "message")
_ENDS: Final = tuple(Edge((_close_tag(name),), "message") for name in ("response", "message"))
_DIALECT: Final = Dialect(
    opens="<|open|>",
    closes="<|close|>",
    ends="<|sep|>",
    sections=("tools",),
    call="call",
    name="tool",
    parameter="argument",
    key="key",
    kind="type",
    text="string",
    json=any_of("a-z"),
    after=(_close_tag("message"), "<|end_of_msg|>"),
    entities=True,
)
_CALLS: Final = calls_of(_DIALECT, besides=(*_ELEMENTS, *_ENDS))


def _messages(content: tuple[Edge, ...], reasoning: tuple[Edge, ...]) -> Format:
    """Return the format of messages.

    Args:
        content: Edges where calls begin.
        reasoning: The same, in the reasoning.
    """
    return Format(
        markers=("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
        content=(*_ELEMENTS, *content, *_ENDS),
        reasoning=(*_ELEMENTS, *reasoning, _THINK_ENDS, _ENDS[1]),
        regions={
            "message": Markup(
                (
                    *_ELEMENTS,
                    *content,
                    *(replace(end, slip=Slip.TWICE) for end in (_THINK_ENDS, *_ENDS)),
                    Edge((one_of("<|end_of_msg|>", _close_tag("tools")),), "message"),
                    Edge(OTHER_TEXT, "answer"),
                )
            ),
            "thinking": Text(
                Shows.REASONING,
                (
                    Edge((_open_tag("think"),), "thinking", slip=Slip.TWICE),
                    Edge(OTHER_TEXT, "reasoning"),
                ),
            ),
        },
        start="thinking",
        start_thinking="thinking",
        start_answering="answer",
        thoughts=(Thoughts(_open_tag("think"), _close_tag("think")),),
        whole=True,
    )


_WITH_CALLS: Final = _messages(_CALLS.content, _CALLS.reasoning)
MESSAGES: Final = replace(
    _WITH_CALLS,
    called=(*_CALLS.called, Edge((SPACE, "<|end_of_msg|>"), "message")),
    regions={**_WITH_CALLS.regions, **_CALLS.regions},
    uncalled=_messages((), ()),
)
