"""Formats, one file a family."""
