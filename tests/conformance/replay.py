"""Replays recorded outputs: whole, through the deployed endpoint, and in chunks, through the parsing engine.

`Replay` keeps what it makes: an endpoint and parsers for each kind of model, and each whole answer.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, Self, assert_never

import orjson
from canitoolcall.checks import run_checks
from canitoolcall.chunking import DEFAULT_STRATEGIES, split
from canitoolcall.results import Observation, ParsedToolCall, ParseResult, StreamAccumulator
from mangum import Mangum
from tests.conftest import Endpoint

from derender import detokenizer
from derender.app import create_app
from derender.parsing import (
    CallArguments,
    CallStart,
    Content,
    Reasoning,
    dump_state,
    finish,
    load_parsers,
    load_state,
    parse,
    read_pieces,
    start,
)
from derender.settings import Settings, load_model

from .parsers import ParserNames, parsers_of
from .vocabularies import FAMILIES, ids_of, layer, special_ids, tokenizer_of, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from canitoolcall.fixtures import Fixture
    from canitoolcall.results import CheckResult

    from derender.parsing import Event, Parser, Parsers
    from derender.vocabulary import Vocabulary

__all__ = ["DELTAS", "Deltas", "Replay"]

CHAT: Final = "/v1/chat/completions/derender"
MODEL: Final = "replayed"

Deltas = Literal["complete", "fragments"]
"""How a call's arguments are given: at once, when the call is complete, or as they come."""
DELTAS: Final[tuple[Deltas, ...]] = ("complete", "fragments")


class Replay:
    """Replays fixtures and checks what comes of them. A context: it ends the endpoints' thread.

    Args:
        engine_only: Whether one chunk through the engine stands for the endpoint's answer.
    """

    def __init__(self, *, engine_only: bool = False) -> None:
        self._engine_only = engine_only
        self._loop = asyncio.new_event_loop()
        # The adapter runs on its thread's loop; in a thread of its own, no test takes that away.
        self._thread = ThreadPoolExecutor(1, initializer=asyncio.set_event_loop, initargs=(self._loop,))
        self._endpoint = cache(self._new_endpoint)
        self._whole: dict[str, ParseResult] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        self._loop.close()

    def check(self, fixture: Fixture, deltas: Deltas) -> list[CheckResult]:
        """What the suite's checks say of a fixture, whole and in chunks.

        Of an output that holds nothing but a call that is cut, fragments of the call have been sent, which the
        suite judges as if it had been complete: with those, only the whole answer is checked.
        """
        streams = {}
        if deltas == "complete" or fixture.expected_error is None:
            streams = self.streamed(fixture, deltas)
        observed = Observation(nonstream=self.whole(fixture), streams=streams)
        return run_checks(fixture, FAMILIES[fixture.family], observed)

    def whole(self, fixture: Fixture) -> ParseResult:
        """What the endpoint answers."""
        if self._engine_only:
            return self.streamed(fixture, "complete")["one"]
        if fixture.id not in self._whole:
            self._whole[fixture.id] = self._answer(fixture)
        return self._whole[fixture.id]

    def streamed(self, fixture: Fixture, deltas: Deltas) -> dict[str, ParseResult]:
        """What a stream adds up to, for each way to split it."""
        name = tokenizer_of(fixture.reference_model)
        ids = ids_of(fixture.id)
        parser = _parsers(name, parsers_of(fixture.reference_model)).for_request(
            **_offer(fixture), **_template_arguments(fixture), whole_calls=deltas == "complete"
        )
        results: dict[tuple[int, ...], ParseResult] = {}
        streams = {}
        for strategy in DEFAULT_STRATEGIES:
            chunks = split(ids.output, strategy, special_ids(name))
            sizes = tuple(map(len, chunks))
            if sizes not in results:
                results[sizes] = _stream(vocabulary(name), parser, ids.prompt, chunks, cut=fixture.truncated)
            streams[strategy.id] = results[sizes]
        return streams

    def _answer(self, fixture: Fixture) -> ParseResult:
        ids = ids_of(fixture.id)
        choice = {
            "index": 0,
            "token_ids": list(ids.output),
            "finish_reason": "length" if fixture.truncated else "stop",
            "stop_reason": None,
        }
        request = {
            "model": MODEL,
            "generate_response": {"request_id": "req", "choices": [choice]},
            "prompt_token_ids": list(ids.prompt),
            "chat_request": {
                "messages": [{"role": "user", "content": "hi"}],
                **_offer(fixture),
                **_template_arguments(fixture),
            },
        }
        endpoint = self._endpoint(tokenizer_of(fixture.reference_model), parsers_of(fixture.reference_model))
        status, body = endpoint.post(CHAT, request)
        assert status == 200, body
        (choice,) = body["choices"]
        message: dict[str, Any] = choice["message"]
        functions = [call["function"] for call in message.get("tool_calls") or ()]
        return ParseResult(
            content=message["content"],
            reasoning_content=message["reasoning"],
            tool_calls=tuple(ParsedToolCall(each["name"], each["arguments"]) for each in functions),
        )

    def _new_endpoint(self, name: str, parsers: ParserNames) -> Endpoint:
        settings = Settings.from_environment(
            {
                "DERENDER_LAYER": str(layer(name)),
                "DERENDER_SERVED_MODEL_NAME": MODEL,
                "DERENDER_TOOL_CALL_PARSER": parsers.tool_call,
                "DERENDER_REASONING_PARSER": parsers.reasoning or "none",
            }
        )
        app = create_app(load_model(settings), max_body_bytes=settings.max_body_bytes)
        return Endpoint(self._thread.submit(Mangum, app, lifespan="off").result(), self._thread)


@cache
def _parsers(name: str, parsers: ParserNames) -> Parsers:
    loaded = load_parsers(vocabulary(name), parsers.tool_call, parsers.reasoning)
    assert loaded
    return loaded


def _offer(fixture: Fixture) -> dict[str, Any]:
    """The tools that the client offers. An empty list is refused by servers, so it is left out."""
    return {"tools": [dict(tool) for tool in fixture.tools], "tool_choice": "auto"} if fixture.tools else {}


def _template_arguments(fixture: Fixture) -> dict[str, Any]:
    if fixture.thinking is None:
        return {}
    # Templates read one or the other.
    return {"chat_template_kwargs": {"enable_thinking": fixture.thinking, "thinking": fixture.thinking}}


def _stream(
    vocabulary: Vocabulary, parser: Parser, prompt: Sequence[int], chunks: Iterable[list[int]], *, cut: bool
) -> ParseResult:
    """Parse chunk by chunk; between them the state is JSON, as it travels."""
    result = StreamAccumulator()
    decoding = detokenizer.start(vocabulary, prompt, skip_special_tokens=False)
    state = start(parser, prompt)
    for ids in chunks:
        pieces, decoding = read_pieces(vocabulary, parser.markers, decoding, ids)
        events, state = parse(parser, state, pieces)
        _add(result, events)
        state = load_state(parser, orjson.loads(orjson.dumps(dump_state(parser, state))))
    _add(result, finish(parser, state, cut=cut))
    return result.result()


def _add(result: StreamAccumulator, events: Iterable[Event]) -> None:
    for event in events:
        match event:
            case Content(text):
                result.add_content(text)
            case Reasoning(text):
                result.add_reasoning(text)
            case CallStart(index, name):
                result.add_tool_call(index, name=name)
            case CallArguments(index, text):
                result.add_tool_call(index, arguments=text)
            case _:
                assert_never(event)
