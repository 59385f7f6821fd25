"""`make layer` replaces a layer by a better one only."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def test_make_layer_keeps_the_last_good_layer_if_a_build_fails(tmp_path: Path) -> None:
    command = tmp_path / ".venv" / "bin" / "derender"
    command.parent.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (command.parent / ".made").touch()

    def make_layer(script: str) -> int:
        command.write_text(f"#!/bin/sh\nfor out; do :; done\nmkdir -p $out\n{script}\n")
        command.chmod(0o755)
        return subprocess.run(
            ["make", "-f", str(ROOT / "Makefile"), "layer"], cwd=tmp_path, check=False, capture_output=True
        ).returncode

    def list_layer() -> list[str]:
        return [path.name for path in (tmp_path / "build" / "layer").iterdir()]

    assert make_layer("touch $out/good.vocab") == 0
    assert list_layer() == ["good.vocab"]
    assert make_layer("touch $out/half.vocab; exit 1") != 0
    assert list_layer() == ["good.vocab"]
    assert make_layer("touch $out/new.vocab") == 0
    assert list_layer() == ["new.vocab"]
