"""Fixtures of the unit tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
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

settings.register_profile("unit", deadline=None, max_examples=100)
settings.load_profile("unit")


@pytest.fixture(scope="session")
def bytes_vocabulary() -> Vocabulary:
    """`support.BYTE_LEVEL`."""
    return byte_level()


@pytest.fixture(scope="session")
def stripping_vocabulary() -> Vocabulary:
    """`support.SENTENCE_PIECE` that drops a text's first space."""
    return sentence_piece(strip=True)


@pytest.fixture(scope="session")
def spacing_vocabulary() -> Vocabulary:
    """`support.SENTENCE_PIECE` that keeps a text's first space."""
    return sentence_piece(strip=False)


@pytest.fixture(scope="session")
def tiny(bytes_vocabulary: Vocabulary) -> ServedModel:
    """`support.BYTE_LEVEL` behind small limits."""
    return served(bytes_vocabulary)


Serve = Callable[["ServedModel"], Client]


@pytest.fixture(scope="session")
def serve() -> Serve:
    """Model → the application behind the Lambda adapter, with bodies of at most 64 KiB."""

    def serving(model: ServedModel) -> Client:
        app = create_app(alone(model), max_body_bytes=64 * 1024)
        return Client(app)

    return serving


@pytest.fixture(scope="session")
def client(serve: Serve, tiny: ServedModel) -> Client:
    """Serves `support.BYTE_LEVEL`."""
    return serve(tiny)


@pytest.fixture(scope="session")
def bundled() -> Vocabulary:
    """The vocabulary that comes with the project: Qwen3."""
    (path,) = BUNDLED.glob("*.vocab")
    return load(path)


@pytest.fixture(scope="session")
def qwen3(tokenizer: Callable[[str], Path]) -> Tokenizer:
    """The tokenizer that the bundled vocabulary was compiled from."""
    return Tokenizer.from_file(str(tokenizer("qwen3") / "tokenizer.json"))


Compiled = Callable[[str], tuple["Vocabulary", Tokenizer]]


@pytest.fixture(scope="session")
def compiled() -> Compiled:
    """Name of a small tokenizer → what it compiles to, and the tokenizer."""
    return compile_small
