"""Operations of every application: derender, list the models, health check, version."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from fastapi import Request, Response

from derender import __version__
from derender.endpoints import CHAT, COMPLETIONS, answer
from derender.protocol.openai import Model, ModelList, Version
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
from .observation import note
from .operation import REQUEST_ERRORS, Operation
from .responses import json_response
from .sse import DONE, EVENT_STREAM, event

if TYPE_CHECKING:
    from derender.endpoints import Answer, Endpoint
    from derender.models.model import Models
    from derender.protocol.base import WireModel

__all__ = ["core_operations"]

STATE: Final = "stream_state"
"""The event that carries the state of a stream."""
_GENERATED: Final = {
    "request_id": "cmpl-7f3a",
    "choices": [{"index": 0, "token_ids": [9707, 11, 1879, 0, 151645], "finish_reason": "stop"}],
}
_CHUNK: Final = {
    "request_id": "cmpl-7f3a",
    "choices": [{"index": 0, "token_ids": [9707], "finish_reason": None}],
}
_CLIENT: Final[dict[str, object]] = {"chat_request": {"messages": []}}
_STREAMED: Final = {"stream": True, "generate_chunk": _CHUNK, "stream_state": None}


def core_operations(models: Models, *, max_body_bytes: int) -> list[Operation]:
    """Return the operations that every application has.

    Args:
        models: The models served.
        max_body_bytes: Largest request body, after decompression.
    """

    def derender(
        endpoint: Endpoint, streamed: tuple[type[WireModel], ...], examples: dict[str, object]
    ) -> Operation:
        async def handle(request: Request) -> Response:
            body = await read_body(request, max_body_bytes)
            answered = answer(endpoint, models, body, int(time.time()))
            note(request.scope, lambda: describe_answer(answered))
            return _derendered(request, answered)

        return Operation(
            path=endpoint.derender_path,
            method="POST",
            name=f"derender_{endpoint.kind.replace(' ', '_')}",
            tag="Derender",
            summary=f"Derender a {endpoint.kind}",
            handle=handle,
            requests=(endpoint.complete, endpoint.streamed),
            answers=(endpoint.response, *streamed),
            events=(("message", endpoint.chunk), (STATE, StreamState)),
            examples=examples,
            errors=REQUEST_ERRORS,
        )

    async def list_models(_: Request) -> Response:
        created = int(time.time())
        return json_response(
            ModelList(
                data=[
                    Model(id=name, created=created, root=each.root, max_model_len=each.max_model_len)
                    for each, _ in models.entries
                    for name in each.names
                ]
            )
        )

    return [
        derender(
            CHAT,
            (ChatChunk, ChatChunks),
            {
                "complete": {"generate_response": _GENERATED, "prompt_tokens": 7, **_CLIENT},
                "streamed": {**_STREAMED, **_CLIENT},
            },
        ),
        derender(
            COMPLETIONS,
            (CompletionChunk, CompletionChunks),
            {
                "complete": {"generate_responses": [_GENERATED], "prompt_tokens": [7]},
                "streamed": _STREAMED,
            },
        ),
        Operation(
            path="/v1/models",
            method="GET",
            name="list_models",
            tag="Models",
            summary="List the models",
            description="Lists every name that `model` may have in a request.",
            handle=list_models,
            answers=(ModelList,),
        ),
        Operation(
            path="/health",
            method="GET",
            name="health",
            tag="Service",
            summary="Health check",
            description="Answers with an empty body as soon as requests can be answered.",
            handle=_health,
        ),
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


async def _health(_: Request) -> Response:
    return Response()


async def _version(_: Request) -> Response:
    return json_response(Version(version=__version__))


def _derendered(request: Request, answered: Answer) -> Response:
    """Return an answer as JSON, or several chunks as events if the client accepts those."""
    wanted, _, content = answered
    if not isinstance(content, Derendered):
        return json_response(content)
    chunks, state, finished, _ = content
    if isinstance(wanted, StreamRequest) and wanted.generate_chunks is None:
        return json_response({"chunk": chunks[0], "stream_state": state})
    if EVENT_STREAM not in request.headers.get("accept", ""):
        return json_response({"chunks": chunks, "stream_state": state})
    events = [*map(event, chunks), DONE if finished else event(state, STATE)]
    return Response(b"".join(events), media_type=EVENT_STREAM, headers={"cache-control": "no-store"})
