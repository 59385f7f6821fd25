"""The command line: serve the application here, build and inspect tokenizer layers."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__
from .parsing import ParserError, load_parsers
from .settings import DEFAULT_MAX_MODEL_LEN, Settings, SettingsError, load_model
from .vocabulary import VocabularyError, files, load

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The command line; by default the process's.

    Returns:
        The exit status: 0, or 1 with one line on standard error.
    """
    options = _parser().parse_args(arguments)
    try:
        status = int(options.run(options))
        sys.stdout.flush()
    except (SettingsError, VocabularyError) as error:
        print(f"derender: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who reads has seen enough. Python flushes once more at exit, which must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="derender", description="Token ids into OpenAI responses.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve the application under uvicorn")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    serve.add_argument("--port", type=_port, default=8000, help="port to listen on (%(default)s)")
    serve.set_defaults(run=_serve)

    layer = commands.add_parser("layer", help="build and inspect tokenizer layers")
    layers = layer.add_subparsers(title="commands", required=True, metavar="COMMAND")

    build = layers.add_parser("build", help="compile a Hugging Face tokenizer into a layer")
    build.add_argument("folder", type=Path, help="holds tokenizer.json, and the model's configuration files")
    build.add_argument("--name", required=True, help="the model's name, as clients send it")
    build.add_argument("--out", type=Path, required=True, help="folder to write to")
    build.add_argument("--licence", help="the tokenizer's licence, for people")
    build.add_argument("--source", help="where it came from, for people (the folder's name)")
    for flag, variable in (
        ("--tool-call-parser", "DERENDER_TOOL_CALL_PARSER"),
        ("--reasoning-parser", "DERENDER_REASONING_PARSER"),
    ):
        build.add_argument(
            flag, metavar="NAME", help=f"parser that {variable}=auto uses, under the name of vLLM's flag"
        )
    build.set_defaults(run=_build)

    inspect = layers.add_parser("inspect", help="show what a layer holds")
    inspect.add_argument("folder", type=Path, help="folder of compiled vocabularies")
    inspect.set_defaults(run=_inspect)
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 1 << 16:
        raise argparse.ArgumentTypeError("a port is from 0 to 65535")
    return port


def _serve(options: argparse.Namespace) -> int:
    settings = Settings.from_environment(os.environ)
    model = load_model(settings)
    try:
        import uvicorn

        if settings.relay is not None:
            import httpx  # noqa: F401 - only the relay asks others
    except ModuleNotFoundError as error:
        print(f"derender: serve needs {error.name}: pip install 'derender[serve]'", file=sys.stderr)
        return 1
    # The application is imported late: the other commands do without it.
    from .app import create_app

    uvicorn.run(
        create_app(model, max_body_bytes=settings.max_body_bytes, relay=settings.relay),
        host=options.host,
        port=options.port,
        access_log=False,
    )
    return 0


def _build(options: argparse.Namespace) -> int:
    # The compiler is not part of what is deployed.
    from layer_compiler import BuildError, build

    try:
        built = build(
            options.folder,
            options.name,
            options.out,
            licence=options.licence,
            origin=options.source,
            tool_call_parser=options.tool_call_parser,
            reasoning_parser=options.reasoning_parser,
        )
    except BuildError as error:
        print(f"derender: {error}", file=sys.stderr)
        return 1
    try:
        vocabulary = load(built.path)
        load_parsers(vocabulary, vocabulary.manifest.tool_call_parser, vocabulary.manifest.reasoning_parser)
    except ParserError as error:
        built.path.unlink()
        print(f"derender: {error}", file=sys.stderr)
        return 1
    proof = built.proof
    if proof is None:
        print("decoded by the tokenizers library: its decoder is neither byte-level nor byte-fallback")
    else:
        print(
            f"proven equal to the tokenizers library: {proof.ids:,} ids, {proof.texts:,} texts, "
            f"{proof.sequences:,} random sequences"
        )
    for each in built.unknown:
        print(f"derender: {options.folder}: {each}", file=sys.stderr)
    _describe(built.path)
    return 0


def _inspect(options: argparse.Namespace) -> int:
    for path in files(options.folder):
        _describe(path)
    return 0


def _describe(path: Path) -> None:
    manifest = load(path).manifest
    padding = manifest.size - manifest.named
    length = (
        f"not known; {DEFAULT_MAX_MODEL_LEN:,} tokens if no setting says otherwise"
        if manifest.max_model_len is None
        else f"{manifest.max_model_len:,} tokens"
    )
    print(f"{manifest.name}")
    for label, value in (
        ("file", f"{path} ({path.stat().st_size / 1e6:.1f} MB, checksum right)"),
        ("rule", manifest.rule + (", first space dropped" if manifest.strip_leading_space else "")),
        ("ids", f"{manifest.size:,} ({manifest.named:,} named, {padding:,} padding)"),
        ("special", f"{len(manifest.special_token_ids):,} skipped ids"),
        ("added", f"{len(manifest.added_token_ids):,} tokens"),
        ("end of text", _ids(manifest.eos_token_id, manifest.stop_token_ids)),
        ("max length", length),
        (
            "parsers",
            f"tools {manifest.tool_call_parser or 'none'}, reasoning {manifest.reasoning_parser or 'none'}",
        ),
        ("response", "no template" if manifest.response_template is None else "template given"),
        ("licence", manifest.licence or "not given"),
        ("source", f"{manifest.source} (tokenizer.json sha256 {manifest.source_sha256[:16]}...)"),
    ):
        print(f"  {label:<12} {value}")


def _ids(primary: int | None, stop: Sequence[int]) -> str:
    others = [str(token_id) for token_id in stop if token_id != primary]
    first = "none" if primary is None else str(primary)
    return first + (f", also {', '.join(others)}" if others else "")
