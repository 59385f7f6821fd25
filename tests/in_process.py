"""Functions in this process, as the runtime loads and calls them."""

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

from .benchmarks.runtime import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    Function = Callable[[object], dict[str, Any]]
    """Event → response."""

__all__ = ["load_function", "same_logging", "started"]


@contextmanager
def started(environment: Mapping[str, str] | None = None) -> Iterator[Function]:
    """The api function, started with variables.

    It has a thread of its own: the adapter runs on its thread's event loop, which no other test takes away.
    """
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(1, initializer=asyncio.set_event_loop, initargs=(loop,)) as thread:
        with same_logging():
            module = thread.submit(load_function, "api", environment).result()
        yield lambda event: thread.submit(module.handler, event, None).result()
    loop.close()


def load_function(name: str, environment: Mapping[str, str] | None = None) -> ModuleType:
    """A module of `handlers/`, imported anew with variables. It takes over the logging of the process."""
    spec = importlib.util.spec_from_file_location(f"derender_{name}", HANDLERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.dict(os.environ, environment or {}):
        spec.loader.exec_module(module)
    return module


@contextmanager
def same_logging() -> Iterator[None]:
    """Undo what functions set up for their process: afterwards it logs and warns as before."""
    root = logging.getLogger()
    handlers, levels = [*root.handlers], {each: each.level for each in (root, logging.getLogger("derender"))}
    with (
        patch.object(logging, "raiseExceptions", logging.raiseExceptions),
        patch.object(warnings, "showwarning", warnings.showwarning),
    ):
        yield
    root.handlers[:] = handlers
    for logger, level in levels.items():
        logger.setLevel(level)
