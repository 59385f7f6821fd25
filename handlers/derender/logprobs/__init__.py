"""Logprob entries by token id → token strings and bytes.

Pure: no HTTP, no settings, no clock.
"""
