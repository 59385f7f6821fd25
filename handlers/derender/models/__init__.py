"""The models served: vocabularies, and how each is served (names, parsers, limits).

This package may import `settings` and the rooms below it; it does no HTTP.
"""
