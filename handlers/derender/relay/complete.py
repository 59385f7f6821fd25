"""Complete generations: one generate response for each request, also if the generate server streams."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from derender.errors import BadGateway, DerenderError
from derender.protocol.generate import GenerateChoice, GenerateLogprobs, GenerateResponse
from derender.protocol.limits import Limits, check_response
from derender.protocol.reading import read

from .chunks import NOT_FOR_CLIENTS, ChunkReader, first_tokens
from .generate_streams import read_stream
from .tasks import run_all
from .upstream.errors import log_faults

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from derender.decoding.output import OutputDecoder
    from derender.http.workers import Run
    from derender.protocol.generate import ChunkChoice, GenerateChunk, GenerateUsage
    from derender.protocol.logprobs import LogprobEntry

    from .generate_requests import PreparedRequest
    from .servers import Upstream
    from .upstream.client import UpstreamClient

__all__ = ["generate"]


async def generate(
    upstream_client: UpstreamClient,
    upstream: Upstream,
    requests: Sequence[PreparedRequest],
    limits: Limits,
    decoder: OutputDecoder,
    limit: int,
    run: Run,
) -> list[GenerateResponse]:
    """Send all requests to a generate server concurrently.

    Args:
        upstream_client: Calls the generate server.
        upstream: The generate server.
        requests: The requests.
        limits: The limits of the model.
        decoder: Decodes the outputs. A generation ends at the stop strings of its stop rule.
        limit: Maximum bytes of a response.
        run: Runs the work on what comes.

    Returns:
        One response for each request.

    Raises:
        DerenderError: A generation fails. The others are cancelled.
    """
    responses: dict[int, GenerateResponse] = {}

    async def generate_one(place: int, request: PreparedRequest) -> None:
        with log_faults(upstream.name):
            if request.streamed:
                reader = ChunkReader(request, decoder, limits, secrets=upstream.secrets)
                events = upstream_client.stream(upstream, request.body, request.model, limit=limit)
                response = await _join(events, reader, run)
            else:
                content = await upstream_client.generate(upstream, request.body, request.model, limit)
                response = await run(len(content), partial(_read, content, request, decoder, limits))
        update: dict[str, object] = {"request_id": request.request_id, **NOT_FOR_CLIENTS}
        if response.prompt_token_ids is None:
            update["prompt_token_ids"] = list(request.token_ids)
        responses[place] = response.model_copy(update=update)

    await run_all(partial(generate_one, place, request) for place, request in enumerate(requests))
    return [responses[place] for place in range(len(requests))]


def _read(content: bytes, request: PreparedRequest, decoder: OutputDecoder, limits: Limits) -> GenerateResponse:
    try:
        response = read(GenerateResponse, content)
    except DerenderError as error:
        raise BadGateway(
            "the generate server's response is not a generate response", quoting=error.message
        ) from None
    if len(response.choices) != request.n:
        raise BadGateway(
            f"the generate server returned {len(response.choices)} choices; {request.n} were requested"
        )
    return _cut(response, request, decoder, limits)


def _cut(
    response: GenerateResponse, request: PreparedRequest, decoder: OutputDecoder, limits: Limits
) -> GenerateResponse:
    """Cut the choices of a response after the tokens that complete stop strings."""
    if not decoder.stop.strings:
        return response
    try:
        check_response("generate_response", response, limits)
    except DerenderError as error:
        raise BadGateway("the generate server's response can't be derendered", quoting=error.message) from None
    decoder = replace(decoder, raw=False)
    state = decoder.start(request.token_ids)
    stopped, choices = False, []
    for choice in response.choices:
        decoded = decoder.decode(state, choice.token_ids or [], choice.finish_reason, choice.stop_reason)
        if decoded.visible_tokens is not None:
            stopped = True
            ended = {"finish_reason": decoded.finish_reason, "stop_reason": decoded.stop_reason}
            choice = choice.model_copy(update={**first_tokens(choice, decoded.visible_tokens), **ended})
        choices.append(choice)
    usage = _without_completion_tokens(response.usage) if stopped else response.usage
    return response.model_copy(update={"choices": choices, "usage": usage})


async def _join(events: AsyncGenerator[bytes, None], reader: ChunkReader, run: Run) -> GenerateResponse:
    """Join the chunks of a stream."""
    response: dict[str, Any] = {}
    choices: defaultdict[int, dict[str, Any]] = defaultdict(dict)

    async def receive(chunk: GenerateChunk, _: int) -> None:
        _update(response, chunk, "usage", "prompt_token_ids", "metrics")
        for part in chunk.choices:
            choice = choices[part.index]
            _update(choice, part, "finish_reason", "stop_reason", "routed_experts", "weight_versions")
            choice.setdefault("token_ids", []).extend(part.token_ids or ())
            if part.logprobs is not None:
                choice.setdefault("content", []).extend(part.logprobs.content or ())

    await read_stream(events, reader, receive, run)
    if reader.stopped:
        response["usage"] = _without_completion_tokens(response.get("usage"))
    return GenerateResponse(
        choices=[_choice(index, **fields) for index, fields in sorted(choices.items())], **response
    )


def _update(fields: dict[str, Any], part: GenerateChunk | ChunkChoice, *names: str) -> None:
    """Set the fields that a part has."""
    fields.update({name: value for name in names if (value := getattr(part, name)) is not None})


def _choice(index: int, content: list[LogprobEntry] | None = None, **fields: Any) -> GenerateChoice:
    logprobs = None if content is None else GenerateLogprobs(content=content)
    return GenerateChoice(index=index, logprobs=logprobs, **fields)


def _without_completion_tokens(usage: GenerateUsage | None) -> GenerateUsage | None:
    """Leave out the number of tokens that the generate server generated, also after stop strings."""
    return usage and usage.model_copy(update={"completion_tokens": None, "completion_tokens_details": None})
