"""Turn the token ids of a disaggregated language model into OpenAI responses.

    import time

    from derender import CHAT, Settings, answer, load_models

    models = load_models(Settings())
    body = b'''{
        "generate_response": {"choices": [{"index": 0, "token_ids": [9707, 11, 1879, 0]}]},
        "chat_request": {"messages": []}
    }'''
    print(answer(CHAT, models, body, int(time.time())).content.choices[0].message.content)

The names in `__all__` are the public interface. Each is imported when it is first used. Everything else may
change in any release.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .endpoints import CHAT, COMPLETIONS, Answer, Endpoint, answer
    from .errors import (
        BadGateway,
        BadRequest,
        DerenderError,
        ForeignOrigin,
        GatewayTimeout,
        InternalError,
        InvalidRequest,
        ModelNotFound,
        RequestTooLarge,
        ResponseTooLarge,
        UnsupportedEncoding,
        UnsupportedType,
        UpstreamNotFound,
        UpstreamRefusal,
    )
    from .http.app import create_app
    from .models.layer import load_models
    from .models.model import Models
    from .relay import RelaySettings, Upstream, read_relay_settings
    from .relay.app import create_relay_app
    from .settings import PerModel, Settings, SettingsError

__all__ = [
    "CHAT",
    "COMPLETIONS",
    "Answer",
    "BadGateway",
    "BadRequest",
    "DerenderError",
    "Endpoint",
    "ForeignOrigin",
    "GatewayTimeout",
    "InternalError",
    "InvalidRequest",
    "ModelNotFound",
    "Models",
    "PerModel",
    "RelaySettings",
    "RequestTooLarge",
    "ResponseTooLarge",
    "Settings",
    "SettingsError",
    "UnsupportedEncoding",
    "UnsupportedType",
    "Upstream",
    "UpstreamNotFound",
    "UpstreamRefusal",
    "__version__",
    "answer",
    "create_app",
    "create_relay_app",
    "load_models",
    "read_relay_settings",
]

__version__ = "0.1.0"

_MODULES: Final = {
    "endpoints": ("CHAT", "COMPLETIONS", "Answer", "Endpoint", "answer"),
    "http.app": ("create_app",),
    "models.layer": ("load_models",),
    "models.model": ("Models",),
    "relay": ("RelaySettings", "Upstream", "read_relay_settings"),
    "relay.app": ("create_relay_app",),
    "settings": ("PerModel", "Settings", "SettingsError"),
}
"""Modules of public names. The others are in `errors`."""


if not TYPE_CHECKING:  # pragma: no branch - type checkers see the imports above

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = next((module for module, names in _MODULES.items() if name in names), "errors")
        return getattr(import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
