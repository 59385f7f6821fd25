"""Logprobs: entries that name tokens by id become entries with the tokens' strings and bytes.

Pure: imports `vocabulary`, `decoding` and the wire models, but no HTTP, no settings and no clock.
"""
