"""Commands of the documentation run, and print what it shows. README.md has the rules."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from derender.cli import _parser
from tests.support.paths import ROOT

from .markdown import PAGES, Block, blocks
from .running import (
    ANYTHING,
    Servers,
    commands,
    json_of,
    lay_out,
    matches,
    run_block,
    run_python,
    text_matches,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS: Final = 30
pages: Final = pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(blocks(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Serve what pages say is served: derender with the relay, before the stand-in for a GPU."""
    derender, generate = _free_port(), _free_port()
    url = f"http://127.0.0.1:{generate}"
    upstreams = {"DERENDER_UPSTREAMS": json.dumps({"gpu": url}), "DERENDER_RENDER_URL": url}
    with ExitStack() as stack:
        for port, command in (
            (generate, [ROOT / "examples" / "generate_server.py", str(generate)]),
            (derender, ["-m", "derender", "serve", "--port", str(derender)]),
        ):
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, *command],
                    env={**os.environ, **upstreams},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            stack.callback(process.terminate)
            _wait_for(process, port)
        yield Servers(f"http://127.0.0.1:{derender}", url)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError(f"no server on port {port}")


@pages
def test_commands_print_what_the_page_shows(page: Path, servers: Servers, tmp_path: Path) -> None:
    lay_out(tmp_path)
    output = None
    for block in blocks(page):
        match block.language:
            case "console" if not block.not_run:
                output = run_block(block.text, tmp_path, servers)
                continue
            case "python" if block.text.startswith(("import ", "from ")) and not block.not_run:
                output = run_python(block.text, tmp_path, servers)
                continue
            case "json" if output is not None:
                assert matches(json_of(block.text), json.loads(output)), f"line {block.line}: {output}"
            case "text" if output is not None:
                assert text_matches(servers.put_into(block.text), output), f"line {block.line}: {output}"
        output = None


@pages
def test_blocks_are_valid(page: Path) -> None:
    for block in blocks(page):
        match block.language:
            case "console":
                for command in commands(block.text):
                    check_command(command)
            case "json":
                json_of(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "python":
                compile(block.text, str(page), "exec")
            case language:
                assert language in ("mermaid", "text", "yaml", ""), f"line {block.line}: {language}"


VLLM: Final = {
    ("serve",): {"--tokens-only", "--enable-scale-out", "--reasoning-parser", "--port"},
    ("launch", "render"): {"--port", "--enable-auto-tool-choice", "--tool-call-parser"},
}
"""Commands of vLLM 0.33 and their options, as its help lists them."""


def check_vllm(arguments: list[str]) -> None:
    """Check that a command of vLLM exists, names a model, and has options that exist."""
    options = next(known for command, known in VLLM.items() if tuple(arguments[: len(command)]) == command)
    assert not arguments[1 if arguments[0] == "serve" else 2].startswith("-"), arguments
    assert {word for word in arguments if word.startswith("-")} <= options, arguments


def check_command(command: str) -> None:
    """Check a command without running it: its files, its target of make, its arguments of derender."""
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*|\|", words[0], re.DOTALL):
        words = words[1:]
    program, *arguments = words
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {word for word in arguments if "=" not in word} <= {*targets}, command
    if program == "vllm":
        check_vllm(arguments)
    if program.startswith(".venv/bin/"):
        assert Path(sys.executable).with_name(Path(program).name).exists(), command
    for word in words:
        assert not word.startswith("examples/") or (ROOT / word).exists(), command
    if program.endswith("derender") and "--help" not in arguments:
        _parser(arguments).parse_args(arguments)


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        ('{"a": 1}', '{"a": 1}', True),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 1}', '{"a": 1, "b": 2}', False),
        ('{"created": 1, "id": "a-…"}', '{"created": 2, "id": "a-2"}', True),
        ('{"id": "a-…"}', '{"id": "b-2"}', False),
        ('{"a": {…}, "b": […], "c": …}', '{"a": {}, "b": [1], "c": null}', True),
        ("[1, 2]", "[1]", False),
    ],
)
def test_answers_are_compared(shown: str, real: str, same: bool) -> None:
    assert matches(json_of(shown), json.loads(real)) is same


def test_texts_are_compared() -> None:
    assert text_matches(f"a  \n{ANYTHING}\nc", "a\nb\nb\nc\n")
    assert not text_matches("a", "a b")
    assert text_matches('data: {"created":1}', 'data: {"created":2}')


def test_commands_are_told_apart() -> None:
    text = "a 'b\nc' # d\n\n# all of it\nmake x \\\n  y   # z\n$ e\n"
    assert list(commands(text)) == ["a 'b\nc'", "make x    y", "e"]


def test_blocks_and_their_reasons_are_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: needs AWS -->\n```console\naws s3 ls\n```\n\nText.\n\n```console\nmake test\n```\n",
        encoding="utf-8",
    )
    assert list(blocks(page)) == [
        Block("console", "aws s3 ls\n", 2, "needs AWS"),
        Block("console", "make test\n", 8, None),
    ]
