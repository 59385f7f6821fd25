"""The HTTP application: routes, request bodies, compression, server-sent events, OpenAPI.

Everything about HTTP lives here and in `relay`; nothing below this package imports it.
"""
