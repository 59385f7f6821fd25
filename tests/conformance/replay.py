"""Replays recorded outputs through the deployed endpoint: whole, and as streams.

`Replay` keeps a client for each kind of model, and each whole answer.
"""

from __future__ import annotations

from functools import cache
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final, Literal

from canitoolcall.checks import run_checks
from canitoolcall.chunking import DEFAULT_STRATEGIES, split
from canitoolcall.results import Observation, ParsedToolCall, ParseResult, StreamAccumulator

from derender.http.app import create_app
from derender.models.layer import load_models
from derender.settings import Settings
from tests.support.api_client import CHAT, Client

from .parsers import ParserNames, parsers_of
from .vocabularies import FAMILIES, ids_of, layer, special_ids, tokenizer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canitoolcall.chunking import ChunkStrategy
    from canitoolcall.fixtures import Fixture
    from canitoolcall.results import CheckResult

__all__ = ["DELTAS", "Deltas", "Replay", "client_options"]

MODEL: Final = "replayed"
CALL_SIZES: Final = (1, 3, 12, 2, 30, 5)
"""How many chunks requests have, in turn: between two requests the state travels."""

Deltas = Literal["complete", "fragments"]
"""How a call's arguments are given: at once, when the call is complete, or as they come."""
DELTAS: Final[tuple[Deltas, ...]] = ("complete", "fragments")


class Replay:
    """Replays fixtures and checks the answers."""

    def __init__(self) -> None:
        self._client = cache(_client)
        self._whole: dict[str, ParseResult] = {}

    def check(
        self, fixture: Fixture, deltas: Deltas, strategies: Sequence[ChunkStrategy] = DEFAULT_STRATEGIES
    ) -> list[CheckResult]:
        """Run the suite's checks on a fixture, whole and in chunks.

        If an output contains only a truncated call, a stream of fragments has sent part of the call, which
        the suite judges as if it were complete. Then only the whole answer is checked.

        Args:
            fixture: The fixture.
            deltas: How a call's arguments are streamed.
            strategies: How the output is split into chunks.
        """
        streams = {}
        if deltas == "complete" or fixture.expected_error is None:
            streams = self.stream(fixture, deltas, strategies)
        observed = Observation(nonstream=self.whole(fixture), streams=streams)
        return run_checks(fixture, FAMILIES[fixture.family], observed)

    def whole(self, fixture: Fixture) -> ParseResult:
        """Return the answer to the complete output."""
        if fixture.id not in self._whole:
            self._whole[fixture.id] = self._answer(fixture)
        return self._whole[fixture.id]

    def stream(
        self, fixture: Fixture, deltas: Deltas, strategies: Sequence[ChunkStrategy]
    ) -> dict[str, ParseResult]:
        """Return what the stream of each strategy adds up to."""
        name, output = tokenizer_of(fixture.reference_model), ids_of(fixture.id).output
        results: dict[tuple[int, ...], ParseResult] = {}
        streams = {}
        for strategy in strategies:
            chunks = split(output, strategy, special_ids(name))
            sizes = tuple(map(len, chunks))
            if sizes not in results:
                results[sizes] = self._stream(fixture, deltas, chunks)
            streams[strategy.id] = results[sizes]
        return streams

    def _post(self, fixture: Fixture, deltas: Deltas, body: dict[str, Any]) -> Any:
        request = {
            "model": MODEL,
            "prompt_token_ids": list(ids_of(fixture.id).prompt),
            "chat_request": {
                "messages": [{"role": "user", "content": "hi"}],
                **client_options(fixture),
            },
        }
        names = tokenizer_of(fixture.reference_model), parsers_of(fixture.reference_model)
        status, answer = self._client(*names, deltas).exchange(CHAT, {**request, **body})
        assert status == 200, answer
        return answer

    def _answer(self, fixture: Fixture) -> ParseResult:
        choice = _choice(fixture, ids_of(fixture.id).output, last=True)
        body = {"generate_response": {"request_id": "req", "choices": [choice]}}
        (answered,) = self._post(fixture, "complete", body)["choices"]
        message: dict[str, Any] = answered["message"]
        functions = [call["function"] for call in message.get("tool_calls") or ()]
        return ParseResult(
            content=message["content"],
            reasoning_content=message["reasoning"],
            tool_calls=tuple(ParsedToolCall(each["name"], each["arguments"]) for each in functions),
        )

    def _stream(self, fixture: Fixture, deltas: Deltas, chunks: Sequence[list[int]]) -> ParseResult:
        result = StreamAccumulator()
        state, begin, sizes = None, 0, cycle(CALL_SIZES)
        while begin < len(chunks):
            end = begin + next(sizes)
            body = {
                "stream": True,
                "generate_chunks": [
                    {"request_id": "req", "choices": [_choice(fixture, ids, last=place == len(chunks) - 1)]}
                    for place, ids in enumerate(chunks[begin:end], begin)
                ],
                "stream_state": state,
            }
            answer = self._post(fixture, deltas, body)
            state, begin = answer["stream_state"], end
            for chunk in answer["chunks"]:
                for choice in chunk["choices"]:
                    result.add_openai_delta(choice["delta"])
        return result.result()


def _client(name: str, parsers: ParserNames, deltas: Deltas) -> Client:
    settings = Settings.from_environment(
        {
            "DERENDER_LAYER": str(layer(name)),
            "DERENDER_SERVED_MODEL_NAME": MODEL,
            "DERENDER_TOOL_CALL_PARSER": parsers.tool_call,
            "DERENDER_REASONING_PARSER": parsers.reasoning or "none",
            "DERENDER_TOOL_CALL_DELTAS": deltas,
        }
    )
    return Client(create_app(load_models(settings), max_body_bytes=settings.max_body_bytes))


def client_options(fixture: Fixture) -> dict[str, Any]:
    """Return the fields of the client's request that parsing depends on. Servers refuse an empty list of
    tools."""
    options: dict[str, Any] = {}
    if fixture.tools:
        options |= {"tools": [dict(tool) for tool in fixture.tools], "tool_choice": "auto"}
    if fixture.thinking is not None:
        # Templates read one or the other.
        options["chat_template_kwargs"] = {"enable_thinking": fixture.thinking, "thinking": fixture.thinking}
    return options


def _choice(fixture: Fixture, token_ids: Sequence[int], *, last: bool) -> dict[str, Any]:
    finish_reason = "length" if fixture.truncated else "stop"
    return {"index": 0, "token_ids": list(token_ids), "finish_reason": finish_reason if last else None}
