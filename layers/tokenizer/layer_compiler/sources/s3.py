"""A tokenizer's files from under an S3 prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layer_compiler.errors import OriginError
from layer_compiler.model_files.filenames import TEMPLATES, wanted

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["fetch_prefix"]

MOST_BYTES: Final = 256 * 1024 * 1024
"""Of all files together. The largest tokenizers in use have a sixth of it."""
_CHUNK: Final = 1024 * 1024


def fetch_prefix(uri: str, folder: Path) -> None:
    """Download the tokenizer and configuration files directly under a prefix, and its chat templates.

    Credentials, the region and the endpoint are found as boto3 does.

    Args:
        uri: `s3://bucket/prefix`, or `s3://bucket`.
        folder: Where to put them.

    Raises:
        OriginError: They can't be had, there are none, or they are too large.
    """
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ModuleNotFoundError as error:
        raise OriginError(f"{uri}: S3 needs {error.name}: pip install 'derender[build]'") from None
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    if not bucket:
        raise OriginError(f"{uri}: it must be s3://bucket/prefix")
    # With its slash, or models/a would hold what models/a-large holds.
    prefix = f"{path.rstrip('/')}/" if path.rstrip("/") else ""
    left, found = MOST_BYTES, False
    try:
        s3 = boto3.client("s3")
        list_objects = s3.get_paginator("list_objects_v2").paginate
        keys = [
            each["Key"]
            for place in (prefix, f"{prefix}{TEMPLATES}/")
            for page in list_objects(Bucket=bucket, Prefix=place, Delimiter="/")
            for each in page.get("Contents", ())
        ]
        for key in keys:
            # A key is anything: only one of the expected paths becomes one here.
            if not wanted(name := key.removeprefix(prefix)):
                continue
            (folder / name).parent.mkdir(exist_ok=True)
            found = True
            body = s3.get_object(Bucket=bucket, Key=key)["Body"]
            with (folder / name).open("wb") as file:
                while chunk := body.read(_CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        raise OriginError(f"{uri}: its files have more than {MOST_BYTES:,} bytes")
                    file.write(chunk)
    except (BotoCoreError, ClientError) as error:
        raise OriginError(f"{uri}: S3: {error}") from error
    if not found:
        raise OriginError(f"{uri}: no tokenizer or configuration file is directly under it")
