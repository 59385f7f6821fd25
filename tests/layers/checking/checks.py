"""Build small layers, and check them against a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import layer_compiler
from derender.cli import main
from tests.layers.stand_ins import serve
from tests.support.small_tokenizers import write_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenizers import Tokenizer

    from tests.layers.stand_ins import Answer

__all__ = ["answer_with", "build_layer_of", "check"]


def build_layer_of(tokenizer: Tokenizer, out: Path, name: str = "tiny") -> Path:
    """Build a layer of 600 ids and 1,000 tokens."""
    folder = write_folder(
        out.with_name(f"{out.name}-{name}"),
        tokenizer,
        config={"vocab_size": 600, "eos_token_id": 1, "max_position_embeddings": 1000},
    )
    layer_compiler.build(folder, name, out)
    return out


def check(folder: Path, answer: Callable[..., Answer], *arguments: str) -> int:
    """Run `derender layer check` against a server that answers so; return the exit status."""
    with serve(answer) as url:
        return main(["layer", "check", str(folder), "--render-url", url, *arguments])


def answer_with(status: int, content: bytes) -> Callable[..., Answer]:
    """Answer each POST in the same way, and have no models."""
    return lambda method, *_: (404, {}, b"") if method == "GET" else (status, {}, content)
