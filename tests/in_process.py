"""The api function in this process, as the runtime loads and calls it."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ..benchmarks.runtime import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    Function = Callable[[object], dict[str, Any]]
    """Event → response."""

__all__ = ["load_api", "started"]


@contextmanager
def started(environment: Mapping[str, str] | None = None) -> Iterator[Function]:
    """The function, started with variables.

    It has a thread of its own: the adapter runs on its thread's event loop, which no other test takes away.
    """
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(1, initializer=asyncio.set_event_loop, initargs=(loop,)) as thread:
        module = thread.submit(load_api, environment or {}).result()
        yield lambda event: thread.submit(module.handler, event, None).result()
    loop.close()


def load_api(environment: Mapping[str, str]) -> ModuleType:
    """`handlers/api.py`, imported anew with variables. The process logs and warns as before."""
    spec = importlib.util.spec_from_file_location("derender_api", HANDLERS / "api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    root, own = logging.getLogger(), logging.getLogger("derender")
    levels, handlers = (root.level, own.level), root.handlers[:]
    with (
        patch.dict(os.environ, environment),
        patch.object(logging, "raiseExceptions", logging.raiseExceptions),
        patch.object(warnings, "showwarning", warnings.showwarning),
    ):
        spec.loader.exec_module(module)
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])
    return module
