"""The HTTP application: routes, middleware, request bodies, server-sent events, OpenAPI.

Only `relay` and `cli` import this package. It may import every other room.
"""
