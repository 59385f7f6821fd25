"""JSON → wire models, in one pass over the bytes.

pydantic says what is right and what is wrong. Before it looks, msgspec parses: plain values everywhere but
where a model holds logprob entries, which become structs at once and never are thousands of dicts.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET
from pydantic import ValidationError

from derender.errors import InvalidRequest

from .base import WireModel
from .generate import LogprobEntry
from .json_errors import JSON_ERRORS, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["read", "read_either"]

_SHOWN_ERRORS: Final = 5
_FAULTS: Final = frozenset({"assertion_error", "value_error"})
"""What pydantic makes of errors of validators, which have none of these for clients."""
_UNION_BRANCHES: Final = frozenset({"int", "constrained-int", "str"})
"""What pydantic adds to a field's place to tell the types it may have apart."""

_MOST_MODELS: Final = 1 << 18
"""Wire models in a body, logprob entries not counted. Each takes a kilobyte."""
_BYTES_OF_MODEL: Final = 3
"""At least, of JSON: `{},`."""
_MOST_OPENED: Final = 1 << 18
"""Objects and arrays that any body may have. A larger one has one in 16 bytes: no logprobs need more."""
_BYTES_FOR_OPENED: Final = 16
_UNCOUNTED: Final = 2 * 1024 * 1024
"""Bytes of a body that may hold what it likes: it becomes no more than a hundred megabytes."""

ModelT = TypeVar("ModelT", bound=WireModel)
OtherT = TypeVar("OtherT", bound=WireModel)


def read(model: type[ModelT], body: bytes) -> ModelT:
    """Parse and check a body.

    Args:
        model: What it must be.
        body: JSON.

    Raises:
        InvalidRequest: It is no JSON, or a field is missing or of another type; names the field, not its value.
    """
    return _validated(model, _parsed((model,), body))


def read_either(complete: type[ModelT], streamed: type[OtherT], body: bytes) -> ModelT | OtherT:
    """Parse and check a body that is one of two things, as its `stream` says.

    Args:
        complete: What it must be where `stream` is not true.
        streamed: What it must be where it is.
        body: JSON.

    Raises:
        InvalidRequest: As for `read`.
    """
    parsed = _parsed((complete, streamed), body)
    if isinstance(parsed, _Shape) and getattr(parsed, "stream", None) is True:
        return _validated(streamed, parsed)
    return _validated(complete, parsed)


def _parsed(models: tuple[type[WireModel], ...], body: bytes) -> Any:
    decoder = _decoder(models)
    if len(body) > _UNCOUNTED and _opened(body) > max(_MOST_OPENED, len(body) // _BYTES_FOR_OPENED):
        raise InvalidRequest("the body holds more objects and arrays than a request needs", param="body")
    try:
        parsed = decoder.decode(body)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        field = path.rstrip("`").replace("[", ".").replace("]", "").removeprefix(".") or "body"
        raise InvalidRequest(f"{field}: {reason}", param=field) from None
    except JSON_ERRORS as error:
        raise InvalidRequest(f"the body is not JSON: {reason_of(error)}", param="body") from None
    if len(body) > _MOST_MODELS * _BYTES_OF_MODEL and _models_in(parsed) > _MOST_MODELS:
        raise InvalidRequest(
            f"the body holds more than {_MOST_MODELS} responses, choices and the like; send several requests",
            param="body",
        )
    return parsed


def _opened(body: bytes) -> int:
    return body.count(b"{") + body.count(b"[")


def _validated(model: type[ModelT], parsed: Any) -> ModelT:
    try:
        return model.model_validate(_plain(parsed))
    except ValidationError as error:
        raise _invalid_request(error) from None


class _Shape(msgspec.Struct):
    """A wire model that holds logprob entries somewhere below, as msgspec parses it."""


@cache
def _decoder(models: tuple[type[WireModel], ...]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_model_shape(*models))


def _model_shape(*models: type[WireModel]) -> Any:
    """What msgspec is to parse for a wire model, or for one of several: any field of them."""
    fields = {name: _shape(field.annotation) for each in models for name, field in each.model_fields.items()}
    if all(shape in (Any, NoneType) for shape in fields.values()):
        return Any
    named = [(name, shape, UNSET) for name, shape in fields.items()]
    return msgspec.defstruct("_or_".join(each.__name__ for each in models), named, bases=(_Shape,))


def _shape(annotation: Any) -> Any:
    """The type that msgspec is to parse for a pydantic annotation: Any, but for the way to logprob entries."""
    if annotation in (LogprobEntry, NoneType):
        return annotation
    if isinstance(annotation, type) and issubclass(annotation, WireModel):
        return _model_shape(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(arguments[0])
    shapes = [_shape(argument) for argument in arguments]
    if Any in shapes or not shapes:
        return Any
    if origin is list:
        return list[shapes[0]]  # type: ignore[valid-type]
    return reduce(or_, shapes) if origin in (Union, UnionType) else Any


def _models_in(value: Any) -> int:
    """How many shapes a value holds, itself counted."""
    if isinstance(value, _Shape):
        return 1 + sum(_models_in(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, list) and value and isinstance(value[0], _Shape):
        return sum(map(_models_in, value))
    return 0


def _plain(value: Any) -> Any:
    """What pydantic checks: dicts for shapes, without the fields that were not sent."""
    if isinstance(value, _Shape):
        items = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: _plain(item) for name, item in items if item is not UNSET}
    if isinstance(value, list) and value and isinstance(value[0], _Shape):
        return [_plain(item) for item in value]
    return value


def _invalid_request(error: ValidationError) -> InvalidRequest:
    """Name the fields that failed validation, without their values."""
    problems = []
    for problem in error.errors(include_url=False, include_input=False):
        if problem["type"] in _FAULTS:
            raise problem["ctx"]["error"]
        field = _place(problem["loc"])
        problems.append((field or "body", problem["msg"]))
    message = "; ".join(f"{field}: {text}" for field, text in problems[:_SHOWN_ERRORS])
    if len(problems) > _SHOWN_ERRORS:
        message += f"; and {len(problems) - _SHOWN_ERRORS} more"
    return InvalidRequest(message, param=problems[0][0])


def _place(parts: Iterable[int | str]) -> str:
    """The way to a field, without the keys that a client chose: those of prompt logprobs."""
    shown: list[str] = []
    for part in parts:
        if part in _UNION_BRANCHES:
            continue
        shown.append("*" if isinstance(part, str) and "prompt_logprobs" in shown else str(part))
    return ".".join(shown)
