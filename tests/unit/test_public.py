"""The public interface: what `import derender` offers, and what it costs."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

import derender
from derender import errors


def test_every_public_name_is_there() -> None:
    for name in derender.__all__:
        value = getattr(derender, name)
        assert value is not None
        assert getattr(value, "__name__", name) == name
    assert set(derender.__all__) <= set(dir(derender))
    assert len(set(derender.__all__)) == len(derender.__all__)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'derender' has no attribute 'Vocabulary'"):
        derender.Vocabulary  # type: ignore[attr-defined]  # noqa: B018


def test_the_kinds_of_errors_are_public() -> None:
    kinds = {
        name
        for name in errors.__all__
        if derender.DerenderError in (getattr(errors, name), *getattr(errors, name).__bases__)
    }
    assert kinds <= set(derender.__all__)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert derender.__doc__ is not None
    example = [line for line in derender.__doc__.splitlines() if line.startswith(" ")]
    exec(textwrap.dedent("\n".join(example)), {})  # noqa: S102
    assert capsys.readouterr().out == "Hello, world!\n"


def test_nothing_is_imported_until_it_is_used() -> None:
    program = (
        "import sys, json; before = {*sys.modules}; import derender; derender.__version__\n"
        "print(json.dumps(sorted({*sys.modules} - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert [name for name in loaded if name.startswith("derender")] == ["derender"]
    assert not {"fastapi", "pydantic", "msgspec", "tokenizers"} & {*loaded}
