"""Libraries that agents are written with get from the relay what they expect of OpenAI."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.generate_protocol import chunks_of, generate_request, response_of, usage
from tests.support.qwen3 import END, qwen3
from tests.support.upstream_server import GENERATE, Reply, answer, stream

from .client_libraries import LIBRARIES, Ask, Person

if TYPE_CHECKING:
    from tests.support.relay_server import RelayServer
    from tests.support.upstream_server import ReceivedRequest, UpstreamServer

READING_REASONING: Final = ("openai", "openai-agents", "pydantic-ai")
CALL: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zug"}}\n</tool_call>'
CONVERSATIONS: Final = {
    "Hello?": ["<think>\nA greeting.\n</think>\n\nGrüezi! 🎉"],
    "Count.": ["One, two, STOP, three."],
    "Weather?": [
        f"<think>\nI ask.\n</think>\n\n{CALL}",
        "<think>\nI know.\n</think>\n\nIt is 21 degrees in Zug.",
    ],
    "Who?": ['<think>\nAda.\n</think>\n\n{"name": "Ada", "age": 36}'],
}
"""What the model writes, by the question and turn."""


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=[False, True], ids=["complete", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def ask(library: str) -> Ask:
    return LIBRARIES[library]


@pytest.fixture
def url(relay: RelayServer, upstream: UpstreamServer) -> str:
    """Where the relay is, before an upstream that holds `CONVERSATIONS`."""
    upstream.respond = _respond
    return f"{relay.url}/v1"


def test_answers_have_text_and_reasoning(ask: Ask, url: str, library: str, *, streamed: bool) -> None:
    reply = ask(url, "Hello?", streamed=streamed)
    assert reply.answer == "Grüezi! 🎉"
    assert reply.reasoning == ("A greeting." if library in READING_REASONING else None)


def test_tools_are_called_and_their_results_answered(ask: Ask, url: str, *, streamed: bool) -> None:
    cities = []

    def get_weather(city: str) -> str:
        """Return the weather."""
        cities.append(city)
        return "21 degrees"

    assert ask(url, "Weather?", streamed=streamed, tool=get_weather).answer == "It is 21 degrees in Zug."
    assert cities == ["Zug"]


def test_stop_strings_end_answers(ask: Ask, url: str, *, streamed: bool) -> None:
    assert ask(url, "Count.", streamed=streamed, stop=", STOP").answer == "One, two"


# LangChain's streams make pydantic warn of what the OpenAI client has parsed.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
def test_a_generate_server_with_a_tokenizer_structures_outputs(
    ask: Ask, url: str, upstream: UpstreamServer, *, streamed: bool
) -> None:
    upstream.has_tokenizer = True
    assert ask(url, "Who?", streamed=streamed, structured=True).answer == Person(name="Ada", age=36)
    (generated,) = [received.body for received in upstream.requests if received.path == GENERATE]
    assert set(generated["sampling_params"]["structured_outputs"]["json"]["properties"]) == {"name", "age"}


def test_without_a_tokenizer_the_error_says_what_to_change(ask: Ask, url: str, *, streamed: bool) -> None:
    with pytest.raises(Exception, match="start vLLM with --enable-scale-out, not --tokens-only"):
        ask(url, "Who?", streamed=streamed, structured=True)


# --- an upstream that holds the conversations -----------------------------------------------------------------


def _respond(received: ReceivedRequest) -> Reply:
    body = received.body
    if received.path != GENERATE:
        return answer(_render(body))
    prompt = body["token_ids"]
    ids = _outputs()[tuple(prompt)]
    return (
        stream([*chunks_of(ids), usage(len(prompt), len(ids))]) if body["stream"] else answer(response_of(ids))
    )


def _render(request: dict[str, Any]) -> dict[str, Any]:
    """Render a chat, with the sampling parameters that vLLM makes of it."""
    roles = [message["role"] for message in request["messages"]]
    question = request["messages"][roles.index("user")]["content"]
    stop = request.get("stop") or []
    params = {"max_tokens": 100, "stop": [stop] if isinstance(stop, str) else stop}
    if schema := (request.get("response_format") or {}).get("json_schema"):
        params["structured_outputs"] = {"json": schema["schema"]}
    elif any(tool["function"].get("strict") for tool in request.get("tools") or ()):
        params["structured_outputs"] = {"structural_tag": json.dumps(request["tools"])}
    return generate_request(token_ids=_prompt(question, roles.count("assistant")), sampling_params=params)


def _prompt(question: str, turn: int) -> list[int]:
    return qwen3().encode(f"{question} {turn}")


@cache
def _outputs() -> dict[tuple[int, ...], list[int]]:
    return {
        tuple(_prompt(question, turn)): [*qwen3().encode(output), END]
        for question, outputs in CONVERSATIONS.items()
        for turn, output in enumerate(outputs)
    }
