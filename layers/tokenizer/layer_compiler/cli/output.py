"""Text that the commands print: a table of vocabularies, a description of one, and phrases."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from derender.settings import DEFAULT_MAX_MODEL_LEN
from layer_compiler.decoding import decode_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from derender.vocabulary import GenerationPrompt, Manifest, Vocabulary
    from layer_compiler.building.models_file import Model
    from layer_compiler.building.vocabulary import BuiltVocabulary

__all__ = ["describe", "format_served_names", "join_words", "pluralize", "print_table"]

COLUMNS: Final = ("model", "ids", "rule", "parsers", "size", "licence", "source")
_COMMIT_DIGITS: Final = 12


def print_table(built: Sequence[BuiltVocabulary]) -> None:
    """Print a line for each vocabulary: a table on a terminal, else columns two spaces apart."""
    rows = [_format_row(vocabulary) for vocabulary in built]
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
                # Folded, not cut: a cut name or revision would be another one.
                table.add_column(name, overflow="fold")
            for row in rows:
                table.add_row(*map(Text, row))
            Console().print(table)
            return
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(f"{line.rstrip()}\n")


def format_served_names(models: Sequence[Model]) -> str | None:
    """Return the DERENDER_SERVED_MODEL_NAME that serves models under their aliases, if they have any."""
    pairs = (
        f"{served}={model.name}"
        for model in models
        if model.aliases
        # If a layer has one model, the setting would replace its own name.
        for served in (model.name, *model.aliases)
    )
    return ",".join(pairs) or None


def describe(path: Path, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the lines that describe a vocabulary, with the file and field that gave each value in brackets."""
    manifest = vocabulary.manifest
    padding = manifest.size - manifest.named
    length = (
        f"unknown; {DEFAULT_MAX_MODEL_LEN:,} tokens unless a setting says otherwise"
        if manifest.max_model_len is None
        else f"{manifest.max_model_len:,} tokens"
    )
    parsers = f"tools {manifest.tool_call_parser or 'none'}, reasoning {manifest.reasoning_parser or 'none'}"
    yield manifest.name
    for label, value, fields in (
        ("file", f"{path} ({_format_size(path)}, checksum correct)", ()),
        ("fingerprint", manifest.fingerprint or "none", ()),
        ("rule", manifest.rule + (", drops the first space" if manifest.strip_leading_space else ""), ()),
        ("ids", f"{manifest.size:,} ({manifest.named:,} named, {padding:,} padding)", ("size",)),
        ("special", f"{pluralize(len(manifest.special_token_ids), 'id')}, skipped", ("special_token_ids",)),
        ("added", pluralize(len(manifest.added_token_ids), "token"), ()),
        (
            "stop ids",
            _format_ids(manifest.eos_token_id, manifest.stop_token_ids),
            ("eos_token_id", "stop_token_ids"),
        ),
        ("max length", length, ("max_model_len",)),
        ("parsers", parsers, ("tool_call_parser", "reasoning_parser")),
        ("prompts end", _format_prompts(vocabulary), ("generation_prompts",)),
        ("response", "no template" if manifest.response_template is None else "has a template", ()),
        ("licence", manifest.licence or "not given", ()),
        ("source", f"{manifest.source} ({manifest.source_format} sha256 {manifest.source_sha256[:16]}...)", ()),
        ("revision", manifest.source_revision or "not given", ()),
    ):
        yield f"  {label:<12} {value}{_format_origins(manifest, fields)}"


def _format_prompts(vocabulary: Vocabulary) -> str:
    """Return how prompts end: in general, then with each argument that changes it."""

    def text(prompt: GenerationPrompt) -> str:
        return json.dumps("".join(decode_output(vocabulary, prompt.token_ids)), ensure_ascii=False)

    prompts = vocabulary.manifest.generation_prompts
    unset = "".join(text(prompt) for prompt in prompts if not prompt.arguments)
    shown = [unset] if unset else []
    for prompt in prompts:
        if prompt.arguments and text(prompt) != unset:
            arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in prompt.arguments.items())
            shown.append(f"{arguments} {text(prompt)}")
    return "; ".join(shown) or "unknown"


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def join_words(words: list[str]) -> str:
    """Return words as an enumeration."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _format_origins(manifest: Manifest, fields: Sequence[str]) -> str:
    origins = "; ".join(manifest.origins[field] for field in fields if field in manifest.origins)
    # Two fields may have an origin in common.
    return f" [{'; '.join(dict.fromkeys(origins.split('; ')))}]" if origins else ""


def _format_row(built: BuiltVocabulary) -> tuple[str, ...]:
    manifest = built.manifest
    parsers = dict.fromkeys(filter(None, (manifest.tool_call_parser, manifest.reasoning_parser)))
    revision = manifest.source_revision or ""
    shown = revision if ":" in revision else revision[:_COMMIT_DIGITS]
    return (
        manifest.name,
        f"{manifest.size:,}",
        manifest.rule,
        ", ".join(parsers) or "none",
        _format_size(built.path),
        manifest.licence or "-",
        f"{manifest.source} @ {shown}" if revision else manifest.source,
    )


def _format_size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def _format_ids(eos: int | None, stop_ids: Sequence[int]) -> str:
    others = ", ".join(str(token_id) for token_id in stop_ids if token_id != eos)
    return ("none" if eos is None else str(eos)) + (f", also {others}" if others else "")
