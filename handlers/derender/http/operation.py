"""Operations: routes together with their description in the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from fastapi import Request, Response

    from derender.protocol.base import WireModel

__all__ = ["REQUEST_ERRORS", "Event", "Operation"]

Event = tuple[str, "type[WireModel]"]
"""A server-sent event: its type (`message` by default) and the model of its data."""

REQUEST_ERRORS: Final = {
    HTTPStatus.BAD_REQUEST: "The request is malformed or out of bounds.",
    HTTPStatus.NOT_FOUND: "The model does not exist.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large, or the answer exceeds what Lambda can return.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body has a content encoding other than gzip.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Internal error.",
}
"""Errors of every operation that reads a request body."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A route and what the OpenAPI document says about it.

    Attributes:
        path: The path. Its parameters are written as Starlette does.
        method: The HTTP method.
        name: The `operationId`.
        tag: The group that the document lists it in.
        summary: A few words.
        description: Sentences, in Markdown.
        handle: Answers a request.
        parameters: Parameter of the path → its description.
        requests: Models of the request body; it may be any one of them.
        answers: Models of the JSON response; it may be any one of them.
        events: Server-sent events of the response, if the client accepts those.
        examples: Name → request body.
        errors: Status → when the operation answers with it.
    """

    path: str
    method: Literal["GET", "POST"]
    name: str
    tag: str
    summary: str
    description: str = ""
    handle: Callable[[Request], Awaitable[Response]]
    parameters: Mapping[str, str] = field(default_factory=dict)
    requests: tuple[type[WireModel], ...] = ()
    answers: tuple[type[WireModel], ...] = ()
    events: tuple[Event, ...] = ()
    examples: Mapping[str, object] = field(default_factory=dict)
    errors: Mapping[HTTPStatus, str] = field(default_factory=dict)
