"""Real tokenizers and the layers compiled from them, made once for all processes and kept between runs.

A folder in `.cache` is named by a hash of what it was made from, so a change of a source makes it anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec
from unittest.mock import patch

import tokenizers

import derender
import layer_compiler
from derender.vocabulary import load
from fetch import fetch, lock

from .environment import inherited
from .paths import CACHE
from .small_tokenizers import SMALL_TOKENIZERS, write_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tokenizers import Tokenizer

    from derender.vocabulary import Vocabulary

Arguments = ParamSpec("Arguments")

__all__ = ["PEER_DEEPSEEK", "cached_folder", "compile_small", "compiled_layer", "tokenizer_folder"]

PEER_DEEPSEEK: Final = "deepseek_v3_peer"
"""DeepSeek V3 as the peer loaded it: with the decoder of a SentencePiece tokenizer."""
SENTENCE_PIECE: Final = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ],
}
PACKAGES: Final = ("decoding", "errors", "parsing", "protocol", "vocabulary")
"""Packages and modules of `derender` that compiling uses."""


def _remember(make: Callable[Arguments, Path]) -> Callable[Arguments, Path]:
    """Call a function once for each value, as `functools.cache` does, and remember failures too.

    Without it, each of thousands of tests would wait for the same download to fail.
    """
    outcomes: dict[object, Path | Exception] = {}

    @wraps(make)
    def remembered(*arguments: Arguments.args, **named: Arguments.kwargs) -> Path:
        key = (arguments, frozenset(named.items()))
        if key not in outcomes:
            try:
                outcomes[key] = make(*arguments, **named)
            except Exception as error:
                outcomes[key] = error
        outcome = outcomes[key]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return remembered


def cached_folder(parent: Path, sources: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """Return a folder made from some files, making it unless an earlier process did.

    Args:
        parent: Folder of the versions; older ones are removed.
        sources: Files that the content depends on.
        make: Writes the content into a folder that does not exist yet.
    """
    current = parent / _digest(sources)
    with lock(parent):
        if not current.is_dir():
            with tempfile.TemporaryDirectory(dir=parent, prefix=".") as work:
                make(Path(work, parent.name))
                for stale in parent.glob("[!.]*"):
                    shutil.rmtree(stale)
                Path(work, parent.name).rename(current)
    return current


@_remember
def tokenizer_folder(name: str) -> Path:
    """Return the folder of a tokenizer that `fetch` knows, or of `PEER_DEEPSEEK`; download it if needed."""
    if name != PEER_DEEPSEEK:
        with patch.dict(os.environ, inherited(), clear=True):
            return fetch(CACHE / "tokenizers", name)
    base = tokenizer_folder("deepseek_v3")

    def make(folder: Path) -> None:
        shutil.copytree(base, folder)
        path = folder / "tokenizer.json"
        definition = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**definition, "decoder": SENTENCE_PIECE}), encoding="utf-8")

    return cached_folder(CACHE / "derived" / name, [*base.iterdir(), Path(__file__)], make)


@_remember
def compiled_layer(folder: Path, name: str) -> Path:
    """Return the layer compiled from a tokenizer's folder."""
    return cached_folder(
        CACHE / "layers" / name,
        [*folder.iterdir(), *_compiler_sources()],
        lambda layer: _build(folder, name, layer),
    )


@cache
def compile_small(name: str) -> tuple[Vocabulary, Tokenizer]:
    """Return one of the small tokenizers, and the vocabulary compiled from it."""
    tokenizer = SMALL_TOKENIZERS[name]()
    with tempfile.TemporaryDirectory() as work:
        folder = write_folder(Path(work), tokenizer)
        return load(layer_compiler.build(folder, name, folder / "out").path), tokenizer


def _build(folder: Path, name: str, layer: Path) -> None:
    layer_compiler.build(folder, name, layer)


@cache
def _compiler_sources() -> tuple[Path, ...]:
    library = Path(derender.__path__[0])
    sources = (path for name in PACKAGES for path in library.glob(f"{name}*"))
    folders = (Path(layer_compiler.__path__[0]), *sources)
    return tuple(path for folder in folders for path in (folder.rglob("*.py") if folder.is_dir() else [folder]))


def _digest(sources: Iterable[Path]) -> str:
    digest = hashlib.sha256(tokenizers.__version__.encode())
    for path in sorted(sources):
        content = path.read_bytes()
        digest.update(f"\0{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]
