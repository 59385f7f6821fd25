"""`derender layer`: one module for each command.

Imports all other packages.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from derender.vocabulary import VocabularyError
from layer_compiler.errors import LayerError

from . import build, check, inspect, publish

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

__all__ = ["add_commands"]

_COMMANDS = (
    ("build", "compile tokenizers into a layer", build),
    ("inspect", "show what a layer holds", inspect),
    ("check", "compare a layer with the tokenizer on the GPU side", check),
    ("publish", "publish a layer in AWS, unless it is published already", publish),
)


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to a parser. Each sets `run`, which takes the options and returns the exit status."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, help_, module in _COMMANDS:
        command = commands.add_parser(name, help=help_)
        module.add_arguments(command)
        command.set_defaults(run=_report_errors(module.run))


def _report_errors(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Make a command report an error as one line on standard error."""

    def run_and_report(options: argparse.Namespace) -> int:
        try:
            return run(options)
        except (LayerError, VocabularyError) as error:
            sys.stderr.write(f"derender: {' '.join(str(error).split())}\n")
            return 1

    return run_and_report
