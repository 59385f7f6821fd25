"""A folder's preferred tokenizer is parsed, and files that would fill the memory are refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from layer_compiler import build
from layer_compiler.formats import parse_folder
from tests.layers.builds import build_folder, refuse_folder
from tests.layers.model_folders import (
    sentence_piece_folder,
    tekken,
    tekken_folder,
    tiktoken_folder,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKENIZER: Final = {
    "model": {"type": "BPE", "vocab": {"H": 0, "i": 1, "Hi": 2}, "merges": ["H i"]},
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "added_tokens": [],
}


def tokenizer_folder(folder: Path) -> Path:
    """Write a folder with a tokenizer.json."""
    write_json(folder / "tokenizer.json", TOKENIZER)
    return folder


FOLDERS: Final[dict[str, Callable[[Path], Path]]] = {
    "tokenizer.json": tokenizer_folder,
    "tekken": tekken_folder,
    "tiktoken": tiktoken_folder,
    "sentencepiece": sentence_piece_folder,
}


@pytest.mark.parametrize(
    ("formats", "parsed", "warning"),
    [
        (["tokenizer.json"], "tokenizer.json", None),
        (["tokenizer.json", "sentencepiece"], "tokenizer.json", "read tokenizer.json, ignored tokenizer.model"),
        (["tokenizer.json", "tekken"], "tokenizer.json", "read tokenizer.json, ignored tekken.json"),
        (["tekken", "sentencepiece"], "tekken", "read tekken.json, ignored tokenizer.model"),
        (["tiktoken", "sentencepiece"], "tiktoken", "read tiny.tiktoken, ignored tokenizer.model"),
        (
            ["tekken", "tiktoken", "sentencepiece", "tokenizer.json"],
            "tokenizer.json",
            "read tokenizer.json, ignored tekken.json, tiny.tiktoken, tokenizer.model",
        ),
    ],
)
def test_the_preferred_format_is_parsed_and_the_others_are_named(
    tmp_path: Path, formats: list[str], parsed: str, warning: str | None
) -> None:
    for name in formats:
        FOLDERS[name](tmp_path)
    model = parse_folder(tmp_path)
    assert model.tokenizer.format == parsed
    assert [line for line in model.warnings if line.startswith("read ")] == ([warning] if warning else [])


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "vocab.json", {})
    assert refuse_folder(tmp_path).endswith("add a tokenizer.json, tekken.json, *.tiktoken or *.model")


@pytest.mark.parametrize("end", [99999, [2, 99999]])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_stop_id_that_does_not_exist_is_refused(tmp_path: Path, name: str, end: object) -> None:
    FOLDERS[name](tmp_path)
    write_json(tmp_path / "config.json", {"eos_token_id": end})
    message = refuse_folder(tmp_path)
    expected = "99999 ends a generation (config.json: eos_token_id): the configuration is another model's"
    assert message.endswith(expected)


def test_a_stop_id_in_the_padding_is_accepted(tmp_path: Path) -> None:
    write_json(tokenizer_folder(tmp_path) / "config.json", {"eos_token_id": 9, "vocab_size": 10})
    assert parse_folder(tmp_path).stop_token_ids == (9,)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_same_files_give_the_same_bytes(tmp_path: Path, name: str) -> None:
    contents = {
        build(FOLDERS[name](tmp_path / place / "tok"), "tiny", tmp_path / place / "out").path.read_bytes()
        for place in ("a", "b")
    }
    assert len(contents) == 1


@pytest.mark.parametrize("name", FOLDERS)
def test_the_files_own_digest_is_kept(tmp_path: Path, name: str) -> None:
    folder = FOLDERS[name](tmp_path)
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert build_folder(folder).manifest.source_sha256 in digests


LIMITED_MEMORY: Final = """
import resource, sys
from pathlib import Path
from layer_compiler import LayerError, build
resource.setrlimit(resource.RLIMIT_AS, (1500 << 20, 1500 << 20))
for line in sys.stdin:
    try:
        build(Path(line.strip()), "tiny", Path(sys.argv[1]))
    except LayerError as error:
        print(error, flush=True)
"""
SIZES: Final = ("default_vocab_size", "default_num_special_tokens")
BOMBS: Final[dict[str, tuple[str, Callable[[], bytes]]]] = {
    "lists in tokenizer.json": ("tokenizer.json", lambda: b"[" + b"[]," * (9 << 20) + b"[]]"),
    "lists in a configuration": ("tokenizer_config.json", lambda: b'{"a":[' + b"[]," * (9 << 20) + b"[]]}"),
    "a large tokenizer.json": ("tokenizer.json", lambda: b'{"a":"' + b"a" * (128 << 20)),
    "lists in tekken.json": ("tekken.json", lambda: b'{"vocab":[' + b"[]," * (20 << 20) + b"[]]}"),
    "objects in tekken.json": ("tekken.json", lambda: b'{"vocab":[' + b"{}," * (20 << 20) + b"{}]}"),
    "an unknown field in tekken.json": ("tekken.json", lambda: b'{"a":[' + b"[]," * (20 << 20) + b"[]]}"),
    "ranks": ("a.tiktoken", lambda: b"AA== 0\n" * (5 << 20)),
    "blank lines": ("a.tiktoken", lambda: b"\n" * (5 << 20)),
    "pieces": ("tokenizer.model", lambda: b"\x0a\x00" * (5 << 20)),
    "a piece": ("tokenizer.model", lambda: b"\x0a\xff\xff\xff\xff\x0f" + b"a" * (10 << 20)),
    "a rank of many ids": (
        "tekken.json",
        lambda: json.dumps(tekken(config=dict.fromkeys(SIZES, 2**22))).encode(),
    ),
    "a size of many ids": (
        "config.json",
        lambda: json.dumps({"vocab_size": 10**12}).encode(),
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the memory limit is Linux's")
def test_files_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    """One process with little memory refuses them all."""
    with subprocess.Popen(
        [sys.executable, "-c", LIMITED_MEMORY, str(tmp_path / "out")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, (bomb, (name, content)) in enumerate(BOMBS.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            if "config" in name:
                tokenizer_folder(folder)
            (folder / name).write_bytes(content())
            process.stdin.write(f"{folder}\n")
            assert process.stdout.readline().startswith(str(folder)), bomb
            (folder / name).unlink()
    assert process.returncode == 0
    assert not list(tmp_path.glob("out/*"))


def test_the_function_imports_no_library_of_a_format() -> None:
    names = ("tiktoken", "sentencepiece", "mistral_common", "layer_compiler")
    script = (
        f"import sys, derender.http.app, derender.settings; print([n for n in {names} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_compiler_imports_a_library_only_when_it_parses_its_format() -> None:
    names = ("tiktoken", "sentencepiece", "mistral_common", "boto3", "huggingface_hub", "httpx", "rich")
    script = f"import sys, layer_compiler, layer_compiler.cli; print([n for n in {names} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
