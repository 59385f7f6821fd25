"""Compiled vocabularies: the file, its manifest, and the bytes of each token id.

Pure: imports no HTTP, no settings and no clock.
"""

from .file import (
    SUFFIX,
    VersionError,
    VocabularyError,
    dump,
    find_files,
    load,
    read_manifest,
    replace_manifest,
)
from .library import TokenizersError, catch_panics
from .manifest import (
    MAX_GENERATION_PROMPT,
    MAX_LENGTH,
    MAX_SIZE,
    GenerationPrompt,
    Manifest,
    Rule,
    SourceFormat,
    TokenId,
    compute_fingerprint,
)
from .vocabulary import Vocabulary

__all__ = [
    "MAX_GENERATION_PROMPT",
    "MAX_LENGTH",
    "MAX_SIZE",
    "SUFFIX",
    "GenerationPrompt",
    "Manifest",
    "Rule",
    "SourceFormat",
    "TokenId",
    "TokenizersError",
    "VersionError",
    "Vocabulary",
    "VocabularyError",
    "catch_panics",
    "compute_fingerprint",
    "dump",
    "find_files",
    "load",
    "read_manifest",
    "replace_manifest",
]
