"""Reads a model's folder: which files, within which limits, and what the configuration files say.

Imports only `errors`.
"""
