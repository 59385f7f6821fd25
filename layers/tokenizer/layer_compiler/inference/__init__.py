"""Finds a model's parsers by what its files hold.

    infer_parsers(folder, name) → Inference(tool_call_parser, reasoning_parser, seen, certain)

| module | what it is |
| --- | --- |
| `evidence.py` | the files, read into one value |
| `template.py` | what a chat template writes, as text with holes for values |
| `expression.py` | the same of one of its expressions |
| `families.py` | the table: what tells each family, and its parsers |
| `decision.py` | evidence → parsers, or that they are not known |

Files decide. The model's name only settles which of the parsers that the files leave it is; where it doesn't,
there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .decision import Inference, infer
from .evidence import Evidence, read_evidence

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Evidence", "Inference", "infer", "infer_parsers", "read_evidence"]


def infer_parsers(folder: Path, name: str | None = None) -> Inference:
    """The parsers of the model in a folder.

    Args:
        folder: Holds the model's tokenizer and configuration files; of what is missing nothing is known.
        name: The model's name, to choose between parsers that the files leave.
    """
    return infer(read_evidence(folder), name)
