"""One environment for all tests, whatever the shell, the user and the parent process pass on."""

from __future__ import annotations

import json
import locale
import os
import re
import signal
import sys
import time
from contextlib import suppress
from typing import Final

from .paths import CACHE

__all__ = ["inherited", "isolate"]

FOREIGN: Final = re.compile(
    r"AWS_.*|DERENDER_.*|.*_PROXY"  # what the code under test, boto3 and HTTP clients read
    r"|PYTHON.*|LC_.*|LANGUAGE|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR.*"  # Python and terminals
    r"|API_KEY_.*|LAMBDA_.*|POWERTOOLS_.*|_X_AMZN_.*"  # Lambda
    r"|MAKE.*|MFLAGS|GIT_.*|BASH_ENV|CDPATH|PORT|UVICORN_.*|WEB_CONCURRENCY"  # commands and servers
    r"|PIP_.*|NPM_.*|UV_.*|HF_.*|HUGGING.*|XDG_.*",  # downloads
    re.IGNORECASE,
)
"""Names of environment variables that would change what tests see."""
OWN: Final = {
    "COLUMNS": "80",
    "HOME": str(CACHE / "home"),
    "LANG": "C.UTF-8",
    "SAM_CLI_TELEMETRY": "0",
    "TERM": "dumb",
    "TZ": "UTC",
}
_INHERITED: Final = "TESTS_INHERITED_ENVIRONMENT"


def isolate() -> None:
    """Give this process, and the processes it starts, an environment of its own."""
    # The workers of pytest-xdist inherit the environment of a process that did this already.
    os.environ.setdefault(_INHERITED, json.dumps(dict(os.environ)))
    for name in [name for name in os.environ if FOREIGN.fullmatch(name)]:
        del os.environ[name]
    os.environ.update(OWN)
    (CACHE / "home").mkdir(parents=True, exist_ok=True)
    time.tzset()
    with suppress(locale.Error):  # a system without it has UTF-8 everywhere
        locale.setlocale(locale.LC_CTYPE, OWN["LANG"])
    os.umask(0o022)
    # A shell starts background jobs with SIGINT ignored, and ignored signals are inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Tests start hundreds of Python processes, which would compile every module anew.
    sys.dont_write_bytecode = False


def inherited() -> dict[str, str]:
    """Return the environment that the tests were started with, for commands that download.

    They need the user's proxies, mirrors and caches, but not the user's language, AWS account or settings.
    """
    # Reports and benchmarks run outside of pytest, in the user's environment.
    known = os.environ.get(_INHERITED)
    environment: dict[str, str] = dict(os.environ) if known is None else json.loads(known)
    own = re.compile("AWS_.*|DERENDER_.*|LANG.*|LC_.*|MAKE.*|MFLAGS")
    return {name: value for name, value in environment.items() if not own.fullmatch(name)}
