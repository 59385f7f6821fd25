"""Fetching what lines refer to, ahead of the line that is answered, within bounds."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from derender.batch.errors import LineError
from derender.batch.stores.prefetch import MAX_AHEAD, THREADS, map_ahead
from derender.batch.stores.store import Forbidden, NotFound, Refused, TooLarge

from .requests import read_content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from derender.batch.stores.store import Store

    from .requests import BatchRequest, Reference
    from .split import Line

__all__ = ["CompleteLine", "References"]

MAX_EARLY_BYTES: Final = 2 * 1024 * 1024
"""Maximum bytes of an object that is fetched ahead. A larger one is fetched when its line is answered."""
MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of lines that wait behind a line whose objects are fetched."""


class CompleteLine(NamedTuple):
    """A line, its request, and the contents of what that refers to."""

    line: Line
    request: BatchRequest | LineError
    contents: list[bytes]


class _WaitingLine(NamedTuple):
    line: Line
    request: BatchRequest | LineError
    references: list[Reference]
    early: list[Future[bytes | None]]
    """Contents of the first references."""


class References:
    """Fetches what lines refer to."""

    def __init__(self, open_store: Callable[[], Store], max_bytes: int) -> None:
        """Prepare to fetch.

        Args:
            open_store: Returns the store of the objects. Called only if a line refers to one.
            max_bytes: Maximum bytes of all objects that a line refers to.
        """
        self._open_store = open_store
        self._max_bytes = max_bytes
        self._threads = ThreadPoolExecutor(THREADS)

    def fetch(self, lines: Iterable[tuple[Line, BatchRequest | LineError]]) -> Iterator[CompleteLine]:
        """Yield the lines in order, with what they refer to.

        An object that does not exist or may not be read is an error of its line.

        Raises:
            StoreError: An object can't be read now.
        """
        waiting: deque[_WaitingLine] = deque()
        for line, request in lines:
            references = [] if isinstance(request, LineError) else request.references
            early = [self._threads.submit(self._read_early, name) for name in references[:MAX_AHEAD]]
            waiting.append(_WaitingLine(line, request, references, early))
            while waiting and (not waiting[0].early or _is_full(waiting)):
                yield self._complete(waiting.popleft())
        while waiting:
            yield self._complete(waiting.popleft())

    def _complete(self, waiting: _WaitingLine) -> CompleteLine:
        line, request, references, early = waiting
        try:
            return CompleteLine(line, request, list(self._read_contents(references, early)))
        except LineError as error:
            for future in early:
                future.cancel()
            return CompleteLine(line, LineError(error.code, error.message, request.custom_id), [])

    def _read_contents(self, references: list[Reference], early: list[Future[bytes | None]]) -> Iterator[bytes]:
        found = chain(
            (future.result() for future in early),
            map_ahead(self._threads, self._read_early, references[len(early) :]),
        )
        remaining = self._max_bytes
        try:
            for reference, content in zip(references, found, strict=True):
                if content is None:
                    content = self._open_store().read(reference, max_bytes=self._max_bytes)
                content = read_content(content, remaining)
                remaining -= len(content)
                yield content
        except TooLarge:
            raise LineError(
                "reference_too_large",
                f"a line may refer to at most {self._max_bytes} bytes in all; send fewer candidates or fewer "
                "generations, or raise DERENDER_MAX_BODY_BYTES",
            ) from None
        except NotFound:
            raise LineError("reference_not_found", "a referenced object does not exist") from None
        except Forbidden:
            raise LineError("reference_forbidden", "a referenced object may not be read") from None
        except Refused:
            raise LineError(
                "invalid_reference", "a reference names a bucket or a key that S3 refuses"
            ) from None

    def _read_early(self, reference: Reference) -> bytes | None:
        """Return an object, or None if it is too large to fetch it ahead."""
        try:
            return self._open_store().read(reference, max_bytes=MAX_EARLY_BYTES)
        except TooLarge:
            return None


def _is_full(waiting: deque[_WaitingLine]) -> bool:
    """Return whether no more lines may wait."""
    return (
        len(waiting) >= MAX_AHEAD
        or sum(len(each.early) for each in waiting) >= MAX_AHEAD
        or sum(len(each.line.content or b"") for each in waiting) >= MAX_WAITING_BYTES
    )
