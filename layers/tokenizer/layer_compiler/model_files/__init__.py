"""A model's folder: which files are read, how they are read within limits, what the configuration files say.

Imports only `errors`.
"""
