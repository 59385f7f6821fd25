"""Fetch a model's files from S3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layer_compiler.errors import LayerError, explain_missing_package
from layer_compiler.model_files.filenames import TEMPLATE_FOLDER, is_model_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["fetch_prefix"]

MAX_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of all files together. The largest tokenizers in use have a sixth of it."""
_CHUNK_BYTES: Final = 1024 * 1024


def fetch_prefix(uri: str, folder: Path) -> None:
    """Download the tokenizer and configuration files directly under a prefix, and its chat templates.

    boto3 finds the credentials, the region and the endpoint.

    Args:
        uri: `s3://bucket/prefix` or `s3://bucket`.
        folder: Where to put the files.

    Raises:
        LayerError: There are no such files, they are too large, or they can't be fetched.
    """
    with explain_missing_package(uri):
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    if not bucket:
        raise LayerError(f"{uri}: expected s3://bucket/prefix")
    # The slash keeps models/a apart from models/a-large.
    prefix = f"{path.rstrip('/')}/" if path.rstrip("/") else ""
    bytes_left, found = MAX_BYTES, False
    try:
        s3 = boto3.client("s3")
        list_objects = s3.get_paginator("list_objects_v2").paginate
        keys = [
            item["Key"]
            for start in (prefix, f"{prefix}{TEMPLATE_FOLDER}/")
            for page in list_objects(Bucket=bucket, Prefix=start, Delimiter="/")
            for item in page.get("Contents", ())
        ]
        # A key may be any text. Only the names of model files become paths.
        for name in filter(is_model_file, (key.removeprefix(prefix) for key in keys)):
            found = True
            (folder / name).parent.mkdir(exist_ok=True)
            body = s3.get_object(Bucket=bucket, Key=prefix + name)["Body"]
            with (folder / name).open("wb") as file:
                while chunk := body.read(_CHUNK_BYTES):
                    bytes_left -= len(chunk)
                    if bytes_left < 0:
                        raise LayerError(f"{uri}: its files are larger than {MAX_BYTES >> 20} MB")
                    file.write(chunk)
    except (BotoCoreError, ClientError, OSError) as error:
        raise LayerError(f"{uri}: S3: {error}") from error
    if not found:
        raise LayerError(f"{uri}: no tokenizer or configuration file is directly under it")
