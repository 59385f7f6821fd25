"""A bucket of S3 that fails when a test says so."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import moto  # noqa: F401 - before the session, which it is to stand behind
from boto3.session import Session
from botocore.config import Config

from derender.batch.stores.s3 import S3Store

from .jobs import make_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from derender.batch.job import Job

__all__ = ["BUCKET", "REGION", "S3_ACCESS", "Bucket", "Death"]

BUCKET: Final = "batches"
REGION: Final = "eu-central-1"
S3_ACCESS: Final = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "key",
    "AWS_DEFAULT_REGION": REGION,
}
"""Variables of a process that uses S3, besides its endpoint."""
SESSION: Final = Session()
"""Shared, because it reads the description of S3."""


class Death(BaseException):
    """The end of a worker's process, which nothing in it can catch."""


class Bucket:
    """A bucket, used through a client that tries each request once.

    Attributes:
        store: The store.
        on_call: Called before each request, with the operation and its parameters; what it raises ends the
            request. What it returns, if anything, is the error that S3 answers with: status and code.
        calls: The operations so far.
    """

    def __init__(self) -> None:
        config = Config(retries={"mode": "standard", "total_max_attempts": 1})
        self.client = SESSION.client("s3", REGION, config=config)
        self._other = SESSION.client("s3", REGION)
        self.client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.store = S3Store(self.client)
        self.on_call: Callable[[str, Any], tuple[int, str] | None] = lambda _operation, _parameters: None
        self.calls: list[tuple[str, Any]] = []
        self.client.meta.events.register("provide-client-params.s3", self._note)
        self.client.meta.events.register("before-call.s3", self._call)  # type: ignore[arg-type] # it may answer
        # Each thread calls for itself.
        self._asked = threading.local()

    def put(self, key: str, body: bytes) -> str:
        """Put an object, and return its name."""
        self._other.put_object(Bucket=BUCKET, Key=key, Body=body)
        return f"s3://{BUCKET}/{key}"

    def job(self, content: bytes, part_bytes: int = 1 << 20) -> Job:
        """Put an input, and return its job."""
        return make_job(self.store, self.put("in.jsonl", content), f"s3://{BUCKET}/out/job-1/", part_bytes)

    def objects(self, prefix: str = "out/") -> dict[str, bytes]:
        """Return the contents of objects by their keys."""
        found = self._other.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        keys = [each["Key"] for each in found]
        return {key: self._other.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def _note(self, params: Any, **_: object) -> None:
        self._asked.parameters = params

    def _call(self, model: Any, **_: object) -> tuple[Any, Any] | None:
        parameters = self._asked.parameters
        self.calls.append((model.name, parameters))
        error = self.on_call(model.name, parameters)
        if error is None:
            return None
        status, code = error
        return SimpleNamespace(status_code=status), {
            "Error": {"Code": code, "Message": "no"},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }
