"""Derender complete generations into a text completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from derender.errors import BadRequest, InvalidRequest
from derender.logprobs.entries import read_entries
from derender.protocol.client import CompletionRequest
from derender.protocol.limits import (
    check_client_request,
    check_count,
    check_prompt_token_ids,
    check_repeated_prompt,
    check_response,
)
from derender.protocol.openai.completions import CompletionChoice, TextCompletion

from .choices import Prompt, decode_choices, output_decoder, resolve_prompt
from .echo import drop_output, echo_text, read_prompt_entries, write_echo
from .size import check_answer_size, prompt_ids
from .usage import add_usages, count_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from derender.logprobs.entries import Entries
    from derender.models.model import ServedModel
    from derender.protocol.complete import CompletionDerenderRequest
    from derender.protocol.generate import GenerateResponse

__all__ = ["derender_completion", "text_completion"]

T = TypeVar("T")


def derender_completion(
    request: CompletionDerenderRequest, model: ServedModel, name: str, created: int
) -> TextCompletion:
    """Derender complete generations, one for each prompt, for a completions client.

    Args:
        request: The generate responses and the client's request.
        model: The model.
        name: The name to answer with.
        created: Unix time in seconds, for the response.

    Raises:
        DerenderError: The request can't be answered.
    """
    responses = request.generate_responses
    token_ids = _one_each("prompt_token_ids", request.prompt_token_ids, responses)
    tokens = _one_each("prompt_tokens", request.prompt_tokens, responses)
    client = request.completion_request or CompletionRequest()
    check_client_request("completion_request", client)
    prompts = [Prompt(*prompt) for prompt in zip(token_ids, tokens, strict=True)]
    return text_completion(model, client, responses, prompts, name=name, created=created)


def text_completion(
    model: ServedModel,
    client: CompletionRequest,
    responses: Sequence[GenerateResponse],
    prompts: Sequence[Prompt],
    *,
    name: str,
    created: int,
    stops_reported: bool = True,
) -> TextCompletion:
    """Write complete generations, one for each prompt, as a text completion.

    Args:
        model: The model.
        client: The client's request, checked.
        responses: The generate responses.
        prompts: The prompt of each response, as far as it is known.
        name: The name to answer with.
        created: Unix time in seconds, for the response.
        stops_reported: Whether the generate server finds and reports stop strings (`output_decoder`).

    Raises:
        DerenderError: A generate response is out of bounds.
    """
    if not responses:
        raise BadRequest("generate_responses must not be empty", param="generate_responses")
    check_count("generate_responses", len(responses), model.limits)
    paths = [f"generate_responses.{place}" for place in range(len(responses))]
    for path, response in zip(paths, responses, strict=True):
        check_response(path, response, model.limits)
    for place, prompt in enumerate(prompts):
        check_prompt_token_ids(f"prompt_token_ids.{place}", prompt.token_ids, model.limits)
    prompts = [_known_prompt(prompt, response) for prompt, response in zip(prompts, responses, strict=True)]
    echoes = [
        _read_echo(model, client, path, place, response, prompt)
        for place, (path, response, prompt) in enumerate(zip(paths, responses, prompts, strict=True))
    ]
    usages = [count_usage(prompt.tokens, response) for prompt, response in zip(prompts, responses, strict=True)]
    if client.only_echoes:
        responses = [
            response.model_copy(update={"choices": [drop_output(choice) for choice in response.choices]})
            for response in responses
        ]
    entries = [
        read_entries(path, response.choices, client.candidates, model.limits.vocabulary_size)
        for path, response in zip(paths, responses, strict=True)
    ]
    _check_size(model, responses, entries, echoes)

    by_id, writer = client.return_tokens_as_token_ids, model.logprobs
    decoder = output_decoder(model.vocabulary, client, None, stops_reported=stops_reported)
    choices: list[CompletionChoice] = []
    for response, prompt, each, (text, prompt_entries, _) in zip(
        responses, prompts, entries, echoes, strict=True
    ):
        prompt_logprobs = writer.write_prompt(response.prompt_logprobs)
        echo = write_echo(text, prompt_entries, writer, by_id=by_id)
        decoded = decode_choices(decoder, response, prompt.token_ids)
        choices += [
            CompletionChoice(
                index=len(choices) + place,
                text=echo.text + choice.text,
                logprobs=None
                if choice.generated.logprobs is None and echo.logprobs is None
                else echo.before(writer.write_completion(logprobs, offset=echo.offset, by_id=by_id)),
                finish_reason=choice.finish_reason,
                stop_reason=choice.stop_reason,
                token_ids=choice.generated.token_ids if client.return_token_ids else None,
                prompt_logprobs=prompt_logprobs,
                prompt_token_ids=response.prompt_token_ids if client.return_token_ids else None,
                routed_experts=choice.generated.routed_experts,
                weight_versions=choice.generated.weight_versions,
            )
            for place, (choice, logprobs) in enumerate(zip(decoded, each, strict=True))
        ]
    return TextCompletion(
        id=responses[0].request_id,
        created=created,
        model=name,
        choices=choices,
        usage=add_usages(usages),
        kv_transfer_params=_common_value(each.kv_transfer_params for each in responses),
        ec_transfer_params=_common_value(each.ec_transfer_params for each in responses),
        metrics=responses[0].metrics if len(responses) == 1 else None,
    )


def _check_size(
    model: ServedModel,
    responses: Sequence[GenerateResponse],
    entries: Sequence[Sequence[Entries | None]],
    echoes: Sequence[tuple[str, Entries | None, int]],
) -> None:
    """Refuse an answer that is too large. Each choice of a response repeats its prompt."""
    texts: list[tuple[Sequence[int], int]] = []
    logprobs: list[tuple[Entries | None, int]] = []
    parts = repeated = 0
    for response, each, (_, prompt_entries, once) in zip(responses, entries, echoes, strict=True):
        choices = len(response.choices)
        texts += [(choice.token_ids or (), 1) for choice in response.choices]
        texts.append((prompt_ids(response.prompt_logprobs), choices))
        logprobs += [(entry, 1) for entry in each]
        logprobs.append((prompt_entries, choices))
        parts += choices
        repeated += choices * once
    check_answer_size(model, texts, logprobs, parts=parts, repeated=repeated)


def _known_prompt(prompt: Prompt, response: GenerateResponse) -> Prompt:
    return prompt._replace(token_ids=resolve_prompt(prompt.token_ids, response))


def _read_echo(
    model: ServedModel,
    client: CompletionRequest,
    path: str,
    place: int,
    response: GenerateResponse,
    prompt: Prompt,
) -> tuple[str, Entries | None, int]:
    """Return the text and the logprobs of a prompt that choices begin with; nothing if they don't.

    The third is the number of bytes of the prompt that each choice has.

    Raises:
        BadRequest: The prompt or its logprobs are not known, or too large to be repeated in each choice.
    """
    text, entries = "", None
    if client.echo:
        text = echo_text(f"prompt_token_ids.{place}", model.vocabulary, client.prompt, prompt, place)
    if client.echo and client.logprobs is not None:
        entries = read_prompt_entries(path, response, prompt.token_ids or (), client.candidates)
    once = check_repeated_prompt(path, response, return_token_ids=client.return_token_ids, echoed=text)
    return text, entries, once


def _one_each(name: str, values: Sequence[T | None] | None, responses: Sequence[object]) -> Sequence[T | None]:
    if values is None:
        return [None] * len(responses)
    if len(values) != len(responses):
        raise InvalidRequest(
            f"{name} length ({len(values)}) must equal generate_responses length ({len(responses)})", param=name
        )
    return values


def _common_value(values: Iterable[Any]) -> Any:
    """Return the value that all responses have; None if they differ."""
    first, *others = values
    return first if all(value == first for value in others) else None
