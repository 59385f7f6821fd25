"""The models served: their vocabularies, what requests to them may hold, and which of them a request means."""

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

__all__ = ["ModelEntry", "Models", "RequestedModel", "ServedModel", "StateSeal"]

MOST_LISTED: Final = 20
"""Names that an error lists."""


@dataclass(frozen=True, slots=True)
class StateSeal:
    """What makes a state valid here, and nowhere else.

    Attributes:
        model: Checksum of the vocabulary and of how it is served: a state of another model means nothing here.
        size: Number of ids in the vocabulary.
        keys: Secrets that states are authenticated with. The first one signs; all are accepted, so that a key
            can be changed while generations are streamed. None: states are not signed.
    """

    model: int
    size: int
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A vocabulary under the names that clients use.

    Attributes:
        names: What clients call it; the first is the default.
        vocabulary: Its vocabulary.
        limits: Bounds of a request.
        logprobs: Writes its logprobs.
        parsers: Its parsers, where there are any.
        seal: Makes states of streams valid here only.
        tool_call_deltas: How a stream gives tool calls.
    """

    names: tuple[str, ...]
    vocabulary: Vocabulary
    limits: Limits
    logprobs: LogprobWriter
    parsers: Parsers | None
    seal: StateSeal
    tool_call_deltas: ToolCallDeltas = "fragments"


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """What is known of a model before it is loaded.

    Attributes:
        names: What clients call it; the first is the default.
        root: What its vocabulary calls itself.
        max_model_len: Longest sequence accepted.
        load: The model. Loaded by the first call, kept for all others.
    """

    names: tuple[str, ...]
    root: str
    max_model_len: int
    load: Callable[[], ServedModel]


class RequestedModel(NamedTuple):
    """The model that a request means."""

    model: ServedModel
    name: str
    """The name to answer with."""


@dataclass(frozen=True, slots=True)
class Models:
    """The models served, each loaded when it is first asked for.

    Attributes:
        entries: All, in the order in which they are listed.
        default: The one of requests that name none, if there is one.
    """

    entries: tuple[ModelEntry, ...]
    default: ModelEntry | None

    @property
    def names(self) -> list[str]:
        """All names that requests may use."""
        return [name for entry in self.entries for name in entry.names]

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
            for entry in self.entries:
                if requested in entry.names:
                    return RequestedModel(entry.load(), requested)
            raise _not_found(requested, self.names)
        if self.default is None:
            raise BadRequest(
                "No model is named, and there is no default one. Send `model`, or have DERENDER_MODEL set. "
                f"Valid names: {_listed(self.names)}.",
                param="model",
            )
        return RequestedModel(self.default.load(), self.default.names[0])


def _not_found(requested: str, names: Sequence[str]) -> ModelNotFound:
    return ModelNotFound(
        f"The model `{requested[:100]}` does not exist. Valid names: {_listed(names)}.", param="model"
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f", and {more} more" if more > 0 else "")
