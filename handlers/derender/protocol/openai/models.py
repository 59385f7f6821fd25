"""The list of models, and the version of the server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..base import WireModel
from .usage import NULL

__all__ = ["Model", "ModelList", "Version"]


class Model(WireModel):
    """A model name that requests may use."""

    id: str = Field(description="The name.")
    object: Literal["model"] = Field(default="model", description="Always `model`.")
    created: int = Field(description="Unix time of this response, in seconds.")
    owned_by: Literal["derender"] = Field(default="derender", description="Always `derender`.")
    root: str = Field(description="Name of the model's vocabulary.")
    parent: None = Field(default=None, description=NULL)
    max_model_len: int = Field(description="Maximum length of a sequence in tokens.")


class ModelList(WireModel):
    """The response of `GET /v1/models`."""

    object: Literal["list"] = Field(default="list", description="Always `list`.")
    data: list[Model] = Field(description="The names.")


class Version(WireModel):
    """The response of `GET /version`."""

    version: str = Field(description="The version of derender.", examples=["0.1.0"])
