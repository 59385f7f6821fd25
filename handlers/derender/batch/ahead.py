"""Reading ahead: what is needed next is fetched while what is here is worked on, within bounds."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from .errors import LineError
from .requests import read_content
from .stores import Forbidden, NotFound, Refused, TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .lines import Line
    from .requests import BatchRequest, Reference
    from .stores import Store

__all__ = ["AHEAD", "AT_ONCE", "Ready", "References", "map_ahead"]

T = TypeVar("T")
U = TypeVar("U")

AT_ONCE: Final = 16
"""Objects that are read at the same time."""
AHEAD: Final = 32
"""Objects, and lines, that are waited for or kept."""
MOST_EARLY: Final = 2 * 1024 * 1024
"""Bytes of an object that is kept for later. A larger one is read when its turn comes."""
MOST_LINES: Final = 16 * 1024 * 1024
"""Bytes of lines that wait behind one whose objects are read."""


def map_ahead(
    threads: ThreadPoolExecutor, function: Callable[[T], U], items: Iterable[T], *, ahead: int = AHEAD
) -> Iterator[U]:
    """What a function makes of each item, in order; at most `ahead` are computed and kept."""
    waiting: deque[Future[U]] = deque()
    for item in items:
        waiting.append(threads.submit(function, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


class Ready(NamedTuple):
    """A line, what it asks for, and what that refers to."""

    line: Line
    request: BatchRequest | LineError
    contents: list[bytes]


class _Waiting(NamedTuple):
    line: Line
    request: BatchRequest | LineError
    references: list[Reference]
    early: list[Future[bytes | None]]
    """The first of what they refer to."""


class References:
    """Fetches what lines refer to.

    Args:
        store: Where it is, made when it is first asked for.
        most: Most bytes that a line may refer to.
    """

    def __init__(self, store: Callable[[], Store], most: int) -> None:
        self._store = store
        self._most = most
        self._threads = ThreadPoolExecutor(AT_ONCE)

    def fetch(self, lines: Iterable[tuple[Line, BatchRequest | LineError]]) -> Iterator[Ready]:
        """The lines in their order, with what they refer to.

        Raises:
            StoreError: Something can't be read now. What is not there, or not allowed, is an error of its line.
        """
        waiting: deque[_Waiting] = deque()
        for line, request in lines:
            references = [] if isinstance(request, LineError) else request.references
            early = [self._threads.submit(self._read_early, name) for name in references[:AHEAD]]
            waiting.append(_Waiting(line, request, references, early))
            while waiting and (not waiting[0].early or _is_enough(waiting)):
                yield self._ready(waiting.popleft())
        while waiting:
            yield self._ready(waiting.popleft())

    def _ready(self, waiting: _Waiting) -> Ready:
        line, request, references, early = waiting
        try:
            return Ready(line, request, list(self._contents(references, early)))
        except LineError as error:
            for each in early:
                each.cancel()
            return Ready(line, LineError(error.code, error.message, request.custom_id), [])

    def _contents(self, references: list[Reference], early: list[Future[bytes | None]]) -> Iterator[bytes]:
        found = chain(
            (future.result() for future in early),
            map_ahead(self._threads, self._read_early, references[len(early) :]),
        )
        left = self._most
        try:
            for reference, content in zip(references, found, strict=True):
                if content is None:
                    content = self._store().read(reference, most=self._most)
                content = read_content(content, left)
                left -= len(content)
                yield content
        except TooLarge:
            raise LineError(
                "reference_too_large",
                f"what the line refers to is larger than {self._most} bytes in all; send fewer candidates or "
                "fewer generations, or raise DERENDER_MAX_BODY_BYTES",
            ) from None
        except NotFound:
            raise LineError("reference_not_found", "what is referred to is not there") from None
        except Forbidden:
            raise LineError("reference_forbidden", "what is referred to may not be read") from None
        except Refused:
            raise LineError(
                "invalid_reference", "S3 has no such buckets or keys as what is referred to"
            ) from None

    def _read_early(self, reference: Reference) -> bytes | None:
        """What is referred to; None for what is read when its turn comes."""
        try:
            return self._store().read(reference, most=MOST_EARLY)
        except TooLarge:
            return None


def _is_enough(waiting: deque[_Waiting]) -> bool:
    """Whether no more is read ahead."""
    return (
        len(waiting) >= AHEAD
        or sum(len(each.early) for each in waiting) >= AHEAD
        or sum(len(each.line.content or b"") for each in waiting) >= MOST_LINES
    )
