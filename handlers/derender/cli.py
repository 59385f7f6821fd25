"""The command line: serve the application here; derender batches; build and publish tokenizer layers; costs."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from . import __version__

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
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who reads has seen enough. Python flushes once more at exit, which must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(given: Sequence[str]) -> int:
    # Imported here, as all that takes a while: Ctrl-C may come meanwhile.
    from .settings import SettingsError

    options = _parser(given).parse_args(given)
    try:
        status = int(options.run(options))
        sys.stdout.flush()
    except SettingsError as error:
        print(f"derender: {error}", file=sys.stderr)
        return 1
    return status


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="derender", description="Token ids into OpenAI responses.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve the application under uvicorn")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    serve.add_argument("--port", type=_port, default=8000, help="port to listen on (%(default)s)")
    serve.set_defaults(run=_serve)

    # What only one command needs is imported for that one.
    batch = commands.add_parser("batch", help="derender a file of requests, on all cores")
    if given[:1] == ["batch"]:
        from .batch.local import command

        command.add_arguments(batch)
        batch.set_defaults(run=command.run)

    cost = commands.add_parser("cost", help="compute what derendering costs on Lambda")
    if given[:1] == ["cost"]:
        import pricing as costs

        costs.add_arguments(cost)
        cost.set_defaults(run=costs.run)

    layer = commands.add_parser("layer", help="build, inspect, check and publish tokenizer layers")
    if given[:1] == ["layer"]:
        # The compiler is not part of what is deployed, and the other commands start without it.
        from layer_compiler.cli import add_commands

        add_commands(layer)
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 1 << 16:
        raise argparse.ArgumentTypeError("a port is from 0 to 65535")
    return port


def _serve(options: argparse.Namespace) -> int:
    from .models.layer import load_models
    from .relay import read_relay_settings
    from .settings import Settings

    settings = Settings.from_environment(os.environ)
    relay = read_relay_settings(settings, os.environ)
    models = load_models(settings)
    try:
        import uvicorn

        if relay is None:
            from .http.app import create_app

            app = create_app(models, max_body_bytes=settings.max_body_bytes)
        else:
            from .relay.app import create_relay_app

            app = create_relay_app(models, relay, max_body_bytes=settings.max_body_bytes)
    except ModuleNotFoundError as error:
        print(f"derender: serve needs {error.name}: pip install 'derender[serve]'", file=sys.stderr)
        return 1
    uvicorn.run(app, host=options.host, port=options.port, access_log=False)
    return 0
