"""The relay's application: its operations beside derender's own."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from fastapi import FastAPI, Request, Response

from derender.errors import BadGateway, DerenderError
from derender.http.app import create_app
from derender.http.body import read_body
from derender.http.observing import is_observed, note
from derender.http.operation import REQUEST_ERRORS, Operation
from derender.protocol.limits import check_count, check_prompt_token_ids
from derender.protocol.openai import (
    ChatCompletion,
    ChatCompletionChunk,
    ErrorResponse,
    TextCompletion,
    TextCompletionChunk,
)
from derender.protocol.reading import read
from derender.protocol.writing import dumps
from derender.telemetry.answer_facts import describe_complete
from derender.telemetry.observation import AnswerFacts
from derender.telemetry.tally import Tally

from .answers import Asking, Prompt, StreamedAnswer, StreamPlan, generated, rendered
from .client import open_client
from .concurrency import while_connected
from .endpoints import CHAT, COMPLETIONS, Whole
from .requests import choices_asked, generate_request_body
from .response import EventStreamResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from derender.models.model import Models, ServedModel
    from derender.protocol.limits import Limits
    from derender.telemetry.observation import Observe

    from .answers import Prepare
    from .endpoints import Endpoint
    from .requests import ClientRequest, GenerateRequest
    from .upstreams import Relay, Upstream

__all__ = ["create_relay_app"]

UPSTREAM_ERRORS: Final = {
    HTTPStatus.UNPROCESSABLE_ENTITY: "An upstream refused the request, as 400, 413 and 429 may mean too.",
    HTTPStatus.TOO_MANY_REQUESTS: "An upstream refused the request: too many requests.",
    HTTPStatus.BAD_GATEWAY: "An upstream is unreachable, failed, or answered with something unexpected.",
    HTTPStatus.GATEWAY_TIMEOUT: "An upstream was silent for too long.",
}
"""Errors of operations that ask an upstream."""

_BODY: Final = "body"
"""Where a client's request is that is the whole body."""
_CONVERSATION: Final[dict[str, object]] = {"messages": [{"role": "user", "content": "Say hello"}]}
_GENERATE: Final = {
    "request_id": "cmpl-7f3a",
    "token_ids": [151644, 872, 198],
    "sampling_params": {"max_tokens": 512},
}


def create_relay_app(
    models: Models, relay: Relay, *, max_body_bytes: int, observe: Observe | None = None
) -> FastAPI:
    """Return the application that derenders and relays.

    Args:
        models: The models served.
        relay: Who is asked. Without a render service there are no routes for a client's request by itself.
        max_body_bytes: Largest request body, and largest answer of an upstream that is no stream.
        observe: Called with an observation of each request once its answer is complete.
    """
    return create_app(
        models,
        max_body_bytes=max_body_bytes,
        operations=_operations(_Serving(models, relay, max_body_bytes)),
        lifespan=client_lifespan(relay),
        observe=observe,
    )


def client_lifespan(relay: Relay) -> Callable[[FastAPI], AbstractAsyncContextManager[dict[str, Any]]]:
    """What an application that relays has from its start to its end: one HTTP client."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with open_client(relay) as client:
            yield {"upstream_client": client}

    return lifespan


def _operations(serving: _Serving) -> Iterator[Operation]:
    for endpoint, answer, chunk, path, request, messages in (
        (CHAT, ChatCompletion, ChatCompletionChunk, "/v1/chat/completions", _CONVERSATION, _CONVERSATION),
        (COMPLETIONS, TextCompletion, TextCompletionChunk, "/v1/completions", {"prompt": "Once"}, {}),
    ):
        relaying = _Relaying(serving, endpoint)
        describe = partial(
            Operation,
            method="POST",
            tag="Relay",
            answers=(answer,),
            events=(("message", chunk), ("message", ErrorResponse)),
            errors={**REQUEST_ERRORS, **UPSTREAM_ERRORS},
        )
        streamed = {"generate_request": _GENERATE, endpoint.field: {**messages, "stream": True}}
        complete = {"generate_request": _GENERATE, **({endpoint.field: messages} if messages else {})}
        name = endpoint.name.replace(" ", "_")
        yield describe(
            path=f"{path}/derender/relay",
            name=f"relay_{name}",
            summary=f"Generate and derender a {endpoint.name}",
            handle=relaying.generate_request,
            requests=(endpoint.relay_request,),
            examples={"complete": complete, "streamed": streamed},
        )
        if serving.relay.render is not None:
            yield describe(
                path=path,
                name=f"create_{name}",
                summary=f"Render, generate and derender a {endpoint.name}",
                handle=relaying.client_request,
                requests=(endpoint.client_request,),
                examples={"complete": request, "streamed": {**request, "stream": True}},
            )


class _Serving(NamedTuple):
    """What all requests are served with."""

    models: Models
    relay: Relay
    max_body_bytes: int


class _Asked(NamedTuple):
    """A client's request, of which all is checked that can be before anybody is asked."""

    client: ClientRequest
    path: str
    """Where it is in the body."""
    model: ServedModel
    name: str
    """What the client calls it."""
    upstream: Upstream


@dataclass(frozen=True)
class _Relaying:
    """The routes of one endpoint."""

    serving: _Serving
    endpoint: Endpoint

    async def generate_request(self, request: Request) -> Response:
        """Answer a generate request that comes with the client's request."""
        models, relay, limit = self.serving
        body = read(self.endpoint.relay_request, await read_body(request, limit))
        client = body.client or self.endpoint.client_request()
        model, name = models.find(body.model or client.model)
        asked = _Asked(client, self.endpoint.field, model, name, relay.upstream(body.upstream))
        self.endpoint.check(asked.path, body.client, model)
        prompts = _prompts([body.generate_request], client, "generate_request", model.limits)

        async def prepare() -> Sequence[Prompt]:
            return prompts

        return await self._answer(request, asked, prepare)

    async def client_request(self, request: Request) -> Response:
        """Answer a client's request by itself."""
        models, relay, limit = self.serving
        body = await read_body(request, limit)
        client = read(self.endpoint.client_request, body)
        model, name = models.find(client.model)
        asked = _Asked(client, _BODY, model, name, relay.upstream(None))
        self.endpoint.check(_BODY, client, model)
        check_count("n", client.n, model.limits)
        asking = self._asking(request, asked)

        async def prepare() -> Sequence[Prompt]:
            requests = await rendered(asking, self.endpoint.render_path, body, limit)
            if len(requests) > 1 and not self.endpoint.several:
                raise BadGateway(f"the render service made {len(requests)} prompts of one conversation")
            check_count("prompt", len(requests) * client.n, model.limits)
            try:
                return _prompts(requests, client, "generate_request", model.limits)
            except DerenderError as error:
                raise BadGateway(
                    "the render service's answer can't be relayed", quoting=error.message
                ) from None

        return await self._answer(request, asked, prepare)

    def _asking(self, request: Request, asked: _Asked) -> Asking:
        return Asking(request.state.upstream_client, self.serving.relay, asked.upstream)

    async def _answer(self, request: Request, asked: _Asked, prepare: Prepare) -> Response:
        _, relay, limit = self.serving
        created = int(time.time())
        asking = self._asking(request, asked)
        if asked.client.stream:
            generation = self.endpoint.generation(asked.model, asked.name, asked.path, asked.client)
            observed = is_observed(request.scope)
            answer = StreamedAnswer(
                StreamPlan(asking, generation, asked.client, created, prepare, observed=observed)
            )
            note(request.scope, answer.facts)
            return EventStreamResponse(answer, relay.keep_alive)
        note(request.scope, lambda: AnswerFacts(model=asked.name))
        response = Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody reads it

        async def work() -> None:
            nonlocal response
            prompts = await prepare()
            asking_tally = Tally(prompt_tokens=sum(len(each.token_ids) for each in prompts))
            note(request.scope, lambda: AnswerFacts(model=asked.name, tally=asking_tally))
            responses = await generated(asking, prompts, limit)
            whole = Whole(asked.model, asked.name, asked.client, prompts, responses, created)
            try:
                content = self.endpoint.derender(whole)
            except DerenderError as error:
                raise BadGateway(
                    "the generate server's answer can't be derendered", quoting=error.message
                ) from None
            note(request.scope, lambda: describe_complete(asked.model, responses, content))
            response = Response(dumps(content), media_type="application/json")

        await while_connected(request.receive, work)
        return response


def _prompts(
    requests: Sequence[GenerateRequest], client: ClientRequest, path: str, limits: Limits
) -> list[Prompt]:
    prompts = []
    for request in requests:
        check_prompt_token_ids(f"{path}.token_ids", request.token_ids, limits)
        choices = choices_asked(request, client)
        check_count(f"{path}.sampling_params.n", choices, limits)
        request_id = request.request_id or uuid4().hex
        body = generate_request_body(request, request_id, client)
        prompts.append(Prompt(request.token_ids, request_id, choices, body))
    return prompts
