"""Chat templates are rendered as transformers does, or refused in one line."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pytest

from layer_compiler import LayerError
from layer_compiler.inference import rendering
from layer_compiler.inference.rendering import RenderedPrompt, render_prompts
from layer_compiler.inference.sandbox import render

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROMPT: Final = "{% if add_generation_prompt %}A:{% endif %}"


def rendered(template: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """Render a template without arguments."""
    (prompt,) = render_prompts(template, dict(variables), [{}])
    return prompt.whole


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m['content'] }}{% endfor %}", "<s>[user]Hi"),
        ("{% if tools is none and documents is none %}none{% endif %}", "none"),
        ("a\n  {% if true %}\nb\n  {% endif %}\nc", "a\nb\nc"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "Hi"}]'),
        ("{{ {'b': 'é<', 'a': 1} | tojson(sort_keys=true) }}", '{"a": 1, "b": "é<"}'),
        ("{{ [1] | tojson(indent=1) }}", "[\n 1\n]"),
        ("{% for n in range(9) %}{% if n == 2 %}{% break %}{% endif %}{{ n }}{% endfor %}", "01"),
        ("{% generation %}a{{ bos_token }}{% endgeneration %}b", "a<s>b"),
        ("{{ strftime_now('%Y') | int > 2000 }}", "True"),
        ("{{ missing }}{{ missing is defined }}", "False"),
    ],
)
def test_templates_are_rendered_as_transformers_renders_them(template: str, expected: str) -> None:
    assert rendered(template, {"bos_token": "<s>"}) == expected


def test_each_prompt_is_rendered_without_and_with_the_generation_prompt() -> None:
    template = "{{ thinking is defined and thinking }}" + PROMPT
    assert render_prompts(template, {}, [{}, {"thinking": True}]) == [
        RenderedPrompt("False", "FalseA:"),
        RenderedPrompt("True", "TrueA:"),
    ]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('Roles must\nalternate') }}", "TemplateError: Roles must alternate"),
        ("{% if %}", "TemplateSyntaxError: "),
        ("{{ nothing.at.all }}", "UndefinedError: "),
        ("{{ ''.__class__.__mro__ }}", "SecurityError: "),
        ("{{ messages.append(1) }}", "SecurityError: "),
        ("{{ cycler.__init__.__globals__.os.getcwd() }}", "SecurityError: "),
        ("{% include 'other' %}", "TypeError: no loader"),
        ("{{ range(10 ** 9) | list }}", "OverflowError: Range too big"),
        ("{{ 'a' * 10 ** 10 }}", "MemoryError"),
        ("{{ messages * 10 ** 9 }}", "MemoryError"),
        ("{{ 'a' * 2 ** 21 }}", "a prompt has more than 1,048,576 bytes"),
        ("{{ '\\ud800' }}", "UnicodeEncodeError: "),
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "RecursionError"),
        ("(" * 10 + "{{ " + "(" * 5000, ""),
        ("{{ raise_exception('x' * 10000) }}", "TemplateError: xxx"),
    ],
)
def test_a_template_that_can_not_be_rendered_is_refused_in_one_line(template: str, reason: str) -> None:
    with pytest.raises(LayerError) as error:
        rendered(template)
    assert str(error.value).startswith(reason)
    assert "\n" not in str(error.value)
    assert 0 < len(str(error.value)) <= 200


def test_a_template_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_SECONDS", 0.5)
    loops = "".join(f"{{% for n{depth} in range(99999) %}}" for depth in range(4)) + "{% endfor %}" * 4
    with pytest.raises(LayerError, match=r"^not done after 0\.5 seconds$"):
        rendered(loops)


def test_a_process_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit(3)")
    monkeypatch.setattr(rendering, "_PROGRAM", program)
    with pytest.raises(LayerError, match="failed with exit status 3"):
        rendered("")


def test_the_program_renders_what_its_process_does() -> None:
    job = {"template": PROMPT, "variables": {}, "arguments": [{}]}
    assert render(job) == {"prompts": [["", "A:"]]}
