"""Harmony, the messages of gpt-oss (OpenAI's harmony documentation, "Message format").

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…
    <|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{…}<|call|>

A message's header names its channel and its recipient, in any order. A message to a function is a call, if
calls are wanted; a function without the prefix `functions.` must be one that the client offered. Otherwise the
channel `final` is content, and so is `commentary` without a recipient. Code for the model's own tools is left
out, unless it is in `analysis`. All else is reasoning: thoughts, calls that are not wanted, and calls that turn
out to be none.

Models leave out markers. A header that follows the end of a message needs no `<|start|>`, and text that can't
belong to a header needs no `<|message|>`.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, Edge, Format, Markup, Shows, Text
from derender.parsing.patterns import ANYTHING, END, OTHER_TEXT, SPACE, ahead, any_of, capture, one_of, optional

__all__ = ["MESSAGES"]

_CHANNELS: Final = ("analysis", "commentary", "final")
_CHANNEL: Final = one_of(*_CHANNELS)
_END: Final = one_of("<|end|>", "<|return|>", "<|call|>")
_MARKED: Final = one_of("<|message|>", "<|channel|>", "<|constrain|>")
_MORE: Final = one_of(_MARKED, "to=")
_WORD: Final = any_of(r"^\s<{", least=1)
_TYPE: Final = any_of(r"\w.:/+-", least=1)
_OTHER_WORDS: Final = (SPACE, _TYPE, SPACE, optional(_TYPE, SPACE), optional(_TYPE, SPACE), ahead(_MORE))
_QUOTE: Final = optional(one_of('"', "'"))
_OWN_TOOL: Final = ahead(
    one_of("python", "browser", "container"), one_of(any_of(r"^\w", least=1, most=1), _MARKED)
)
_NAME: Final = (capture("name", r"^\s<{\"'"), _QUOTE)
_NO_ROLE: Final = ahead(optional("assistant", SPACE), optional(_CHANNEL, SPACE), _MORE)
"""What a header begins with behind the end of a message, if `<|start|>` is missing."""

_TO_FUNCTION: Final = Edge((ahead("to=functions.", _WORD, SPACE, _MARKED),), "header")
_ENDS: Final = (
    Edge((_END,), "between"),
    Edge(("<|start|>",), "header"),
    # The end of the message is missing, too.
    Edge((ahead("<|channel|>", SPACE, _CHANNEL, SPACE, _MORE),), "header"),
    _TO_FUNCTION,
)
_STARTS: Final = (Edge((SPACE, _END), "between"), Edge((SPACE, "<|start|>"), "header"))
_NEXT: Final = (*_STARTS, Edge((SPACE, _NO_ROLE), "header"))

_ROLE: Final = (
    Edge((SPACE, "assistant"), "header"),
    # A channel without its marker.
    *(Edge((SPACE, name, ahead(SPACE, _MORE)), f"{name} header") for name in _CHANNELS),
)
_OTHER_CHANNEL: Final = (
    *(Edge((SPACE, "<|channel|>", SPACE, name), f"{name} header") for name in _CHANNELS),
    Edge((SPACE, "<|channel|>", SPACE, ahead(_MARKED)), "header"),
    Edge((SPACE, "<|channel|>"), "unknown header"),
)
_ANALYSIS: Final = Edge((SPACE, "<|channel|>", SPACE, "analysis"), "addressed header")
_FINAL: Final = Edge((SPACE, "<|channel|>", SPACE, "final"), "final header")


def _last_words(message: str) -> Edge:
    """Return the edge of words that end an output: they are the message."""
    return Edge((SPACE, ahead(_WORD, any_of("^"), END)), message)


def _behind_message(text: str, *edges: Edge) -> Markup:
    """Return the region behind a message.

    Args:
        text: The region of text that begins no header.
        edges: Other edges out of it.
    """
    early_end = (SPACE, one_of(("assistant", SPACE, optional(_CHANNEL)), _CHANNEL), SPACE, END)
    return Markup((*edges, *_NEXT, Edge(early_end, "between"), Edge(OTHER_TEXT, text), _last_words(text)))


def _to(otherwise: str, own_tool: str) -> tuple[Edge, ...]:
    """Return the edges of recipients.

    Args:
        otherwise: The kind of header that follows a recipient that is not called.
        own_tool: The kind of header that follows one of the model's own tools.
    """
    to = (SPACE, "to=", SPACE, _QUOTE)
    return (
        Edge((*to, "functions.", *_NAME), "call header", Act.NAME, otherwise="unwanted header"),
        Edge((*to, _OWN_TOOL, *_NAME), "call header", Act.NAME, offered=True, otherwise=f"{own_tool} header"),
        Edge((*to, *_NAME), "call header", Act.NAME, offered=True, otherwise=f"{otherwise} header"),
    )


def _header(name: str, message: str, *edges: Edge, words: bool = False) -> Markup:
    """Return the region of a header.

    Args:
        name: Its name.
        message: The region of the message.
        edges: Edges out of it. Channels and recipients that they don't match are ignored.
        words: Whether words that end the output are the message, and not a header that ends early.
    """
    return Markup(
        (
            Edge((SPACE, "<|message|>", optional("<|message|>")), message),
            *_STARTS,
            *edges,
            Edge((SPACE, "<|constrain|>", SPACE, ahead("to=")), name),
            Edge((SPACE, one_of("<|channel|>", "<|constrain|>"), SPACE, optional(_TYPE)), name),
            Edge((SPACE, "json", ahead(SPACE, "{")), name),
            Edge(_OTHER_WORDS, name),
            Edge(OTHER_TEXT, message),
            *[_last_words(message)] * words,
        )
    )


def _channel_header(channel: str, message: str, otherwise: str, own_tool: str) -> Markup:
    """Return the region of a header that has named a channel.

    Args:
        channel: The channel.
        message: The region of the message.
        otherwise: The kind of header that follows a recipient that is not called.
        own_tool: The kind of header that follows one of the model's own tools.
    """
    return _header(f"{channel} header", message, *_to(otherwise, own_tool), *_OTHER_CHANNEL, words=True)


MESSAGES: Final = Format(
    markers=("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"),
    content=_ENDS,
    reasoning=_ENDS,
    regions={
        # The prompt ends within a header. Other text is an answer.
        "opening": Text(
            Shows.CONTENT,
            (
                *_NEXT,
                # The JSON of guided decoding.
                Edge((SPACE, ahead(one_of("{", "["))), "answer"),
                Edge(OTHER_TEXT, "plain"),
            ),
        ),
        "plain": Text(
            Shows.CONTENT,
            (
                # As in vLLM, a marker that ends the output stays in the text.
                Edge((_END, ahead(SPACE, ANYTHING)), "between"),
                Edge((ahead(one_of("<|start|>", "<|channel|>", "<|message|>")),), "header"),
                _TO_FUNCTION,
            ),
        ),
        "header": _header(
            "header", "answer", *_ROLE, *_to("addressed", "own tool"), *_OTHER_CHANNEL, words=True
        ),
        "analysis header": _channel_header("analysis", "reasoning", "addressed", "addressed"),
        "commentary header": _channel_header("commentary", "answer", "addressed", "own tool"),
        "final header": _channel_header("final", "answer", "final", "final"),
        "unknown header": _header(
            "unknown header", "reasoning", *_to("addressed", "own tool"), *_OTHER_CHANNEL
        ),
        "addressed header": _header("addressed header", "reasoning", _FINAL),
        "own tool header": _header("own tool header", "aside", _ANALYSIS, _FINAL),
        "unwanted header": _header("unwanted header", "reasoning"),
        "call header": _header("call header", "call"),
        "aside": Markup(_ENDS),
        "call": Markup(
            (
                Edge((SPACE, ahead("{")), "arguments", Act.OPEN, origin="reasoning"),
                Edge((SPACE, ahead(one_of(_END, "<|start|>", END))), "rest", Act.OPEN_CLOSE),
                Edge(OTHER_TEXT, "reasoning"),
            ),
        ),
        "arguments": Arguments(JSON, then="rest", otherwise="content", closes=True),
        "rest": _behind_message(
            "reasoning",
            # The arguments have a brace too many.
            Edge((SPACE, "}", ahead(SPACE, one_of(_END, "<|start|>", END))), "rest"),
        ),
        "between": _behind_message("answer"),
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
