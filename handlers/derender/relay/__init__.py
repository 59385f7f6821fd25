"""The relay: calls a generate server for a client and derenders what it generates as it comes (README.md).

May import every package but `batch`. Its modules import one way, too (`tool.importlinter` in pyproject.toml).
"""

from .settings import RelaySettings, Upstream, read_relay_settings

__all__ = ["RelaySettings", "Upstream", "read_relay_settings"]
