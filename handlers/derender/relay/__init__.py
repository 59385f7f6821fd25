"""The relay: one request to a generate server for each generation, derendered while it comes (README.md)."""

from .upstreams import Relay, Upstream

__all__ = ["Relay", "Upstream"]
