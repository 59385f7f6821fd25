"""Estimates what derendering costs on AWS, from list prices and measured durations.

`prices` and `measured` hold facts, `plan` a question, `bill` and `container` answers. `tables` and `cli` print.
Only the bounds of a batch come from the library.
"""

from .cli import add_arguments, run

__all__ = ["add_arguments", "run"]
