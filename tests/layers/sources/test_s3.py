"""Prefixes of S3."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from layer_compiler import LayerError
from layer_compiler.sources import s3 as s3_source
from layer_compiler.sources.fetch import digest_files, fetch_model

from .files import FILES, UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """Return a client for S3 with a bucket of models. Each test uses prefixes of its own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        with mock_aws():
            client = boto3.client("s3")
            client.create_bucket(Bucket="models")
            yield client


def test_a_prefix_gives_the_files_directly_under_it_and_its_templates(s3: Any) -> None:
    elsewhere = dict.fromkeys(
        (
            "../tokenizer.json",
            "additional_chat_templates/../../x.jinja",
            "additional_chat_templates/..\\x.jinja",
            "additional_chat_templates/",
        ),
        b"elsewhere",
    )
    for name, content in (FILES | UNREAD | elsewhere).items():
        s3.put_object(Bucket="models", Key=f"a/b/{name}", Body=content)
    s3.put_object(Bucket="models", Key="a/b-large/spiece.model", Body=b"another")
    for uri in ("s3://models/a/b", "s3://models/a/b/"):
        with fetch_model(uri) as model:
            assert model.source == "s3://models/a/b"
            assert model.revision == digest_files(model.folder)
            found = {
                path.relative_to(model.folder).as_posix(): path.read_bytes()
                for path in model.folder.rglob("*")
                if path.is_file()
            }
        assert found == FILES
        assert not model.folder.exists()


def test_a_prefix_may_be_pinned_to_its_content(s3: Any) -> None:
    s3.put_object(Bucket="models", Key="tokenizer.json", Body=b"{}")
    with fetch_model("s3://models") as model:
        pass
    with fetch_model("s3://models", model.revision) as again:
        assert again.revision == model.revision
    s3.put_object(Bucket="models", Key="tokenizer.json", Body=b"{ }")
    with pytest.raises(LayerError, match=f", not {model.revision}"), fetch_model("s3://models", model.revision):
        pass


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("s3://models/nothing", "no tokenizer or configuration file"),
        ("s3://missing/a", "NoSuchBucket"),
        ("s3:///a", "expected s3://bucket/prefix"),
    ],
)
def test_a_prefix_without_files_is_refused(uri: str, problem: str) -> None:
    with pytest.raises(LayerError, match=problem), fetch_model(uri):
        pass


def test_large_files_are_not_fetched(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_source, "MAX_BYTES", 10 << 20)
    s3.put_object(Bucket="models", Key="large/config.json", Body=b"x" * (6 << 20))
    s3.put_object(Bucket="models", Key="large/tokenizer.json", Body=b"x" * (6 << 20))
    with pytest.raises(LayerError, match="its files are larger than 10 MB"), fetch_model("s3://models/large"):
        pass
