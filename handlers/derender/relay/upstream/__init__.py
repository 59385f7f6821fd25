"""Calls to upstreams over HTTP: generate servers and the render service.

Imports `errors`, `http.sse`, `telemetry` and nothing else of the relay.
"""
