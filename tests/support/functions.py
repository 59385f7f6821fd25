"""Lambda functions in this process, loaded and called as the runtime does."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from .paths import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    Function = Callable[[object], dict[str, Any]]
    """Event → response."""

__all__ = ["load_function", "same_logging", "started"]


@contextmanager
def started(environment: Mapping[str, str] | None = None) -> Iterator[Function]:
    """Start the api function with environment variables."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def call(event: object) -> dict[str, Any]:
        # The adapter runs on the thread's event loop, which other tests change.
        asyncio.set_event_loop(loop)
        response: dict[str, Any] = module.handler(event, None)
        return response

    with same_logging():
        module = load_function("api", environment)
    yield call
    loop.close()


def load_function(name: str, environment: Mapping[str, str] | None = None) -> ModuleType:
    """Import a module of `handlers/` anew with environment variables. It takes over the process's logging."""
    spec = importlib.util.spec_from_file_location(f"derender_{name}", HANDLERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.dict(os.environ, environment or {}):
        spec.loader.exec_module(module)
    return module


@contextmanager
def same_logging() -> Iterator[None]:
    """Restore the process's logging and warnings at the end: functions change both."""
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
