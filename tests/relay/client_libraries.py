"""Client libraries: each asks a question, runs the tool that the model calls, and returns the answer.

They take long to load, so each is imported by its own function.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LIBRARIES", "Ask", "Person", "Reply", "Tool"]

MODEL: Final = "m"
KEY: Final = "none"
Tool = Callable[[str], str]


class Person(BaseModel):
    """A structured output."""

    name: str
    age: int


@dataclass(frozen=True)
class Reply:
    """The last answer of a conversation, and the reasoning before it if the library reads reasoning."""

    answer: str | Person
    reasoning: str | None = None


class Ask(Protocol):
    """Asks a question.

    Args:
        url: Base URL of the relay's OpenAI endpoints.
        question: The user's message.
        streamed: Whether to stream.
        stop: A stop string.
        tool: A function `get_weather` that the model may call.
        structured: Whether the answer is a `Person`.
    """

    def __call__(
        self,
        url: str,
        question: str,
        *,
        streamed: bool,
        stop: str | None = None,
        tool: Tool | None = None,
        structured: bool = False,
    ) -> Reply: ...


def _ask_openai(
    url: str,
    question: str,
    *,
    streamed: bool,
    stop: str | None = None,
    tool: Tool | None = None,
    structured: bool = False,
) -> Reply:
    import openai

    settings: dict[str, Any] = {"model": MODEL}
    if stop:
        settings["stop"] = stop
    if tool:
        parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
        function = {"name": "get_weather", "parameters": parameters}
        settings["tools"] = [{"type": "function", "function": function}]
    if structured:
        settings["response_format"] = Person
    messages: list[Any] = [{"role": "user", "content": question}]
    message: Any
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        while True:
            if streamed:
                with client.chat.completions.stream(messages=messages, **settings) as stream:
                    message = stream.get_final_completion().choices[0].message
            else:
                completions = client.chat.completions
                complete: Any = completions.parse if structured else completions.create
                message = complete(messages=messages, **settings).choices[0].message
            if not message.tool_calls:
                break
            assert tool
            messages.append(message.model_dump(exclude_unset=True))
            for call in message.tool_calls:
                result = tool(json.loads(call.function.arguments)["city"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return Reply(message.parsed if structured else message.content, message.model_extra["reasoning"])


def _ask_openai_agents(
    url: str,
    question: str,
    *,
    streamed: bool,
    stop: str | None = None,
    tool: Tool | None = None,
    structured: bool = False,
) -> Reply:
    import agents
    from openai import AsyncOpenAI

    async def ask() -> Reply:
        async with AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            agent = agents.Agent(
                name="agent",
                model=agents.OpenAIChatCompletionsModel(MODEL, client),
                model_settings=agents.ModelSettings(extra_args={"stop": stop} if stop else None),
                # A strict tool needs a generate server with a tokenizer.
                tools=[agents.function_tool(tool, strict_mode=False)] if tool else [],
                output_type=Person if structured else None,
            )
            config = agents.RunConfig(tracing_disabled=True)
            result: agents.result.RunResultBase
            if streamed:
                result = streaming = agents.Runner.run_streamed(agent, question, run_config=config)
                async for _ in streaming.stream_events():
                    pass
            else:
                result = await agents.Runner.run(agent, question, run_config=config)
        items = [item.raw_item for item in result.new_items if isinstance(item, agents.ReasoningItem)]
        reasoning = [content.text for item in items for content in item.content or ()]
        return Reply(result.final_output, reasoning[-1] if reasoning else None)

    return asyncio.run(ask())


def _ask_pydantic_ai(
    url: str,
    question: str,
    *,
    streamed: bool,
    stop: str | None = None,
    tool: Tool | None = None,
    structured: bool = False,
) -> Reply:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.messages import ModelResponse, ThinkingPart
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    async def ask() -> Reply:
        async with AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            agent = Agent(
                OpenAIChatModel(
                    MODEL,
                    provider=OpenAIProvider(openai_client=client),
                    # A strict tool needs a generate server with a tokenizer.
                    profile=OpenAIModelProfile(openai_supports_strict_tool_definition=False),
                ),
                output_type=NativeOutput(Person) if structured else str,
                tools=[tool] if tool else [],
                model_settings={"stop_sequences": [stop]} if stop else None,
            )
            if streamed:
                async with agent.run_stream(question) as streaming:
                    output, messages = await streaming.get_output(), streaming.all_messages()
            else:
                result = await agent.run(question)
                output, messages = result.output, result.all_messages()
        parts = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
        reasoning = [part.content for part in parts if isinstance(part, ThinkingPart)]
        return Reply(output, reasoning[-1] if reasoning else None)

    return asyncio.run(ask())


def _ask_langchain(
    url: str,
    question: str,
    *,
    streamed: bool,
    stop: str | None = None,
    tool: Tool | None = None,
    structured: bool = False,
) -> Reply:
    import httpx
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI

    with httpx.Client() as http_client:
        chat = ChatOpenAI(
            model=MODEL,
            base_url=url,
            api_key=lambda: KEY,
            max_retries=0,
            stop_sequences=[stop] if stop else None,
            http_client=http_client,
        )
        tools = [StructuredTool.from_function(tool)] if tool else []
        messages: list[Any] = [HumanMessage(question)]
        if structured:
            model = chat.with_structured_output(Person)
            return Reply([*model.stream(messages)][-1] if streamed else model.invoke(messages))
        model = chat.bind_tools(tools) if tools else chat
        while True:
            if streamed:
                message, *rest = model.stream(messages)
                for chunk in rest:
                    message += chunk
            else:
                message = model.invoke(messages)
            if not message.tool_calls:
                return Reply(message.text)
            messages += [message, *(tools[0].invoke(call) for call in message.tool_calls)]


LIBRARIES: Final[Mapping[str, Ask]] = {
    "openai": _ask_openai,
    "openai-agents": _ask_openai_agents,
    "pydantic-ai": _ask_pydantic_ai,
    "langchain-openai": _ask_langchain,
}
