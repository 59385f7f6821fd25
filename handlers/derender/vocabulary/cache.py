"""A cache of values that follow from the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Cache"]

K = TypeVar("K")
V = TypeVar("V")


class Cache(dict[K, V]):
    """A dict that computes missing values. When it is full it forgets all of them.

    Use it for values that follow from the vocabulary alone, never for anything that a request contains.

    Args:
        compute: Computes the value of a key.
        capacity: Maximum number of values.
    """

    def __init__(self, compute: Callable[[K], V], capacity: int) -> None:
        super().__init__()
        self._compute = compute
        self._capacity = capacity

    def __missing__(self, key: K) -> V:
        value = self._compute(key)
        if len(self) >= self._capacity:
            self.clear()
        self[key] = value
        return value
