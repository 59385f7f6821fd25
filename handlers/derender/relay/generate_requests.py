"""Generate requests: read from the render service, checked, and written for the generate server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

import orjson

from derender.answers.choices import Prompt
from derender.errors import BadGateway, BadRequest
from derender.protocol.limits import check_count, check_prompt_token_ids

from .requests import GenerateRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.protocol.limits import Limits

    from .requests import ClientRequest

__all__ = ["PreparedRequest", "prepare_request", "read_generate_requests"]

DELTA: Final = 1
"""`output_kind`: each event contains the new tokens."""
FINAL_ONLY: Final = 2
"""`output_kind`: one response contains all tokens."""


class PreparedRequest(NamedTuple):
    """A request to a generate server, ready to be sent."""

    request_id: str
    token_ids: Sequence[int]
    """The prompt."""
    n: int
    """How many choices to generate."""
    body: bytes

    @property
    def prompt(self) -> Prompt:
        """The prompt, as the answer needs it."""
        return Prompt(self.token_ids, len(self.token_ids))


def prepare_request(request: GenerateRequest, client: ClientRequest, limits: Limits) -> PreparedRequest:
    """Check a generate request and write it as the generate server gets it.

    Args:
        request: The generate request.
        client: The client's request, which says whether to stream.
        limits: The limits of the model.

    Raises:
        BadRequest: The prompt or the number of choices is out of bounds, or the request can't be written again.
    """
    check_prompt_token_ids("generate_request.token_ids", request.token_ids, limits)
    n = _choice_count(request, client)
    check_count("generate_request.sampling_params.n", n, limits)
    request_id = request.request_id or uuid4().hex
    return PreparedRequest(request_id, request.token_ids, n, _body(request, request_id, client))


def read_generate_requests(content: bytes) -> list[GenerateRequest]:
    """Read what a render service responds: one generate request, or a list with one for each prompt.

    Raises:
        BadGateway: The response is something else.
    """
    try:
        answer = orjson.loads(content)
        requests = [
            GenerateRequest.model_validate(request)
            for request in (answer if isinstance(answer, list) else [answer])
        ]
    except ValueError:  # pydantic's error is one, too
        requests = []
    if not requests:
        raise BadGateway("the render service's response is not a generate request or a list of them")
    return requests


def _choice_count(request: GenerateRequest, client: ClientRequest) -> int:
    number = (request.sampling_params or {}).get("n")
    if number is None:
        return client.n
    if type(number) is not int or number < 1:
        raise BadRequest(
            "generate_request.sampling_params.n must be an integer ≥ 1",
            param="generate_request.sampling_params.n",
        )
    return number


def _body(request: GenerateRequest, request_id: str, client: ClientRequest) -> bytes:
    sampling_params, stream_options = dict(request.sampling_params or {}), None
    if client.stream:
        sampling_params["output_kind"] = DELTA
        stream_options = {
            **(request.stream_options or {}),
            "include_usage": True,
            "continuous_usage_stats": client.continuous_usage,
        }
    elif sampling_params.get("output_kind") not in (None, FINAL_ONLY):
        sampling_params["output_kind"] = FINAL_ONLY
    content = {
        **(request.model_extra or {}),
        "token_ids": request.token_ids,
        "request_id": request_id,
        "sampling_params": sampling_params,
        "stream": client.stream,
        "stream_options": stream_options,
    }
    try:
        return orjson.dumps(content)
    except TypeError:
        raise BadRequest(
            "generate_request contains an integer of more than 64 bits, or is nested too deeply",
            param="generate_request",
        ) from None
