"""What derendering costs on AWS, by list prices and measured durations, beside a container that always runs."""

from .cli import add_arguments, run

__all__ = ["add_arguments", "run"]
