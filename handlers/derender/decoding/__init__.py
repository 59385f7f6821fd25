"""Token ids → text: the detokenizer, and where a stop token or stop string ends an output.

Pure: no HTTP, no settings, no clock.
"""
