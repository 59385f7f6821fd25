"""`derender layer …`: build, inspect, check and publish tokenizer layers."""

# ruff: noqa: T201 - what a command prints is what it is for

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from derender.vocabulary import SUFFIX, VocabularyError, find_files, load, read_manifest
from layer_compiler.building.layer import Compiled, check_length, compile_layer
from layer_compiler.building.models_file import Model, check_parsers, read_models
from layer_compiler.checking.comparison import check_peer, check_recorded
from layer_compiler.checking.vllm import PeerError, VllmServer, read_recorded
from layer_compiler.errors import BuildError
from layer_compiler.inference.choice import AUTO, NO_PARSER
from layer_compiler.publishing.lambda_layer import (
    ARCHITECTURES,
    PublishError,
    plan_publishing,
    publish,
    published_before,
)
from layer_compiler.sources.source import kind_of

from .progress import shown_progress
from .summary import description, served_names, shown_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from layer_compiler.checking.comparison import Check
    from layer_compiler.publishing.lambda_layer import Plan, Published

__all__ = ["add_commands"]

_FLAGS = {
    "name": "--name",
    "revision": "--revision",
    "licence": "--licence",
    "origin": "--source",
    "max_model_len": "--max-model-len",
    "tool_call_parser": "--tool-call-parser",
    "reasoning_parser": "--reasoning-parser",
}
"""Options of a build → their flags."""
_SECONDS = 60.0
_MOST_SECONDS = 86_400.0


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to a parser: each sets `run`, which takes the options and gives the exit status."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="compile tokenizers into a layer")
    build.add_argument(
        "source", nargs="?", help="folder, Hugging Face repository (org/name), or s3://bucket/prefix"
    )
    build.add_argument("--models", type=Path, metavar="FILE", help="compile what a models.toml lists instead")
    build.add_argument("--out", type=Path, required=True, help="folder to write to")
    build.add_argument("--name", help="the model's name, as clients send it (a repository's own)")
    build.add_argument(
        "--revision",
        help="a repository's commit, tag or branch; of other sources the digest that they have to have",
    )
    build.add_argument("--licence", help="the tokenizer's licence, for people")
    build.add_argument(
        "--source", dest="origin", metavar="TEXT", help="where it came from, for people (the source)"
    )
    build.add_argument(
        "--max-model-len", type=int, metavar="TOKENS", help="longest sequence (what the model's files say)"
    )
    for flag, variable in (
        ("--tool-call-parser", "DERENDER_TOOL_CALL_PARSER"),
        ("--reasoning-parser", "DERENDER_REASONING_PARSER"),
    ):
        build.add_argument(
            flag,
            metavar="NAME",
            help=f"parser that {variable}=auto uses, under the name of vLLM's flag; {NO_PARSER}; or {AUTO} for "
            f"what the model's files tell of ({AUTO})",
        )
    build.set_defaults(run=_reported(_build))

    inspect = commands.add_parser("inspect", help="show what a layer holds")
    inspect.add_argument("folder", type=Path, help="folder of compiled vocabularies")
    inspect.set_defaults(run=_reported(_inspect))

    check = commands.add_parser("check", help="compare a layer with the tokenizer of the GPU side")
    check.add_argument("folder", type=Path, help="folder of compiled vocabularies")
    check.add_argument("--model", metavar="NAME", help="the vocabulary to compare, where there are several")
    peer = check.add_mutually_exclusive_group(required=True)
    peer.add_argument(
        "--render-url",
        metavar="URL",
        help="vLLM server to ask: a URL, or JSON of url and headers, as DERENDER_RENDER_URL",
    )
    peer.add_argument(
        "--ids", type=Path, metavar="FILE", help="JSON lines of token_ids and text, recorded elsewhere"
    )
    check.add_argument(
        "--served-model", metavar="NAME", help="what the server calls the model, where it serves several"
    )
    check.add_argument(
        "--timeout",
        type=float,
        default=_SECONDS,
        metavar="SECONDS",
        help="for everything together (%(default)g)",
    )
    check.set_defaults(run=_reported(_check))

    publishing = commands.add_parser("publish", help="publish a layer in AWS, unless it was")
    publishing.add_argument("folder", type=Path, help="folder of compiled vocabularies")
    publishing.add_argument("--name", required=True, help="the layer's name")
    publishing.add_argument("--bucket", help="put the archive there; needed from 50 MB on")
    publishing.add_argument("--region", help="as AWS's own tools find it, where none is given")
    publishing.add_argument(
        "--architectures",
        nargs="+",
        choices=ARCHITECTURES,
        default=ARCHITECTURES,
        help=f"processors to offer it for ({' '.join(ARCHITECTURES)})",
    )
    publishing.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    publishing.set_defaults(run=_reported(_publish))


def _reported(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The command, what is wrong as one line on standard error."""

    def run(options: argparse.Namespace) -> int:
        try:
            return command(options)
        except (BuildError, PeerError, PublishError, VocabularyError) as error:
            print(f"derender: {' '.join(str(error).split())}", file=sys.stderr)
            return 1

    return run


def _build(options: argparse.Namespace) -> int:
    if options.models is not None:
        return _build_list(options)
    compiled = _compiled_alone(options)
    if compiled.model.is_compiled:
        print("taken as it is: it was proven when it was compiled")
    elif compiled.proof is None:
        print("decoded by the tokenizers library: its decoder is neither byte-level nor byte-fallback")
    else:
        proof = compiled.proof
        print(
            f"proven equal to the {proof.library} library: {_counted(proof.ids, 'id')}, "
            f"{_counted(proof.texts, 'text')}, {_counted(proof.sequences, 'random sequence')}"
        )
    _warn(options.source, compiled)
    _describe(compiled.path)
    return 0


def _build_list(options: argparse.Namespace) -> int:
    for name, value in vars(options).items():
        if name not in ("models", "out", "run") and value is not None:
            raise BuildError(f"{options.models} says it all: no {_FLAGS.get(name, name)} beside --models")
    models = read_models(options.models)
    try:
        with shown_progress(len(models)) as step:
            compiled = compile_layer(models, options.out, base=options.models.parent, exclusive=True, step=step)
    except BuildError as error:
        # Of several, the error says of which.
        where = f"{options.models}: {models[0].name}" if len(models) == 1 else f"{options.models}"
        raise BuildError(f"{where}: {error}") from error
    for each in compiled:
        _warn(each.model.name, each)
    shown_table(compiled)
    served = served_names(compiled)
    if served is not None:
        print(f"serve them under all their names with DERENDER_SERVED_MODEL_NAME={served}")
    return 0


def _compiled_alone(options: argparse.Namespace) -> Compiled:
    if options.source is None:
        raise BuildError(
            "a source is needed: a folder, org/name or s3://bucket/prefix; or a list, with --models"
        )
    if options.source.endswith(SUFFIX):
        return _taken_alone(options)
    if options.name is None and kind_of(options.source) != "hub":
        raise BuildError(f"{options.source}: --name is needed: what clients call the model")
    if options.max_model_len is not None:
        check_length(options.max_model_len)
    tool_call_parser, reasoning_parser = options.tool_call_parser or AUTO, options.reasoning_parser or AUTO
    for field, problem in check_parsers(tool_call_parser, reasoning_parser):
        raise BuildError(f"--{field.replace('_', '-')}: {problem}")
    model = Model(
        name=options.name or options.source,
        source=options.source,
        revision=options.revision,
        tool_call_parser=tool_call_parser,
        reasoning_parser=reasoning_parser,
        max_model_len=options.max_model_len,
        licence=options.licence,
        origin=options.origin,
    )
    return _compiled_one(model, options.out)


def _taken_alone(options: argparse.Namespace) -> Compiled:
    """A vocabulary that is compiled already; it has its own name."""
    if kind_of(options.source) != "folder":
        raise BuildError(f"{options.source}: no such file; a compiled vocabulary is one here, and not fetched")
    for name in ("revision", "licence", "origin", "max_model_len", "tool_call_parser", "reasoning_parser"):
        if getattr(options, name) is not None:
            raise BuildError(
                f"{options.source} is compiled already; its parsers and limits are in it: "
                f"no {_FLAGS[name]} beside it"
            )
    name = read_manifest(Path(options.source)).name if options.name is None else options.name
    return _compiled_one(Model(name=name, source=options.source), options.out)


def _compiled_one(model: Model, out: Path) -> Compiled:
    with shown_progress(1) as step:
        (compiled,) = compile_layer([model], out, step=step)
    return compiled


def _warn(where: str, compiled: Compiled) -> None:
    for each in compiled.warnings:
        print(f"derender: {where}: {each}", file=sys.stderr)


def _inspect(options: argparse.Namespace) -> int:
    for path in find_files(options.folder):
        _describe(path)
    return 0


def _describe(path: Path) -> None:
    for line in description(path, load(path).manifest):
        print(line)


def _check(options: argparse.Namespace) -> int:
    # Also no number at all is not between them.
    if not 0 < options.timeout <= _MOST_SECONDS:
        raise PeerError(f"--timeout: {options.timeout:g}: above 0, and {_MOST_SECONDS:,.0f} seconds at most")
    path = _vocabulary_file(options.folder, options.model)
    vocabulary = load(path)
    name = vocabulary.manifest.name
    if options.ids is not None:
        return _say(name, str(options.ids), check_recorded(vocabulary, read_recorded(options.ids)))
    try:
        from derender.relay.settings import read_upstream

        upstream = read_upstream("server", options.render_url, os.environ)
        server = VllmServer(
            upstream.url,
            dict(upstream.headers),
            model=options.served_model,
            preferred=name,
            seconds=options.timeout,
        )
    except ModuleNotFoundError as error:
        raise PeerError(f"check needs {error.name}: pip install 'derender[build]'") from None
    except PeerError:
        raise
    except ValueError as error:
        raise PeerError(f"--render-url: {error}") from None
    with server:
        check = check_peer(vocabulary, server)
    if not check.texts and not check.ids:
        raise PeerError(f"{upstream.url}: has neither /tokenize nor /detokenize")
    return _say(name, upstream.url, check)


def _vocabulary_file(folder: Path, name: str | None) -> Path:
    found = {read_manifest(path).name: path for path in find_files(folder)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    problem = "give a --model" if name is None else f"no {name}"
    raise VocabularyError(f"{folder}: {problem}; it holds {', '.join(found)}")


def _say(name: str, other: str, check: Check) -> int:
    for warning in check.warnings:
        print(f"derender: {name}: {warning}", file=sys.stderr)
    compared, left = _compared(check)
    if not check.differences:
        print(f"{name} decodes as {other} does: {compared} compared; not compared: {left}")
        return 0
    for difference in check.differences:
        print(f"{difference.where}\n  the layer    {difference.ours}\n  the other    {difference.theirs}")
    differences = _counted(len(check.differences), "difference")
    print(f"{name} and {other} differ: {differences}, {compared} compared; not compared: {left}")
    return 1


def _compared(check: Check) -> tuple[str, str]:
    """What was compared, and what was not: nobody tells where a text ends, and how many ids there are."""
    compared = [
        *([_counted(check.texts, "text")] if check.texts else []),
        *([_counted(check.ids, "id")] if check.ids else []),
        *([f"which of {_counted(check.special, 'added token')} are special"] if check.special else []),
        *(["the length"] if check.length else []),
    ]
    left = [
        *([] if check.special else ["which ids are special"]),
        *([] if check.length else ["the length"]),
        *("the ids that end a text", "the number of ids"),
    ]
    return _listed(compared), _listed(left)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _listed(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _publish(options: argparse.Namespace) -> int:
    plan = plan_publishing(
        options.folder, options.name, bucket=options.bucket, architectures=options.architectures
    )
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ModuleNotFoundError as error:
        raise PublishError(f"publish needs {error.name}: pip install 'derender[publish]'") from None
    try:
        lambda_ = boto3.client("lambda", region_name=options.region)
        if options.dry_run:
            print(_intention(plan, published_before(plan, lambda_)))
            return 0
        published = publish(plan, lambda_, boto3.client("s3", region_name=options.region))
    except (BotoCoreError, ClientError) as error:
        raise PublishError(f"AWS: {error}") from error
    # Alone on standard output, for scripts.
    print(f"{'published' if published.is_new else 'there already'}: {plan.description}", file=sys.stderr)
    print(published.arn)
    return 0


def _intention(plan: Plan, before: Published | None) -> str:
    """What publishing would do."""
    if before is not None:
        return f"nothing to do: {before.arn} is the same"
    size = f"{len(plan.archive.content) / 1e6:.1f} MB"
    where = "" if plan.bucket is None else f"put s3://{plan.bucket}/{plan.key} and "
    architectures = ", ".join(plan.architectures)
    return f"would {where}publish a version of {plan.name} ({size}, {architectures}): {plan.description}"
