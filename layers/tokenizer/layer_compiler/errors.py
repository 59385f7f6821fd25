"""Why a layer can't be built."""

__all__ = ["BuildError"]


class BuildError(ValueError):
    """The tokenizer can't be compiled; nothing was written. The message says what to change."""
