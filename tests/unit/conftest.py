"""Fixtures of the unit tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer

from derender.http.app import create_app
from derender.vocabulary import load
from tests.support.api_client import Client
from tests.support.compiled import compile_small
from tests.support.models import alone, served
from tests.support.paths import BUNDLED
from tests.support.vocabularies import byte_level, sentence_piece

if TYPE_CHECKING:
    from pathlib import Path

    from derender.models.model import ServedModel
    from derender.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def bytes_vocabulary() -> Vocabulary:
    """Return a byte-level vocabulary."""
    return byte_level()


@pytest.fixture(scope="session")
def stripping_vocabulary() -> Vocabulary:
    """Return a SentencePiece vocabulary that drops a text's first space."""
    return sentence_piece(strip=True)


@pytest.fixture(scope="session")
def spacing_vocabulary() -> Vocabulary:
    """Return a SentencePiece vocabulary that keeps a text's first space."""
    return sentence_piece(strip=False)


@pytest.fixture(scope="session")
def tiny(bytes_vocabulary: Vocabulary) -> ServedModel:
    """Return a model of a byte-level vocabulary with small limits."""
    return served(bytes_vocabulary)


Serve = Callable[["ServedModel"], Client]


@pytest.fixture(scope="session")
def serve() -> Serve:
    """Return a client of an application that serves a model and takes bodies of up to 64 KiB."""
    return lambda model: Client(create_app(alone(model), max_body_bytes=64 * 1024))


@pytest.fixture(scope="session")
def client(serve: Serve, tiny: ServedModel) -> Client:
    """Return a client of an application that serves `tiny`."""
    return serve(tiny)


@pytest.fixture(scope="session")
def bundled() -> Vocabulary:
    """Load the bundled vocabulary, Qwen3."""
    (path,) = BUNDLED.glob("*.vocab")
    return load(path)


@pytest.fixture(scope="session")
def qwen3(tokenizer: Callable[[str], Path]) -> Tokenizer:
    """Load the tokenizer that the bundled vocabulary was compiled from."""
    return Tokenizer.from_file(str(tokenizer("qwen3") / "tokenizer.json"))


Compiled = Callable[[str], tuple["Vocabulary", Tokenizer]]


@pytest.fixture(scope="session")
def compiled() -> Compiled:
    """Compile a small tokenizer by its name. Return the vocabulary and the tokenizer."""
    return compile_small
