"""Compiled vocabularies: the file, its manifest, and token id → bytes.

Pure: no HTTP, no settings, no clock.
"""

from .file import SUFFIX, VersionError, VocabularyError, dump, files, load, read_manifest, with_manifest
from .library import TokenizersError, catch_panics
from .manifest import MAX_LENGTH, MAX_SIZE, Manifest, Rule, SourceFormat, fingerprint
from .vocabulary import Vocabulary

__all__ = [
    "MAX_LENGTH",
    "MAX_SIZE",
    "SUFFIX",
    "Manifest",
    "Rule",
    "SourceFormat",
    "TokenizersError",
    "VersionError",
    "Vocabulary",
    "VocabularyError",
    "catch_panics",
    "dump",
    "files",
    "fingerprint",
    "load",
    "read_manifest",
    "with_manifest",
]
