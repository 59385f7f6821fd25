"""S3 as a store: uploads in parts, and what S3's errors become."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import EndpointConnectionError
from botocore.response import StreamingBody

from derender.batch.stores.s3 import connect
from derender.batch.stores.store import Changed, Forbidden, NotFound, Refused, StoreError, Unavailable
from tests.batch.bucket import BUCKET, Bucket


def test_a_large_object_is_uploaded_in_parts(bucket: Bucket) -> None:
    contents = [bytes([number]) * (5 << 20) for number in range(8)]
    assert bucket.store.write_chunks(f"s3://{BUCKET}/a", contents) == 40 << 20
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
def test_errors_of_s3_become_errors_of_stores(
    bucket: Bucket, status: int, code: str, error: type[StoreError]
) -> None:
    bucket.on_call = lambda _operation, _parameters: (status, code)
    store, name = bucket.store, f"s3://{BUCKET}/a"
    for ask in (
        lambda: store.stat(name),
        lambda: store.exists(name),
        lambda: list(store.list_names(f"{name}/")),
        lambda: store.read(name),
        lambda: store.read_range(name, 0, 1, etag="x"),
        lambda: store.write(name, b""),
        lambda: store.write_chunks(name, [b""]),
    ):
        with pytest.raises(error, match=name) as raised:
            ask()
        assert type(raised.value) is error


@pytest.mark.parametrize("name", ["s3://no bucket/a", "s3://abc--x-s3/a", "s3://xn--abc/a", "s3://sthree-a/a"])
def test_an_impossible_bucket_is_refused(bucket: Bucket, name: str) -> None:
    with pytest.raises(Refused):
        bucket.store.read(name)


@pytest.mark.parametrize("answer", [(503, "SlowDown"), (400, "InvalidURI"), (404, "NoSuchKey")])
def test_messages_do_not_quote_odd_names(bucket: Bucket, answer: tuple[int, str]) -> None:
    bucket.on_call = lambda _operation, _parameters: answer
    with pytest.raises(StoreError) as raised:
        bucket.store.read(f"s3://{BUCKET}/What is it?")
    assert str(raised.value).startswith(f"s3://{BUCKET}/… ") or ": ClientError" in str(raised.value)
    assert "What" not in str(raised.value)


def test_messages_of_boto3_that_quote_odd_names_are_left_out(bucket: Bucket) -> None:
    def fail(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url=f"https://s3/{BUCKET}/What%20is%20it%3F")

    bucket.client.meta.events.register("before-call.s3.GetObject", fail)
    with pytest.raises(Unavailable) as raised:
        bucket.store.read(f"s3://{BUCKET}/What is it?")
    assert str(raised.value) == f"s3://{BUCKET}/…: EndpointConnectionError"


def test_an_answer_that_breaks_off_is_requested_again(bucket: Bucket) -> None:
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


def test_a_failed_connection_is_unavailable(bucket: Bucket) -> None:
    def fail(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://s3")

    bucket.client.meta.events.register("before-call.s3.ListObjectsV2", fail)
    with pytest.raises(Unavailable):
        bucket.store.exists(f"s3://{BUCKET}/a")


@pytest.mark.usefixtures("bucket")
def test_a_client_that_s3_slows_down_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_object_that_was_cut_is_changed(bucket: Bucket) -> None:
    name = bucket.put("a", b"0123456789")
    with pytest.raises(Changed, match="a was cut"):
        bucket.store.read_range(name, 5, 11, etag=bucket.store.stat(name).etag)


def test_a_missing_profile_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "quixotic")
    with pytest.raises(Unavailable, match=r"^S3: .*quixotic"):
        connect()
