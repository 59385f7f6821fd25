"""The wire contract: models of requests and responses, their bounds, and reading and writing them (README.md).

Imports `errors` only.
"""
