"""The operations that every application has: derender, models, health checks, version."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Literal

from fastapi import Request, Response

from derender import __version__
from derender.endpoints import CHAT, COMPLETIONS, answer
from derender.protocol.openai.models import Version
from derender.protocol.stream import (
    ChatChunk,
    ChatChunks,
    CompletionChunk,
    CompletionChunks,
    StreamRequest,
    StreamState,
)
from derender.streaming import Derendered
from derender.telemetry.answer_facts import describe_answer

from .body import read_body
from .compression import compress
from .model_routes import model_operations
from .observation import note
from .operation import REQUEST_ERRORS, Operation
from .responses import json_response
from .sse import DONE, EVENT_STREAM, encode_event
from .workers import INLINE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from derender.endpoints import Answer, Endpoint
    from derender.models.model import Models
    from derender.protocol.base import WireModel

    from .workers import Run

__all__ = ["core_operations"]

_STATE: Final = "stream_state"
_GENERATED: Final = {
    "request_id": "cmpl-7f3a",
    "choices": [{"index": 0, "token_ids": [9707, 11, 1879, 0, 151645], "finish_reason": "stop"}],
}
_CHUNK: Final = {
    "request_id": "cmpl-7f3a",
    "choices": [{"index": 0, "token_ids": [9707], "finish_reason": None}],
}
_CHAT_REQUEST: Final[dict[str, object]] = {"messages": []}


def core_operations(models: Models, *, max_body_bytes: int, run: Run = INLINE) -> list[Operation]:
    """Return the operations that every application has.

    Args:
        models: The models served.
        max_body_bytes: Maximum size of a request body, after decompression.
        run: Runs the work on a request.
    """
    return [
        _derender_operation(
            CHAT,
            models,
            max_body_bytes,
            run,
            stream_answers=(ChatChunk, ChatChunks),
            complete={"generate_response": _GENERATED, "prompt_tokens": 7, "chat_request": _CHAT_REQUEST},
            streamed={"generate_chunk": _CHUNK, "stream_state": None, "chat_request": _CHAT_REQUEST},
        ),
        _derender_operation(
            COMPLETIONS,
            models,
            max_body_bytes,
            run,
            stream_answers=(CompletionChunk, CompletionChunks),
            complete={"generate_responses": [_GENERATED], "prompt_tokens": [7]},
            streamed={"generate_chunk": _CHUNK, "stream_state": None},
        ),
        *model_operations(models, max_body_bytes=max_body_bytes, run=run),
        _health_operation("/health", "GET", "health"),
        _health_operation("/ping", "GET", "ping"),
        _health_operation("/ping", "POST", "post_ping"),
        Operation(
            path="/version",
            method="GET",
            name="version",
            tag="Service",
            summary="Version of derender",
            handle=_version,
            answers=(Version,),
        ),
    ]


def _derender_operation(
    endpoint: Endpoint,
    models: Models,
    max_body_bytes: int,
    run: Run,
    *,
    stream_answers: tuple[type[WireModel], ...],
    complete: Mapping[str, object],
    streamed: Mapping[str, object],
) -> Operation:
    async def handle(request: Request) -> Response:
        body = await read_body(request, max_body_bytes, run)
        accept, accept_encoding = (request.headers.get(name, "") for name in ("accept", "accept-encoding"))

        def respond() -> tuple[Answer, Response]:
            answered = answer(endpoint, models, body, int(time.time()))
            return answered, compress(_respond(answered, accept), accept_encoding)

        answered, response = await run(len(body), respond)
        note(request.scope, lambda: describe_answer(answered))
        return response

    return Operation(
        path=endpoint.derender_path,
        method="POST",
        name=f"derender_{endpoint.kind.replace(' ', '_')}",
        tag="Derender",
        summary=f"Derender a {endpoint.kind}",
        handle=handle,
        requests=(endpoint.complete, endpoint.streamed),
        answers=(endpoint.response, *stream_answers),
        events=(("message", endpoint.chunk), (_STATE, StreamState)),
        examples={"complete": complete, "streamed": {"stream": True, **streamed}},
        errors=REQUEST_ERRORS,
    )


def _respond(answered: Answer, accept: str) -> Response:
    """Return an answer as JSON, or several chunks as events if the client accepts those."""
    request, _, content = answered
    if not (isinstance(request, StreamRequest) and isinstance(content, Derendered)):
        return json_response(content)
    chunks, events, state, complete, _ = content
    if request.generate_chunks is None:
        return json_response({"chunk": chunks[0], "stream_state": state})
    if EVENT_STREAM not in accept:
        return json_response({"chunks": chunks, "stream_state": state})
    end = DONE if complete else encode_event(state, _STATE)
    encoded = b"".join((*map(encode_event, events), end))
    return Response(encoded, media_type=EVENT_STREAM, headers={"cache-control": "no-store"})


def _health_operation(path: str, method: Literal["GET", "POST"], name: str) -> Operation:
    return Operation(
        path=path,
        method=method,
        name=name,
        tag="Service",
        summary="Health check",
        description="Answers with an empty body if the service can answer requests.",
        handle=_health,
    )


async def _health(_: Request) -> Response:
    return Response()


async def _version(_: Request) -> Response:
    return json_response(Version(version=__version__))
