"""Compiles tokenizers into the vocabularies that derender maps.

    build(folder, name, out) → Built(path, proof, unknown)

Reads a tokenizer of any format that models come with (`formats`), turns each id into bytes by one of two rules,
proves on every id, a corpus and random sequences that this decodes as the format's own library does, and only
then writes.
"""

from .building.vocabulary import Built, build
from .errors import BuildError

__all__ = ["BuildError", "Built", "build"]
