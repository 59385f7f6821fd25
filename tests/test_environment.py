"""Tests see the same environment, whether a terminal, a background job, cron or a container starts them."""

from __future__ import annotations

import locale
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.environment import FOREIGN, OWN, inherited

HOSTILE: Final = {
    "ALL_PROXY": "http://127.0.0.1:9",
    "AWS_CONFIG_FILE": "/nowhere/config",
    "AWS_DEFAULT_REGION": "mars-north-1",
    "AWS_PROFILE": "nobody",
    "COLUMNS": "12",
    "DERENDER_LAYER": "/nowhere",
    "FORCE_COLOR": "1",
    "HOME": "/nowhere",
    "LC_ALL": "C",
    "MAKEFLAGS": "-n",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUTF8": "0",
    "PYTHONWARNINGS": "always",
    "TZ": "Asia/Kathmandu",
    "https_proxy": "http://127.0.0.1:9",
}
FROM_OUTSIDE: Final = "not any_parent"
"""Selects the tests that a parent process can't fail."""


def test_no_variable_of_the_shell_is_seen() -> None:
    assert [name for name in os.environ if FOREIGN.fullmatch(name) and name not in OWN] == []
    assert {name: os.environ[name] for name in OWN} == OWN
    assert Path.home().is_dir()


def test_files_are_readable_by_others() -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert umask == 0o022


def test_signals_end_processes() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_input_is_empty() -> None:
    assert os.read(0, 1) == b""


def test_terminals_are_narrow_and_plain() -> None:
    assert shutil.get_terminal_size().columns == 80
    assert not os.isatty(1)


def test_processes_write_utf_8_in_utc() -> None:
    program = "import locale, time; print(locale.getpreferredencoding(False), *time.tzname)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.lower() == "utf-8 utc utc\n"
    assert locale.getpreferredencoding(False).lower() == "utf-8"


def test_downloads_use_the_users_environment() -> None:
    environment = inherited()
    assert environment["PATH"] == os.environ["PATH"]
    assert [name for name in environment if name.startswith(("AWS_", "DERENDER_"))] == []


@pytest.mark.parametrize("workers", ["0", "1"])
def test_any_parent_process_may_start_the_tests(workers: str, tmp_path: Path) -> None:
    folder = tmp_path / "with spaces"
    folder.mkdir()

    def be_hostile() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.umask(0o777)

    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses", workers),
            *("-k", FROM_OUTSIDE, __file__),
        ],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(folder), **HOSTILE},
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=be_hostile,
    )
    assert done.returncode == 0, done.stdout + done.stderr
