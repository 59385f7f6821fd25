"""The fingerprint of what a vocabulary decodes to."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import pytest

from derender.vocabulary import (
    compute_fingerprint,
)
from tests.support.vocabularies import manifest

PIECES: Final = [b"Hello", b"", b"<end>"]


def test_the_fingerprint_is_the_documented_hash() -> None:
    about = manifest(
        rule="byte-fallback", special_token_ids=(2, 0), byte_token_ids=(1,), strip_leading_space=True
    )
    hashed = (
        b"\x0d\0\0\0byte-fallback\x01\0\0\0\x03\0\0\0"
        b"\x05\0\0\0Hello\0\0\0\0\x05\0\0\0<end>"
        b"\x02\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0"
    )
    assert compute_fingerprint(about, PIECES) == hashlib.sha256(hashed).hexdigest()


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": "byte-fallback"},
        {"special_token_ids": (1,)},
        {"byte_token_ids": (1,)},
        {"strip_leading_space": True},
        {"size": 4},
    ],
)
def test_manifests_that_decode_differently_have_different_fingerprints(changes: dict[str, Any]) -> None:
    assert compute_fingerprint(manifest(**changes), PIECES) != compute_fingerprint(manifest(), PIECES)


@pytest.mark.parametrize(
    "pieces", [[b"Hell", b"o", b"<end>"], [b"Hello", b"<end>", b""], [b"Hello<end>", b"", b""]]
)
def test_other_pieces_have_another_fingerprint(pieces: list[bytes]) -> None:
    assert compute_fingerprint(manifest(), pieces) != compute_fingerprint(manifest(), PIECES)


def test_other_tokenizers_have_another_fingerprint() -> None:
    about = manifest(rule="tokenizers")
    assert compute_fingerprint(about, PIECES, b"{}") != compute_fingerprint(about, PIECES, b"{ }")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "another"},
        {"eos_token_id": None, "stop_token_ids": ()},
        {"source": "elsewhere", "source_format": "tekken", "source_sha256": "0", "source_revision": "1"},
        {"tool_call_parser": "hermes", "max_model_len": 5, "licence": "MIT", "origins": {"size": "a"}},
        {"added_token_ids": (1, 2)},
    ],
)
def test_manifests_that_decode_alike_have_the_same_fingerprint(changes: dict[str, Any]) -> None:
    assert compute_fingerprint(manifest(**changes), PIECES) == compute_fingerprint(manifest(), PIECES)
