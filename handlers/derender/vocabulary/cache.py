"""A dict that makes what it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Memo"]

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """Key → value, made when first asked for; forgets all when it is full.

    For what follows from the vocabulary alone, never for what a request says.

    Args:
        make: The value of a key.
        capacity: How many values are kept.
    """

    def __init__(self, make: Callable[[K], V], capacity: int) -> None:
        super().__init__()
        self._make = make
        self._capacity = capacity

    def __missing__(self, key: K) -> V:
        value = self._make(key)
        if len(self) >= self._capacity:
            self.clear()
        self[key] = value
        return value
