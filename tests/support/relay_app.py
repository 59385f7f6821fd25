"""The relay's application, as the settings of an environment describe it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from derender.models.layer import load_models
from derender.relay import read_relay_settings
from derender.relay.app import create_relay_app
from derender.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI

    from derender.relay import RelaySettings
    from derender.telemetry.observation import Observe

__all__ = ["load_relay"]


def load_relay(
    environment: Mapping[str, str], *, keep_alive: float, max_body_bytes: int, observe: Observe | None
) -> tuple[FastAPI, RelaySettings]:
    """Return the application, and whom it relays to."""
    settings = Settings.from_environment(environment)
    relay = read_relay_settings(settings, environment)
    assert relay is not None
    relay = replace(relay, keep_alive=keep_alive)
    return create_relay_app(load_models(settings), relay, max_body_bytes=max_body_bytes, observe=observe), relay
