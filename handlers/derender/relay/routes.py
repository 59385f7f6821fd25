"""The relay's routes: from the client's request to the response."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import Request, Response

from derender.errors import BadGateway, DerenderError
from derender.http.body import read_json
from derender.http.compression import compress
from derender.http.observation import is_observed, note
from derender.http.responses import json_response
from derender.http.workers import LARGE
from derender.protocol.limits import check_count
from derender.protocol.reading import read
from derender.telemetry.answer_facts import describe_complete
from derender.telemetry.observation import AnswerFacts
from derender.telemetry.tally import Tally

from .complete import generate
from .generate_requests import (
    PreparedRequest,
    add_stop_strings,
    prepare_request,
    read_generate_requests,
)
from .responses import EventStreamResponse
from .streamed import StreamedAnswer
from .tasks import run_while_connected
from .upstream.errors import log_faults

if TYPE_CHECKING:
    from derender.http.workers import Run
    from derender.models.model import Models, RequestedModel
    from derender.streaming import Generation

    from .endpoints import CompleteAnswer, RelayEndpoint
    from .requests import ClientRequest
    from .servers import Server, Upstream
    from .settings import RelaySettings
    from .upstream.client import UpstreamClient

__all__ = ["Routes"]

PrepareRequests = Callable[[], Awaitable[Sequence[PreparedRequest]]]
"""Prepares the requests to the generate server, one for each prompt."""


class _Exchange(NamedTuple):
    """A client's request, and who answers it."""

    request: Request
    client: ClientRequest
    requested: RequestedModel
    upstream: Upstream
    upstream_client: UpstreamClient
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
        run: Runs the work on a request.
    """

    endpoint: RelayEndpoint
    models: Models
    settings: RelaySettings
    max_body_bytes: int
    run: Run

    async def relay(self, request: Request) -> Response:
        """Send a generate request to a generate server, and derender what it generates."""
        content = await read_json(request, self.max_body_bytes, self.run)
        body = await self.run(len(content), partial(read, self.endpoint.relay_request, content))
        given = add_stop_strings(body.client or self.endpoint.client_request(), body.generate_request)
        exchange = self._exchange(request, given, model=body.model, upstream=body.upstream)
        model, name = exchange.requested
        missing = body.client is None and self.endpoint.parses and model.parsers is not None
        respond = self._responder(exchange, self.endpoint.openai.client_field, None if missing else given)
        prepared = prepare_request(
            body.generate_request,
            given,
            body.generate_request.model or name,
            model.limits,
            transfers=exchange.upstream.transfer_params,
        )

        async def prepare() -> Sequence[PreparedRequest]:
            return [prepared]

        return await respond(prepare)

    async def create(self, request: Request) -> Response:
        """Have a client's request rendered, and then answer it as `relay` does."""
        content = await read_json(request, self.max_body_bytes, self.run)
        client = await self.run(len(content), partial(read, self.endpoint.client_request, content))
        exchange = self._exchange(request, client)
        respond = self._responder(exchange, "body", client)
        check_count("n", client.n, exchange.requested.model.limits)
        return await respond(
            partial(self._render, exchange, self.settings.find_render(exchange.upstream), content)
        )

    def _exchange(
        self,
        request: Request,
        client: ClientRequest,
        *,
        model: str | None = None,
        upstream: str | None = None,
    ) -> _Exchange:
        requested = self.models.find(model or client.model)
        return _Exchange(
            request,
            client,
            requested,
            self.settings.find_upstream(upstream, requested.model.vocabulary.manifest.name),
            request.state.upstream_client,
            int(time.time()),
        )

    def _responder(
        self, exchange: _Exchange, path: str, client: ClientRequest | None
    ) -> Callable[[PrepareRequests], Awaitable[Response]]:
        """Check a client's request, and return what answers it.

        Args:
            exchange: The exchange.
            path: Path of the client's request in the body, for errors.
            client: The client's request, if the body contains one.

        Raises:
            DerenderError: The request can't be answered.
        """
        if exchange.client.stream:
            return partial(self._stream, exchange, self.endpoint.stream(exchange.requested, path, client))
        return partial(self._complete, exchange, self.endpoint.complete(exchange.requested, path, client))

    async def _render(self, exchange: _Exchange, render: Server, content: bytes) -> list[PreparedRequest]:
        """Have the render service turn a client's request into generate requests."""
        (model, name), limit = exchange.requested, self.max_body_bytes
        path = f"{self.endpoint.openai.path}/render"
        with log_faults(render.name):
            requests = read_generate_requests(
                await exchange.upstream_client.render(render, path, content, name, limit)
            )
        if len(requests) > 1 and not self.endpoint.many_prompts:
            raise BadGateway(f"the render service returned {len(requests)} prompts for one conversation")
        check_count("prompt", len(requests) * exchange.client.n, model.limits)
        try:
            return [
                prepare_request(
                    each, exchange.client, name, model.limits, transfers=exchange.upstream.transfer_params
                )
                for each in requests
            ]
        except DerenderError as error:
            raise BadGateway("the render service's response can't be relayed", quoting=error.message) from None

    async def _stream(
        self, exchange: _Exchange, generation: Generation[Any, Any], prepare: PrepareRequests
    ) -> Response:
        scope = exchange.request.scope
        answer = StreamedAnswer(
            exchange.upstream_client,
            exchange.upstream,
            prepare,
            generation,
            exchange.client,
            exchange.created,
            observed=is_observed(scope),
            run=self.run,
        )
        note(scope, answer.facts)
        return EventStreamResponse(answer, self.settings.keep_alive)

    async def _complete(
        self, exchange: _Exchange, complete: CompleteAnswer, prepare: PrepareRequests
    ) -> Response:
        response = await run_while_connected(
            exchange.request.receive, partial(self._generate, exchange, complete, prepare)
        )
        return response or Response(status_code=HTTPStatus.BAD_REQUEST)  # the client has disconnected

    async def _generate(
        self, exchange: _Exchange, complete: CompleteAnswer, prepare: PrepareRequests
    ) -> Response:
        scope, (model, name) = exchange.request.scope, exchange.requested
        note(scope, lambda: AnswerFacts(model=name))
        requests = await prepare()
        prompts = [request.prompt for request in requests]
        tally = Tally(prompt_tokens=sum(len(request.token_ids) for request in requests))
        note(scope, lambda: AnswerFacts(model=name, tally=tally))
        responses = await generate(
            exchange.upstream_client,
            exchange.upstream,
            requests,
            model.limits,
            complete.decoder,
            self.max_body_bytes,
            self.run,
        )

        def write() -> tuple[Any, Response]:
            answer = complete.write(prompts, responses, exchange.created)
            return answer, compress(json_response(answer), exchange.request.headers.get("accept-encoding", ""))

        try:
            answer, response = await self.run(LARGE, write)
        except DerenderError as error:
            raise BadGateway(
                "the generate server's response can't be derendered", quoting=error.message
            ) from None
        note(scope, lambda: describe_complete(model, responses, answer))
        return response
