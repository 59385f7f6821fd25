"""Layers of small vocabularies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.models.layer import load_models
from derender.settings import Settings, SettingsError
from derender.vocabulary import dump
from tests.support.vocabularies import manifest

if TYPE_CHECKING:
    from pathlib import Path

    from derender.models.model import Models

__all__ = ["PIECES", "SEVERAL", "damage", "file_of", "models_of", "refusal", "write"]

PIECES: Final = {
    "alpha": [b"a", b"b", b"<end>"],
    "gamma": [b"a", b"b", b"<end>"],
    "org/beta": [b"x", b"y", b"<end>"],
}
"""Three models. The first two differ in their names only."""
SEVERAL: Final = tuple(PIECES)


def file_of(folder: Path, name: str) -> Path:
    """The file of a model. Files sort differently from names."""
    return folder / f"{name[::-1].replace('/', '-')}.vocab"


def write(folder: Path, *names: str, **fields: Any) -> None:
    """Add models to a layer, with these fields in their manifests."""
    for name in names:
        content = dump(manifest(name=name, **fields), PIECES.get(name, PIECES["alpha"]))
        file_of(folder, name).write_bytes(content)


def damage(file: Path) -> None:
    """Change a byte that the checksum covers and the manifest does not."""
    file.write_bytes(file.read_bytes()[:-1] + b"?")


def models_of(folder: Path, **variables: str) -> Models:
    """The models of a layer, with variables such as `max_model_len`."""
    environment = {f"DERENDER_{name.upper()}": value for name, value in variables.items()}
    return load_models(Settings.from_environment({**environment, "DERENDER_LAYER": str(folder)}))


def refusal(folder: Path, **variables: str) -> str:
    """The line that ends the start."""
    with pytest.raises(SettingsError) as error:
        models_of(folder, **variables)
    (line,) = str(error.value).splitlines()
    return line
