"""S3 as a store: names are `s3://bucket/key`."""

from __future__ import annotations

import contextlib
import io
import re
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

from .stores import Changed, Forbidden, NotFound, Refused, Stat, StoreError, TooLarge, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mypy_boto3_s3 import S3Client

__all__ = ["S3Store", "connect"]

CONNECTIONS: Final = 32
ATTEMPTS: Final = 8
"""Of each request, and of each answer that breaks off."""
CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 60
"""Without a byte."""
MULTIPART: Final = 16 * 1024 * 1024
"""Bytes of a part of an upload, of which there may be 10,000."""

_ERRORS: Final[dict[str, type[StoreError]]] = {
    "404": NotFound,  # what HEAD says, which has no body
    "NoSuchBucket": NotFound,
    "NoSuchKey": NotFound,
    "NoSuchVersion": NotFound,
    "403": Forbidden,
    "AccessDenied": Forbidden,
    "AllAccessDisabled": Forbidden,
    "InvalidObjectState": Forbidden,  # it is archived
    "412": Changed,
    "PreconditionFailed": Changed,
    "InvalidRange": Changed,
}
"""What is known of answers. Others are told apart by their status."""
_PASSING: Final = re.compile(
    r"Throttl|SlowDown|TooMany|Busy|Timeout|TimedOut|Internal|Unavailable|Expired|TimeTooSkewed|Conflict|Aborted"
    r"|InvalidAccessKeyId|InvalidToken|TokenRefreshRequired|SignatureDoesNotMatch"
)
"""Refusals that say nothing of what was asked for: to ask later, or with other credentials, may help."""
_PASSING_STATUSES: Final = {408, 409, 425, 429}
_REFUSED: Final = (
    EndpointProviderError,
    InvalidDNSNameError,
    InvalidHostLabelError,
    ParamValidationError,
    UnicodeError,  # of what looks like a host name, and is none
    UnsupportedS3AccesspointConfigurationError,
    UnsupportedS3ArnError,
    UnsupportedS3ConfigurationError,
)
"""Names that the client does not ask for."""
_HARMLESS: Final = re.compile(r"s3://[a-z0-9.-]{3,63}/[A-Za-z0-9._/=+:@-]{0,256}")
"""A name that looks like one. Others may be anything that a line holds, and are not told to anyone."""
_MEANINGS: Final[dict[type[StoreError], str]] = {
    NotFound: "is not there",
    Forbidden: "may not be read or written",
    Changed: "was replaced",
    Refused: "is no name that S3 takes, or it can't do that with it",
}


def connect() -> S3Store:
    """A store with a client of its own. Credentials, the region and the endpoint are found as boto3 does.

    Raises:
        Unavailable: They can't be.
    """
    # Not the adaptive mode: it holds all requests back for one that is slowed down, whatever bucket that asks.
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
    """A `Store` of objects in S3.

    Args:
        client: What asks S3.
    """

    def __init__(self, client: S3Client) -> None:
        self._client = client

    def stat(self, name: str) -> Stat:
        """An object's size and etag."""
        with _errors(name):
            found = self._client.head_object(**_place(name))
        return Stat(found["ContentLength"], found["ETag"])

    def has(self, name: str) -> bool:
        """Whether there is an object. Listed, since S3 says that one is not there only to who may list."""
        bucket, key = _split(name)
        with _errors(name):
            found = self._client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        return any(each["Key"] == key for each in found.get("Contents", ()))

    def names(self, prefix: str) -> Iterator[str]:
        """The names that begin with a prefix, in order."""
        bucket, key = _split(prefix)
        with _errors(prefix):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key):
                yield from (f"s3://{bucket}/{each['Key']}" for each in page.get("Contents", ()))

    def read(self, name: str, *, most: int | None = None) -> bytes:
        """A whole object."""
        return self._read(name, most, {})

    def read_range(self, name: str, start: int, end: int, *, etag: str) -> bytes:
        """Some of an object."""
        content = self._read(name, None, {"Range": f"bytes={start}-{end - 1}", "IfMatch": etag})
        if len(content) != end - start:
            raise Changed(f"{_shown(name)} was cut")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Put an object."""
        with _errors(name):
            self._client.put_object(**_place(name), Body=content)

    def write_all(self, name: str, contents: Iterable[bytes]) -> int:
        """Put an object in several parts: it is there when all of them are."""
        bucket, key = _split(name)
        reader = _Reader(contents)
        config = TransferConfig(MULTIPART, multipart_chunksize=MULTIPART, use_threads=False)
        with _errors(name):
            self._client.upload_fileobj(io.BufferedReader(reader, MULTIPART), bucket, key, Config=config)
        return reader.size

    def _read(self, name: str, most: int | None, asked: dict[str, Any]) -> bytes:
        with _errors(name):
            for attempt in range(1, ATTEMPTS + 1):
                found = self._client.get_object(**_place(name), **asked)
                with contextlib.closing(found["Body"]) as body:
                    if most is not None and found["ContentLength"] > most:
                        raise TooLarge(f"{_shown(name)} has more than {most} bytes")
                    # The client tries again what fails before the body.
                    try:
                        return body.read()
                    except (IncompleteReadError, ReadTimeoutError, ResponseStreamingError):
                        if attempt == ATTEMPTS:
                            raise
        raise AssertionError


class _Reader(io.RawIOBase):
    """Some bytes as a file.

    Attributes:
        size: How many were read.
    """

    def __init__(self, contents: Iterable[bytes]) -> None:
        self._contents = iter(contents)
        self._content = memoryview(b"")
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            content = next(self._contents, None)
            if content is None:
                return 0
            self._content = memoryview(content)
        count = min(len(buffer), len(self._content))
        buffer[:count], self._content = self._content[:count], self._content[count:]
        self.size += count
        return count


def _split(name: str) -> tuple[str, str]:
    bucket, _, key = name.removeprefix("s3://").partition("/")
    return bucket, key


def _place(name: str) -> dict[str, Any]:
    bucket, key = _split(name)
    return {"Bucket": bucket, "Key": key}


@contextlib.contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError, UnicodeError) as error:
        kind, shown = _kind(error), _shown(name)
        if kind in _MEANINGS:
            raise kind(f"{shown} {_MEANINGS[kind]}") from error
        # What the client says may quote the name.
        raise kind(f"{shown}: {error if shown == name else type(error).__name__}") from error


def _kind(error: ClientError | BotoCoreError | UnicodeError) -> type[StoreError]:
    if not isinstance(error, ClientError):
        return Refused if isinstance(error, _REFUSED) else Unavailable
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _ERRORS:
        return _ERRORS[code]
    if not 300 <= status < 500 or status in _PASSING_STATUSES or _PASSING.search(code):
        return Unavailable
    return Forbidden if code.startswith("KMS.") else Refused


def _shown(name: str) -> str:
    return name if _HARMLESS.fullmatch(name) else f"s3://{_split(name)[0]}/…"
