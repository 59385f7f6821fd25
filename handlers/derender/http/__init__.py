"""The HTTP application: routes, middleware, request bodies, server-sent events, OpenAPI.

Only `relay`, `cli` and the api function import this package. It may import every package below it.
"""
