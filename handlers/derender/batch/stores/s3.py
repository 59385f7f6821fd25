"""S3 as a store: names are `s3://bucket/key`."""

from __future__ import annotations

import io
import re
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from boto3.s3.transfer import TransferConfig
from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointProviderError,
    IncompleteReadError,
    InvalidDNSNameError,
    InvalidHostLabelError,
    ParamValidationError,
    ReadTimeoutError,
    ResponseStreamingError,
    UnsupportedS3AccesspointConfigurationError,
    UnsupportedS3ArnError,
    UnsupportedS3ConfigurationError,
)

from .store import Changed, Forbidden, NotFound, Refused, Stat, StoreError, TooLarge, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mypy_boto3_s3 import S3Client

__all__ = ["S3Store", "connect"]

CONNECTIONS: Final = 32
ATTEMPTS: Final = 8
"""Attempts at each request, and at each answer that breaks off."""
CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 60
"""Longest silence while an answer is read."""
PART_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a part of an upload. S3 takes 10,000 parts."""

_ERRORS: Final[dict[str, type[StoreError]]] = {
    "404": NotFound,  # of HEAD, whose answer has no body
    "NoSuchBucket": NotFound,
    "NoSuchKey": NotFound,
    "NoSuchVersion": NotFound,
    "403": Forbidden,
    "AccessDenied": Forbidden,
    "AllAccessDisabled": Forbidden,
    "InvalidObjectState": Forbidden,  # the object is archived
    "412": Changed,
    "PreconditionFailed": Changed,
    "InvalidRange": Changed,
}
"""S3's error code → the error. The status decides about other codes."""
_TEMPORARY: Final = re.compile(
    r"Throttl|SlowDown|TooMany|Busy|Timeout|TimedOut|Internal|Unavailable|Expired|TimeTooSkewed|Conflict|Aborted"
    r"|InvalidAccessKeyId|InvalidToken|TokenRefreshRequired|SignatureDoesNotMatch"
)
"""Codes of refusals that a later request, or one with other credentials, may not meet."""
_TEMPORARY_STATUSES: Final = {408, 409, 425, 429}
_REFUSED: Final = (
    EndpointProviderError,
    InvalidDNSNameError,
    InvalidHostLabelError,
    ParamValidationError,
    UnicodeError,  # a bucket that looks like a host name and is none
    UnsupportedS3AccesspointConfigurationError,
    UnsupportedS3ArnError,
    UnsupportedS3ConfigurationError,
)
"""Errors of names that boto3 does not send to S3."""
_RESERVED: Final = re.compile(r"s3://(?:xn--|sthree-|amzn-s3-demo-)")
"""Prefixes of buckets that S3 reserves. Which of them boto3 sends depends on Python's version."""
_HARMLESS: Final = re.compile(r"s3://[a-z0-9.-]{3,63}/[A-Za-z0-9._/=+:@-]{0,256}")
"""Names that messages may quote. Other names may hold anything that a line held."""
_MEANINGS: Final[dict[type[StoreError], str]] = {
    NotFound: "does not exist",
    Forbidden: "may not be read or written",
    Changed: "was replaced",
    Refused: "is a name or a request that S3 refuses",
}


def connect() -> S3Store:
    """Return a store with a client of its own. boto3 finds the credentials, the region and the endpoint.

    Raises:
        Unavailable: boto3 can't find them.
    """
    # The adaptive mode would slow down the requests to all buckets if one bucket is busy.
    config = Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        max_pool_connections=CONNECTIONS,
    )
    try:
        return S3Store(Session().client("s3", config=config))
    except BotoCoreError as error:
        raise Unavailable(f"S3: {error}") from error


class S3Store:
    """A `Store` of objects in S3."""

    def __init__(self, client: S3Client) -> None:
        self._client = client

    def stat(self, name: str) -> Stat:
        """Return an object's size and etag."""
        with _store_errors(name):
            head = self._client.head_object(**_bucket_and_key(name))
        return Stat(head["ContentLength"], head["ETag"])

    def exists(self, name: str) -> bool:
        """Return whether an object exists. To callers that may not list, S3 answers a HEAD with 403."""
        bucket, key = _split(name)
        with _store_errors(name):
            page = self._client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        return any(each["Key"] == key for each in page.get("Contents", ()))

    def list_names(self, prefix: str) -> Iterator[str]:
        """Return the names that start with a prefix, in order."""
        bucket, key = _split(prefix)
        with _store_errors(prefix):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key):
                yield from (f"s3://{bucket}/{each['Key']}" for each in page.get("Contents", ()))

    def read(self, name: str, *, max_bytes: int | None = None) -> bytes:
        """Return an object."""
        return self._read(name, max_bytes)

    def read_range(self, name: str, start: int, end: int, *, etag: str) -> bytes:
        """Return some bytes of an object."""
        content = self._read(name, None, Range=f"bytes={start}-{end - 1}", IfMatch=etag)
        if len(content) != end - start:
            raise Changed(f"{_quotable(name)} was cut")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write an object."""
        with _store_errors(name):
            self._client.put_object(**_bucket_and_key(name), Body=content)

    def write_chunks(self, name: str, chunks: Iterable[bytes]) -> int:
        """Upload an object in parts. It exists once all of them are there."""
        bucket, key = _split(name)
        reader = _ChunkReader(chunks)
        config = TransferConfig(PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False)
        with _store_errors(name):
            self._client.upload_fileobj(io.BufferedReader(reader, PART_BYTES), bucket, key, Config=config)
        return reader.size

    def _read(self, name: str, max_bytes: int | None, **parameters: Any) -> bytes:
        attempt = 0
        with _store_errors(name):
            while True:
                attempt += 1
                answer = self._client.get_object(**_bucket_and_key(name), **parameters)
                with closing(answer["Body"]) as body:
                    if max_bytes is not None and answer["ContentLength"] > max_bytes:
                        raise TooLarge(f"{_quotable(name)} has more than {max_bytes} bytes")
                    # boto3 retries a request, but not an answer that breaks off.
                    try:
                        return body.read()
                    except (IncompleteReadError, ReadTimeoutError, ResponseStreamingError):
                        if attempt == ATTEMPTS:
                            raise


class _ChunkReader(io.RawIOBase):
    """Chunks as a file. `size` counts the bytes that were read."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        self.size += count
        return count


def _split(name: str) -> tuple[str, str]:
    bucket, _, key = name.removeprefix("s3://").partition("/")
    return bucket, key


def _bucket_and_key(name: str) -> dict[str, Any]:
    bucket, key = _split(name)
    return {"Bucket": bucket, "Key": key}


@contextmanager
def _store_errors(name: str) -> Iterator[None]:
    if _RESERVED.match(name):
        raise Refused(f"{_quotable(name)} {_MEANINGS[Refused]}")
    try:
        yield
    except (ClientError, BotoCoreError, UnicodeError) as error:
        kind, quotable = _classify(error), _quotable(name)
        if kind in _MEANINGS:
            raise kind(f"{quotable} {_MEANINGS[kind]}") from error
        # boto3's message may quote the name.
        raise kind(f"{quotable}: {error if quotable == name else type(error).__name__}") from error


def _classify(error: ClientError | BotoCoreError | UnicodeError) -> type[StoreError]:
    if not isinstance(error, ClientError):
        return Refused if isinstance(error, _REFUSED) else Unavailable
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _ERRORS:
        return _ERRORS[code]
    if not 300 <= status < 500 or status in _TEMPORARY_STATUSES or _TEMPORARY.search(code):
        return Unavailable
    return Forbidden if code.startswith("KMS.") else Refused


def _quotable(name: str) -> str:
    return name if _HARMLESS.fullmatch(name) else f"s3://{_split(name)[0]}/…"
