"""Which of a folder's tokenizers is read, and files that are there to do harm."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from derender.vocabulary import load
from layer_compiler import build
from layer_compiler.formats import FORMATS
from layer_compiler.model_files.filenames import wanted

from .building import built, refused
from .files import sentence_piece_folder as model_folder
from .files import tekken, tekken_folder, tiktoken_folder, write_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKENIZER: Final = {
    "model": {"type": "BPE", "vocab": {"H": 0, "i": 1, "Hi": 2}, "merges": ["H i"]},
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "added_tokens": [],
}


def tokenizer_folder(folder: Path) -> Path:
    """A folder with a tokenizer.json."""
    write_json(folder / "tokenizer.json", TOKENIZER)
    return folder


MAKERS: Final[dict[str, Callable[[Path], Path]]] = {
    "tokenizer.json": tokenizer_folder,
    "tekken": tekken_folder,
    "tiktoken": tiktoken_folder,
    "sentencepiece": model_folder,
}


@pytest.mark.parametrize(
    ("formats", "taken", "passed_over"),
    [
        (["tokenizer.json"], "tokenizer.json", ""),
        (["tokenizer.json", "sentencepiece"], "tokenizer.json", "tokenizer.json was read, tokenizer.model not"),
        (["tokenizer.json", "tekken"], "tokenizer.json", "tokenizer.json was read, tekken.json not"),
        (["tekken", "sentencepiece"], "tekken", "tekken.json was read, tokenizer.model not"),
        (["tiktoken", "sentencepiece"], "tiktoken", "tiny.tiktoken was read, tokenizer.model not"),
        (
            ["tekken", "tiktoken", "sentencepiece", "tokenizer.json"],
            "tokenizer.json",
            "tokenizer.json was read, tekken.json, tiny.tiktoken, tokenizer.model not",
        ),
    ],
)
def test_which_format_is_read(tmp_path: Path, formats: list[str], taken: str, passed_over: str) -> None:
    for name in formats:
        MAKERS[name](tmp_path)
    path, _, unknown = build(tmp_path, "tiny", tmp_path / "out")
    assert load(path).manifest.source_format == taken
    assert [line for line in unknown if "was read" in line] == [passed_over] * bool(passed_over)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "vocab.json", {})
    assert refused(tmp_path).endswith("no tokenizer.json, tekken.json, *.tiktoken or *.model")


@pytest.mark.parametrize("end", [99999, [2, 99999]])
@pytest.mark.parametrize("name", MAKERS)
def test_an_end_that_is_none_of_the_ids_is_refused(tmp_path: Path, name: str, end: object) -> None:
    MAKERS[name](tmp_path)
    write_json(tmp_path / "config.json", {"eos_token_id": end})
    message = refused(tmp_path)
    assert "99999 ends a text (config.json: eos_token_id): that is another model's configuration" in message


def test_an_end_in_the_padding_is_taken(tmp_path: Path) -> None:
    write_json(tokenizer_folder(tmp_path) / "config.json", {"eos_token_id": 9, "vocab_size": 10})
    assert load(build(tmp_path, "tiny", tmp_path / "out").path).manifest.stop_token_ids == (9,)


@pytest.mark.parametrize("name", ["tekken_240911.json", "a.tiktoken", "tokenizer.model.v3", "a.model.v7m1"])
def test_each_name_that_a_format_finds_is_one_that_is_read(tmp_path: Path, name: str) -> None:
    assert wanted(name)
    assert any(each.find(tmp_path, [name]) for each in FORMATS)


@pytest.mark.parametrize("name", ["tekken_old.json.bak", "a.model.v3.bak", "a.model.v1000", "a.tiktoken.gz"])
def test_no_format_finds_a_name_that_is_not_read(tmp_path: Path, name: str) -> None:
    assert not wanted(name)
    assert not any(each.find(tmp_path, [name]) for each in FORMATS)


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_files_give_the_same_bytes(tmp_path: Path, name: str) -> None:
    contents = {
        build(MAKERS[name](tmp_path / place / "tok"), "tiny", tmp_path / place / "out").path.read_bytes()
        for place in ("a", "b")
    }
    assert len(contents) == 1


@pytest.mark.parametrize("name", MAKERS)
def test_what_was_proven_with_which_library_is_said(tmp_path: Path, name: str) -> None:
    proof = build(MAKERS[name](tmp_path), "tiny", tmp_path / "out").proof
    assert proof is not None
    assert (proof.library, proof.ids > 0) == (
        {
            "tokenizer.json": "tokenizers",
            "tekken": "mistral-common",
            "tiktoken": "tiktoken",
            "sentencepiece": "sentencepiece",
        }[name],
        True,
    )


@pytest.mark.parametrize("name", MAKERS)
def test_the_files_own_digest_is_kept(tmp_path: Path, name: str) -> None:
    folder = MAKERS[name](tmp_path)
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert built(folder).manifest.source_sha256 in digests


@pytest.mark.parametrize("name", ["tekken", "tiktoken", "sentencepiece"])
def test_a_reading_that_is_wrong_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As if a piece had been read otherwise than the library does."""
    formats = sys.modules["layer_compiler.formats"]
    genuine = formats.source

    def wrong(tokens: object, configuration: object) -> object:
        read = genuine(tokens, configuration)
        read.pieces[260] += b"x"
        return read

    monkeypatch.setattr(formats, "source", wrong)
    assert "library says" in _refusal(MAKERS[name](tmp_path))


def _refusal(folder: Path) -> str:
    with pytest.raises(ValueError, match=r"^ids \[") as error:
        build(folder, "tiny", folder / "out")
    assert not list(folder.glob("out/*"))
    return str(error.value)


LEAST_MEMORY: Final = """
import resource, sys
from pathlib import Path
from layer_compiler import BuildError, build
resource.setrlimit(resource.RLIMIT_AS, (1500 << 20, 1500 << 20))
try:
    build(Path(sys.argv[1]), "tiny", Path(sys.argv[2]))
except BuildError as error:
    print(error)
"""
SIZES: Final = ("default_vocab_size", "default_num_special_tokens")
BOMBS: Final[dict[str, tuple[str, Callable[[], bytes]]]] = {
    "lists in tokenizer.json": ("tokenizer.json", lambda: b"[" + b"[]," * (20 << 20) + b"[]]"),
    "lists in a configuration": ("tokenizer_config.json", lambda: b'{"a":[' + b"[]," * (20 << 20) + b"[]]}"),
    "a large tokenizer.json": ("tokenizer.json", lambda: b'{"a":"' + b"a" * (140 << 20) + b'"}'),
    "lists in tekken.json": ("tekken.json", lambda: b'{"vocab":[' + b"[]," * (20 << 20) + b"[]]}"),
    "objects in tekken.json": ("tekken.json", lambda: b'{"vocab":[' + b"{}," * (20 << 20) + b"{}]}"),
    "an unknown field in tekken.json": ("tekken.json", lambda: b'{"a":[' + b"[]," * (20 << 20) + b"[]]}"),
    "ranks": ("a.tiktoken", lambda: b"AA== 0\n" * (17 << 20)),
    "blank lines": ("a.tiktoken", lambda: b"\n" * (120 << 20)),
    "pieces": ("tokenizer.model", lambda: b"\x0a\x00" * (40 << 20)),
    "a piece": ("tokenizer.model", lambda: b"\x0a\xff\xff\xff\xff\x0f" + b"a" * (100 << 20)),
    "a rank of many ids": (
        "tekken.json",
        lambda: json.dumps(tekken(config=dict.fromkeys(SIZES, 2**22))).encode(),
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the memory limit is Linux's")
@pytest.mark.parametrize(("name", "content"), BOMBS.values(), ids=BOMBS)
def test_files_that_are_to_fill_the_memory_are_refused(
    tmp_path: Path, name: str, content: Callable[[], bytes]
) -> None:
    folder = tmp_path / "tok"
    folder.mkdir()
    (folder / name).write_bytes(content())
    if name == "tokenizer_config.json":
        tokenizer_folder(folder)
    command = [sys.executable, "-c", LEAST_MEMORY, str(folder), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    (folder / name).unlink()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(folder))
    assert done.stdout.count("\n") == 1
    assert not list(tmp_path.glob("out/*"))


def test_the_function_imports_none_of_the_formats_libraries() -> None:
    names = ("tiktoken", "sentencepiece", "mistral_common", "layer_compiler")
    script = (
        f"import sys, derender.http.app, derender.settings; print([n for n in {names} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_format_imports_no_library_but_its_own() -> None:
    names = ("tiktoken", "sentencepiece", "mistral_common")
    script = f"import sys, layer_compiler; print([n for n in {names} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
