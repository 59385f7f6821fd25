"""The relay: one request to a generate server for each generation, derendered while it comes (README.md)."""

from .upstreams import Relay, Upstream, read_relay

__all__ = ["Relay", "Upstream", "read_relay"]
