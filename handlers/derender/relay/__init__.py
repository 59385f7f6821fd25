"""The relay: calls a generate server for a client and derenders its answer as it comes (README.md).

Imports any room but `batch`. Its layers, from the top: app, routes, streamed and complete, others, upstream,
settings.
"""

from .settings import RelaySettings, Upstream, read_relay_settings

__all__ = ["RelaySettings", "Upstream", "read_relay_settings"]
