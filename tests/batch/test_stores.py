"""Stores: what holds of all, and what S3's answers mean."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import EndpointConnectionError
from botocore.response import StreamingBody

from derender.batch.folder import FileStore
from derender.batch.s3 import MULTIPART, connect
from derender.batch.stores import Changed, Forbidden, NotFound, Refused, StoreError, TooLarge, Unavailable

from .support import BUCKET, Bucket, Memory

if TYPE_CHECKING:
    from derender.batch.stores import Store

Place = tuple["Store", str]


@pytest.fixture(params=["files", "s3", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A store, and what names in it begin with."""
    if request.param == "files":
        return FileStore(), f"{tmp_path}/"
    if request.param == "memory":
        return Memory(), "folder/"
    bucket: Bucket = request.getfixturevalue("bucket")
    return bucket.store, f"s3://{BUCKET}/folder/"


# --- what holds of all ----------------------------------------------------------------------------------------


def test_what_is_written_is_read(place: Place) -> None:
    store, folder = place
    store.write(f"{folder}a/b", b"0123456789")
    assert store.read(f"{folder}a/b") == b"0123456789"
    assert store.has(f"{folder}a/b")
    assert not store.has(f"{folder}a/")
    size, etag = store.stat(f"{folder}a/b")
    assert size == 10
    assert store.read_range(f"{folder}a/b", 2, 5, etag=etag) == b"234"


def test_names_are_in_order(place: Place) -> None:
    store, folder = place
    for name in ("c/2", "c/10", "c/1", "d/1", "c-/1"):
        store.write(folder + name, b"")
    assert list(store.names(f"{folder}c/")) == [f"{folder}c/{name}" for name in ("1", "10", "2")]
    assert list(store.names(f"{folder}e/")) == []


def test_an_object_may_be_replaced(place: Place) -> None:
    store, folder = place
    store.write(f"{folder}a", b"first")
    before = store.stat(f"{folder}a").etag
    store.write(f"{folder}a", b"other")
    assert store.read(f"{folder}a") == b"other"
    with pytest.raises(Changed):
        store.read_range(f"{folder}a", 0, 1, etag=before)


def test_an_object_that_is_too_large_is_not_read(place: Place) -> None:
    store, folder = place
    store.write(f"{folder}a", b"12345")
    assert store.read(f"{folder}a", most=5) == b"12345"
    with pytest.raises(TooLarge):
        store.read(f"{folder}a", most=4)


def test_what_is_not_there_is_not_found(place: Place) -> None:
    store, folder = place
    assert not store.has(f"{folder}a")
    for ask in (store.stat, store.read, lambda name: store.read_range(name, 0, 1, etag='"x"')):
        with pytest.raises(NotFound, match=f"{folder}a is not there|^{folder}a"):
            ask(f"{folder}a")


@pytest.mark.parametrize(
    "contents", [[], [b""], [b"ab", b"", b"c"], [b"x" * 1000] * 3], ids=["none", "empty", "some", "more"]
)
def test_an_object_may_be_written_piece_by_piece(place: Place, contents: list[bytes]) -> None:
    store, folder = place
    assert store.write_all(f"{folder}a/b", iter(contents)) == len(b"".join(contents))
    assert store.read(f"{folder}a/b") == b"".join(contents)


def test_what_is_not_complete_is_not_there(place: Place) -> None:
    store, folder = place

    def contents() -> Any:
        yield b"x" * (MULTIPART + 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write_all(f"{folder}a", contents())
    assert not store.has(f"{folder}a")
    assert list(store.names(folder)) == []


# --- S3 -------------------------------------------------------------------------------------------------------


def test_a_large_object_is_uploaded_in_parts(bucket: Bucket) -> None:
    contents = [bytes([number]) * (5 << 20) for number in range(8)]
    assert bucket.store.write_all(f"s3://{BUCKET}/a", contents) == 40 << 20
    assert [name for name, _ in bucket.calls] == [
        "CreateMultipartUpload",
        *["UploadPart"] * 3,
        "CompleteMultipartUpload",
    ]
    assert bucket.store.read(f"s3://{BUCKET}/a") == b"".join(contents)


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (404, "NoSuchKey", NotFound),
        (404, "NoSuchBucket", NotFound),
        (404, "404", NotFound),
        (403, "AccessDenied", Forbidden),
        (403, "403", Forbidden),
        (403, "InvalidObjectState", Forbidden),
        (412, "PreconditionFailed", Changed),
        (416, "InvalidRange", Changed),
        (503, "SlowDown", Unavailable),
        (503, "503", Unavailable),
        (500, "InternalError", Unavailable),
        (400, "ExpiredToken", Unavailable),
        (403, "RequestTimeTooSkewed", Unavailable),
        (400, "KMS.ThrottlingException", Unavailable),
        (400, "RequestTimeout", Unavailable),
        (429, "429", Unavailable),
        (409, "OperationAborted", Unavailable),
        (403, "InvalidAccessKeyId", Unavailable),
        (404, "NoSuchVersion", NotFound),
        (400, "KMS.DisabledException", Forbidden),
        (400, "KMS.NotFoundException", Forbidden),
        (400, "KeyTooLongError", Refused),
        (400, "InvalidBucketName", Refused),
        (400, "InvalidURI", Refused),
        (400, "InvalidArgument", Refused),
        (400, "InvalidRequest", Refused),
        (301, "PermanentRedirect", Refused),
        (405, "MethodNotAllowed", Refused),
    ],
)
def test_what_s3_answers_is_an_error_of_stores(
    bucket: Bucket, status: int, code: str, error: type[StoreError]
) -> None:
    bucket.on_call = lambda _operation, _parameters: (status, code)
    store, name = bucket.store, f"s3://{BUCKET}/a"
    for ask in (
        lambda: store.stat(name),
        lambda: store.has(name),
        lambda: list(store.names(f"{name}/")),
        lambda: store.read(name),
        lambda: store.read_range(name, 0, 1, etag="x"),
        lambda: store.write(name, b""),
        lambda: store.write_all(name, [b""]),
    ):
        with pytest.raises(error, match=name) as raised:
            ask()
        assert type(raised.value) is error


@pytest.mark.parametrize("name", ["s3://no bucket/a", "s3://abc--x-s3/a", "s3://xn--abc/a"])
def test_a_bucket_that_can_not_be_is_refused(bucket: Bucket, name: str) -> None:
    with pytest.raises(Refused):
        bucket.store.read(name)


@pytest.mark.parametrize("answer", [(503, "SlowDown"), (400, "InvalidURI"), (404, "NoSuchKey")])
def test_a_name_that_may_be_anything_is_not_told(bucket: Bucket, answer: tuple[int, str]) -> None:
    bucket.on_call = lambda _operation, _parameters: answer
    with pytest.raises(StoreError) as raised:
        bucket.store.read(f"s3://{BUCKET}/What is it?")
    assert str(raised.value).startswith(f"s3://{BUCKET}/… ") or ": ClientError" in str(raised.value)
    assert "What" not in str(raised.value)


def test_a_failure_that_quotes_a_name_is_not_told(bucket: Bucket) -> None:
    def fail(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url=f"https://s3/{BUCKET}/What%20is%20it%3F")

    bucket.client.meta.events.register("before-call.s3.GetObject", fail)
    with pytest.raises(Unavailable) as raised:
        bucket.store.read(f"s3://{BUCKET}/What is it?")
    assert str(raised.value) == f"s3://{BUCKET}/…: EndpointConnectionError"


def test_an_answer_that_breaks_off_is_asked_for_again(bucket: Bucket) -> None:
    name = bucket.put("a", b"0123456789")
    broken = [3, 0]

    def cut(parsed: Any, **_: object) -> None:
        if broken:
            parsed["Body"] = StreamingBody(io.BytesIO(b"0123456789"[: broken.pop()]), 10)

    bucket.client.meta.events.register("after-call.s3.GetObject", cut)
    assert bucket.store.read(name) == b"0123456789"
    assert len(bucket.calls) == 3
    broken += [1] * 100
    with pytest.raises(Unavailable):
        bucket.store.read(name)


def test_a_connection_that_fails_is_unavailable(bucket: Bucket) -> None:
    def fail(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://s3")

    bucket.client.meta.events.register("before-call.s3.ListObjectsV2", fail)
    with pytest.raises(Unavailable):
        bucket.store.has(f"s3://{BUCKET}/a")


@pytest.mark.usefixtures("bucket")
def test_a_client_that_is_slowed_down_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time.sleep", waited.append)
    store = connect()
    slowed = [b"SlowDown"] * 3

    def slow_down(request: Any, **_: object) -> AWSResponse | None:
        if not slowed:
            return None
        content = b"<Error><Code>%b</Code></Error>" % slowed.pop()
        raw = SimpleNamespace(stream=lambda *_, **__: iter([content]))
        return AWSResponse(request.url, 503, HTTPHeaders(), raw)

    store._client.meta.events.register_first("before-send.s3", slow_down)  # type: ignore[arg-type] # it may answer
    store.write(f"s3://{BUCKET}/a", b"1")
    assert store.read(f"s3://{BUCKET}/a") == b"1"
    assert len(waited) == 3


# --- files ----------------------------------------------------------------------------------------------------


def test_a_file_that_is_being_written_is_in_no_list(tmp_path: Path) -> None:
    store, listed = FileStore(), list[Path]()

    def contents() -> Any:
        yield b"1"
        listed.extend(tmp_path.iterdir())
        assert list(store.names(f"{tmp_path}/")) == []

    store.write_all(f"{tmp_path}/a", contents())
    assert len(listed) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_that_may_not_be_read_is_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError  # as all but root are

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
