"""Files as a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from derender.batch.stores.files import FileStore
from derender.batch.stores.store import Changed, Forbidden, Unavailable


def test_lists_leave_out_files_that_are_being_written(tmp_path: Path) -> None:
    store, listed = FileStore(), list[Path]()

    def contents() -> Any:
        yield b"1"
        listed.extend(tmp_path.iterdir())
        assert list(store.list_names(f"{tmp_path}/")) == []

    store.write_chunks(f"{tmp_path}/a", contents())
    assert len(listed) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_unreadable_file_is_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError  # root never gets one

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(Forbidden):
        FileStore().read(f"{tmp_path}/a")


def test_a_folder_is_no_object(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="directory"):
        FileStore().read(str(tmp_path))


def test_a_file_has_the_permissions_of_new_files(tmp_path: Path) -> None:
    FileStore().write(f"{tmp_path}/a", b"")
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_file_that_was_cut_is_changed(tmp_path: Path) -> None:
    store = FileStore()
    store.write(f"{tmp_path}/a", b"0123456789")
    with pytest.raises(Changed, match="a was cut"):
        store.read_range(f"{tmp_path}/a", 5, 11, etag=store.stat(f"{tmp_path}/a").etag)
