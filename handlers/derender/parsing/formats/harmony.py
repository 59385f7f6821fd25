"""Harmony, the messages of gpt-oss (OpenAI's harmony documentation, "Message format").

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…
    <|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{…}<|call|>

A message's header names its channel and its recipient, in any order. A message to a function is a call.
Without a recipient, the channel `analysis` is reasoning, and `commentary` and `final` are content. All other
messages are for the model's own tools and are left out.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, Edge, Format, Markup, Shows, Text
from derender.parsing.patterns import ANYTHING, END, SPACE, ahead, capture, one_of

__all__ = ["MESSAGES"]

_ENDS: Final = (
    Edge((one_of("<|end|>", "<|return|>", "<|call|>"),), "between"),
    Edge(("<|start|>",), "header"),
)
_TO: Final = ("to=functions.", capture("name", r"^\s<"))
_WORD_ENDS: Final = ahead(one_of((SPACE, "<|message|>"), (SPACE, "<|constrain|>"), (SPACE, "<|channel|>"), " "))


def _channel(name: str) -> Edge:
    return Edge(("<|channel|>", SPACE, name, _WORD_ENDS), f"{name} header")


_CHANNELS: Final = (
    _channel("analysis"),
    _channel("commentary"),
    _channel("final"),
    Edge(("<|channel|>",), "unknown header"),
)
_HEADER: Final = (
    Edge(_TO, "call header", Act.NAME),
    Edge(("to=",), "unknown header"),
    *_CHANNELS,
)


def _header(message: str) -> Markup:
    return Markup((Edge(("<|message|>",), message), *_HEADER, *_ENDS))


MESSAGES: Final = Format(
    markers=("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"),
    content=_ENDS,
    reasoning=_ENDS,
    regions={
        # The prompt ends within a header. Other text is an answer.
        "opening": Text(
            Shows.CONTENT,
            (
                Edge((SPACE, ahead(one_of("to=", "<|channel|>", "<|start|>", "<|message|>"))), "header"),
                # The JSON of guided decoding.
                Edge((SPACE, ahead(one_of("{", "["))), "answer"),
                Edge((ahead(ANYTHING),), "plain"),
            ),
        ),
        "plain": Text(Shows.CONTENT, (Edge(("<|start|>",), "header"), *_CHANNELS)),
        "header": _header("answer"),
        "analysis header": _header("reasoning"),
        "commentary header": _header("answer"),
        "final header": _header("answer"),
        "unknown header": _header("aside"),
        "call header": Markup((Edge(("<|message|>",), "call"), *_ENDS)),
        "call": Markup(
            (Edge((ahead(ANYTHING),), "arguments", Act.OPEN), Edge((END,), "arguments", Act.OPEN)),
        ),
        "arguments": Arguments(JSON, then="between", otherwise="content", closes=True),
        "aside": Markup(_ENDS),
        "between": Markup((Edge(("<|start|>",), "header"),)),
    },
    start="opening",
    start_thinking="opening",
    start_answering="opening",
    turn="<|start|>",
    after_prompt={"header": "opening"},
    whole=True,
    # vLLM's parser gets the ids themselves.
    uncut=True,
)
