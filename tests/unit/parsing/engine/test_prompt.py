"""Where an output begins, by what its prompt ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.parsing import ParserState, load_parsers, start
from tests.support.engine import parse_chunks
from tests.support.parsers import Message, fold, request_parser

from ..support import TOOLS, encode, marked_vocabulary

if TYPE_CHECKING:
    from derender.parsing import Parser
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
    state = start(parser, None if prompt is None else encode(vocabulary, prompt))
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
    state = start(parser, None if prompt is None else encode(vocabulary, prompt))
    assert state == ParserState("thinking" if thinks else "answer")


def test_text_of_the_prompt_is_not_emitted(vocabulary: Vocabulary) -> None:
    assert parse_after(vocabulary, f"{OPENED}<think>\nsecret \n", "qwen3", "hm") == ("", "hm")
    assert parse_after(vocabulary, f"{OPENED}secret \n", "qwen3", "Hi") == ("Hi", "")


def test_white_space_after_a_marker_of_the_prompt_is_dropped(vocabulary: Vocabulary) -> None:
    assert parse_after(vocabulary, f"{OPENED}<think>", "qwen3", "\n\nhm") == ("", "hm")


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
    state = start(parser, encode(vocabulary, (history if known else "") + prompt) if prompt else None)
    pieces = [token_id if token_id >= 256 else chr(token_id) for token_id in encode(vocabulary, output)]
    assert fold(parse_chunks(parser, [pieces], state=state))[:2] == expected


def test_a_call_that_the_prompt_begins_belongs_to_the_output(vocabulary: Vocabulary) -> None:
    parsers = load_parsers(vocabulary, "hermes", None)
    assert parsers is not None
    parser = request_parser(parsers, tools=TOOLS)
    state = start(parser, encode(vocabulary, f'{OPENED}Hi <tool_call>\n{{"name": "f", "arguments": {{"a"'))
    assert fold(parse_chunks(parser, [[": 1}}"]], state=state)) == Message(calls=[("f", '{"a": 1}')])
