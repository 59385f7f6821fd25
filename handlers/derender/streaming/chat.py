"""Generate chunks → chunks of a chat completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from derender.answers.message import calls_before, check_chat_request, finish_reason, request_parser
from derender.parsing import CallArguments, CallStart, Content, Reasoning, call_id, end, parse
from derender.parsing.engine.format import Ids
from derender.protocol.derender import ChatRequest
from derender.protocol.limits import check_stop_strings
from derender.protocol.openai import (
    CallBegin,
    CallDelta,
    CallingDelta,
    ChatChunkChoice,
    ChatCompletionChunk,
    ChatDelta,
    FunctionCall,
    FunctionCallDelta,
)

from .decoding import decode_chunk, shown_columns
from .generation import Generation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.models.model import ServedModel
    from derender.parsing import Event
    from derender.protocol.generate import ChunkChoice, GenerateChunk

    from .decoding import DecodedChunk
    from .generation import CheckedChunk
    from .state import ChoiceState, GenerationState

__all__ = ["ChatGeneration", "chat_generation"]


def chat_generation(
    model: ServedModel, name: str, path: str, client: ChatRequest | None, prompt_tokens: int | None
) -> ChatGeneration:
    """How the chunks are derendered that answer a chat client's request.

    Args:
        model: The model served.
        name: What the client calls it.
        path: Where the client's request is.
        client: The client's request.
        prompt_tokens: Length of the prompt, if it is to be said.

    Raises:
        BadRequest: It can't be answered.
    """
    client = check_chat_request(path, client, model.parsers)
    check_stop_strings(path, client)
    whole_calls = model.tool_call_deltas == "complete"
    parser = request_parser(model.parsers, client, whole_calls=whole_calls) if model.parsers else None
    return ChatGeneration(model, name, client, parser, prompt_tokens)


class ChatGeneration(Generation[ChatRequest, ChatCompletionChunk]):
    """How the chunks of a chat completion are derendered."""

    endpoint: ClassVar[str] = "chat"

    def _chunk(self, chunk: GenerateChunk, fields: dict[str, Any]) -> ChatCompletionChunk:
        prompt = chunk.prompt_token_ids if self.client.return_token_ids else None
        return ChatCompletionChunk(prompt_token_ids=prompt, **fields)

    def _choice(
        self, state: GenerationState, checked: CheckedChunk, choice: ChunkChoice
    ) -> tuple[ChatChunkChoice, ChoiceState]:
        client, logprobs = self.client, self.model.logprobs
        begun = state.choices.get(choice.index)
        added, after = decode_chunk(self, begun or state.beginning, choice)
        events, after = self._events(added, after)
        columns = shown_columns(checked, choice, added)
        # Log probabilities and ids would give the reasoning away.
        hidden = self.parser is not None and not client.include_reasoning
        with_logprobs = choice.logprobs is not None and not hidden
        answer = ChatChunkChoice(
            index=choice.index,
            delta=self._delta(state.request_id, choice.index, events, first=begun is None),
            logprobs=logprobs.chat(checked.columns and columns, after.begun) if with_logprobs else None,
            finish_reason=added.finish_reason
            and finish_reason(added.finish_reason, client, calls=after.calls > 0),
            stop_reason=added.stop_reason,
            token_ids=(choice.token_ids or [])[: added.shown]
            if client.return_token_ids and not hidden
            else None,
            routed_experts=choice.routed_experts,
            weight_versions=choice.weight_versions,
        )
        return answer, replace(after, begun=logprobs.begun_after(columns, after.begun))

    def _events(self, added: DecodedChunk, state: ChoiceState) -> tuple[Sequence[Event], ChoiceState]:
        """What a chunk's text is: with a parser, what it finds."""
        if self.parser is None or state.parsing is None:
            text = "".join(map(str, added.pieces))
            return [Content(text)] if text else [], state
        events, parsing = parse(self.parser, state.parsing, added.pieces)
        cuts_call = False
        if added.ended:
            last, cuts_call = end(self.parser, parsing, cut=(added.finish_reason or "stop") != "stop")
            events += last
        calls = sum(isinstance(event, CallStart) for event in events) - cuts_call
        return events, replace(state, parsing=parsing, calls=state.calls + calls)

    def _delta(self, request_id: str, choice: int, events: Sequence[Event], *, first: bool) -> ChatDelta:
        content = "".join([event.text for event in events if isinstance(event, Content)])
        reasoning = "".join([event.text for event in events if isinstance(event, Reasoning)])
        begun = {event.index: event for event in events if isinstance(event, CallStart)}
        arguments = dict.fromkeys(begun, "")
        for event in events:
            if isinstance(event, CallArguments):
                arguments[event.index] = arguments.get(event.index, "") + event.text
        shown = ChatDelta(
            role="assistant" if first else None,
            content=content or None,
            reasoning=reasoning if reasoning and self.client.include_reasoning else None,
        )
        if not arguments:
            return shown
        return CallingDelta(
            **vars(shown),
            tool_calls=[
                self._call(request_id, choice, begun[index], text)
                if index in begun
                else CallDelta(index=index, function=FunctionCallDelta(arguments=text))
                for index, text in arguments.items()
            ],
        )

    def _call(self, request_id: str, choice: int, call: CallStart, arguments: str) -> CallBegin:
        ids, earlier = self.model.parsers.ids if self.model.parsers else Ids.OPENAI, calls_before(self.client)
        return CallBegin(
            index=call.index,
            id=call_id(ids, call, request_id=request_id, choice=choice, earlier=earlier),
            function=FunctionCall(name=call.name, arguments=arguments),
        )
