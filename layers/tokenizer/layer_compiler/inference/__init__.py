"""Infers from a model's files what a vocabulary should say about its outputs: parsers, and how prompts end.

| module | content |
| --- | --- |
| `choice.py` | the parsers that are given, or inferred for `auto` |
| `decision.py` | evidence → parsers, or that the files don't tell |
| `evidence.py` | the files, read into one value |
| `template.py` | the text that a chat template writes, with holes for values |
| `expression.py` | the same for one expression of a template |
| `families.py` | the table of model families: the signs that identify each, and its parsers |
| `generation_prompts.py` | how prompts end, as the chat template writes them |
| `rendering.py`, `sandbox.py` | a chat template rendered, in a process with limits |

Files decide. The model's name only chooses between parsers that the files leave. If nothing decides, no parser
is set.

Imports `formats`, `model_files` and derender's parsers.
"""

from __future__ import annotations

from .choice import AUTO, NO_PARSER, ParserChoice, choose_parsers
from .generation_prompts import find_generation_prompts

__all__ = ["AUTO", "NO_PARSER", "ParserChoice", "choose_parsers", "find_generation_prompts"]
