"""Read JSON into wire models.

msgspec parses the bytes and pydantic checks the values. msgspec turns logprob entries into structs right
away, so that they never become thousands of dicts; everything else it parses into plain values.
"""

from __future__ import annotations

from functools import cache, reduce
from itertools import islice
from operator import or_
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET
from pydantic import ValidationError

from derender.errors import InvalidRequest

from .base import WireModel
from .json_errors import JSON_ERRORS, describe_json_error
from .logprobs import LogprobEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["read", "read_either"]

_MAX_SHOWN_ERRORS: Final = 5
_FAULTS: Final = frozenset({"assertion_error", "value_error"})
"""Types of pydantic errors that mean a fault in a validator. Validators report clients' errors otherwise."""
_UNION_BRANCHES: Final = frozenset({"int", "constrained-int", "str"})
"""Names that pydantic adds to a field's path to tell the branches of a union apart."""

_MAX_MODELS: Final = 1 << 17
"""Maximum number of wire models in a body, without logprob entries. Each takes a kilobyte."""
_MIN_MODEL_BYTES: Final = 3
"""Length of the shortest model in JSON: `{},`."""
_MAX_CONTAINERS: Final = 1 << 18
"""Maximum number of objects and arrays in a body."""
_BYTES_PER_CONTAINER: Final = 16
"""A large body may have one object or array per so many bytes instead. Logprobs need no more."""
_UNCOUNTED: Final = 2 * 1024 * 1024
"""Objects and arrays are not counted in bodies up to this size. They take at most a hundred megabytes."""

ModelT = TypeVar("ModelT", bound=WireModel)
OtherT = TypeVar("OtherT", bound=WireModel)


def read(model: type[ModelT], body: bytes) -> ModelT:
    """Read a body.

    Args:
        model: The model of the body.
        body: JSON.

    Raises:
        InvalidRequest: The body is not JSON, or a field is missing or has the wrong type. The message names the
            field, not its value.
    """
    return _validate(model, _parse((model,), body))


def read_either(complete: type[ModelT], streamed: type[OtherT], body: bytes) -> ModelT | OtherT:
    """Read a body that is one of two models, depending on its `stream`.

    Args:
        complete: The model if `stream` is not true.
        streamed: The model if `stream` is true.
        body: JSON.

    Raises:
        InvalidRequest: As for `read`.
    """
    parsed = _parse((complete, streamed), body)
    if isinstance(parsed, _Shape) and getattr(parsed, "stream", None) is True:
        return _validate(streamed, parsed)
    return _validate(complete, parsed)


def _parse(models: tuple[type[WireModel], ...], body: bytes) -> Any:
    decoder = _decoder(models)
    if len(body) > _UNCOUNTED:
        containers, allowed = _count_containers(body), max(_MAX_CONTAINERS, len(body) // _BYTES_PER_CONTAINER)
        if containers > allowed:
            raise InvalidRequest(
                f"the body has {containers} objects and arrays, more than a request needs ({allowed})",
                param="body",
            )
    try:
        parsed = decoder.decode(body)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        field = path.rstrip("`").replace("[", ".").replace("]", "").removeprefix(".") or "body"
        raise InvalidRequest(f"{field}: {reason}", param=field) from None
    except JSON_ERRORS as error:
        raise InvalidRequest(f"the body is not JSON: {describe_json_error(error)}", param="body") from None
    if len(body) > _MAX_MODELS * _MIN_MODEL_BYTES and any(islice(_models(parsed), _MAX_MODELS, None)):
        raise InvalidRequest(
            f"the body has more than {_MAX_MODELS} responses, choices and other objects; send several requests",
            param="body",
        )
    return parsed


def _count_containers(body: bytes) -> int:
    return body.count(b"{") + body.count(b"[")


def _validate(model: type[ModelT], parsed: Any) -> ModelT:
    try:
        return model.model_validate(_to_plain(parsed))
    except ValidationError as error:
        raise _invalid_request(error) from None


class _Shape(msgspec.Struct):
    """Base of the structs that msgspec parses wire models into if they contain logprob entries."""


@cache
def _decoder(models: tuple[type[WireModel], ...]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_model_shape(*models))


def _model_shape(*models: type[WireModel]) -> Any:
    """Return the type that msgspec parses a wire model into. For several models it has the fields of all."""
    fields = {name: _shape(field.annotation) for each in models for name, field in each.model_fields.items()}
    if all(shape in (Any, NoneType) for shape in fields.values()):
        return Any
    named = [(name, shape, UNSET) for name, shape in fields.items()]
    return msgspec.defstruct("_or_".join(each.__name__ for each in models), named, bases=(_Shape,))


def _shape(annotation: Any) -> Any:
    """Return the type that msgspec parses a field into: Any, unless it contains logprob entries."""
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


def _models(value: Any) -> Iterator[_Shape]:
    """Yield the shapes in a value, with itself."""
    if isinstance(value, _Shape):
        yield value
        for name in value.__struct_fields__:
            yield from _models(getattr(value, name))
    elif isinstance(value, list) and value and isinstance(value[0], _Shape):
        for item in value:
            yield from _models(item)


def _to_plain(value: Any) -> Any:
    """Turn shapes into dicts for pydantic, without the fields that were not sent."""
    if isinstance(value, _Shape):
        items = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: _to_plain(item) for name, item in items if item is not UNSET}
    if isinstance(value, list) and value and isinstance(value[0], _Shape):
        return [_to_plain(item) for item in value]
    return value


def _invalid_request(error: ValidationError) -> InvalidRequest:
    """Return the error that names the fields that failed validation, without their values."""
    problems = []
    for problem in error.errors(include_url=False, include_input=False):
        if problem["type"] in _FAULTS:
            raise problem["ctx"]["error"]
        field = _field_path(problem["loc"])
        problems.append((field or "body", problem["msg"]))
    message = "; ".join(f"{field}: {text}" for field, text in problems[:_MAX_SHOWN_ERRORS])
    if len(problems) > _MAX_SHOWN_ERRORS:
        message += f"; and {len(problems) - _MAX_SHOWN_ERRORS} more"
    return InvalidRequest(message, param=problems[0][0])


def _field_path(parts: Iterable[int | str]) -> str:
    """Return the path of a field, without the keys of prompt logprobs, which the client chose."""
    shown: list[str] = []
    for part in parts:
        if part in _UNION_BRANCHES:
            continue
        shown.append("*" if isinstance(part, str) and "prompt_logprobs" in shown else str(part))
    return ".".join(shown)
