"""Infers a model's parsers from its files.

| module | content |
| --- | --- |
| `choice.py` | the parsers that are given, or inferred for `auto` |
| `decision.py` | evidence → parsers, or that the files don't tell |
| `evidence.py` | the files, read into one value |
| `template.py` | the text that a chat template writes, with holes for values |
| `expression.py` | the same for one expression of a template |
| `families.py` | the table of model families: the signs that identify each, and its parsers |

Files decide. The model's name only chooses between parsers that the files leave. If nothing decides, no parser
is set.

Imports `formats`, `model_files` and derender's parsers.
"""

from __future__ import annotations

from .choice import AUTO, NO_PARSER, ParserChoice, choose_parsers

__all__ = ["AUTO", "NO_PARSER", "ParserChoice", "choose_parsers"]
