"""Templates are read as text with holes for values, in bounded time."""

from __future__ import annotations

import pytest

from layer_compiler.inference.expression import MAX_ALTERNATIVES
from layer_compiler.inference.template import read_template

TEXTS = {
    "text is written": ("<tool_call>", "<tool_call>"),
    "values are holes": ("<a>{{ message.content }}</a>", "<a>￼</a>"),
    "constants are written": ("{{ '<a>' + name ~ \"</a>\\n\" }}", "<a>￼</a>\n"),
    "comments are not": ("a{# <tool_call>{{ name }} #}b", "ab"),
    "conditions are not": ("{% if '<think>' in content %}a{% endif %}", "a"),
    "compared constants are not": ("{{ content == '<think>' }}", "￼"),
    "arguments are not": ("{{ content.split('</think>')[-1].lstrip('\\n') }}", "￼"),
    "refusals are not": ("{{ raise_exception('no <tool_call>') }}", ""),
    "both alternatives are": ("{{ ('<a>' if x else '<b>') + y }}", "<a>￼<b>￼"),
    "either value is": ("{{ content or '<empty>' }}", "￼<empty>"),
    "filters leave constants": ("{{ '<a>' | trim }}", "<a>"),
    "variables have their constants": ("{% set m = '｜DSML｜' %}<{{ m }}call>", "<｜DSML｜call>"),
    "attributes are too": ("{% set ns.m = 'a' + x %}{{ ns.m }}{{ ns.n }}", "a￼"),
    "a variable that is no constant is a hole": ("{% set m = 'a' %}{% set m = x %}{{ m }}", "￼"),
    "delimiters in constants are text": ("{{ '}}' }}{{ '{{' }}", "}}{{"),
    "braces in expressions end none": ("{{ {'a': {}} }}b", "￼b"),
    "white space is controlled": ("a \n{%- if x -%} \n b\n{% endif %}\nc", "ab\nc"),
    "blocks leave no line": ("a\n  {% if x %}\nb\n  {% endif %}\n", "a\nb\n"),
    "invalid parentheses are a hole": ("{{ ('<a>' for) }}b", "￼b"),
    "an expression without an end is left out": ("a{{ '<tool_call> }}", "a"),
    "and a statement": ("a{% if x", "a"),
}


@pytest.mark.parametrize(("template", "text"), TEXTS.values(), ids=TEXTS)
def test_a_template_writes_text_with_holes(template: str, text: str) -> None:
    assert read_template(template).text == text


PROMPTS = {
    "none": ("{{ content }}", set()),
    "plain": ("{% if add_generation_prompt %}A{% endif %}B", {"A"}),
    "both ways": ("{% if add_generation_prompt %}A{% if x %}B{% else %}C{% endif %}{% endif %}", {"AB", "AC"}),
    "without an else": ("{% if add_generation_prompt %}A{% if x %}B{% endif %}{% endif %}", {"A", "AB"}),
    "in an expression": ("{% if add_generation_prompt %}A{{ 'B' if x else 'C' }}{% endif %}", {"AB", "AC"}),
    "all of it an expression": ("{{ 'A' if add_generation_prompt else '' }}", {"A"}),
    "loops are one way": ("{% if add_generation_prompt %}A{% for x in y %}B{% endfor %}{% endif %}", {"AB"}),
    "its default is no prompt": (
        "{% if not add_generation_prompt is defined %}A{% endif %}{% if add_generation_prompt %}B{% endif %}",
        {"B"},
    ),
    "its negation is no prompt": (
        "{% if add_generation_prompt %}A{% endif %}{% if not add_generation_prompt %}B{% endif %}",
        {"A"},
    ),
    "a loop's else follows its body": (
        "{% if add_generation_prompt %}{% for x in y %}A{% else %}B{% endfor %}{% endif %}",
        {"AB"},
    ),
    "variables and values leave no text": (
        "{% if add_generation_prompt %}{% set x = 'A' %}{{ x }}{{ raise_exception('B') }}{% endif %}",
        {"A"},
    ),
    "a block that another one ends": ("{% if add_generation_prompt %}A{% endfor %}B{% endif %}", {"A"}),
    "ways that write nothing are left out": (
        "{% if add_generation_prompt %}{% if x %}A{% endif %}{% endif %}",
        {"A"},
    ),
}


@pytest.mark.parametrize(("template", "prompts"), PROMPTS.values(), ids=PROMPTS)
def test_the_ends_of_prompts_are_found(template: str, prompts: set[str]) -> None:
    assert set(read_template(template).prompts) == prompts


@pytest.mark.parametrize(
    "template",
    [
        "{{" * 100_000,
        "{{ '" + "\\'" * 100_000,
        "{{ " + "(" * 100_000 + " }}",
        "{{ " + "not " * 20_000 + " }}",
        "{% set x = x + 'ab' + x %}" * 2_000 + "{{ x }}",
        "{% if add_generation_prompt %}" + "{% if x %}a{% else %}b{% endif %}" * 2_000,
        "{% endif %}{% else %}{% endfor %}" * 10_000,
        "{% if add_generation_prompt %}" * 500,
        "{{ " + "'a' if x else " * 10_000 + "'b' }}",
    ],
    ids=["opened", "quoted", "bracketed", "negated", "doubled", "branched", "closed", "nested", "alternatives"],
)
def test_hostile_templates_are_read_in_bounded_time(template: str) -> None:
    """Each would take exponential time or depth without a limit."""
    assert len(read_template(template).prompts) <= MAX_ALTERNATIVES
