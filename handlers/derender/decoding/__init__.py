"""Decoding: token ids become text, up to the stop token or stop string that ended the output.

Pure: imports `vocabulary`, but no HTTP, no settings and no clock.
"""
