"""Facts about answers: counts, names of parsers, and what the parsers made of the output."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from derender.protocol.complete import ChatDerenderRequest, CompletionDerenderRequest
from derender.protocol.openai.chat import CallingMessage, ChatCompletion, ChatCompletionChunk
from derender.protocol.openai.completions import TextCompletion
from derender.protocol.stream import StreamRequest
from derender.streaming import Derendered

from .observation import AnswerFacts
from .request_ids import harmless_or_none
from .tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from derender.endpoints import Answer
    from derender.models.model import ServedModel
    from derender.protocol.generate import ChunkChoice, GenerateChoice, GenerateResponse
    from derender.protocol.openai.chat import ChatChoice
    from derender.protocol.openai.completions import TextCompletionChunk
    from derender.protocol.openai.usage import Usage
    from derender.streaming.state import ChoiceState

    from .tally import Outcome

    Chunk = ChatCompletionChunk | TextCompletionChunk

__all__ = [
    "count_candidates",
    "count_tokens",
    "describe_answer",
    "describe_complete",
    "find_outcomes",
]

_ENDED_BY_ITSELF: Final = ("stop", "tool_calls")


def describe_answer(answer: Answer) -> AnswerFacts:
    """Return the facts about the answer to a request that derenders."""
    request, model, content = answer
    match request, content:
        case ChatDerenderRequest(generate_response=response), ChatCompletion():
            return describe_complete(model, [response], content)
        case CompletionDerenderRequest(generate_responses=responses), TextCompletion():
            return describe_complete(model, responses, content)
        case StreamRequest(), Derendered():
            return _describe_stream(request, model, content)
    raise TypeError(f"no answer: {type(content).__name__}")


def describe_complete(
    model: ServedModel, responses: Iterable[GenerateResponse], content: ChatCompletion | TextCompletion
) -> AnswerFacts:
    """Return the facts about a complete answer.

    Args:
        model: The model served.
        responses: The generations.
        content: The answer.
    """
    parsers: tuple[str, ...] = ()
    outcomes: Iterable[Outcome] = ()
    if model.parsers is not None and isinstance(content, ChatCompletion):
        parsers, markers = model.parsers.names, model.parsers.markers
        outcomes = (outcome for choice in content.choices for outcome in _message_outcomes(markers, choice))
    return AnswerFacts(
        completion_id=harmless_or_none(content.id),
        model=content.model,
        parsers=parsers,
        tally=count_tokens(responses, content.usage)
        + Tally(choices=len(content.choices), outcomes=Counter(outcomes)),
    )


def count_tokens(responses: Iterable[GenerateResponse], usage: Usage) -> Tally:
    """Count the tokens and the candidates of complete generations.

    Args:
        responses: The generations.
        usage: Usage in the answer.
    """
    return Tally(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        candidates=count_candidates(choice for response in responses for choice in response.choices),
    )


def count_candidates(choices: Iterable[GenerateChoice | ChunkChoice]) -> int:
    """Count the logprob candidates that came with some choices."""
    return sum(
        len(entry.top_logprobs or ())
        for choice in choices
        if choice.logprobs is not None
        for entry in choice.logprobs.content or ()
    )


def find_outcomes(
    markers: Iterable[str], chunk: Chunk, choices: Mapping[int, ChoiceState]
) -> Iterator[Outcome]:
    """Return what the parser made of the choices that a chunk finishes, and of the chunk's text.

    Args:
        markers: Texts of the parser's markers.
        chunk: The chunk.
        choices: Index → state of the choice after the chunk.
    """
    if not isinstance(chunk, ChatCompletionChunk):
        return
    for choice in chunk.choices:
        content = choice.delta.content
        if _shows_marker(markers, content, choice.finish_reason):
            yield "markup"
        if choice.finish_reason is not None:
            state = choices[choice.index]
            answered = content or (state.parsing is not None and state.parsing.answered)
            yield _outcome(choice.finish_reason, calls=state.calls > 0, text=bool(answered))


def _describe_stream(request: StreamRequest, model: ServedModel, derendered: Derendered[Any]) -> AnswerFacts:
    chunks, _, state, _, generation = derendered
    received = [choice for chunk in request.chunks for choice in chunk.choices]
    parsers: tuple[str, ...] = ()
    outcomes: Iterable[Outcome] = ()
    if model.parsers is not None and isinstance(chunks[0], ChatCompletionChunk):
        parsers, markers = model.parsers.names, model.parsers.markers
        outcomes = (
            outcome for chunk in chunks for outcome in find_outcomes(markers, chunk, generation.choices)
        )
    return AnswerFacts(
        completion_id=harmless_or_none(chunks[0].id),
        model=chunks[0].model,
        streamed=True,
        parsers=parsers,
        tally=Tally(
            # Every request of a stream may repeat it.
            prompt_tokens=(request.prompt_tokens or 0) if request.stream_state is None else 0,
            completion_tokens=sum(len(choice.token_ids or ()) for choice in received),
            choices=sum(choice.finish_reason is not None for chunk in chunks for choice in chunk.choices),
            candidates=count_candidates(received),
            outcomes=Counter(outcomes),
            state_bytes=len(state.data),
        ),
    )


def _message_outcomes(markers: Iterable[str], choice: ChatChoice) -> Iterator[Outcome]:
    message = choice.message
    if _shows_marker(markers, message.content, choice.finish_reason):
        yield "markup"
    calls = isinstance(message, CallingMessage)
    yield _outcome(choice.finish_reason, calls=calls, text=bool(message.content))


def _outcome(finish_reason: str | None, *, calls: bool, text: bool) -> Outcome:
    if finish_reason not in _ENDED_BY_ITSELF:
        return "cut"
    return "tool_calls" if calls else "text" if text else "unanswered"


def _shows_marker(markers: Iterable[str], text: str | None, finish_reason: str | None) -> bool:
    # A call that is cut is text, too.
    is_cut = finish_reason not in (None, *_ENDED_BY_ITSELF)
    return text is not None and not is_cut and any(marker in text for marker in markers)
