"""Fetch a model's files from the Hugging Face Hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from layer_compiler.errors import LayerError, explain_missing_package, first_line
from layer_compiler.model_files.filenames import PATTERNS

__all__ = ["COMMIT", "IGNORED", "fetch_repository"]

COMMIT: Final = re.compile(r"[0-9a-f]{40}")
IGNORED: Final = tuple(pattern.replace("*", "*/*") for pattern in PATTERNS if "*" in pattern)
"""Wildcards on the Hub match slashes too. Without these, `PATTERNS` would find files in other folders."""


def fetch_repository(repository: str, revision: str | None) -> tuple[Path, str]:
    """Download a repository's tokenizer and configuration files, unless they are in the Hub's cache.

    `huggingface_hub` decides about the token (HF_TOKEN or `hf auth login`), the cache (HF_HOME), the endpoint
    (HF_ENDPOINT) and offline use (HF_HUB_OFFLINE).

    Args:
        repository: `org/name`.
        revision: A commit, tag or branch; the default is the main branch.

    Returns:
        The files' folder and commit.

    Raises:
        LayerError: The files can't be fetched.
    """
    with explain_missing_package(repository):
        import httpx
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError
        from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars
    disable_progress_bars()
    try:
        folder = snapshot_download(
            repository, revision=revision, allow_patterns=[*PATTERNS], ignore_patterns=[*IGNORED]
        )
    except GatedRepoError:
        raise LayerError(
            f"{repository}: access is restricted: accept the terms on its page, then set HF_TOKEN "
            "or run hf auth login"
        ) from None
    except RevisionNotFoundError:
        raise LayerError(f"{repository}: no revision {revision}") from None
    except RepositoryNotFoundError:
        raise LayerError(
            f"{repository}: not on the Hub, or private: set HF_TOKEN or run hf auth login"
        ) from None
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise LayerError(f"{repository}: the Hub: {first_line(error)}") from error
    finally:
        enable_progress_bars()
    commit = Path(folder).name
    if not COMMIT.fullmatch(commit):
        raise LayerError(f"{repository}: the Hub's cache does not say the commit of {folder}")
    return Path(folder), commit
