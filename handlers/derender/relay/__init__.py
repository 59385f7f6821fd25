"""The relay: calls a generate server for a client and derenders what it generates as it comes (README.md).

Imports any room but `batch`. Its own modules import one way, too: see `tool.importlinter` in pyproject.toml.
"""

from .settings import RelaySettings, Upstream, read_relay_settings

__all__ = ["RelaySettings", "Upstream", "read_relay_settings"]
