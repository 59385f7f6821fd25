"""Complete generations: one response of the generate server for each prompt."""

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

    from .prompts import Prompt
    from .settings import Upstream
    from .upstream.client import UpstreamClient

__all__ = ["generate"]


async def generate(
    client: UpstreamClient, upstream: Upstream, prompts: Sequence[Prompt], limit: int
) -> list[GenerateResponse]:
    """Generate from all prompts concurrently.

    Args:
        client: Calls the generate server.
        upstream: The generate server.
        prompts: The prompts.
        limit: Maximum bytes of a response.

    Returns:
        One response for each prompt.

    Raises:
        DerenderError: A generation fails. The others are cancelled.
    """
    responses: dict[int, GenerateResponse] = {}

    async def generate_one(place: int, prompt: Prompt) -> None:
        with log_faults(upstream.name):
            responses[place] = _read(await client.generate(upstream, prompt.body, limit), prompt)

    await run_all(partial(generate_one, place, prompt) for place, prompt in enumerate(prompts))
    return [responses[place] for place in range(len(prompts))]


def _read(content: bytes, prompt: Prompt) -> GenerateResponse:
    try:
        response = read(GenerateResponse, content)
    except DerenderError as error:
        raise BadGateway(
            "the generate server's response is not a generate response", quoting=error.message
        ) from None
    if len(response.choices) != prompt.choices:
        raise BadGateway(
            f"the generate server returned {len(response.choices)} choices; {prompt.choices} were requested"
        )
    update: dict[str, object] = {"request_id": prompt.request_id, **NOT_FOR_CLIENTS}
    if response.prompt_token_ids is None:
        update["prompt_token_ids"] = list(prompt.token_ids)
    return response.model_copy(update=update)
