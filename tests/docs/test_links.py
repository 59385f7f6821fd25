"""Links of the documentation lead somewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.paths import ROOT

from .markdown import PAGES, anchors, code_spans, links

if TYPE_CHECKING:
    from pathlib import Path

pages: Final = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
SCHEME: Final = re.compile(r"(https|mailto):")
PROJECT_PATH: Final = re.compile(r"(?:docs|examples|handlers|infra|layers|tests)/(?:(?!NAME)[\w./-])*")
BUILT: Final = ("layers/tokenizer/layer",)
"""Paths that exist once something is built."""


@pages
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert [link for link in links(page) if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    """Return whether a link's file and anchor exist. Web addresses are taken as they are."""
    if SCHEME.match(link):
        return True
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or (target.suffix == ".md" and anchor in anchors(target)))


@pages
def test_paths_in_code_exist(page: Path) -> None:
    paths = [code.rstrip("/") for code in code_spans(page) if PROJECT_PATH.fullmatch(code)]
    missing = [path for path in paths if not (ROOT / path).exists() and not (page.parent / path).exists()]
    assert [path for path in missing if path not in BUILT] == []


def test_every_page_is_linked() -> None:
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page)}
    # GitHub shows a folder's README with the folder.
    assert [page for page in PAGES if page.name != "README.md" and page not in linked] == []


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Set up\n\n## `make test`, twice\n\n## Set up\n\n## What's [this](x)?\n", encoding="utf-8"
    )
    assert anchors(page) == {"set-up", "make-test-twice", "set-up-1", "whats-this"}
    assert leads_somewhere(page, "#set-up-1")
    assert not leads_somewhere(page, "#set-up-2")
    assert not leads_somewhere(page, "other.md")
