"""Calls to upstreams over HTTP: generate servers and the render service.

Of the relay it imports `servers` and `settings`.
"""
