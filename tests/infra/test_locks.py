"""The locked packages: those that pyproject.toml asks for, with hashes, and the same in tests and functions."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .stack import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOYED: Final = "handlers/requirements.txt"
DEVELOPMENT: Final = "requirements-dev.txt"
LOCKS: Final = {DEPLOYED: "functions", DEVELOPMENT: "dev"}
"""Lock → the extra that it holds."""
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def locked(name: str) -> list[Requirement]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return [Requirement(line.rstrip("\\ ")) for line in text.splitlines() if re.match(r"\w", line)]


def asked(extra: str) -> Iterator[Requirement]:
    """Yield what an extra needs, and what its extras need."""
    for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
        if requirement.name == PROJECT["name"]:
            for other in requirement.extras:
                yield from asked(other)
        else:
            yield requirement


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_is_in_step_with_the_project(name: str) -> None:
    versions: dict[str, list[str]] = {}
    for pin in locked(name):
        (version,) = pin.specifier
        versions.setdefault(canonicalize_name(pin.name), []).append(version.version)
    for requirement in (*map(Requirement, PROJECT["dependencies"]), *asked(LOCKS[name])):
        pinned = versions.get(canonicalize_name(requirement.name))
        assert pinned, f"{requirement} is not in {name}: run make lock"
        assert all(map(requirement.specifier.contains, pinned)), f"{requirement} in {name}: run make lock"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_hashes_and_no_addresses(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    for part in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]:
        assert re.fullmatch(r"[^\n]+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", part), part


def test_tests_run_with_the_versions_that_are_deployed() -> None:
    assert {*map(str, locked(DEPLOYED))} <= {
        str(each).partition(";")[0].strip() for each in locked(DEVELOPMENT)
    }
