"""All stores behave the same, including the one in memory that other tests use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from derender.batch.stores.files import FileStore
from derender.batch.stores.s3 import PART_BYTES
from derender.batch.stores.store import Changed, NotFound, TooLarge
from tests.batch.bucket import BUCKET, Bucket
from tests.batch.jobs import Memory

if TYPE_CHECKING:
    from pathlib import Path

    from derender.batch.stores.store import Store


Place = tuple["Store", str]


@pytest.fixture(params=["files", "s3", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return a store, and a prefix for names in it."""
    if request.param == "files":
        return FileStore(), f"{tmp_path}/"
    if request.param == "memory":
        return Memory(), "folder/"
    bucket: Bucket = request.getfixturevalue("bucket")
    return bucket.store, f"s3://{BUCKET}/folder/"


def test_a_written_object_can_be_read(place: Place) -> None:
    store, folder = place
    store.write(f"{folder}a/b", b"0123456789")
    assert store.read(f"{folder}a/b") == b"0123456789"
    assert store.exists(f"{folder}a/b")
    assert not store.exists(f"{folder}a/")
    size, etag = store.stat(f"{folder}a/b")
    assert size == 10
    assert store.read_range(f"{folder}a/b", 2, 5, etag=etag) == b"234"


def test_names_are_listed_in_order(place: Place) -> None:
    store, folder = place
    for name in ("c/2", "c/10", "c/1", "d/1", "c-/1"):
        store.write(folder + name, b"")
    assert list(store.list_names(f"{folder}c/")) == [f"{folder}c/{name}" for name in ("1", "10", "2")]
    assert list(store.list_names(f"{folder}e/")) == []


def test_an_object_may_be_replaced(place: Place) -> None:
    store, folder = place
    store.write(f"{folder}a", b"first")
    before = store.stat(f"{folder}a").etag
    store.write(f"{folder}a", b"other")
    assert store.read(f"{folder}a") == b"other"
    with pytest.raises(Changed):
        store.read_range(f"{folder}a", 0, 1, etag=before)


def test_an_object_over_the_limit_is_not_read(place: Place) -> None:
    store, folder = place
    store.write(f"{folder}a", b"12345")
    assert store.read(f"{folder}a", max_bytes=5) == b"12345"
    with pytest.raises(TooLarge):
        store.read(f"{folder}a", max_bytes=4)


def test_a_missing_object_is_not_found(place: Place) -> None:
    store, folder = place
    assert not store.exists(f"{folder}a")
    for ask in (store.stat, store.read, lambda name: store.read_range(name, 0, 1, etag='"x"')):
        with pytest.raises(NotFound, match=f"{folder}a does not exist|^{folder}a"):
            ask(f"{folder}a")


@pytest.mark.parametrize(
    "contents", [[], [b""], [b"ab", b"", b"c"], [b"x" * 1000] * 3], ids=["none", "empty", "some", "more"]
)
def test_an_object_may_be_written_in_chunks(place: Place, contents: list[bytes]) -> None:
    store, folder = place
    assert store.write_chunks(f"{folder}a/b", iter(contents)) == len(b"".join(contents))
    assert store.read(f"{folder}a/b") == b"".join(contents)


def test_an_incomplete_object_does_not_exist(place: Place) -> None:
    store, folder = place

    def contents() -> Any:
        yield b"x" * (PART_BYTES + 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write_chunks(f"{folder}a", contents())
    assert not store.exists(f"{folder}a")
    assert list(store.list_names(folder)) == []
