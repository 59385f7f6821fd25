"""Render a chat template in Jinja's sandbox, in a process with limits, because anyone may have written it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from layer_compiler.errors import LayerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RenderedPrompt", "render_prompts"]

MAX_SECONDS: Final = 20.0
"""How long a template is rendered. Real ones take milliseconds, after the process has started."""
_MAX_REASON: Final = 200
"""Maximum length of a template's own message."""
_PROGRAM: Final = Path(__file__).with_name("sandbox.py")


class RenderedPrompt(NamedTuple):
    """A prompt of one user message."""

    conversation: str
    """Without the generation prompt."""
    whole: str
    """With it."""


def render_prompts(
    template: str, variables: Mapping[str, str], arguments: Sequence[Mapping[str, bool]]
) -> list[RenderedPrompt]:
    """Render a chat template with each of several arguments.

    Args:
        template: The template.
        variables: The variables of all prompts: the special tokens.
        arguments: What `chat_template_kwargs` has.

    Raises:
        LayerError: The template can't be rendered. The message is one line.
    """
    job = {"template": template, "variables": variables, "arguments": arguments}
    # Without -P the program's neighbours could be taken for modules of the standard library.
    command = [sys.executable, "-P", str(_PROGRAM)]
    try:
        done = subprocess.run(  # noqa: S603
            command, input=json.dumps(job).encode(), capture_output=True, timeout=MAX_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise LayerError(f"not done after {MAX_SECONDS:g} seconds") from None
    if done.returncode:
        raise LayerError(f"the process that renders it failed with exit status {done.returncode}")
    result = json.loads(done.stdout)
    if (reason := result.get("error")) is not None:
        raise LayerError(" ".join(reason.split())[:_MAX_REASON])
    return [RenderedPrompt(*pair) for pair in result["prompts"]]
