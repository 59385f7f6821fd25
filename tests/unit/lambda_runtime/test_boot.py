"""The start of a function."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from derender.settings import SettingsError
from lambda_runtime.boot import start
from tests.support.paths import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.log_lines import LogLines


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    """Restore garbage collection, which the import of `boot` turned off."""
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("log_lines")
def test_a_function_gets_its_settings_and_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERENDER_MAX_LOGPROBS", "3")
    with start("api") as (settings, models):
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert settings.max_logprobs == 3
    assert [entry.settings.names for entry in models.entries] == [("Qwen3",)]


@pytest.mark.parametrize("variable", ["DERENDER_LOG_LEVEL", "DERENDER_MAX_LOGPROBS", "DERENDER_MODEL"])
def test_a_bad_setting_ends_the_process_with_one_line(
    log_lines: LogLines, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "quixotic")
    with pytest.raises(SystemExit, match=r"^derender: DERENDER_"), start("api"):
        pytest.fail("the block must not run")
    assert log_lines() == []


@pytest.mark.usefixtures("log_lines")
def test_the_block_may_find_a_bad_setting() -> None:
    with pytest.raises(SystemExit, match=r"^derender: PORT is wrong$"), start("relay"):
        raise SettingsError("PORT is wrong")


@pytest.mark.parametrize("function", ["api", "batch", "relay"])
def test_functions_import_it_first(function: str) -> None:
    program = (
        "import gc, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in ('derender', 'mangum', 'uvicorn', 'boto3'):\n"
        "            print('on' if gc.isenabled() else 'off')\n"
        "            sys.stdout.flush()\n"
        "            sys.exit()\n"
        "sys.meta_path.insert(0, Finder())\n"
        f"import {function}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=HANDLERS, capture_output=True, text=True, check=True
    )
    assert done.stdout == "off\n"
