"""Generate requests: read from the render service, checked, and written for the generate server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from uuid import uuid4

import orjson

from derender.answers.choices import Prompt
from derender.errors import BadGateway, BadRequest
from derender.protocol.client import CompletionRequest
from derender.protocol.limits import MAX_STOP_STRING, check_count, check_prompt_token_ids

from .requests import GenerateRequest, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.protocol.limits import Limits

    from .requests import ClientRequest

__all__ = [
    "TRANSFER_PARAMS",
    "PreparedRequest",
    "add_stop_strings",
    "prepare_request",
    "read_generate_requests",
]

DELTA: Final = 1
"""`output_kind`: each event contains the new tokens."""
FINAL_ONLY: Final = 2
"""`output_kind`: one response contains all tokens."""


TRANSFER_PARAMS: Final = ("kv_transfer_params", "ec_transfer_params")
"""Fields by which servers find each other's caches."""

ClientT = TypeVar("ClientT", bound="ClientRequest")


class PreparedRequest(NamedTuple):
    """A request to a generate server, ready to be sent."""

    request_id: str
    model: str
    """Name of the model, which the generate server may not know."""
    token_ids: Sequence[int]
    """The prompt."""
    n: int
    """How many choices to generate."""
    streamed: bool
    """Whether the generate server streams."""
    body: bytes

    @property
    def prompt(self) -> Prompt:
        """The prompt, as the answer needs it."""
        return Prompt(self.token_ids, len(self.token_ids))


def add_stop_strings(client: ClientT, request: GenerateRequest) -> ClientT:
    """Add the stop strings of a generate request, and what says how they count, to a client's request."""
    params = request.sampling_params or SamplingParams()
    given: dict[str, object] = {
        "include_stop_str_in_output": params.include_stop_str_in_output,
        "min_tokens": params.min_tokens,
        "stop": [*client.stop, *(string for string in params.stop or () if string not in client.stop)],
    }
    return client.model_copy(update={name: value for name, value in given.items() if value is not None})


def prepare_request(
    request: GenerateRequest, client: ClientRequest, model: str, limits: Limits, *, transfers: bool = False
) -> PreparedRequest:
    """Check a generate request and write it as the generate server gets it.

    Args:
        request: The generate request.
        client: The client's request, which says whether to stream and has the stop strings that the relay
            looks for.
        model: Name of the model.
        limits: The limits of the model.
        transfers: Whether clients may say where caches are.

    Raises:
        BadRequest: The prompt or the number of choices is out of bounds, or the request can't be written again.
    """
    check_prompt_token_ids("generate_request.token_ids", request.token_ids, limits)
    params = _add_echo((request.sampling_params or SamplingParams()).sent, client)
    n = _choice_count(params.get("n"), client)
    check_count("generate_request.sampling_params.n", n, limits)
    streamed = client.stream or _may_end_early(client, params)
    request_id = request.request_id or uuid4().hex
    extra = request.model_extra or {}
    if not transfers:
        extra, params = _without_transfers(extra), _without_transfers(params)
        if isinstance(arguments := params.get("extra_args"), dict):
            params = {**params, "extra_args": _without_transfers(arguments)}
    content = {
        **{name: value for name, value in extra.items() if name != "output_mode"},
        **({} if request.model is None else {"model": request.model}),
        "token_ids": request.token_ids,
        "request_id": request_id,
        "sampling_params": _sampling_params(params, client, streamed=streamed),
        "stream": streamed,
        "stream_options": _stream_options(request, client) if streamed else None,
    }
    return PreparedRequest(request_id, model, request.token_ids, n, streamed, _dump(content))


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


def _without_transfers(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out by which fields a server would fetch caches from addresses that a client chose."""
    return {name: value for name, value in fields.items() if name not in TRANSFER_PARAMS}


def _choice_count(number: object, client: ClientRequest) -> int:
    if number is None:
        return client.n
    if type(number) is not int or number < 1:
        raise BadRequest(
            "generate_request.sampling_params.n must be an integer ≥ 1",
            param="generate_request.sampling_params.n",
        )
    return number


def _add_echo(params: dict[str, Any], client: ClientRequest) -> dict[str, Any]:
    """Ask for the logprobs of an echoed prompt. If it alone is wanted, ask for the least output: one token."""
    if not isinstance(client, CompletionRequest) or not client.echo:
        return params
    if client.logprobs is not None and params.get("prompt_logprobs") is None:
        params = {**params, "prompt_logprobs": client.logprobs}
    return {**params, "max_tokens": 1} if client.only_echoes else params


def _may_end_early(client: ClientRequest, params: Mapping[str, Any]) -> bool:
    """Return whether a stop string may end the generation of a complete answer: if it comes as a stream.

    Streams have no logprobs of the prompt, and can't wait for a long stop string. Such a generation goes on to
    its end, and the answer is cut.
    """
    return (
        bool(client.stop)
        and max(map(len, client.stop)) <= MAX_STOP_STRING
        and params.get("prompt_logprobs") is None
    )


def _sampling_params(params: Mapping[str, Any], client: ClientRequest, *, streamed: bool) -> dict[str, Any]:
    """Return the sampling parameters without the stop strings that the relay looks for."""
    sent = {name: value for name, value in params.items() if name != "stop"}
    if stop := [string for string in params.get("stop") or () if string not in client.stop]:
        sent["stop"] = stop
    if streamed:
        sent["output_kind"] = DELTA
    elif sent.get("output_kind") not in (None, FINAL_ONLY):
        sent["output_kind"] = FINAL_ONLY
    return sent


def _stream_options(request: GenerateRequest, client: ClientRequest) -> dict[str, Any]:
    return {
        **(request.stream_options or {}),
        "include_usage": True,
        "continuous_usage_stats": client.stream and client.continuous_usage,
    }


def _dump(content: object) -> bytes:
    try:
        return orjson.dumps(content)
    except TypeError:
        raise BadRequest(
            "generate_request contains an integer of more than 64 bits, or is nested too deeply",
            param="generate_request",
        ) from None
