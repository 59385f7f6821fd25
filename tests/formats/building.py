"""Building a folder, or being refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from derender.decoding.detokenizer import DetokenizerState, detokenize, pending_text
from derender.vocabulary import Vocabulary, load
from layer_compiler import BuildError, build

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def built(folder: Path, **options: Any) -> Vocabulary:
    """Compile a folder, and load what was written."""
    return load(build(folder, "tiny", folder / "out", **options).path)


def refused(folder: Path) -> str:
    """Why a folder is refused, in one line; nothing may be written."""
    with pytest.raises(BuildError) as error:
        build(folder, "tiny", folder / "out")
    assert not list(folder.glob("out/*"))
    message = str(error.value)
    assert message.startswith(str(folder))
    assert "\n" not in message
    return message


def text_of(vocabulary: Vocabulary, ids: Sequence[int], *, skip: bool = True) -> str:
    """A whole output's text, with what it ends inside of."""
    text, state = detokenize(vocabulary, DetokenizerState(), ids, skip_special_tokens=skip)
    return text + pending_text(state)
