"""Packs a layer and publishes it in AWS.

Imports only `errors` and derender.
"""
