"""The fields of requests, from their models, and values of a given size for each."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

import msgspec

from derender.protocol.base import WireModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.support.json_mutations import Place

__all__ = ["Field", "fields", "value"]

X: Final = ord("x")
"""An id whose text is `x`."""
MAX_ID_LENGTH: Final = 256
STOP_STRINGS: Final = 16


class Field(NamedTuple):
    """A field of a request."""

    name: str
    place: Place
    annotation: Any


def fields(model: Any, place: Place = ()) -> Iterator[Field]:
    """Yield the fields of a model and of all models in it, each with its place in a request."""
    if issubclass(model, WireModel):
        found = {name: field.annotation for name, field in model.model_fields.items()}
    else:
        found = {each.encode_name: each.type for each in msgspec.structs.fields(model)}
    for name, annotation in found.items():
        yield Field(name, (*place, name), annotation)
        for inner, steps in _models(annotation):
            yield from fields(inner, (*place, name, *steps))


def _models(annotation: Any, steps: Place = ()) -> Iterator[tuple[type, Place]]:
    """Yield the models in an annotation, and the steps to each."""
    if isinstance(annotation, type) and issubclass(annotation, WireModel | msgspec.Struct):
        yield annotation, steps
    elif get_origin(annotation) is Annotated:
        yield from _models(get_args(annotation)[0], steps)
    else:
        for argument in get_args(annotation):
            yield from _models(argument, (*steps, 0) if get_origin(annotation) is list else steps)


def _objects(size: int) -> dict[str, Any]:
    return {f"k{number}": number for number in range(size)}


VALUES: Final[Mapping[str, Callable[[int], Any] | None]] = {
    # What scales a request (`Scale`), and what has one size.
    "choices": None,
    "generate_chunk": None,
    "generate_chunks": None,
    "generate_responses": None,
    "stream_state": None,
    "data": None,
    "signature": None,
    # Values that must be of a kind.
    "model": None,
    "n": None,
    "max_tokens": None,
    "reasoning_effort": None,
    "tool_choice": None,
    "finish_reason": None,
    "prompt_tokens": None,
    "request_id": lambda size: "r" * min(size, MAX_ID_LENGTH),
    "stop": lambda size: ["x" * (size // STOP_STRINGS) + chr(65 + n) for n in range(STOP_STRINGS)],
    "stop_reason": lambda size: "x" * size + "y",
    "messages": lambda size: [
        {"role": "assistant", "tool_calls": [{"id": f"functions.f:{n}"}]} for n in range(size)
    ],
    "tools": lambda size: [
        {"type": "function", "function": {"name": f"f{n}", "parameters": {"type": "object"}}}
        for n in range(size)
    ],
    "stream_options": _objects,
    "prompt": lambda size: "x" * size,
    "prompt_logprobs": lambda size: [{str(X): {"logprob": -1.0, "rank": 1, "decoded_token": None}}] * size,
    "prompt_tokens_details": lambda size: {"a": {"b": _objects(size)}},
    "completion_tokens_details": lambda size: {"a": {"b": _objects(size)}},
    "content": lambda size: [{"token_id": X, "logprob": -1.0}] * size,
    "top_logprobs": lambda size: [{"token_id": X, "logprob": -1.0}] * size,
    "kv_transfer_params": _objects,
    "ec_transfer_params": _objects,
    "metrics": _objects,
    "routed_experts": lambda size: [1] * size,
    "weight_versions": lambda size: [1] * size,
}
"""By name: a value of a size, or None if the field has none. All others have values by their types."""
SCALARS: Final = (bool, int, float, NoneType)


def value(field: Field, size: int) -> Any:
    """Return a value of a size for a field; None for a field whose values all have one size.

    Raises:
        TypeError: The field is new and of a type without values: add it to `VALUES`.
    """
    if field.name in VALUES and field.annotation is not int:
        make = VALUES[field.name]
        return None if make is None else make(size)
    return _value(field.annotation, size)


def _value(annotation: Any, size: int) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(arguments[0], size)
    if annotation in SCALARS or origin is Literal:
        return None
    if annotation is str:
        return "x" * size
    if origin is dict:
        return _objects(size)
    if origin is list:
        item = arguments[0]
        inner = get_args(item)[0] if get_origin(item) is Annotated else item
        return [X] * size if inner is int else [_value(inner, size)]
    if isinstance(annotation, type) and issubclass(annotation, WireModel | msgspec.Struct):
        return None  # its own fields are tested
    options = [each for each in arguments if each is not NoneType]
    if options:
        return next((made for each in options if (made := _value(each, size)) is not None), None)
    raise TypeError(f"there are no values of {annotation}")
