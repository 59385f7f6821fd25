"""`derender layer build`."""

# ruff: noqa: T201 - commands print

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from derender.vocabulary import load, read_manifest
from layer_compiler.building.layer import build_layer
from layer_compiler.building.models_file import FieldError, make_model, read_models
from layer_compiler.errors import LayerError
from layer_compiler.inference import AUTO, NO_PARSER
from layer_compiler.sources.kinds import find_kind

from .output import describe, format_served_names, pluralize, print_table
from .progress import show_progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["add_arguments", "run"]

_FLAGS: Final = {
    "source": "source",
    "name": "--name",
    "revision": "--revision",
    "licence": "--licence",
    "origin": "--source",
    "max_model_len": "--max-model-len",
    "tool_call_parser": "--tool-call-parser",
    "reasoning_parser": "--reasoning-parser",
}
"""Field of a model → its argument."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "source", nargs="?", help="folder, Hugging Face repository (org/name), or s3://bucket/prefix"
    )
    parser.add_argument("--models", type=Path, metavar="FILE", help="build the models that this file lists")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--name", help="the model's name, as clients send it (default: the repository's)")
    parser.add_argument(
        "--revision",
        help="a repository's commit, tag or branch; for other sources the digest their files must have",
    )
    parser.add_argument("--licence", help="the tokenizer's licence, for people")
    parser.add_argument(
        "--source", dest="origin", metavar="TEXT", help="where the tokenizer came from, for people"
    )
    parser.add_argument(
        "--max-model-len",
        type=int,
        metavar="TOKENS",
        help="longest sequence (default: what the model's files say)",
    )
    for kind, variable in (
        ("tool-call", "DERENDER_TOOL_CALL_PARSER"),
        ("reasoning", "DERENDER_REASONING_PARSER"),
    ):
        parser.add_argument(
            f"--{kind}-parser",
            metavar="NAME",
            help=f"{kind} parser, under the name of vLLM's flag, that {variable}=auto uses; {NO_PARSER}, or "
            f"{AUTO} to infer it from the model's files (default: {AUTO})",
        )


def run(options: argparse.Namespace) -> int:
    """Build one model or a list."""
    if options.models is not None:
        _build_list(options)
    else:
        _build_one(options)
    return 0


def _build_list(options: argparse.Namespace) -> None:
    for field, flag in _FLAGS.items():
        if getattr(options, field) is not None:
            raise LayerError(f"{flag} can't be combined with --models: {options.models} describes the models")
    models = read_models(options.models)
    try:
        with show_progress(len(models)) as report:
            built = build_layer(models, options.out, base=options.models.parent, exclusive=True, report=report)
    except LayerError as error:
        raise LayerError(f"{options.models}: {error}") from error
    for vocabulary in built:
        _print_warnings(vocabulary.manifest.name, vocabulary.warnings)
    print_table(built)
    if (names := format_served_names(models)) is not None:
        print(f"to serve them under all their names, set DERENDER_SERVED_MODEL_NAME={names}")


def _build_one(options: argparse.Namespace) -> None:
    if options.source is None:
        raise LayerError("name a source: a folder, org/name or s3://bucket/prefix; or a list with --models")
    values = {field: value for field in _FLAGS if (value := getattr(options, field)) is not None}
    kind = find_kind(options.source)
    if kind == "compiled":
        values.setdefault("name", read_manifest(Path(options.source)).name)
    elif kind == "hub":
        values.setdefault("name", options.source)
    elif options.name is None:
        raise LayerError(f"{options.source}: set --name, the name that clients send")
    try:
        model = make_model(values, Path())
    except FieldError as error:
        raise LayerError(f"{_FLAGS[error.field]}: {error.problem}") from error
    with show_progress(1) as report:
        (built,) = build_layer([model], options.out, report=report)
    if kind == "compiled":
        print("copied unchanged: it was proven when it was compiled")
    elif built.proof is None:
        print("decoded by the tokenizers library: its decoder is neither byte-level nor byte-fallback")
    else:
        proof = built.proof
        print(
            f"proven equal to {proof.library}: {pluralize(proof.ids, 'id')}, "
            f"{pluralize(proof.texts, 'text')}, {pluralize(proof.sequences, 'random sequence')}"
        )
    _print_warnings(options.source, built.warnings)
    for line in describe(built.path, load(built.path)):
        print(line)


def _print_warnings(subject: str, warnings: Iterable[str]) -> None:
    for warning in warnings:
        print(f"derender: {subject}: {warning}", file=sys.stderr)
