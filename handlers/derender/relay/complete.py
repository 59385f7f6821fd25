"""Complete generations: one response of the generate server for each request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from derender.errors import BadGateway, DerenderError
from derender.protocol.generate import GenerateResponse
from derender.protocol.reading import read

from .generation import NOT_FOR_CLIENTS
from .tasks import run_all
from .upstream.errors import log_faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .generate_requests import PreparedRequest
    from .settings import Upstream
    from .upstream.client import UpstreamClient

__all__ = ["generate"]


async def generate(
    upstream_client: UpstreamClient, upstream: Upstream, requests: Sequence[PreparedRequest], limit: int
) -> list[GenerateResponse]:
    """Send all requests to a generate server concurrently.

    Args:
        upstream_client: Calls the generate server.
        upstream: The generate server.
        requests: The requests.
        limit: Maximum bytes of a response.

    Returns:
        One response for each request.

    Raises:
        DerenderError: A generation fails. The others are cancelled.
    """
    responses: dict[int, GenerateResponse] = {}

    async def generate_one(place: int, request: PreparedRequest) -> None:
        with log_faults(upstream.name):
            responses[place] = _read(await upstream_client.generate(upstream, request.body, limit), request)

    await run_all(partial(generate_one, place, request) for place, request in enumerate(requests))
    return [responses[place] for place in range(len(requests))]


def _read(content: bytes, request: PreparedRequest) -> GenerateResponse:
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
    update: dict[str, object] = {"request_id": request.request_id, **NOT_FOR_CLIENTS}
    if response.prompt_token_ids is None:
        update["prompt_token_ids"] = list(request.token_ids)
    return response.model_copy(update=update)
