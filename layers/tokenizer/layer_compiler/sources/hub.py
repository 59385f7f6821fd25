"""A tokenizer's files out of a repository of the Hugging Face Hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from layer_compiler.errors import OriginError
from layer_compiler.model_files.filenames import PATTERNS

__all__ = ["ALLOWED", "COMMIT", "IGNORED", "fetch_repository"]

COMMIT: Final = re.compile(r"[0-9a-f]{40}")
"""What a commit's hash looks like."""
ALLOWED: Final = PATTERNS
IGNORED: Final = tuple(pattern.replace("*", "*/*") for pattern in PATTERNS if "*" in pattern)
"""The Hub's wildcards take a slash for any character: without these they find what is in other folders."""


def fetch_repository(repository: str, revision: str | None) -> tuple[Path, str]:
    """Download a repository's tokenizer and configuration files, unless they are in the Hub's cache.

    The token, the cache, the endpoint and whether to stay offline are what `huggingface_hub` says: HF_TOKEN or
    `hf auth login`, HF_HOME, HF_ENDPOINT, HF_HUB_OFFLINE.

    Args:
        repository: `org/name`.
        revision: A commit, tag or branch; by default the main branch.

    Returns:
        Their folder, and the commit that they are of.

    Raises:
        OriginError: They can't be had.
    """
    try:
        import httpx
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError
        from huggingface_hub.utils.tqdm import (
            are_progress_bars_disabled,
            disable_progress_bars,
            enable_progress_bars,
        )
    except ModuleNotFoundError as error:
        raise OriginError(f"{repository}: the Hub needs {error.name}: pip install 'derender[build]'") from None
    quiet = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        folder = Path(
            snapshot_download(
                repository,
                revision=revision,
                allow_patterns=[*ALLOWED],
                ignore_patterns=[*IGNORED],
            )
        )
    except GatedRepoError:
        raise OriginError(
            f"{repository}: its owner has to let you in: accept the terms on its page, then set HF_TOKEN "
            "or run hf auth login"
        ) from None
    except RevisionNotFoundError:
        raise OriginError(f"{repository}: no revision {revision}") from None
    except RepositoryNotFoundError:
        raise OriginError(
            f"{repository}: no such repository on the Hub, or a private one: set HF_TOKEN or run hf auth login"
        ) from None
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise OriginError(f"{repository}: the Hub: {_first_line(error)}") from error
    finally:
        if not quiet:
            enable_progress_bars()
    if not COMMIT.fullmatch(folder.name):
        raise OriginError(f"{repository}: the Hub's cache does not say which commit {folder} is of")
    return folder, folder.name


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
