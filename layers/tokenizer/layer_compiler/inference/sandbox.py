"""The program that renders a chat template: `rendering` runs it in a process of its own.

It reads a job from standard input and writes the result to standard output, both as JSON. It imports nothing
of this package, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import json
import sys
from datetime import date
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    import jinja2
    from jinja2.nodes import Node
    from jinja2.parser import Parser

__all__ = ["render"]

MAX_MEMORY: Final = 1 << 30
"""Maximum bytes of address space."""
MAX_BYTES: Final = 1 << 20
"""Maximum bytes of a rendered prompt."""
_MESSAGES: Final = [{"role": "user", "content": "Hi"}]
_TODAY: Final = date(2025, 1, 1)
"""What a template takes for the day, so that the same files give the same layer."""


def render(job: dict[str, Any]) -> dict[str, Any]:
    """Render a chat template as transformers does (`apply_chat_template`), with one user message.

    Args:
        job: `template`, its text; `variables`, such as the special tokens; `arguments`, a list of further
            variables, with each of which it is rendered.

    Returns:
        `prompts`, for each of the arguments the prompt without and with the generation prompt; or `error`, why
        the template can't be rendered.
    """
    try:
        template = _compile(job["template"])
        prompts = [
            [
                template.render(
                    {
                        "messages": _MESSAGES,
                        "tools": None,
                        "documents": None,
                        **job["variables"],
                        **arguments,
                        "add_generation_prompt": adds_prompt,
                    }
                )
                for adds_prompt in (False, True)
            ]
            for arguments in job["arguments"]
        ]
        if any(len(prompt.encode()) > MAX_BYTES for pair in prompts for prompt in pair):
            return {"error": f"a prompt has more than {MAX_BYTES:,} bytes"}
    except Exception as error:
        # Anyone may have written the template.
        return {"error": f"{type(error).__name__}: {error}"}
    return {"prompts": prompts}


def _compile(source: str) -> jinja2.Template:
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}`, which marks what the model writes. Its content is rendered."""

        tags = {"generation"}  # noqa: RUF012 - as in the base class

        def parse(self, parser: Parser) -> list[Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: object) -> NoReturn:
        raise jinja2.TemplateError(str(message))

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _dump
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": _TODAY.strftime}
    return environment.from_string(source)


def _dump(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _limit_memory() -> None:
    # Not every system has this limit.
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))


if __name__ == "__main__":
    _limit_memory()
    json.dump(render(json.load(sys.stdin)), sys.stdout)
