"""The models served: vocabularies, and how each is served (names, parsers, limits).

Imports `settings` and the packages below it. Does no HTTP.
"""
