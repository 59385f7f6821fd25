"""Complete generations → responses.

Imports nothing above it: no streaming, no HTTP.
"""
