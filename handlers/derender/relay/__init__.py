"""The relay: calls a generate server for a client and derenders what it generates as it comes (README.md).

May import every package but `batch`. Its modules import one way, too (`tool.importlinter` in pyproject.toml).
"""

from .servers import Server, Upstream, read_server
from .settings import RelaySettings, read_relay_settings

__all__ = ["RelaySettings", "Server", "Upstream", "read_relay_settings", "read_server"]
