"""The start of a function: log lines, settings, models, and no garbage collection.

Import this module before all others. What a function imports and loads at its start stays for good, so the
garbage collector is off until the start is done, and never looks at any of it afterwards.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from derender.models.model import Models
    from derender.settings import Settings

__all__ = ["Loaded", "start"]

gc.disable()


class Loaded(NamedTuple):
    """What every function loads."""

    settings: Settings
    models: Models


@contextmanager
def start(function: str) -> Iterator[Loaded]:
    """Start a function: configure its log lines, load settings and models, and run the block.

    If a setting can't be used, the process exits with one line that names it.

    Args:
        function: Name of the function.

    Yields:
        The settings and the models.
    """
    # Imported here, after the garbage collector is off.
    from derender.models.layer import load_models
    from derender.settings import Settings, SettingsError
    from derender.telemetry.log_lines import configure_logging

    try:
        configure_logging(function)
        settings = Settings.from_environment(os.environ)
        yield Loaded(settings, load_models(settings))
    except SettingsError as error:
        sys.exit(f"derender: {error}")
    gc.freeze()
    gc.enable()
