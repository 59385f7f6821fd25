"""The models that are served: which vocabulary, names, parsers and limits each has."""
