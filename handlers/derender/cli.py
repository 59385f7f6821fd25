"""The command line: serve the application, derender batches, build layers, estimate costs."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from . import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The arguments; by default those of the process.

    Returns:
        The exit status: 0, or 1 after an error. An error is one line on standard error.
    """
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader closed the pipe. Python flushes once more at exit, which must not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: Sequence[str]) -> int:
    # Imported here, because it takes a while and Ctrl-C may come meanwhile.
    from .settings import SettingsError

    options = _parser(arguments).parse_args(arguments)
    try:
        status = int(options.run(options))
        sys.stdout.flush()
    except SettingsError as error:
        return _fail(str(error))
    return status


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of these arguments. Only the command that they name is imported."""
    parser = argparse.ArgumentParser(
        prog="derender",
        description="Turn token ids into OpenAI responses.",
        epilog="docs/configuration.md lists the settings, which are environment variables.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    command = arguments[0] if arguments else None

    serve = commands.add_parser("serve", help="serve the application on this machine")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=_port, default=8000, help="port to listen on (default: %(default)s)")
    serve.add_argument(
        "--allowed-origins",
        type=_setting_reader("allowed_origins"),
        nargs="+",
        metavar="ORIGIN",
        help="origins of the web pages that may call from a browser, such as https://app.example, or * for all "
        "(default: DERENDER_ALLOWED_ORIGINS)",
    )
    serve.add_argument(
        "--default-chat-template-kwargs",
        type=_setting_reader("default_chat_template_kwargs"),
        metavar="JSON",
        help="arguments of the chat template that requests may override, as vLLM's flag has them "
        "(default: DERENDER_DEFAULT_CHAT_TEMPLATE_KWARGS)",
    )
    serve.set_defaults(run=_serve)

    batch = commands.add_parser("batch", help="derender a file of requests on all cores")
    if command == "batch":
        from .batch.local import command as batch_command

        batch_command.add_arguments(batch)
        batch.set_defaults(run=batch_command.run)

    cost = commands.add_parser("cost", help="estimate what derendering costs on Lambda")
    if command == "cost":
        import pricing

        pricing.add_arguments(cost)
        cost.set_defaults(run=pricing.run)

    layer = commands.add_parser("layer", help="build, inspect, check and publish tokenizer layers")
    if command == "layer":
        from layer_compiler.cli import add_commands

        add_commands(layer)
    return parser


def _port(text: str) -> int:
    port = int(text) if text.isdecimal() else -1
    if not 0 <= port < 1 << 16:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, got {text!r}")
    return port


def _setting_reader(name: str) -> Callable[[str], Any]:
    """Return what reads an argument as the setting is read."""

    def read(text: str) -> Any:
        from .settings import read_setting

        try:
            return read_setting(name, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _serve(options: argparse.Namespace) -> int:
    from .models.layer import load_models
    from .relay import read_relay_settings
    from .settings import Settings

    settings = Settings.from_environment(os.environ)
    if options.default_chat_template_kwargs is not None:
        settings = replace(settings, default_chat_template_kwargs=options.default_chat_template_kwargs)
    relay = read_relay_settings(settings, os.environ)
    models = load_models(settings)
    origins = settings.allowed_origins
    if options.allowed_origins is not None:
        origins = tuple(chain.from_iterable(options.allowed_origins))
    try:
        import uvicorn

        from .http.origins import is_loopback
        from .http.workers import open_worker

        served: dict[str, Any] = {
            "max_body_bytes": settings.max_body_bytes,
            "allowed_origins": origins,
            "loopback": is_loopback(options.host),
            "run": open_worker(),
        }
        if relay is None:
            from .http.app import create_app

            app = create_app(models, **served)
        else:
            from .relay.app import create_relay_app

            app = create_relay_app(models, relay, **served)
    except ModuleNotFoundError as error:
        return _fail(f"serve needs {error.name}; install it with: pip install 'derender[serve]'")
    uvicorn.run(app, host=options.host, port=options.port, access_log=False)
    return 0


def _fail(problem: str) -> int:
    print(f"derender: {problem}", file=sys.stderr)
    return 1
