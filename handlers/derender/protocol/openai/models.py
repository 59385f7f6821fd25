"""The models, and the version of the server."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, WithJsonSchema

from ..base import WireModel
from .usage import NULL

__all__ = ["Model", "ModelList", "Permission", "Version", "permission"]


_PERMISSION: Final[dict[str, Any]] = {
    "object": "model_permission",
    "allow_create_engine": False,
    "allow_sampling": True,
    "allow_logprobs": True,
    "allow_search_indices": False,
    "allow_view": True,
    "allow_fine_tuning": False,
    "organization": "*",
    "group": None,
    "is_blocking": False,
}
"""What vLLM says of every model."""
_PERMISSION_PROPERTIES: Final = {
    "id": {"type": "string", "description": "`modelperm-` and the name of the model."},
    "created": {"type": "integer", "description": "Unix time of this response, in seconds."},
    **{name: {"const": value, "description": "Constant."} for name, value in _PERMISSION.items()},
}
# A dict, not a model: the start of a process would pay for a class that nothing reads.
Permission = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {"type": "object", "required": [*_PERMISSION_PROPERTIES], "properties": _PERMISSION_PROPERTIES}
    ),
]


def permission(name: str, created: int) -> Permission:
    """Return what clients may do with a model, as vLLM does.

    Args:
        name: Name of the model.
        created: Unix time in seconds.
    """
    return {"id": f"modelperm-{name}", "created": created, **_PERMISSION}


class Model(WireModel):
    """The response of `GET /v1/models/{model}`: a model name that requests may use."""

    id: str = Field(description="The name.")
    object: Literal["model"] = Field(default="model", description="Always `model`.")
    created: int = Field(description="Unix time of this response, in seconds.")
    owned_by: Literal["derender"] = Field(default="derender", description="Always `derender`.")
    root: str = Field(description="Name of the model's vocabulary.")
    parent: None = Field(default=None, description=NULL)
    max_model_len: int = Field(description="Maximum length of a sequence in tokens.")
    permission: list[Permission] = Field(description="What clients may do with it, as in vLLM.")


class ModelList(WireModel):
    """The response of `GET /v1/models`."""

    object: Literal["list"] = Field(default="list", description="Always `list`.")
    data: list[Model] = Field(description="The names.")


class Version(WireModel):
    """The response of `GET /version`."""

    version: str = Field(description="The version of derender.", examples=["0.1.0"])
