"""Where an output begins, by what its prompt ends with, and by what a whole output ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.parsing import ParserState, load_parsers, read_start
from derender.vocabulary import GenerationPrompt
from tests.support.engine import parse_chunks
from tests.support.parsers import Message, fold, request_parser

from ..support import TOOLS, encode, marked_parsers, marked_vocabulary, marker_texts, to_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.parsing import Parser, Parsers
    from derender.vocabulary import Vocabulary

SPECIAL: Final = ("<|im_end|>", "<|im_start|>")
HISTORY: Final = (
    "<|im_start|>user\nHi</think> <tool_call>{<|im_end|>\n"
    "<|im_start|>assistant\n<think>\nhm\n</think>\n\nHi<|im_end|>\n"
)
OPENED: Final = "<|im_start|>assistant\n"


@pytest.fixture(scope="module", params=["tokens", "text"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    """One that has the markers, and one that has not."""
    markers = ["<think>", "</think>", "<tool_call>", "</tool_call>"] if request.param == "tokens" else []
    return marked_vocabulary(markers, SPECIAL)


def parser_of(vocabulary: Vocabulary, reasoning: str, **switches: Any) -> Parser:
    parsers = load_parsers(vocabulary, "hermes", reasoning)
    assert parsers is not None
    return request_parser(parsers, chat_template_kwargs=switches, whole_calls=True)


def parse_after(
    vocabulary: Vocabulary, prompt: str | None, reasoning: str, output: str, **switches: Any
) -> Any:
    """Content and reasoning of an output after a prompt; its markers are those of the vocabulary."""
    parser = parser_of(vocabulary, reasoning, **switches)
    state = read_start(parser, None if prompt is None else encode(vocabulary, prompt)).state
    texts = {vocabulary.pieces[token_id].decode(): token_id for token_id in parser.markers}
    before, marker, behind = output.partition("</think>")
    pieces = [before, texts.get(marker, marker), behind] if marker else [before]
    return fold(parse_chunks(parser, [pieces], state=state))[:2]


@pytest.mark.parametrize("history", ["", HISTORY, HISTORY * 2, "</think>" * 5000])
@pytest.mark.parametrize("reasoning", ["qwen3", "deepseek_r1"])
@pytest.mark.parametrize("switches", [{}, {"enable_thinking": True}, {"enable_thinking": False}])
@pytest.mark.parametrize(
    ("tail", "output", "expected"),
    [
        pytest.param("<think>\n", "hm\n</think>\n\nHi", ("Hi", "hm"), id="opens reasoning"),
        pytest.param("<think>", "hm", ("", "hm"), id="opens reasoning, no line break"),
        pytest.param("<think>\n\n</think>\n\n", "Hi", ("Hi", ""), id="closes reasoning"),
        pytest.param("<think>\nhm\n</think>\n\nHi", " there", (" there", ""), id="begins the answer"),
        pytest.param("<think>\nhm", "mm</think>Hi", ("Hi", "mm"), id="begins the reasoning"),
        pytest.param("", "Hi", ("Hi", ""), id="says nothing"),
    ],
)
def test_only_the_beginning_of_the_message_counts(
    vocabulary: Vocabulary,
    history: str,
    reasoning: str,
    switches: dict[str, bool],
    tail: str,
    output: str,
    expected: tuple[str, str],
) -> None:
    prompt = f"{history}{OPENED}{tail}"
    assert parse_after(vocabulary, prompt, reasoning, output, **switches) == expected


@pytest.mark.parametrize("suffix", ["<think>\n", "x<think>hm"])
def test_a_suffix_that_opens_reasoning_is_enough(vocabulary: Vocabulary, suffix: str) -> None:
    expected = ("Hi", "hm")
    assert parse_after(vocabulary, suffix, "qwen3", "hm</think>Hi", enable_thinking=False) == expected


def test_a_suffix_that_closes_reasoning_is_enough(vocabulary: Vocabulary) -> None:
    assert parse_after(vocabulary, "</think>\n\n", "deepseek_r1", "Hi") == ("Hi", "")


@pytest.mark.parametrize("prompt", [None, "", "\n", "assistant\n", "ant\n"])
@pytest.mark.parametrize(
    ("reasoning", "switches", "thinks"),
    [
        ("qwen3", {}, False),
        ("qwen3", {"enable_thinking": True}, True),
        ("qwen3", {"enable_thinking": False}, False),
        ("qwen3", {"thinking": True}, True),
        ("qwen3", {"thinking": "yes", "enable_thinking": None}, False),
        ("deepseek_r1", {}, True),
        ("deepseek_r1", {"other": False}, True),
        ("deepseek_r1", {"thinking": False}, False),
        ("deepseek_v3", {}, False),
        ("deepseek_v3", {"thinking": True}, True),
        ("kimi_k2", {}, True),
        ("kimi_k2", {"thinking": False}, False),
        ("glm45", {}, False),
        ("glm45", {"enable_thinking": True}, True),
        ("glm47", {}, True),
        ("glm47", {"enable_thinking": False}, False),
    ],
)
def test_the_client_or_the_family_decides_if_the_prompt_does_not_tell(
    vocabulary: Vocabulary, prompt: str | None, reasoning: str, switches: dict[str, Any], thinks: bool
) -> None:
    parser = parser_of(vocabulary, reasoning, **switches)
    state = read_start(parser, None if prompt is None else encode(vocabulary, prompt)).state
    assert state == ParserState("thinking" if thinks else "answer")


def test_text_of_the_prompt_is_not_emitted(vocabulary: Vocabulary) -> None:
    assert parse_after(vocabulary, f"{OPENED}<think>\nsecret \n", "qwen3", "hm") == ("", "hm")
    assert parse_after(vocabulary, f"{OPENED}secret \n", "qwen3", "Hi") == ("Hi", "")


def test_white_space_after_a_marker_of_the_prompt_is_dropped(vocabulary: Vocabulary) -> None:
    assert parse_after(vocabulary, f"{OPENED}<think>", "qwen3", "\n\nhm") == ("", "hm")


# --- prompts that the layer knows -----------------------------------------------------------------------------

OPENS: Final = f"{OPENED}<think>\n"
CLOSES: Final = f"{OPENED}<think>\n\n</think>\n\n"
HYBRID: Final = {"enable_thinking=true": OPENED, "enable_thinking=false": CLOSES, "": OPENED}
"""Qwen3's prompts."""
SWITCHED: Final = {"enable_thinking=true": OPENS, "enable_thinking=false": CLOSES, "": OPENS}
"""Prompts of Qwen3.5 and later."""
OPT_IN: Final = {"thinking=true": OPENS, "thinking=false": CLOSES, "": CLOSES}
"""Prompts of DeepSeek V3.1."""
ALWAYS: Final = {"": OPENS}


def parsers_knowing(prompts: dict[str, str], reasoning: str, **default: Any) -> Parsers:
    """Return parsers whose layer knows how prompts end."""
    markers = ("<think>", "</think>")
    plain = marked_vocabulary(markers, SPECIAL)
    known = []
    for switch, prompt in prompts.items():
        name, _, value = switch.partition("=")
        known.append(GenerationPrompt(tuple(encode(plain, prompt)), {name: value == "true"} if name else {}))
    parsers = load_parsers(
        marked_vocabulary(markers, SPECIAL, generation_prompts=tuple(known)), None, reasoning
    )
    assert parsers is not None
    return replace(parsers, default_chat_template_kwargs=default)


@pytest.mark.parametrize("reasoning", ["qwen3", "deepseek_r1"])
@pytest.mark.parametrize("prompt", [None, "", "ant\n"])
@pytest.mark.parametrize(
    ("prompts", "default", "switches", "thinks"),
    [
        (HYBRID, {}, {}, False),
        (HYBRID, {}, {"enable_thinking": True}, False),
        (SWITCHED, {}, {}, True),
        (SWITCHED, {}, {"enable_thinking": True}, True),
        (SWITCHED, {}, {"enable_thinking": False}, False),
        (SWITCHED, {}, {"enable_thinking": "no"}, True),
        # The template reads no such argument.
        (SWITCHED, {}, {"thinking": False}, True),
        (OPT_IN, {}, {}, False),
        (OPT_IN, {}, {"thinking": True}, True),
        (OPT_IN, {}, {"enable_thinking": True}, False),
        (ALWAYS, {}, {}, True),
        (ALWAYS, {}, {"enable_thinking": False}, True),
        (SWITCHED, {"enable_thinking": False}, {}, False),
        (SWITCHED, {"enable_thinking": False}, {"enable_thinking": None}, False),
        (SWITCHED, {"enable_thinking": False}, {"enable_thinking": True}, True),
        (SWITCHED, {"enable_thinking": False}, {"other": True}, False),
        (SWITCHED, {"enable_thinking": True}, {"enable_thinking": False}, False),
    ],
)
def test_the_prompt_ends_as_the_template_writes_it(
    prompts: dict[str, str],
    default: dict[str, bool],
    switches: dict[str, Any],
    thinks: bool,
    reasoning: str,
    prompt: str | None,
) -> None:
    parsers = parsers_knowing(prompts, reasoning, **default)
    parser = request_parser(parsers, chat_template_kwargs=switches)
    state = read_start(parser, None if prompt is None else encode(marked_vocabulary([]), prompt)).state
    assert fold(parse_chunks(parser, [["Hm"]], state=state)) == (Message("", "Hm") if thinks else Message("Hm"))


@pytest.mark.parametrize(
    ("prompts", "switches", "output", "expected"),
    [
        (HYBRID, {}, "hm</think>Hi", Message("Hi", "hm")),
        (HYBRID, {"enable_thinking": True}, "hm</think>Hi", Message("Hi", "hm")),
        (HYBRID, {"enable_thinking": False}, "hm</think>Hi", Message("hm</think>Hi")),
        # A template that reads no such argument does not switch.
        (HYBRID, {"thinking": False}, "hm</think>Hi", Message("Hi", "hm")),
        (OPT_IN, {}, "hm</think>Hi", Message("Hi", "hm")),
        (OPT_IN, {"thinking": False}, "hm</think>Hi", Message("hm</think>Hi")),
        (ALWAYS, {}, "hm", Message("", "hm")),
        (ALWAYS, {"thinking": False}, "hm</think>Hi", Message("Hi", "hm")),
    ],
)
def test_a_whole_output_tells_more_than_the_template(
    prompts: dict[str, str], switches: dict[str, bool], output: str, expected: Message
) -> None:
    parsers = parsers_knowing(prompts, "qwen3")
    assert parse_whole(parsers, output, chat_template_kwargs=switches) == expected


def test_the_request_tells_more_than_the_template() -> None:
    parsers = parsers_knowing(SWITCHED, "qwen3")
    parser = request_parser(parsers)
    closed = encode(marked_vocabulary(["<think>", "</think>"], SPECIAL), CLOSES)
    assert fold(parse_chunks(parser, [["Hm"]], state=read_start(parser, closed).state)) == Message("Hm")


@pytest.mark.parametrize(("switches", "thinks"), [({}, True), ({"thinking": False}, False)])
def test_a_template_that_tells_nothing_leaves_it_to_the_family(switches: dict[str, bool], thinks: bool) -> None:
    for prompts in ({}, {"thinking=true": "A:", "thinking=false": "A:", "": "A:"}):
        parsers = parsers_knowing(prompts, "deepseek_r1")
        state = read_start(request_parser(parsers, chat_template_kwargs=switches), None).state
        assert state == ParserState("thinking" if thinks else "answer")


@pytest.mark.parametrize("switches", [{"thinking": False}, {"enable_thinking": False}])
def test_default_arguments_count_without_a_layer_that_knows(switches: dict[str, bool]) -> None:
    parsers = parsers_knowing({}, "deepseek_r1", **switches)
    assert read_start(request_parser(parsers), None).state == ParserState("answer")
    assert parse_whole(parsers, "hm</think>Hi").reasoning == ""
    on = dict.fromkeys(switches, True)
    assert read_start(request_parser(parsers, chat_template_kwargs=on), None).state == ParserState("thinking")


HARMONY: Final = [
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|channel|>",
    "<|constrain|>",
    "<|call|>",
    "<|return|>",
]


@pytest.mark.parametrize(
    ("prompt", "output", "expected"),
    [
        ("<|start|>assistant", "<|channel|>analysis<|message|>hm<|end|>", ("", "hm")),
        ("<|start|>assistant", "<|channel|>final<|message|>Hi<|return|>", ("Hi", "")),
        ("<|start|>assistant<|channel|>final", "<|message|>Hi", ("Hi", "")),
        ("<|start|>assistant<|channel|>analysis<|message|>", "hm<|end|>", ("", "hm")),
        (None, "<|channel|>analysis<|message|>hm<|end|>", ("", "hm")),
        ("assistant", "<|channel|>analysis<|message|>hm<|end|>", ("", "hm")),
    ],
)
@pytest.mark.parametrize(
    "history",
    [
        "",
        "<|start|>assistant<|channel|>analysis<|message|>x<|end|>",
        "<|start|>user<|message|>x",
        '<|start|>assistant<|channel|>commentary to=functions.f<|message|>{"a": "',
    ],
)
def test_a_prompt_of_messages_may_end_within_a_header(
    prompt: str | None, output: str, expected: tuple[str, str], history: str
) -> None:
    vocabulary = marked_vocabulary(HARMONY)
    parsers = load_parsers(vocabulary, "openai", "openai_gptoss")
    assert parsers is not None
    parser = request_parser(parsers, whole_calls=True)
    known = prompt is not None and prompt.startswith("<|start|>")
    state = read_start(
        parser, encode(vocabulary, (history if known else "") + prompt) if prompt else None
    ).state
    pieces = [token_id if token_id >= 256 else chr(token_id) for token_id in encode(vocabulary, output)]
    assert fold(parse_chunks(parser, [pieces], state=state))[:2] == expected


def test_a_call_that_the_prompt_begins_belongs_to_the_output(vocabulary: Vocabulary) -> None:
    parsers = load_parsers(vocabulary, "hermes", None)
    assert parsers is not None
    parser = request_parser(parsers, tools=TOOLS)
    state = read_start(
        parser, encode(vocabulary, f'{OPENED}Hi <tool_call>\n{{"name": "f", "arguments": {{"a"')
    ).state
    assert fold(parse_chunks(parser, [[": 1}}"]], state=state)) == Message(calls=[("f", '{"a": 1}')])


UNOPENED: Final = [
    ("qwen3", "hm</think>\n\nHi", Message("Hi", "hm")),
    ("deepseek_v3", "</think>Hi", Message("Hi")),
    ("mistral", "hm[/THINK]Hi", Message("Hi", "hm")),
    ("mistral", "hm\n</think>\nHi", Message("Hi", "hm")),
    ("gemma4", "hm<channel|>Hi", Message("Hi", "hm")),
    ("kimi_k3", "hm<|close|>think<|sep|><|open|>response<|sep|>Hi", Message("Hi", "hm")),
]
"""Reasoning parsers, and outputs that end reasoning and did not begin it."""


def parse_whole(parsers: Parsers, output: str, prompt: Sequence[int] | None = None, **options: Any) -> Message:
    """Parse a whole output."""
    parser = request_parser(parsers, tools=TOOLS, whole_calls=True, **options)
    pieces = to_pieces(parser, output)
    return fold(parse_chunks(parser, [pieces], state=read_start(parser, prompt).before(parser, pieces)))


@pytest.mark.parametrize("tokens", [True, False], ids=["tokens", "text"])
@pytest.mark.parametrize("switches", [{}, {"enable_thinking": True}, {"thinking": True}, {"thinking": "no"}])
@pytest.mark.parametrize(("reasoning", "output", "expected"), UNOPENED)
def test_what_a_whole_output_ends_the_prompt_has_begun(
    reasoning: str, output: str, expected: Message, switches: dict[str, Any], tokens: bool
) -> None:
    without = frozenset() if tokens else frozenset(marker_texts(None, reasoning))
    parsers = marked_parsers(None, reasoning, without)
    for prompt in (None, [], encode(marked_vocabulary([]), "ant\n")):
        assert parse_whole(parsers, output, prompt, chat_template_kwargs=switches) == expected


@pytest.mark.parametrize("switch", ["enable_thinking", "thinking"])
@pytest.mark.parametrize(("reasoning", "output", "expected"), UNOPENED)
def test_nothing_is_reasoning_if_thinking_is_switched_off(
    reasoning: str, output: str, expected: Message, switch: str
) -> None:
    message = parse_whole(marked_parsers(None, reasoning), output, chat_template_kwargs={switch: False})
    assert message.reasoning == ""
    assert message.content.startswith(expected.reasoning)


def test_the_prompt_counts_more_than_the_end_of_the_reasoning() -> None:
    vocabulary = marked_vocabulary(["<think>", "</think>"], SPECIAL)
    parsers = load_parsers(vocabulary, None, "qwen3")
    assert parsers is not None
    closed = encode(vocabulary, f"{OPENED}<think>\n\n</think>\n\n")
    assert parse_whole(parsers, "Hi</think>", closed).reasoning == ""


QUOTED: Final = '{"a": "</think>"}'
HERMES_CALL: Final = f'<tool_call>{{"name": "f", "arguments": {QUOTED}}}</tool_call>'


@pytest.mark.parametrize(
    ("tools", "output", "expected"),
    [
        ("hermes", "<think>hm</think>Hi", Message("Hi", "hm")),
        ("hermes", "Hi", Message("Hi")),
        ("hermes", HERMES_CALL, Message(calls=[("f", QUOTED)])),
        ("hermes", f"Hi {HERMES_CALL}", Message("Hi", calls=[("f", QUOTED)])),
        (
            "qwen3_xml",
            "Hi <tool_call><function=f><parameter=a></think></parameter></function></tool_call>",
            Message("Hi", calls=[("f", QUOTED)]),
        ),
        (
            "llama3_json",
            '{"name": "get_time", "parameters": {"a": "</think>"}}',
            Message(calls=[("get_time", QUOTED)]),
        ),
        # Thoughts about calls are thoughts.
        ("hermes", "Is <tool_call>{x} a call?</think>Hi", Message("Hi", "Is <tool_call>{x} a call?")),
        (
            "deepseek_v3",
            "A <｜tool▁calls▁begin｜> is…</think>Hi",
            Message("Hi", "A <｜tool▁calls▁begin｜> is…"),
        ),
    ],
)
def test_only_a_marker_that_ends_the_reasoning_tells(tools: str, output: str, expected: Message) -> None:
    assert parse_whole(marked_parsers(tools, "qwen3"), output) == expected
