"""The models served, and which of them a request means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from derender.errors import BadRequest, ModelNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from derender.logprobs.writer import LogprobWriter
    from derender.parsing import Parsers
    from derender.protocol.limits import Limits
    from derender.settings import ToolCallDeltas
    from derender.vocabulary import Vocabulary

    from .model_settings import ModelSettings

__all__ = ["ModelEntry", "Models", "RequestedModel", "ServedModel", "StateSeal"]

MAX_LISTED: Final = 20
"""Maximum number of names that an error lists."""


@dataclass(frozen=True, slots=True)
class StateSeal:
    """What ties a stream state to a model.

    Attributes:
        model: Checksum of the vocabulary and of how it is served. A state of another model is refused.
        size: Number of ids in the vocabulary.
        keys: Keys that authenticate states. The first signs. All are accepted, so that a key can be rotated
            while generations are streamed. Without keys, states are not signed.
    """

    model: int
    size: int
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A vocabulary and how it is served.

    Attributes:
        vocabulary: The vocabulary.
        limits: Bounds on requests.
        logprobs: Writes logprobs.
        parsers: The parsers, if any.
        seal: Ties the states of streams to this model.
        tool_call_deltas: How a stream delivers tool calls.
    """

    vocabulary: Vocabulary
    limits: Limits
    logprobs: LogprobWriter
    parsers: Parsers | None
    seal: StateSeal
    tool_call_deltas: ToolCallDeltas = "fragments"


class ModelEntry(NamedTuple):
    """A model that may not be loaded yet."""

    settings: ModelSettings
    load: Callable[[], ServedModel]
    """Returns the model. The first call loads it."""


class RequestedModel(NamedTuple):
    """The model that a request means."""

    model: ServedModel
    name: str
    """The name to answer with."""


@dataclass(frozen=True, slots=True)
class Models:
    """The models served, each loaded when a request first needs it.

    Attributes:
        entries: All models, in the order in which they are listed.
        default: The model of requests that name none, if there is one.
    """

    entries: tuple[ModelEntry, ...]
    default: ModelEntry | None

    @property
    def names(self) -> list[str]:
        """All names that requests may use."""
        return [name for entry in self.entries for name in entry.settings.names]

    def find_settings(self, name: str) -> ModelSettings:
        """Find how the model with a name is served, without loading it.

        Raises:
            ModelNotFound: No model has the name.
        """
        return self._find_entry(name).settings

    def find(self, requested: str | None, client: object = None) -> RequestedModel:
        """Find the model that a request means.

        Args:
            requested: The name in the request, if it has one.
            client: The name in the client's own request. It counts if the request has none, unless no model has
                this name: a gateway may have names of its own.

        Raises:
            ModelNotFound: No model has the requested name.
            BadRequest: The request names no model, and there is no default.
            InternalError: The model can't be loaded.
        """
        if not requested and client in self.names:
            requested = str(client)
        if requested:
            return RequestedModel(self._find_entry(requested).load(), requested)
        if self.default is None:
            raise BadRequest(
                "The request names no model, and there is no default. Send `model`, or set DERENDER_MODEL. "
                f"Valid names: {_list_names(self.names)}.",
                param="model",
            )
        return RequestedModel(self.default.load(), self.default.settings.names[0])

    def _find_entry(self, name: str) -> ModelEntry:
        for entry in self.entries:
            if name in entry.settings.names:
                return entry
        raise ModelNotFound(
            f"The model `{name[:100]}` does not exist. Valid names: {_list_names(self.names)}.", param="model"
        )


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f", and {more} more" if more > 0 else "")
