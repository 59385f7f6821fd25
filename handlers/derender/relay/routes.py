"""The relay's routes: from the client's request to the response."""

from __future__ import annotations

import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import Request, Response

from derender.errors import BadGateway, DerenderError
from derender.http.body import read_body
from derender.http.observation import is_observed, note
from derender.http.responses import json_response
from derender.protocol.limits import check_count
from derender.protocol.reading import read
from derender.telemetry.answer_facts import describe_complete
from derender.telemetry.observation import AnswerFacts
from derender.telemetry.tally import Tally

from .complete import generate
from .prompts import make_prompt, read_generate_requests
from .responses import EventStreamResponse
from .streamed import StreamedAnswer, StreamPlan
from .tasks import run_while_connected
from .upstream.errors import log_faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.models.model import Models, RequestedModel

    from .endpoints import RelayEndpoint
    from .prompts import Prompt
    from .requests import ClientRequest
    from .settings import RelaySettings, Upstream
    from .streamed import PreparePrompts
    from .upstream.client import UpstreamClient

__all__ = ["Routes"]


class _Exchange(NamedTuple):
    """A client's request that was checked, and who answers it."""

    client: ClientRequest
    requested: RequestedModel
    upstream: Upstream
    generation: Any
    """Derenders the stream; None if the client wants a complete answer."""
    upstreams: UpstreamClient
    created: int
    """Unix time in seconds."""


@dataclass(frozen=True)
class Routes:
    """The two routes of an endpoint.

    Attributes:
        endpoint: The endpoint.
        models: The models served.
        settings: The relay's settings.
        max_body_bytes: Maximum size of a request body, and of an upstream's response that is not a stream.
    """

    endpoint: RelayEndpoint
    models: Models
    settings: RelaySettings
    max_body_bytes: int

    async def relay(self, request: Request) -> Response:
        """Generate from a generate request, and derender the generation for the client."""
        body = read(self.endpoint.relay_request, await read_body(request, self.max_body_bytes))
        exchange = self._check(
            request, self.endpoint.openai.client_field, body.client, model=body.model, upstream=body.upstream
        )
        prompt = make_prompt(body.generate_request, exchange.client, exchange.requested.model.limits)

        async def prepare() -> Sequence[Prompt]:
            return [prompt]

        return await self._answer(request, exchange, prepare)

    async def create(self, request: Request) -> Response:
        """Render a client's request, generate from it, and derender the generations."""
        content = await read_body(request, self.max_body_bytes)
        client = read(self.endpoint.client_request, content)
        exchange = self._check(request, "body", client)
        check_count("n", client.n, exchange.requested.model.limits)

        async def prepare() -> Sequence[Prompt]:
            return await self._render(exchange, content)

        return await self._answer(request, exchange, prepare)

    def _check(
        self,
        request: Request,
        path: str,
        client: ClientRequest | None,
        *,
        model: str | None = None,
        upstream: str | None = None,
    ) -> _Exchange:
        """Check all that can be checked before an upstream is called.

        Args:
            request: The HTTP request.
            path: The path of the client's request in the body.
            client: The client's request.
            model: The name of the model; the client's by default.
            upstream: The name of the generate server.

        Raises:
            DerenderError: The request can't be answered.
        """
        given, client = client, client or self.endpoint.client_request()
        requested = self.models.find(model or client.model)
        generate_server = self.settings.find_upstream(upstream)
        self.endpoint.check(path, given, requested.model)
        generation = None
        if client.stream:
            generation = self.endpoint.openai.generation(*requested, path, client, None)
        return _Exchange(
            client,
            requested,
            generate_server,
            generation,
            upstreams=request.state.upstream_client,
            created=int(time.time()),
        )

    async def _render(self, exchange: _Exchange, content: bytes) -> list[Prompt]:
        """Have the render service turn a client's request into prompts."""
        render, limits = self.settings.render, exchange.requested.model.limits
        assert render is not None
        with log_faults(render.name):
            requests = read_generate_requests(
                await exchange.upstreams.render(
                    f"{self.endpoint.openai.path}/render", content, self.max_body_bytes
                )
            )
        if len(requests) > 1 and not self.endpoint.many_prompts:
            raise BadGateway(f"the render service returned {len(requests)} prompts for one conversation")
        check_count("prompt", len(requests) * exchange.client.n, limits)
        try:
            return [make_prompt(each, exchange.client, limits) for each in requests]
        except DerenderError as error:
            raise BadGateway("the render service's response can't be relayed", quoting=error.message) from None

    async def _answer(self, request: Request, exchange: _Exchange, prepare: PreparePrompts) -> Response:
        if exchange.generation is not None:
            return self._stream(request, exchange, prepare)
        note(request.scope, lambda: AnswerFacts(model=exchange.requested.name))
        response = await run_while_connected(
            request.receive, lambda: self._complete(request, exchange, prepare)
        )
        return response or Response(status_code=HTTPStatus.BAD_REQUEST)  # the client has disconnected

    def _stream(self, request: Request, exchange: _Exchange, prepare: PreparePrompts) -> Response:
        plan: StreamPlan[Any] = StreamPlan(
            exchange.upstreams,
            exchange.upstream,
            prepare,
            exchange.generation,
            exchange.client,
            exchange.created,
            observed=is_observed(request.scope),
        )
        answer = StreamedAnswer(plan)
        note(request.scope, answer.facts)
        return EventStreamResponse(answer, self.settings.keep_alive)

    async def _complete(self, request: Request, exchange: _Exchange, prepare: PreparePrompts) -> Response:
        prompts = await prepare()
        tally = Tally(prompt_tokens=sum(len(prompt.token_ids) for prompt in prompts))
        note(request.scope, lambda: AnswerFacts(model=exchange.requested.name, tally=tally))
        responses = await generate(exchange.upstreams, exchange.upstream, prompts, self.max_body_bytes)
        try:
            answer = self.endpoint.derender(
                exchange.requested, exchange.client, prompts, responses, exchange.created
            )
        except DerenderError as error:
            raise BadGateway(
                "the generate server's response can't be derendered", quoting=error.message
            ) from None
        note(request.scope, lambda: describe_complete(exchange.requested.model, responses, answer))
        return json_response(answer)
