"""Measure parsing: a whole output with and without parsers, and a chunk after a long history."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson
from mangum import Mangum
from tokenizers import Tokenizer

from derender.decoding import detokenizer
from derender.decoding.pieces import read_pieces
from derender.http.app import create_app
from derender.models.layer import load_models
from derender.parsing import dump_state, finish, offered_tools, parse, read_start
from derender.settings import Settings
from tests.benchmarks.table import TOKENS, Row, in_turns
from tests.support.api_client import CHAT
from tests.support.lambda_emulator import http_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from derender.models.model import ServedModel
    from derender.parsing import Parser, ParserState

HISTORIES: Final = (100, 2_000, 16_000)
CHUNKS: Final = 300
"""Chunks of one token timed after each history."""
PARAMETERS: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
}
TOOLS: Final = [{"type": "function", "function": {"name": "write_file", "parameters": PARAMETERS}}]
WORDS: Final = "The user wants to know about the weather in Paris, and so on. "
CODE: Final = "def f(x):\\n    return x + 1\\n"
NO_PARSERS: Final = {"DERENDER_TOOL_CALL_PARSER": "none", "DERENDER_REASONING_PARSER": "none"}


def rows(rounds: int, tokenizer: Path) -> list[Row]:
    """Return all rows, with the bundled vocabulary and its parsers.

    Args:
        rounds: How often each is measured.
        tokenizer: Folder of the vocabulary's tokenizer.
    """
    definition = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    encode = partial(_encode, definition)
    return [*_whole(rounds, encode), *_chunks(rounds, encode), *_sizes(encode)]


def _encode(definition: Tokenizer, text: str) -> list[int]:
    ids: list[int] = definition.encode(text, add_special_tokens=False).ids
    return ids


def _whole(rounds: int, encode: Callable[[str], list[int]]) -> list[Row]:
    """Measure from event to response, with parsers and without."""
    call = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.py", "content": "%s"}}\n</tool_call>'
    outputs = {
        "an answer": encode(WORDS * TOKENS)[:TOKENS],
        "reasoning, an answer and a call": encode(
            f"<think>\n{WORDS * 13}\n</think>\n\n{WORDS * 13}\n{call % (CODE * 15)}"
        )[-TOKENS:],
    }
    found = []
    for name, token_ids in outputs.items():
        choice = {"index": 0, "token_ids": token_ids, "finish_reason": "stop"}
        request = {
            "generate_response": {"request_id": "r", "choices": [choice]},
            "chat_request": {"tools": TOOLS},
        }
        event = http_event(CHAT, orjson.dumps(request).decode())
        ours, theirs = in_turns(
            rounds * 10, partial(_handler({}), event, None), partial(_handler(NO_PARSERS), event, None)
        )
        found.append(
            Row(
                f"{len(token_ids)} tokens parsed, {name}",
                f"{ours * 1e3:.2f} ms",
                "no parser",
                f"{theirs * 1e3:.2f} ms",
                f"{ours / theirs:.2f}",
                "2 times",
            )
        )
    return found


def _handler(environment: dict[str, str]) -> Any:
    settings = Settings.from_environment(environment)
    return Mangum(create_app(load_models(settings), max_body_bytes=settings.max_body_bytes), lifespan="off")


def _model(environment: dict[str, str]) -> ServedModel:
    return load_models(Settings.from_environment(environment)).find(None).model


def _parser(*, whole_calls: bool) -> tuple[ServedModel, Parser]:
    model = _model({})
    assert model.parsers
    return model, model.parsers.for_request(offered_tools(TOOLS), whole_calls=whole_calls)


def _outputs(encode: Callable[[str], list[int]]) -> dict[str, list[int]]:
    """Return long outputs, by what their last token is in."""
    length = max(HISTORIES) + CHUNKS
    begun = '<tool_call>\n{"name": "write_file", "arguments": {"content": "'
    return {
        "answer": encode(WORDS * length)[:length],
        "reasoning": encode("<think>\n" + WORDS * length)[:length],
        "call": encode(begun + CODE * length)[:length],
    }


def _after(model: ServedModel, parser: Parser, token_ids: Sequence[int]) -> tuple[Any, ParserState]:
    decoding = detokenizer.start(model.vocabulary, None)
    pieces, decoding = read_pieces(model.vocabulary, parser.markers, decoding, token_ids)
    _, state = parse(parser, read_start(parser, None).state, pieces)
    return decoding, state


def _chunks(rounds: int, encode: Callable[[str], list[int]]) -> list[Row]:
    """Measure a chunk of one token after histories, in turns."""
    model, parser = _parser(whole_calls=False)
    found = []
    for name, token_ids in _outputs(encode).items():
        times: dict[int, list[float]] = {history: [] for history in HISTORIES}
        before = {history: _after(model, parser, token_ids[:history]) for history in HISTORIES}
        for _ in range(max(rounds // 3, 1)):
            for history, (decoding, state) in before.items():
                for token_id in token_ids[history : history + CHUNKS]:
                    began = time.perf_counter()
                    pieces, decoding = read_pieces(model.vocabulary, parser.markers, decoding, [token_id])
                    _, state = parse(parser, state, pieces)
                    times[history].append(time.perf_counter() - began)
                finish(parser, state, cut=True)
        first, *others = (statistics.median(times[history]) for history in HISTORIES)
        found += [
            Row(
                f"a chunk after {history:,} tokens, in {'an' if name == 'answer' else 'a'} {name}",
                f"{taken * 1e6:.1f} µs",
                f"after {HISTORIES[0]} tokens",
                f"{first * 1e6:.1f} µs",
                f"{taken / first:.2f}",
                "1.3 times",
            )
            for history, taken in zip(HISTORIES[1:], others, strict=True)
        ]
    return found


def _sizes(encode: Callable[[str], list[int]]) -> list[Row]:
    """Measure the state as JSON after the longest history."""
    found = []
    for mode, whole_calls in (("fragments", False), ("complete", True)):
        model, parser = _parser(whole_calls=whole_calls)
        for name, token_ids in _outputs(encode).items():
            _, state = _after(model, parser, token_ids[: HISTORIES[-1]])
            size = len(orjson.dumps(dump_state(parser, state)))
            found.append(
                Row(
                    f"parser state in {'an' if name == 'answer' else 'a'} {name}, {mode}",
                    f"{size:,} bytes",
                    f"after {HISTORIES[-1]:,} tokens",
                    "",
                    "",
                    "the open call's text" if whole_calls and name == "call" else "2,048 bytes",
                )
            )
    return found
