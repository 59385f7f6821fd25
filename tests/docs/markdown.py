"""Markdown pages: their blocks, links and anchors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from markdown_it import MarkdownIt

from tests.support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from markdown_it.token import Token

__all__ = ["PAGES", "Block", "anchors", "blocks", "code_spans", "links"]

NOT_RUN: Final = re.compile(r"<!-- not run: (.+) -->\s*")
BUILT: Final = frozenset({"build", "dist", "node_modules"})


def _pages(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith(".") and path.name not in BUILT:
            yield from _pages(path)
        elif path.suffix == ".md":
            yield path


PAGES: Final = tuple(_pages(ROOT))


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str
    text: str
    line: int
    not_run: str | None
    """Why its commands are not run."""


@cache
def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page. `not_run` comes from the comment right before a block."""
    reason = None
    for token in _tokens(page):
        if token.type == "fence":
            assert token.map is not None
            yield Block(token.info.strip(), token.content, token.map[0] + 1, reason)
        comment = NOT_RUN.fullmatch(token.content) if token.type == "html_block" else None
        reason = comment[1] if comment else None


def links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links and images."""
    for token in _inline(page):
        if token.type in ("link_open", "image"):
            yield str(token.attrGet("href") or token.attrGet("src"))


def code_spans(page: Path) -> Iterator[str]:
    """Yield the code within a page's sentences."""
    for token in _inline(page):
        if token.type == "code_inline":
            yield token.content


def _inline(page: Path) -> Iterator[Token]:
    for token in _tokens(page):
        yield from token.children or ()


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that GitHub gives a page's headings."""
    found: dict[str, int] = {}
    tokens = _tokens(page)
    for opening, heading in pairwise(tokens):
        if opening.type == "heading_open":
            shown = "".join(child.content for child in heading.children or () if child.type != "html_inline")
            slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
            if found[slug]:
                found[f"{slug}-{found[slug]}"] = 0
    return frozenset(found)
