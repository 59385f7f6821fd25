"""Operations on models: list them, retrieve one, decode ids with its vocabulary."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import Request, Response  # noqa: TC002 - FastAPI evaluates annotations

from derender.decoding.detokenizer import decode_text
from derender.protocol.detokenize import DetokenizeRequest, DetokenizeResponse
from derender.protocol.limits import check_prompt_token_ids
from derender.protocol.openai.models import Model, ModelList, permission
from derender.protocol.reading import read
from derender.telemetry.observation import AnswerFacts

from .body import read_body
from .observation import note
from .operation import REQUEST_ERRORS, Operation
from .responses import json_response
from .workers import INLINE

if TYPE_CHECKING:
    from derender.models.model import Models
    from derender.models.model_settings import ModelSettings

    from .workers import Run

__all__ = ["model_operations"]


def model_operations(models: Models, *, max_body_bytes: int, run: Run = INLINE) -> list[Operation]:
    """Return the operations on models.

    Args:
        models: The models served.
        max_body_bytes: Maximum size of a request body, after decompression.
        run: Runs the work on a request.
    """
    return [
        _list_operation(models),
        _retrieve_operation(models),
        _detokenize_operation(models, max_body_bytes, run),
    ]


def _list_operation(models: Models) -> Operation:
    async def handle(_: Request) -> Response:
        created = int(time.time())
        data = [_describe(name, settings, created) for settings, _ in models.entries for name in settings.names]
        return json_response(ModelList(data=data))

    return Operation(
        path="/v1/models",
        method="GET",
        name="list_models",
        tag="Models",
        summary="List the models",
        description="Lists every name that requests may use as `model`.",
        handle=handle,
        answers=(ModelList,),
    )


def _retrieve_operation(models: Models) -> Operation:
    async def handle(request: Request) -> Response:
        name = request.path_params["model"]
        return json_response(_describe(name, models.find_settings(name), int(time.time())))

    return Operation(
        path="/v1/models/{model:path}",  # names may contain slashes
        method="GET",
        name="retrieve_model",
        tag="Models",
        summary="Retrieve a model",
        handle=handle,
        parameters={"model": "A name that `GET /v1/models` lists. It may contain slashes."},
        answers=(Model,),
        errors={HTTPStatus.NOT_FOUND: REQUEST_ERRORS[HTTPStatus.NOT_FOUND]},
    )


def _describe(name: str, settings: ModelSettings, created: int) -> Model:
    return Model(
        id=name,
        created=created,
        root=settings.root,
        max_model_len=settings.max_model_len,
        permission=[permission(name, created)],
    )


def _detokenize_operation(models: Models, max_body_bytes: int, run: Run) -> Operation:
    async def handle(request: Request) -> Response:
        content = await read_body(request, max_body_bytes, run)

        def respond() -> tuple[str, Response]:
            body = read(DetokenizeRequest, content)
            model, name = models.find(body.model)
            check_prompt_token_ids("tokens", body.tokens, model.limits)
            return name, json_response(DetokenizeResponse(prompt=decode_text(model.vocabulary, body.tokens)))

        name, response = await run(len(content), respond)
        note(request.scope, lambda: AnswerFacts(model=name))
        return response

    return Operation(
        path="/detokenize",
        method="POST",
        name="detokenize",
        tag="Models",
        summary="Decode token ids",
        description="Decodes the ids of a whole text. There is no `/tokenize`: vocabularies can't encode.",
        handle=handle,
        requests=(DetokenizeRequest,),
        answers=(DetokenizeResponse,),
        examples={"greeting": {"tokens": [9707, 11, 1879, 0]}},
        errors=REQUEST_ERRORS,
    )
