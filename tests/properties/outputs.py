"""Outputs of each family, written from messages as the family's chat template writes them.

`outputs(family)` generates the text of an output and the message that it must parse to. One character of
`values.MARKS` stands for the token of a marker. Everything else is ordinary text, also the text of a marker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hypothesis import strategies as st

from derender.parsing import load_parsers
from tests.conformance.vocabularies import vocabulary

from .values import (
    INTEGERS,
    JSON_STYLES,
    MARKS,
    NUMBERS,
    PYTHON_STYLES,
    STRINGS,
    Number,
    Value,
    as_gemma,
    as_json,
    as_python,
    mapped,
    objects,
    strings,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from derender.parsing import Parsers

__all__ = ["FAMILIES", "Call", "Family", "Output", "outputs", "written"]


@dataclass(frozen=True)
class Call:
    """An expected call."""

    name: str
    arguments: dict[str, Value]


@dataclass(frozen=True)
class Output:
    """An output, and the message that it must parse to."""

    text: str
    prompt: str | None
    request: dict[str, Any]
    """The fields of the client's request that parsing depends on."""
    reasoning: str
    content: str
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Family:
    """A family, its parsers and its vocabulary."""

    name: str
    tools: str
    reasoning: str | None
    vocabulary: str
    prompt: str
    """The end of a prompt, which opens the model's message."""
    write: Callable[[Pen], None]
    noise: tuple[str, ...] = ()
    """Markers as tokens that are text in an answer and in reasoning."""
    noise_in_reasoning: tuple[str, ...] = ()
    noise_in_values: tuple[str, ...] | None = None
    """Markers as tokens that are text in a string; None if all are."""
    bare: bool = False
    """Whether values are bare text, typed by the tool's schema."""
    joins: str = ""
    """What joins the texts of its messages."""
    identifiers: bool = False
    """Whether the names of arguments are identifiers."""
    names: tuple[str, ...] = ("f", "get_weather", "weather.get-now", "tool_2")

    def parsers(self) -> Parsers:
        """Load its parsers."""
        return _parsers(self.vocabulary, self.tools, self.reasoning)

    def markers(self) -> dict[str, str]:
        """Return the markers that are tokens → the characters that stand for them."""
        return _markers(self.vocabulary, self.tools, self.reasoning)

    def marked(self, text: str) -> str:
        """Return markup with its markers as tokens."""
        for marker, character in self.markers().items():
            text = text.replace(marker, character)
        return text

    def plain(self, text: str) -> str:
        """Return text with its tokens as written."""
        for marker, character in self.markers().items():
            text = text.replace(character, marker)
        return text


@cache
def _parsers(vocabulary_name: str, tools: str, reasoning: str | None) -> Parsers:
    loaded = load_parsers(vocabulary(vocabulary_name), tools, reasoning)
    assert loaded
    # Some families borrow another model's tokenizer, whose prompts end differently.
    return replace(loaded, prompts=())


@cache
def _markers(vocabulary_name: str, tools: str, reasoning: str | None) -> dict[str, str]:
    parsers = _parsers(vocabulary_name, tools, reasoning)
    known = vocabulary(vocabulary_name).added_tokens()
    texts = {marker for each in (parsers.tools, parsers.reasoning) if each for marker in each.markers}
    return {
        marker: chr(MARKS.start + number)
        for number, marker in enumerate(sorted(texts, key=lambda text: (-len(text), text)))
        if marker in known
    }


T = TypeVar("T")

# What messages are made of.

WORDS: Final = (
    "Sure", "Let me check", "it's 3 > 2", "C:\\dir", "東京 🌸", "e\u0301", "ok.\n\nThen", "- a\n- b", "a  b",
    "100%", "{x: 1}", "f(x)", "`code`", "<b>bold</b>", '"q"', "[1]", "a <", "<|", "</", "null", "to=x",
    "line\r\nline", "\u2028.",
)  # fmt: skip
FIRST: Final = ("Sure", "Hm", "東京", "Well,", "<b>", "1", "é")
LAST: Final = ("ok", "end.", "🌸", "done!", "\\")
SPACES: Final = ("", "", "\n", "\n\n", " ", " \t\r\n ")
LINES: Final = ("", "", "\n", "\n\n", "\r\n")
KEYS: Final = ("city", "n", "a_b", "x-y", "key with space", "名前", "name", "arguments", "id", "type", "Zeta")
ODD_KEYS: Final = (*KEYS, "", '"', "\\", "\n", "a:b", "{", "'", "&amp;", "<x>")


@cache
def _text(family: Family, noisy: bool, reasoning: bool) -> st.SearchStrategy[str]:
    noise = [family.marked(each) for each in family.noise + family.noise_in_reasoning * reasoning] * noisy
    quoted = list(family.markers()) * noisy
    middle = st.lists(st.sampled_from([*WORDS, *noise, *noise, *quoted]), max_size=4)
    words = st.tuples(st.sampled_from(FIRST), middle, st.sampled_from(LAST))
    return words.map(_sentence)


def _sentence(words: tuple[str, list[str], str]) -> str:
    first, more, last = words
    return " ".join([first, *more, last])


@cache
def _strings(family: Family, noisy: bool) -> st.SearchStrategy[str]:
    marked: list[str] = []
    quoted: list[str] = []
    if noisy:
        inside = family.noise_in_values
        marked = list(family.markers().values()) if inside is None else [family.marked(each) for each in inside]
        quoted = list(family.markers())
    return strings([*STRINGS, *marked, *marked, *quoted])


@cache
def _objects(family: Family, noisy: bool) -> st.SearchStrategy[dict[str, Value]]:
    keys = st.sampled_from(ODD_KEYS)
    text = _strings(family, noisy)
    if not family.identifiers:
        return objects(text, keys)
    return st.dictionaries(st.sampled_from(("city", "n", "a_b", "名前", "k2")), values(text, keys), max_size=4)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a tool."""

    schema: object
    values: st.SearchStrategy[Value]


PLAIN_WORDS: Final = ("Paris", "a b", "Zürich 🌸", "é = 3", "x: 1")
"""Strings that look like no other type."""


@cache
def _parameters(family: Family, noisy: bool) -> tuple[tuple[str, Parameter], ...]:
    """Return the parameters of formats with bare values: name → schema and values."""
    text = _strings(family, noisy)
    keys = st.sampled_from(ODD_KEYS)
    integers, numbers = st.sampled_from(INTEGERS), st.sampled_from(NUMBERS)
    words = st.sampled_from(PLAIN_WORDS)
    lists, dictionaries = st.lists(values(text, keys), max_size=3), objects(text, keys)
    booleans = st.booleans()
    other = st.one_of(integers, booleans, st.none(), lists, dictionaries, words)
    found: list[tuple[str, object, st.SearchStrategy[Any]]] = [
        ("text", {"type": "string"}, text),
        ("text_2", {"type": ["string"], "description": "…"}, text),
        ("text_3", {"$ref": "#/$defs/text"}, text),
        ("choice", {"enum": ["12", "true", "x"]}, st.sampled_from(("12", "true", "x"))),
        ("fixed", {"const": "null"}, st.just("null")),
        ("integer", {"type": "integer"}, integers),
        ("number", {"type": "number"}, numbers),
        ("number or none", {"anyOf": [{"type": "number"}, {"type": "null"}]}, numbers | st.none()),
        ("flag", {"type": "boolean"}, booleans),
        ("nothing", {"type": "null"}, st.none()),
        ("list", {"type": "array", "items": {}}, lists),
        ("object", {"type": "object"}, dictionaries),
        ("object or text", {"type": ["object", "string"]}, dictionaries | words),
        ("text or number", {"oneOf": [{"type": "string"}, {"type": "integer"}]}, integers | words),
        ("any-thing", {}, other),
        ("何でも", True, other),
    ]
    return tuple((name, Parameter(schema, values)) for name, schema, values in found)


@cache
def _bare_calls(family: Family, noisy: bool) -> st.SearchStrategy[tuple[dict[str, object], list[Call]]]:
    parameters = dict(_parameters(family, noisy))

    @st.composite
    def made(draw: st.DrawFn) -> tuple[dict[str, object], list[Call]]:
        calls = []
        for _ in range(draw(st.integers(0, 3))):
            chosen = draw(st.lists(st.sampled_from(sorted(parameters)), max_size=4, unique=True))
            calls.append(
                Call(
                    draw(st.sampled_from(family.names)),
                    {name: draw(parameters[name].values) for name in chosen},
                )
            )
        return {
            name: {
                "type": "object",
                "properties": {key: each.schema for key, each in parameters.items()},
                "$defs": {"text": {"type": "string"}},
            }
            for name in family.names
        }, calls

    return made()


@cache
def _json_calls(family: Family, noisy: bool) -> st.SearchStrategy[tuple[dict[str, object], list[Call]]]:
    call = st.builds(Call, st.sampled_from(family.names), _objects(family, noisy))
    tools: dict[str, object] = {name: {"type": "object"} for name in family.names}
    return st.lists(call, max_size=3).map(lambda calls: (tools, calls))


@dataclass
class Pen:
    """Writes an output and the message that it must parse to."""

    _draw: st.DrawFn | None
    family: Family
    noisy: bool
    text: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    """The calls to write."""
    prompt: str | None = None
    request: dict[str, Any] = field(default_factory=dict)

    def draw(self, strategy: st.SearchStrategy[T]) -> T:
        """Draw an example."""
        assert self._draw
        return self._draw(strategy)

    def choose(self, *options: Any) -> Any:
        """Choose one of several."""
        return self.draw(st.sampled_from(options))

    def markup(self, *texts: str) -> None:
        """Write markup. Its markers are tokens."""
        self.text += [self.family.marked(text) for text in texts]

    def value(self, text: str) -> None:
        """Write a value as it is."""
        self.text.append(text)

    def space(self) -> None:
        """Write white space that belongs to markup."""
        self.text.append(self.choose(*SPACES))

    def lines(self) -> None:
        """Write line breaks that belong to markup."""
        self.text.append(self.choose(*LINES))

    def say(self, text: str) -> None:
        """Write content."""
        self.text.append(text)
        self.content.append(text)

    def some_text(self, *, least: int = 0) -> None:
        """Write content without white space around it, or none."""
        if least or self.draw(st.booleans()):
            self.say(self.draw(_text(self.family, self.noisy, False)))

    def think(self) -> bool:
        """Write reasoning, or none. Returns whether there is some."""
        if self.draw(st.integers(0, 3)) == 0:
            return False
        text = self.draw(_text(self.family, self.noisy, True))
        self.text.append(text)
        self.reasoning.append(text)
        return True

    def output(self) -> Output:
        """Return the output."""
        plain, joins = self.family.plain, self.family.joins
        return Output(
            "".join(self.text),
            self.prompt,
            self.request,
            plain(joins.join(filter(None, self.reasoning))),
            plain(joins.join(filter(None, self.content))),
            tuple(
                Call(call.name, {key: mapped(item, plain) for key, item in call.arguments.items()})
                for call in self.calls
            ),
        )


class LongPen(Pen):
    """Writes given parts, in the first of the family's ways."""

    said: str = ""
    thought: str = ""

    def choose(self, *options: Any) -> Any:
        """Choose the first option, or reasoning if there is some to write."""
        return "analysis" if "analysis" in options and self.thought else options[0]

    def some_text(self, *, least: int = 0) -> None:
        """Write all content at once."""
        said, self.said = self.said or "Sure." * least, ""
        self.say(said)

    def think(self) -> bool:
        """Write all reasoning at once."""
        thought, self.thought = self.thought, ""
        self.text.append(thought)
        self.reasoning.append(thought)
        return True


def written(
    family: Family,
    calls: Sequence[Call],
    schema: Mapping[str, object],
    *,
    content: str = "",
    reasoning: str = "",
) -> Output:
    """Write an output of given parts.

    Args:
        family: The family.
        calls: The calls.
        schema: The JSON schema of each tool's parameters.
        content: The content.
        reasoning: The reasoning, if the family has some.
    """
    pen = LongPen(None, family, noisy=False, prompt=family.prompt)
    pen.calls, pen.said = list(calls), content
    pen.thought = reasoning if family.reasoning else ""
    names = {call.name for call in calls}
    pen.request["tools"] = [
        {"type": "function", "function": {"name": name, "parameters": schema}} for name in sorted(names)
    ]
    family.write(pen)
    return pen.output()


@cache
def outputs(family: Family, *, noisy: bool = True) -> st.SearchStrategy[Output]:
    """Generate outputs of a family.

    Args:
        family: The family.
        noisy: Whether texts contain markers that are text.
    """

    @st.composite
    def made(draw: st.DrawFn) -> Output:
        pen = Pen(draw, family, noisy, prompt=family.prompt)
        tools, pen.calls = draw((_bare_calls if family.bare else _json_calls)(family, noisy))
        pen.request = {
            "tools": [
                {"type": "function", "function": {"name": name, "parameters": schema}}
                for name, schema in tools.items()
            ]
        }
        family.write(pen)
        return pen.output()

    return made()


# The families.


def _thinks(begins: str, ends: str, *, opens_itself: bool, always: bool = False) -> Callable[[Pen], None]:
    """Return what writes reasoning between markers, opened by the prompt or by the model, or none.

    Args:
        begins: The marker that begins it.
        ends: The marker that ends it.
        opens_itself: Whether the model writes the first marker if nothing is known of the prompt.
        always: Whether it also does if the client switched reasoning on.
    """

    def write(pen: Pen) -> None:
        if pen.family.reasoning is None:
            return
        how = pen.choose("prompt", "model", "switched on", "unknown", "off", "closed")
        match how:
            case "prompt":
                pen.prompt = f"{pen.prompt}{begins}" + pen.choose("", "\n")
            case "off":
                return
            case "closed":
                pen.prompt = f"{pen.prompt}{begins}\n\n{ends}" + pen.choose("", "\n\n")
                return
            case "switched on":
                pen.prompt = None
                pen.request["chat_template_kwargs"] = {pen.choose("enable_thinking", "thinking"): True}
                if always or pen.choose(True, False):
                    pen.lines()
                    pen.markup(begins)
                    pen.lines()
            case "unknown":
                pen.prompt = None
                if opens_itself:
                    pen.lines()
                    pen.markup(begins)
                    pen.lines()
            case _:
                pen.lines()
                pen.markup(begins)
                pen.lines()
        pen.think()
        pen.lines()
        pen.markup(ends)
        pen.lines()

    return write


_think = _thinks("<think>", "</think>", opens_itself=True)
_thinking = _thinks("<think>", "</think>", opens_itself=False)


def _json(pen: Pen, value: Value) -> str:
    return as_json(value, pen.choose(*JSON_STYLES))


def _object(pen: Pen, call: Call, *, arguments: str = "") -> str:
    """Write a call as a JSON object, its keys in some order."""
    key = arguments or pen.choose("arguments", "parameters")
    name, value = as_json(call.name, JSON_STYLES[0]), _json(pen, dict(call.arguments))
    ways = [
        f'{{"name": {name}, "{key}": {value}}}',
        f'{{"name":{name},"{key}":{value}}}',
        f'{{\n  "name": {name},\n  "{key}": {value}\n}}',
        f'{{"type": "function", "id": "call12345", "name": {name}, "{key}": {value}}}',
        f'{{"{key}": {value}, "name": {name}}}',
        f'{{"name": {name}, "{key}": {as_json(value, JSON_STYLES[0])}}}',
    ]
    if not call.arguments:
        ways += [f'{{"name": {name}}}', f'{{"name": {name}, "{key}": null}}']
    return str(pen.choose(*ways))


def _hermes(pen: Pen) -> None:
    (_think if pen.family.reasoning == "qwen3" else _thinking)(pen)
    pen.some_text()
    left = list(pen.calls)
    while left:
        pen.space()
        pen.markup("<tool_call>")
        pen.space()
        if len(left) > 1 and pen.choose(False, False, True):
            pen.value("[" + pen.choose(", ", ",").join(_object(pen, call) for call in left) + "]")
            left = []
        else:
            pen.value(_object(pen, left.pop(0)))
        pen.space()
        pen.markup("</tool_call>")
        _more_text(pen)


def _more_text(pen: Pen) -> None:
    """Write text after a call. The white space before it is content."""
    if pen.choose(False, False, True):
        pen.say(pen.choose("", "\n", " "))
        pen.some_text(least=1)


def _llama(pen: Pen) -> None:
    calls = list(pen.calls)
    if not calls or pen.choose(False, True):
        pen.some_text(least=1)
        if not calls:
            return
        pen.markup("<|python_tag|>")
    pen.space()
    for number, call in enumerate(calls):
        if number:
            pen.space()
            pen.markup(pen.choose("", ";", "; "), pen.choose("", "<|python_tag|>"))
            pen.space()
        pen.value(_object(pen, call))
    _more_text(pen)


def _pythonic(pen: Pen) -> None:
    if not pen.calls:
        pen.some_text()
        return
    tagged = "<|python_start|>" in pen.family.markers() and pen.choose(False, True)
    if tagged:
        pen.some_text()
        pen.space()
        pen.markup("<|python_start|>")
    pen.space()
    style = pen.choose(*PYTHON_STYLES)
    calls = [
        call.name
        + "("
        + pen.choose(", ", ",", " , ").join(
            f"{key}{pen.choose('=', ' = ')}{as_python(value, style)}" for key, value in call.arguments.items()
        )
        + pen.choose("", ",") * bool(call.arguments)
        + ")"
        for call in pen.calls
    ]
    pen.value("[" + pen.choose(", ", ",", ",\n ").join(calls) + "]")
    if tagged:
        pen.space()
        pen.markup("<|python_end|>")
    _more_text(pen)


def _thinking_pythonic(pen: Pen) -> None:
    _think(pen)
    _pythonic(pen)


def _mistral(pen: Pen) -> None:
    if pen.family.reasoning:
        markers = pen.choose(("[THINK]", "[/THINK]"), ("<think>", "</think>"))
        _thinks(*markers, opens_itself=True, always=True)(pen)


def _mistral_list(pen: Pen) -> None:
    _mistral(pen)
    pen.some_text()
    if pen.calls:
        pen.markup("[TOOL_CALLS]")
        pen.space()
        pen.value("[" + pen.choose(", ", ",", " ,\n").join(_object(pen, call) for call in pen.calls) + "]")
        _more_text(pen)


def _mistral_calls(pen: Pen) -> None:
    _mistral(pen)
    pen.some_text()
    for call in pen.calls:
        pen.markup("[TOOL_CALLS]", pen.choose("", " "), call.name)
        pen.markup(pen.choose("", "[CALL_ID]a1B2c3D4e"), pen.choose("[ARGS]", "[ARGS]", "[ARGS] ", ""))
        pen.value(_json(pen, dict(call.arguments)))
        _more_text(pen)


def _deepseek(pen: Pen) -> None:
    _think(pen)
    pen.some_text()
    if not pen.calls:
        return
    pen.space()
    pen.markup("<｜tool▁calls▁begin｜>")
    for call in pen.calls:
        pen.markup("<｜tool▁call▁begin｜>")
        if pen.family.tools == "deepseek_v3":
            pen.markup(f"function<｜tool▁sep｜>{call.name}\n```json\n")
            pen.value(_json(pen, dict(call.arguments)))
            pen.markup("\n```<｜tool▁call▁end｜>", pen.choose("", "\n"))
        else:
            pen.markup(f"{call.name}<｜tool▁sep｜>")
            pen.value(_json(pen, dict(call.arguments)))
            pen.markup("<｜tool▁call▁end｜>", pen.choose("", "\n"))
    pen.markup("<｜tool▁calls▁end｜>")
    _more_text(pen)


def _dsml(kind: str, space: str = "") -> Callable[[Pen], None]:
    def write(pen: Pen) -> None:
        _think(pen)
        pen.some_text()
        if not pen.calls:
            return
        pen.space()
        pen.markup(f"<｜DSML｜{space}{kind}>\n")
        for call in pen.calls:
            if not call.arguments and pen.choose(False, True):
                pen.markup(f'<｜DSML｜{space}invoke name="{call.name}"/>\n')
                continue
            pen.markup(f'<｜DSML｜{space}invoke name="{call.name}">\n')
            for key, value in call.arguments.items():
                text = isinstance(value, str) and pen.choose(
                    True, True, key not in ("text or number", "any-thing")
                )
                pen.markup(f'<｜DSML｜{space}parameter name="{key}"')
                if isinstance(value, str) and not text:
                    pen.markup(">")
                else:
                    pen.markup(f' string="{str(text).lower()}">')
                pen.value(value if isinstance(value, str) else _json(pen, value))
                pen.markup(f"</｜DSML｜{space}parameter>\n")
            pen.markup(f"</｜DSML｜{space}invoke>\n")
        pen.markup(f"</｜DSML｜{space}{kind}>")
        _more_text(pen)

    return write


def _bare(pen: Pen, value: Value) -> None:
    """Write a value as bare text: a string as it is, other values as JSON or as Python's `str` writes them."""
    if isinstance(value, str):
        pen.value(value)
    elif value is None or isinstance(value, bool):
        pen.value(pen.choose(str(value), as_json(value, JSON_STYLES[0])))
    else:
        pen.value(_json(pen, value))


def _qwen(pen: Pen) -> None:
    _think(pen)
    pen.some_text()
    for call in pen.calls:
        pen.space()
        # Models forget it.
        pen.markup(pen.choose("<tool_call>\n", "<tool_call>\n", "<tool_call>", ""), f"<function={call.name}>\n")
        for key, value in call.arguments.items():
            pen.markup(f"<parameter={key}>\n")
            _bare(pen, value)
            pen.markup("\n</parameter>\n")
        pen.markup("</function>", pen.choose("\n</tool_call>", "</tool_call>"))
        _more_text(pen)


def _glm(line: str) -> Callable[[Pen], None]:
    def write(pen: Pen) -> None:
        (_think if pen.family.reasoning == "glm45" else _thinking)(pen)
        pen.some_text()
        for call in pen.calls:
            pen.space()
            pen.markup(f"<tool_call>{call.name}{line}")
            for key, value in call.arguments.items():
                pen.markup(f"<arg_key>{key}</arg_key>{line}<arg_value>")
                _bare(pen, value)
                pen.markup(f"</arg_value>{line}")
            pen.markup("</tool_call>")
            _more_text(pen)

    return write


def _kimi_k2(pen: Pen) -> None:
    _thinking(pen)
    pen.some_text()
    left = list(enumerate(pen.calls))
    while left:
        pen.markup("<|tool_calls_section_begin|>")
        section = left if pen.choose(True, True, False) else left[:1]
        left = left[len(section) :]
        for number, call in section:
            space = pen.choose("", " ")
            prefix = pen.choose("functions.", "functions.", "")
            pen.markup(f"<|tool_call_begin|>{prefix}{call.name}:{number}{space}<|tool_call_argument_begin|>")
            pen.value(_json(pen, dict(call.arguments)))
            pen.markup("<|tool_call_end|>")
        pen.markup("<|tool_calls_section_end|>")
        _more_text(pen)


_KINDS: Final = {
    str: "string",
    Number: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def _kimi_k3(pen: Pen) -> None:
    opened = pen.choose("think", "response", "message")
    if opened != "message":
        pen.prompt = f"{pen.prompt}<|open|>{opened}<|sep|>"
    if opened != "response":
        if opened == "message":
            pen.markup("<|open|>think<|sep|>")
        pen.think()
        pen.markup("<|close|>think<|sep|><|open|>response<|sep|>")
    pen.some_text()
    pen.markup("<|close|>response<|sep|>")
    if pen.calls:
        pen.markup("<|open|>tools<|sep|>")
        for number, call in enumerate(pen.calls, 1):
            pen.markup(f'<|open|>call tool="{call.name}" index="{number}"<|sep|>')
            for key, value in call.arguments.items():
                key = key.replace("&", "&amp;").replace('"', "&quot;")
                pen.markup(f'<|open|>argument key="{key}" type="{_KINDS[type(value)]}"<|sep|>')
                pen.value(value if isinstance(value, str) else _json(pen, value))
                pen.markup("<|close|>argument<|sep|>")
            pen.markup("<|close|>call<|sep|>")
        pen.markup("<|close|>tools<|sep|>")
    pen.markup(pen.choose("<|close|>message<|sep|>", "<|close|>message<|sep|><|end_of_msg|>", ""))


def _gemma(pen: Pen) -> None:
    _thinks("<|channel>thought\n", "<channel|>", opens_itself=True, always=True)(pen)
    pen.some_text()
    style = pen.choose(*JSON_STYLES)
    pen.calls = [
        Call(call.name, {key: mapped(item, _part) for key, item in call.arguments.items()})
        for call in pen.calls
    ]
    for call in pen.calls:
        pen.markup(f"<|tool_call>call:{call.name}")
        pen.value(as_gemma(dict(call.arguments), style, pen.family.marked('<|"|>')))
        pen.markup("<tool_call|>")
        _more_text(pen)


def _part(text: str) -> str:
    """Write something between brackets and a marker, which would be read as the end of a string."""
    return re.sub(rf"([\]}}]\s*)(?=[{chr(MARKS.start)}-{chr(MARKS.stop - 1)}])", r"\1.", text)


def _harmony(pen: Pen) -> None:
    """Write messages in any order. The prompt opens the first."""
    left, first = list(pen.calls), True
    while True:
        kinds = ("call", "call", "analysis", "commentary", "aside", "code") if left else ("final", "analysis")
        kind = pen.choose(*kinds)
        if not first:
            pen.markup("<|start|>assistant")
        first = False
        match kind:
            case "analysis":
                pen.markup("<|channel|>analysis<|message|>")
                pen.think()
                pen.markup("<|end|>")
            case "commentary":
                pen.markup("<|channel|>commentary<|message|>")
                pen.some_text()
                pen.markup("<|end|>")
            case "aside":
                pen.markup("<|channel|>commentary to=python <|constrain|>code<|message|>print(1)<|call|>")
            case "code":
                pen.markup("<|channel|>analysis to=python code<|message|>")
                pen.think()
                pen.markup("<|call|>")
            case "call":
                call = left.pop(0)
                to = f"to=functions.{call.name}"
                pen.markup(
                    pen.choose(
                        f" {to}<|channel|>commentary <|constrain|>json<|message|>",
                        f" {to}<|channel|>commentary<|constrain|>json<|message|>",
                        f" {to}<|channel|>analysis<|message|>",
                        f"<|channel|>commentary {to} <|constrain|>json<|message|>",
                        f"<|channel|>commentary {to}<|constrain|>json<|message|>",
                    )
                )
                pen.value(_json(pen, dict(call.arguments)))
                if not left and pen.choose(True, False):
                    return
                pen.markup(pen.choose("<|call|>", "<|call|>", "<|end|>"))
            case _:
                pen.markup("<|channel|>final<|message|>")
                pen.some_text()
                pen.markup(pen.choose("", "<|return|>", "<|end|>"))
                return


def _required(pen: Pen) -> None:
    """Write what guided decoding writes if a call is required."""
    _think(pen)
    pen.request["tool_choice"] = "required"
    if not pen.calls:
        pen.calls.append(Call(pen.family.names[0], {}))
    pen.space()
    pen.value("[" + pen.choose(", ", ",", ",\n  ").join(_object(pen, call) for call in pen.calls) + "]")


def _named(pen: Pen) -> None:
    """Write what guided decoding writes for a named tool: its arguments, or a whole call."""
    _think(pen)
    call = (pen.calls or [Call(pen.family.names[0], {})])[0]
    # Arguments that look like a whole call are one.
    arguments = {key: value for key, value in call.arguments.items() if key not in ("name", "arguments")}
    call = Call(call.name, arguments)
    pen.calls = [call]
    pen.request["tool_choice"] = {"type": "function", "function": {"name": call.name}}
    pen.space()
    written = as_json(call.name, JSON_STYLES[0])
    pen.value(
        pen.choose(
            _json(pen, arguments),
            f'{{"name": {written}, "parameters": {_json(pen, arguments)}}}',
            f'[{{"name": {written}, "arguments": {_json(pen, arguments)}}}]',
        )
    )


_QWEN_PROMPT: Final = "<|im_start|>assistant\n"
_DEEPSEEK_PROMPT: Final = "<｜Assistant｜>"
_KIMI_PROMPT: Final = "<|im_assistant|>assistant<|im_middle|>"
_HERMES_NOISE: Final = ("<tool_call> tag", "</tool_call>", "<tool_call>f(x)")
_QWEN_NOISE: Final = ("<tool_call> tag", "</tool_call>", "</function>", "<function=a b>", "<parameter=x>")
_QWEN_VALUES: Final = (
    "</parameter>.", "<parameter=x>.", "</function>.", "<function=f>.", "<tool_call>", "</tool_call>",
    "\n</parameter", "<think>", "</think>", "</parameter>\n.", "\n<parameter=x> ",
)  # fmt: skip
_GLM_NOISE: Final = (
    "<tool_call> <b>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "</tool_call>",
)
_GLM_VALUES: Final = (
    "</arg_value>.", "</arg_value></arg_value>.", "<arg_value>", "<arg_key>", "</arg_key>", "</tool_call>.",
    "<tool_call>", "<think>", "</think>", "</arg_value> .",
)  # fmt: skip
_DEEPSEEK_NOISE: Final = (
    "<｜tool▁sep｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
)
_KIMI_NOISE: Final = ("<|tool_call_begin|>", "<|tool_calls_section_end|>", "<|tool_call_argument_begin|>")
_MISTRAL_NOISE: Final = ("[ARGS]", "[TOOL_CALLS] tag x", "[CALL_ID]")


def _dsml_noise(kind: str, space: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    noise = ("｜DSML｜", f"<｜DSML｜{space}invoke>", f"</｜DSML｜{space}{kind}>")
    return noise, (
        *noise,
        f"</｜DSML｜{space}parameter>.",
        f"</｜DSML｜{space}parameter> .",
        f"</｜DSML｜{space}invoke>",
        f'<｜DSML｜{space}parameter name="x" string="true">',
        "</think>",
    )


_V32, _V4, _V41 = _dsml_noise("function_calls"), _dsml_noise("tool_calls"), _dsml_noise("calls", " ")
_THINK: Final = ("<think>",)

FAMILIES: Final = (
    Family("hermes", "hermes", "qwen3", "qwen3", _QWEN_PROMPT, _hermes, _HERMES_NOISE, _THINK),
    Family(
        "hermes, always thinking", "qwen3_json", "deepseek_r1", "qwen3", _QWEN_PROMPT, _hermes, _HERMES_NOISE
    ),
    Family("hermes, markers as text", "hermes", None, "gptoss", "<|start|>assistant", _hermes),
    Family(
        "qwen3_xml",
        "qwen3_xml",
        "qwen3",
        "stand_in",
        _QWEN_PROMPT,
        _qwen,
        _QWEN_NOISE,
        _THINK,
        _QWEN_VALUES,
        bare=True,
    ),
    Family(
        "qwen3_coder",
        "qwen3_coder",
        None,
        "qwen3",
        _QWEN_PROMPT,
        _qwen,
        _QWEN_NOISE,
        (),
        _QWEN_VALUES,
        bare=True,
    ),
    Family(
        "qwen3_coder, markers as text",
        "qwen3_coder",
        None,
        "gptoss",
        "<|start|>assistant",
        _qwen,
        (),
        (),
        _QWEN_VALUES,
        bare=True,
    ),
    Family(
        "glm45",
        "glm45",
        "glm45",
        "stand_in",
        "<|assistant|>",
        _glm("\n"),
        _GLM_NOISE,
        _THINK,
        _GLM_VALUES,
        bare=True,
    ),
    Family(
        "glm47", "glm47", "glm47", "stand_in", "<|assistant|>", _glm(""), _GLM_NOISE, (), _GLM_VALUES, bare=True
    ),
    Family(
        "glm, markers as text",
        "glm47",
        None,
        "gptoss",
        "<|start|>assistant",
        _glm(""),
        (),
        (),
        _GLM_VALUES,
        bare=True,
    ),
    Family("deepseek_v3", "deepseek_v3", None, "deepseek_v3", _DEEPSEEK_PROMPT, _deepseek, _DEEPSEEK_NOISE),
    Family(
        "deepseek_r1",
        "deepseek_v3",
        "deepseek_r1",
        "deepseek_v32",
        _DEEPSEEK_PROMPT,
        _deepseek,
        _DEEPSEEK_NOISE,
    ),
    Family(
        "deepseek_v31",
        "deepseek_v31",
        "deepseek_v3",
        "deepseek_v32",
        _DEEPSEEK_PROMPT,
        _deepseek,
        _DEEPSEEK_NOISE,
        _THINK,
    ),
    Family(
        "deepseek_v32",
        "deepseek_v32",
        "deepseek_v3",
        "deepseek_v32",
        _DEEPSEEK_PROMPT,
        _dsml("function_calls"),
        _V32[0],
        _THINK,
        _V32[1],
        bare=True,
    ),
    Family(
        "deepseek_v4",
        "deepseek_v4",
        "deepseek_v4",
        "deepseek_v4",
        _DEEPSEEK_PROMPT,
        _dsml("tool_calls"),
        _V4[0],
        _THINK,
        _V4[1],
        bare=True,
    ),
    Family(
        "deepseek_v41",
        "deepseek_v41",
        "deepseek_v41",
        "deepseek_v4",
        _DEEPSEEK_PROMPT,
        _dsml("calls", " "),
        _V41[0],
        _THINK,
        _V41[1],
        bare=True,
    ),
    Family("kimi_k2", "kimi_k2", "kimi_k2", "stand_in", _KIMI_PROMPT, _kimi_k2, _KIMI_NOISE),
    Family(
        "kimi_k3",
        "kimi_k3",
        "kimi_k3",
        "stand_in",
        '<|open|>message role="assistant"<|sep|>',
        _kimi_k3,
        ("<|open|> tag", "<|close|>call<|sep|>", "<|sep|>"),
        ("<|close|>response<|sep|>",),
        (
            "<|close|>argument<|sep|>.",
            "<|close|>call<|sep|>",
            "<|open|>",
            "<|sep|>",
            "<|close|>argument<|sep|> ",
        ),
        bare=True,
    ),
    Family(
        "llama3_json",
        "llama3_json",
        None,
        "llama3_3",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        _llama,
    ),
    Family("llama4_json, tag as text", "llama4_json", None, "gptoss", "<|start|>assistant", _llama),
    Family(
        "pythonic",
        "pythonic",
        None,
        "llama3_3",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        _pythonic,
        identifiers=True,
    ),
    Family(
        "llama4_pythonic",
        "llama4_pythonic",
        None,
        "stand_in",
        "<|header_start|>assistant<|header_end|>\n\n",
        _pythonic,
        identifiers=True,
    ),
    Family(
        "pythonic, thinking", "pythonic", "qwen3", "qwen3", _QWEN_PROMPT, _thinking_pythonic, identifiers=True
    ),
    Family("mistral v3", "mistral", None, "stand_in", "[/INST]", _mistral_list, _MISTRAL_NOISE),
    Family("mistral v11", "mistral", None, "stand_in", "[/INST]", _mistral_calls, _MISTRAL_NOISE),
    Family(
        "mistral v13",
        "mistral",
        "mistral",
        "stand_in",
        "[/INST]",
        _mistral_calls,
        _MISTRAL_NOISE,
        ("[TOOL_CALLS]f[ARGS]{}", "[THINK]", "<think>"),
    ),
    Family("mistral, markers as text", "mistral", None, "gptoss", "<|start|>assistant", _mistral_calls),
    Family(
        "gemma4",
        "gemma4",
        "gemma4",
        "gemma4",
        "<|turn>model\n",
        _gemma,
        ("<|tool_call> tag", '<|"|>', "<tool_call|>"),
        ("<|channel>",),
        ("<|tool_call>", "<tool_call|>", "<|channel>", "<channel|>"),
    ),
    Family(
        "openai",
        "openai",
        "openai_gptoss",
        "gptoss",
        "<|start|>assistant",
        _harmony,
        ("<|channel|>", "<|message|>", "<|constrain|>"),
        joins="\n",
    ),
    Family("required", "hermes", "qwen3", "qwen3", _QWEN_PROMPT, _required, (), _THINK),
    Family("named", "qwen3_xml", "qwen3", "qwen3", _QWEN_PROMPT, _named, (), _THINK),
)
