"""What servers call the models: the names that their `/v1/models` lists, asked when a request needs one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from anyio import Lock

from derender.errors import BadGateway, DerenderError
from derender.protocol.base import Json, WireModel
from derender.protocol.reading import read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..servers import Server

__all__ = ["Listing", "ModelNames", "read_listing"]


class Listing(NamedTuple):
    """The names that a server lists."""

    names: frozenset[str] = frozenset()
    bases: tuple[str, ...] = ()
    """A name of each model, without adapters: names with the same root are of the same model."""

    def choose(self, wanted: str) -> str | None:
        """Return the name to use for a model: the wanted one if the server has it, or else the server's own.

        Returns:
            The name, or None if the server lists none.

        Raises:
            BadGateway: The server has several models, and none has the wanted name.
        """
        if wanted in self.names:
            return wanted
        if len(self.bases) > 1:
            raise BadGateway(
                f"the server has {len(self.bases)} models, and none by the name of the requested one; set its "
                "served_model_name"
            )
        return self.bases[0] if self.bases else None


class ModelNames:
    """Knows what each server calls the models. Asks each once, and again if it does not know a name."""

    def __init__(self, ask: Callable[[Server], Awaitable[Listing]]) -> None:
        """Ask nothing yet.

        Args:
            ask: Asks a server what it lists.
        """
        self._ask = ask
        self._listings: dict[Server, Listing] = {}
        self._locks: defaultdict[Server, Lock] = defaultdict(Lock)

    async def find(self, server: Server, wanted: str) -> str | None:
        """Return what a server calls a model; None if only the client may know.

        Args:
            server: The server.
            wanted: The name that the client uses.

        Raises:
            DerenderError: The server can't be asked, or has several models.
        """
        return server.served_model_name or (await self._list(server, None)).choose(wanted)

    async def find_again(self, server: Server, wanted: str, failed: str | None) -> str | None:
        """Return what a server calls a model, which does not know the name that was found.

        Args:
            server: The server.
            wanted: The name that the client uses.
            failed: The name that was found.

        Raises:
            DerenderError: As for `find`.
        """
        listing = self._listings.get(server)
        if listing is not None and listing.choose(wanted) == failed:
            await self._list(server, listing)
        return await self.find(server, wanted)

    async def _list(self, server: Server, outdated: Listing | None) -> Listing:
        """Return what a server lists. Requests that need it at the same time share the answer."""
        listing = self._listings.get(server)
        if listing is outdated:
            async with self._locks[server]:
                listing = self._listings.get(server)
                if listing is outdated:
                    listing = self._listings[server] = await self._ask(server)
        assert listing is not None
        return listing


class _Listed(WireModel):
    id: str
    root: Json = None
    parent: Json = None


class _ModelList(WireModel):
    data: list[_Listed]


def read_listing(server: str, content: bytes) -> Listing:
    """Read the response of `/v1/models`.

    Args:
        server: What messages call the server.
        content: The response.

    Raises:
        BadGateway: The response is something else.
    """
    try:
        models = read(_ModelList, content).data
    except DerenderError as error:
        raise BadGateway(f"the /v1/models of {server} is not a list of models", quoting=error.message) from None
    bases = {str(model.root or model.id): model.id for model in reversed(models) if model.parent is None}
    return Listing(frozenset(model.id for model in models), tuple(bases.values()))
