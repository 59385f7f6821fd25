"""Formats of tool calls and reasoning, one module per family. Imports `engine`, `patterns` and `arguments`."""
