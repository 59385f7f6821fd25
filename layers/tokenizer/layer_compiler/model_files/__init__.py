"""A model's folder: its files, how to read them within limits, and its configuration.

Imports only `errors`.
"""
