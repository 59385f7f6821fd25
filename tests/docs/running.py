"""Running the blocks of a page, and comparing what they print with what the page shows."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.paths import ROOT
from tests.support.small_tokenizers import byte_level_tokenizer, write_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ANYTHING", "Servers", "commands", "json_of", "lay_out", "matches", "run_block", "text_matches"]

ANYTHING: Final = "…"
SERVER: Final = re.compile(r"make (serve|sam-local)\b|derender serve\b|generate_server\.py")
"""Commands that go on until they are interrupted."""
COMMENT: Final = re.compile(r"(^|\s)#\s.*$", re.MULTILINE)
SECONDS: Final = 60


@dataclass(frozen=True)
class Servers:
    """Where the servers are that pages speak of."""

    derender: str
    generate: str

    def put_into(self, text: str) -> str:
        """Replace the addresses that pages show."""
        text = text.replace("http://127.0.0.1:8000", self.derender)
        text = text.replace("http://127.0.0.1:8001", self.generate)
        return text.replace("examples/stream.py", f"examples/stream.py {self.derender}")


def lay_out(folder: Path) -> None:
    """Make a folder look like the project, with a model in `~/models`. What commands write stays in it."""
    for path in ROOT.iterdir():
        if path.name not in ("build", "dist") and not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    # The environment of the tests, complete whatever has changed since, so that `make` does not make it again.
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for path in Path(sys.prefix).iterdir():
        if path.name != programs.name:
            (programs.parent / path.name).symlink_to(path)
    for path in Path(sys.prefix, programs.name).iterdir():
        if path.name != ".made":
            (programs / path.name).symlink_to(path)
    (programs / ".made").touch()
    model = write_folder(folder / "models" / "my-model", byte_level_tokenizer(), config={"vocab_size": 512})
    (model / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}', encoding="utf-8")


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a `console` block, without comments; quotes and backslashes join lines."""
    joined = COMMENT.sub("", text.replace("\\\n", " "))
    command = ""
    for line in joined.splitlines():
        command = f"{command}\n{line}" if command else line.removeprefix("$ ")
        if command.count("'") % 2 == 0 and command.strip():
            yield command.strip()
            command = ""
    assert not command.strip(), f"a quote is open: {command}"


def run_block(text: str, folder: Path, servers: Servers) -> str:
    """Run a `console` block and return what it prints. Commands that start a server are left out."""
    lines = [command for command in commands(text) if not SERVER.search(command)]
    return _run(["bash", "-euo", "pipefail", "-c", servers.put_into("\n".join(lines))], folder)


def run_python(text: str, folder: Path, servers: Servers) -> str:
    """Run a `python` block and return what it prints."""
    return _run([sys.executable, "-c", servers.put_into(text)], folder)


def _run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        finally:
            # What a command has started ends with it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, f"{command[-1]}\n{output}"
    return output


def json_of(text: str) -> Any:
    """Read JSON in which `…` may stand for a value."""
    return json.loads(re.sub(r"[\[{]…[\]}]|(?<=[:\[, ])…(?=[,\]}])", f'"{ANYTHING}"', text))


def matches(shown: Any, real: Any) -> bool:
    """Return whether an answer is the one that a page shows. Times may differ, and `…` stands for anything."""
    match shown:
        case dict():
            return (
                isinstance(real, dict)
                and shown.keys() == real.keys()
                and all(name == "created" or matches(shown[name], real[name]) for name in shown)
            )
        case list():
            return isinstance(real, list) and len(shown) == len(real) and all(map(matches, shown, real))
        case str() if ANYTHING in shown:
            return text_matches(shown, real if isinstance(real, str) else json.dumps(real))
        case _:
            return type(shown) is type(real) and bool(shown == real)


def text_matches(shown: str, real: str) -> bool:
    """Return whether a text is the one that a page shows, but for trailing space."""
    pattern = ".*".join(map(re.escape, _timeless(shown).split(ANYTHING)))
    return re.fullmatch(pattern, _timeless(real), re.DOTALL) is not None


def _timeless(text: str) -> str:
    text = re.sub(r'("created": ?)\d+', r"\g<1>0", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
