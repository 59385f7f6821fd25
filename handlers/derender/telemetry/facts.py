"""What is known of an answer where it is made: counts, names of parsers, and what they made of the output."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

from derender.protocol.derender import ChatDerenderRequest, CompletionDerenderRequest
from derender.protocol.openai import CallingMessage, ChatCompletion, ChatCompletionChunk, TextCompletion
from derender.protocol.stream import StreamRequest
from derender.streaming import Derendered

from .observation import Facts
from .request_ids import is_harmless

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from derender.endpoints import Answer
    from derender.models.model import ServedModel
    from derender.parsing import Parsers
    from derender.protocol.generate import ChunkChoice, GenerateChoice, GenerateResponse
    from derender.protocol.openai import ChatChoice, TextCompletionChunk
    from derender.streaming.state import ChoiceState

    Chunk = ChatCompletionChunk | TextCompletionChunk

__all__ = [
    "Outcome",
    "answer_facts",
    "chunk_outcomes",
    "complete_facts",
    "count_candidates",
    "parsed",
    "shown_id",
]

Outcome = Literal["tool_calls", "text", "unanswered", "cut", "markup"]
"""What a parser made of a choice that has ended: calls; text; neither, though it ended by itself; it was cut.
And beside these `markup`, of each text, or chunk of one, that shows a marker: something was not understood.
"""
_BY_ITSELF: Final = ("stop", "tool_calls")


def answer_facts(answered: Answer) -> Facts:
    """What is known of what a request to derender was answered with."""
    request, model, content = answered
    match request, content:
        case ChatDerenderRequest(generate_response=response), ChatCompletion():
            return complete_facts(model, [response], content)
        case CompletionDerenderRequest(generate_responses=responses), TextCompletion():
            return complete_facts(model, responses, content)
        case StreamRequest(), Derendered():
            return _stream_facts(request, model, content)
    raise TypeError("an answer of another kind")


def complete_facts(
    model: ServedModel, responses: Iterable[GenerateResponse], content: ChatCompletion | TextCompletion
) -> Facts:
    """What is known of a complete answer.

    Args:
        model: The model served.
        responses: What was generated.
        content: The answer.
    """
    facts = Facts(
        completion_id=shown_id(content.id),
        model=content.model,
        prompt_tokens=content.usage.prompt_tokens,
        completion_tokens=content.usage.completion_tokens,
        choices=len(content.choices),
        candidates=count_candidates(choice for response in responses for choice in response.choices),
    )
    if model.parsers is not None and isinstance(content, ChatCompletion):
        markers = model.parsers.markers
        outcomes = (outcome for choice in content.choices for outcome in _message_outcomes(markers, choice))
        facts |= parsed(model.parsers, Counter(outcomes))
    return facts


def chunk_outcomes(
    markers: Iterable[str], chunk: Chunk, choices: Mapping[int, ChoiceState], *, first_choice: int = 0
) -> Iterator[Outcome]:
    """What the parser has made of the choices that end with a chunk, and of the text in it.

    Args:
        markers: The texts of the parser's markers.
        chunk: The chunk.
        choices: Index → where the choice is, the chunk and perhaps more read.
        first_choice: What the answer calls choice 0.
    """
    if not isinstance(chunk, ChatCompletionChunk):
        return
    for choice in chunk.choices:
        content = choice.delta.content
        if _has_marker(markers, content):
            yield "markup"
        if choice.finish_reason is not None:
            state = choices[choice.index - first_choice]
            answered = content or (state.parsing is not None and state.parsing.answered)
            yield _outcome(choice.finish_reason, calls=state.calls > 0, text=bool(answered))


def parsed(parsers: Parsers, outcomes: Mapping[str, int]) -> Facts:
    """What is known of an answer that was parsed."""
    return Facts(parsers=parsers.names, outcomes=dict(outcomes))


def count_candidates(choices: Iterable[GenerateChoice | ChunkChoice]) -> int:
    """How many logprob candidates came with some choices."""
    return sum(
        len(entry.top_logprobs or ())
        for choice in choices
        if choice.logprobs is not None
        for entry in choice.logprobs.content or ()
    )


def shown_id(name: str) -> str | None:
    """The id of an answer, which others chose, if it may be shown."""
    return name if is_harmless(name) else None


def _stream_facts(request: StreamRequest, model: ServedModel, derendered: Derendered[Any]) -> Facts:
    chunks, state, _, generation = derendered
    facts = Facts(
        completion_id=shown_id(chunks[0].id),
        model=chunks[0].model,
        streamed=True,
        # Each request of a stream may say it.
        prompt_tokens=(request.prompt_tokens or 0) if request.stream_state is None else 0,
        completion_tokens=sum(
            len(choice.token_ids or ()) for each in request.chunks for choice in each.choices
        ),
        choices=sum(choice.finish_reason is not None for chunk in chunks for choice in chunk.choices),
        candidates=count_candidates(choice for each in request.chunks for choice in each.choices),
        state_bytes=len(state.data),
    )
    if model.parsers is not None and isinstance(chunks[0], ChatCompletionChunk):
        markers, choices = model.parsers.markers, generation.choices
        outcomes = (outcome for chunk in chunks for outcome in chunk_outcomes(markers, chunk, choices))
        facts |= parsed(model.parsers, Counter(outcomes))
    return facts


def _message_outcomes(markers: Iterable[str], choice: ChatChoice) -> Iterator[Outcome]:
    message = choice.message
    if _has_marker(markers, message.content):
        yield "markup"
    calls = isinstance(message, CallingMessage)
    yield _outcome(choice.finish_reason, calls=calls, text=bool(message.content))


def _outcome(finish_reason: str | None, *, calls: bool, text: bool) -> Outcome:
    if finish_reason not in _BY_ITSELF:
        return "cut"
    return "tool_calls" if calls else "text" if text else "unanswered"


def _has_marker(markers: Iterable[str], text: str | None) -> bool:
    return text is not None and any(marker in text for marker in markers)
