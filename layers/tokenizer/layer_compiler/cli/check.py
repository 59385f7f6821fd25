"""`derender layer check`."""

# ruff: noqa: T201 - commands print

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from derender.vocabulary import find_files, load, read_manifest
from layer_compiler.checking.comparison import compare_with_recording, compare_with_server
from layer_compiler.checking.recording import read_recording
from layer_compiler.checking.vllm_server import VllmServer
from layer_compiler.errors import LayerError, explain_missing_package

from .output import join_words, pluralize

if TYPE_CHECKING:
    import argparse

    from layer_compiler.checking.comparison import Comparison, Counts

__all__ = ["add_arguments", "run"]

_DEFAULT_SECONDS: Final = 60.0
_MAX_SECONDS: Final = 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", type=Path, help="folder of compiled vocabularies")
    parser.add_argument("--model", metavar="NAME", help="the vocabulary to compare, if there are several")
    other = parser.add_mutually_exclusive_group(required=True)
    other.add_argument(
        "--render-url",
        metavar="URL",
        help="vLLM server to compare with: a URL, or JSON with url and headers, as in DERENDER_RENDER_URL",
    )
    other.add_argument(
        "--ids", type=Path, metavar="FILE", help="recording to compare with: JSON lines of token_ids and text"
    )
    parser.add_argument(
        "--served-model", metavar="NAME", help="the server's name of the model, if it serves several"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=_DEFAULT_SECONDS,
        metavar="SECONDS",
        help="limit for all requests together (default: %(default)g)",
    )


def run(options: argparse.Namespace) -> int:
    """Compare a vocabulary with a server or a recording. The exit status is 1 if they differ."""
    # Written so that NaN fails too.
    if not 0 < options.timeout <= _MAX_SECONDS:
        raise LayerError(
            f"--timeout: {options.timeout:g}: must be above 0 and at most {_MAX_SECONDS:,.0f} seconds"
        )
    path = _find_vocabulary(options.folder, options.model)
    vocabulary = load(path)
    name = vocabulary.manifest.name
    if options.ids is not None:
        return _report(name, str(options.ids), compare_with_recording(vocabulary, read_recording(options.ids)))
    with explain_missing_package("check"):
        import httpx  # noqa: F401 - the upstreams need it

        from derender.relay import read_server
    try:
        upstream = read_server("server", options.render_url, os.environ)
    except ValueError as error:
        raise LayerError(f"--render-url: {error}") from None
    with VllmServer(
        upstream.url,
        dict(upstream.headers),
        model=options.served_model or upstream.served_model_name,
        preferred=name,
        seconds=options.timeout,
    ) as server:
        comparison = compare_with_server(vocabulary, server)
    if not comparison.counts.texts and not comparison.counts.ids:
        raise LayerError(f"{upstream.url}: has neither /tokenize nor /detokenize")
    return _report(name, upstream.url, comparison)


def _find_vocabulary(folder: Path, name: str | None) -> Path:
    found = {read_manifest(path).name: path for path in find_files(folder)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    problem = "choose one with --model" if name is None else f"no {name}"
    raise LayerError(f"{folder}: {problem}; it holds {', '.join(found)}")


def _report(name: str, other: str, comparison: Comparison) -> int:
    for warning in comparison.warnings:
        print(f"derender: {name}: {warning}", file=sys.stderr)
    compared, skipped = _summarize(comparison.counts)
    differences = comparison.differences
    if not differences:
        print(f"{name} decodes as {other} does: {compared} compared; not compared: {skipped}")
        return 0
    for difference in differences:
        print(f"{difference.subject}\n  the layer    {difference.ours}\n  the other    {difference.theirs}")
    count = pluralize(len(differences), "difference")
    print(f"{name} and {other} differ: {count}, {compared} compared; not compared: {skipped}")
    return 1


def _summarize(counts: Counts) -> tuple[str, str]:
    """Return what was compared and what was not. No server tells the stop ids and the number of ids."""
    compared = [
        *([pluralize(counts.texts, "text")] if counts.texts else []),
        *([pluralize(counts.ids, "id")] if counts.ids else []),
        *([f"which of {pluralize(counts.special, 'added token')} are special"] if counts.special else []),
        *(["the length"] if counts.length else []),
    ]
    skipped = [
        *([] if counts.special else ["which ids are special"]),
        *([] if counts.length else ["the length"]),
        *("the ids that end a generation", "the number of ids"),
    ]
    return join_words(compared), join_words(skipped)
