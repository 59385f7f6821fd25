"""What a layer holds, for people: a table of all models, and all that is known of one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from derender.settings import DEFAULT_MAX_MODEL_LEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from derender.vocabulary import Manifest
    from layer_compiler.building.layer import Compiled

__all__ = ["description", "served_names", "shown_table"]

COLUMNS: Final = ("model", "ids", "rule", "parsers", "size", "licence", "source")
_SHOWN: Final = 12
"""Digits of a commit that are shown."""


def shown_table(compiled: Sequence[Compiled]) -> None:
    """Print a line for each model: a table on a terminal, else columns with two spaces between."""
    rows = [_row(each) for each in compiled]
    if sys.stdout.isatty():
        try:
            from rich.box import SIMPLE_HEAD
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ModuleNotFoundError:
            pass
        else:
            table = Table(box=SIMPLE_HEAD, pad_edge=False)
            for name in COLUMNS:
                # Cut, a name or a revision would be another.
                table.add_column(name, overflow="fold")
            for row in rows:
                table.add_row(*map(Text, row))
            Console().print(table)
            return
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(f"{line.rstrip()}\n")


def served_names(compiled: Sequence[Compiled]) -> str | None:
    """The value of DERENDER_SERVED_MODEL_NAME that gives models their other names, if they have any."""
    pairs = (
        f"{served}={each.model.name}"
        for each in compiled
        if each.model.aliases
        # Its own name too, which a model that is alone would lose.
        for served in (each.model.name, *each.model.aliases)
    )
    return ",".join(pairs) or None


def description(path: Path, manifest: Manifest) -> Iterator[str]:
    """All that a vocabulary says of itself, in lines."""
    padding = manifest.size - manifest.named
    length = (
        f"not known; {DEFAULT_MAX_MODEL_LEN:,} tokens if no setting says otherwise"
        if manifest.max_model_len is None
        else f"{manifest.max_model_len:,} tokens"
    )
    parsers = f"tools {manifest.tool_call_parser or 'none'}, reasoning {manifest.reasoning_parser or 'none'}"
    yield manifest.name
    for label, value, fields in (
        ("file", f"{path} ({path.stat().st_size / 1e6:.1f} MB, checksum right)", ()),
        ("fingerprint", manifest.fingerprint or "none", ()),
        ("rule", manifest.rule + (", first space dropped" if manifest.strip_leading_space else ""), ()),
        ("ids", f"{manifest.size:,} ({manifest.named:,} named, {padding:,} padding)", ("size",)),
        ("special", f"{len(manifest.special_token_ids):,} skipped ids", ("special_token_ids",)),
        ("added", f"{len(manifest.added_token_ids):,} tokens", ()),
        (
            "end of text",
            _ids(manifest.eos_token_id, manifest.stop_token_ids),
            ("eos_token_id", "stop_token_ids"),
        ),
        ("max length", length, ("max_model_len",)),
        ("parsers", parsers, ("tool_call_parser", "reasoning_parser")),
        ("response", "no template" if manifest.response_template is None else "template given", ()),
        ("licence", manifest.licence or "not given", ()),
        ("source", f"{manifest.source} ({manifest.source_format} sha256 {manifest.source_sha256[:16]}...)", ()),
        ("revision", manifest.source_revision or "not given", ()),
    ):
        yield f"  {label:<12} {value}{_said(manifest, fields)}"


def _said(manifest: Manifest, fields: Sequence[str]) -> str:
    """Where fields come from, in brackets."""
    said = (manifest.origins[field] for field in fields if field in manifest.origins)
    # One field may be said by two files, and one of these another.
    origins = dict.fromkeys(each for origin in said for each in origin.split("; "))
    return f" [{'; '.join(origins)}]" if origins else ""


def _row(compiled: Compiled) -> tuple[str, ...]:
    about = compiled.manifest
    parsers = dict.fromkeys(filter(None, (about.tool_call_parser, about.reasoning_parser)))
    return (
        about.name,
        f"{about.size:,}",
        about.rule,
        ", ".join(parsers) or "none",
        f"{compiled.path.stat().st_size / 1e6:.1f} MB",
        about.licence or "-",
        about.source if about.source_revision is None else f"{about.source} @ {_short(about.source_revision)}",
    )


def _short(revision: str) -> str:
    return revision if ":" in revision else revision[:_SHOWN]


def _ids(primary: int | None, stop: Sequence[int]) -> str:
    others = [str(token_id) for token_id in stop if token_id != primary]
    first = "none" if primary is None else str(primary)
    return first + (f", also {', '.join(others)}" if others else "")
