"""The chunks of a streamed chat completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from derender.answers.message import NewCall, read_chat_options
from derender.protocol.client import ChatRequest
from derender.protocol.limits import check_stop_strings
from derender.protocol.openai.chat import (
    CallBegin,
    CallDelta,
    CallingDelta,
    ChatChunkChoice,
    ChatCompletionChunk,
    ChatDelta,
    FunctionCall,
    FunctionCallDelta,
)

from .generation import Generation

if TYPE_CHECKING:
    from derender.answers.message import MessageDelta
    from derender.models.model import ServedModel
    from derender.protocol.generate import GenerateChunk

    from .generation import ChoiceDelta
    from .state import ChoiceState

__all__ = ["ChatGeneration", "chat_generation"]


def chat_generation(
    model: ServedModel, name: str, path: str, client: ChatRequest | None, prompt_tokens: int | None
) -> ChatGeneration:
    """Return what derenders a generation for a chat client.

    Args:
        model: The model.
        name: What the client calls the model.
        path: Path of the client's request, for errors.
        client: The client's request.
        prompt_tokens: Length of the prompt, for `usage`.

    Raises:
        BadRequest: The client's request is missing or out of bounds.
    """
    whole_calls = model.tool_call_deltas == "complete"
    client, messages = read_chat_options(path, client, model.parsers, whole_calls=whole_calls)
    check_stop_strings(path, client)
    return ChatGeneration(
        model=model,
        name=name,
        client=client,
        n=client.choice_count,
        prompt_tokens=prompt_tokens,
        messages=messages,
    )


class ChatGeneration(Generation[ChatRequest, ChatCompletionChunk]):
    """Derenders the chunks of a chat completion."""

    endpoint: ClassVar[str] = "chat"

    def _write_choice(self, delta: ChoiceDelta, next_state: ChoiceState) -> tuple[ChatChunkChoice, ChoiceState]:
        choice, decoded, messages = delta.generated, delta.decoded, self.messages
        logprobs = finish_reason = None
        if choice.logprobs is not None and not messages.hides_tokens:
            logprobs = self.model.logprobs.write_chat(
                delta.logprobs, delta.context, by_id=self.client.return_tokens_as_token_ids
            )
        if decoded.finish_reason is not None:
            finish_reason = messages.finish_reason(decoded.finish_reason, calls=next_state.calls > 0)
        returns_ids = self.client.return_token_ids and not messages.hides_tokens
        written = ChatChunkChoice(
            index=choice.index,
            delta=_write_message(delta.message, is_first=delta.is_first),
            logprobs=logprobs,
            finish_reason=finish_reason,
            stop_reason=decoded.stop_reason,
            token_ids=delta.token_ids if returns_ids else None,
            routed_experts=choice.routed_experts,
            weight_versions=choice.weight_versions,
        )
        return written, next_state

    def _write_chunk(self, chunk: GenerateChunk, fields: dict[str, Any]) -> ChatCompletionChunk:
        prompt = chunk.prompt_token_ids if self.client.return_token_ids else None
        return ChatCompletionChunk(prompt_token_ids=prompt, **fields)


def _write_message(message: MessageDelta, *, is_first: bool) -> ChatDelta:
    delta = ChatDelta(
        role="assistant" if is_first else None,
        content=message.content or None,
        reasoning=message.reasoning or None,
    )
    if not message.calls:
        return delta
    calls = [
        CallBegin(index=call.index, id=call.id, function=FunctionCall(name=call.name, arguments=call.arguments))
        if isinstance(call, NewCall)
        else CallDelta(index=call.index, function=FunctionCallDelta(arguments=call.arguments))
        for call in message.calls
    ]
    return CallingDelta(**vars(delta), tool_calls=calls)
