"""Layers are published in AWS once."""

from __future__ import annotations

import io
import os
import shutil
import sys
import zipfile
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

import layer_compiler
from derender.cli import main
from derender.vocabulary import load
from layer_compiler import LayerError
from layer_compiler.publishing import lambda_layer
from layer_compiler.publishing.archive import pack
from layer_compiler.publishing.lambda_layer import RUNTIMES
from tests.support.small_tokenizers import byte_level_tokenizer, sentence_piece_tokenizer, write_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REGION: Final = "eu-central-1"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a layer of two models, in a folder with their tokenizers."""
    work = tmp_path_factory.mktemp("layers")
    for name, tokenizer, licence in (
        ("org/tiny", byte_level_tokenizer(), "MIT"),
        ("spm", sentence_piece_tokenizer(strip=True), "Apache-2.0"),
    ):
        source = write_folder(work / name.replace("/", "-"), tokenizer)
        layer_compiler.build(source, name, work / "layer", licence=licence)
    return work


@pytest.fixture
def folder(compiled: Path, tmp_path: Path) -> Path:
    """Return a copy of that layer."""
    return shutil.copytree(compiled / "layer", tmp_path / "layer")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in for AWS, with a bucket."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with mock_aws():
        boto3.client("s3", REGION).create_bucket(
            Bucket="archives", CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield


def publish(folder: Path, *more: str, name: str = "models") -> int:
    return main(["layer", "publish", str(folder), "--name", name, "--region", REGION, *more])


def versions(name: str = "models") -> list[Any]:
    return [*boto3.client("lambda", REGION).list_layer_versions(LayerName=name)["LayerVersions"]]


def stored(version: int = 1) -> bytes:
    """Return the archive of a version, as Lambda stores it."""
    from moto.awslambda.models import lambda_backends

    account = boto3.client("sts", REGION).get_caller_identity()["Account"]
    layer = lambda_backends[account][REGION].get_layer_version("models", str(version))
    content: bytes = layer.code_bytes
    return content


def test_the_same_vocabularies_give_the_same_archive(folder: Path) -> None:
    first = pack(folder)
    for number, path in enumerate(sorted(folder.iterdir())):
        os.utime(path, (number, number))
        path.chmod(0o600)
    (folder / "notes.txt").write_text("not packed")
    assert pack(folder) == first


def test_an_archive_holds_the_folder_that_lambda_mounts(folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(pack(folder).content)) as zipped:
        members = zipped.infolist()
        assert [each.filename for each in members] == ["tokenizer/org--tiny.vocab", "tokenizer/spm.vocab"]
        for each in members:
            assert zipped.read(each) == (folder / each.filename.removeprefix("tokenizer/")).read_bytes()
            assert each.external_attr >> 16 == 0o100644
            assert each.date_time == (1980, 1, 1, 0, 0, 0)


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("bucket", [(), ("--bucket", "archives")])
def test_a_version_is_published_and_its_arn_printed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], bucket: tuple[str, ...]
) -> None:
    assert publish(folder, *bucket) == 0
    (version,) = versions()
    assert capsys.readouterr().out == f"{version['LayerVersionArn']}\n"
    assert version["CompatibleRuntimes"] == [*RUNTIMES]
    assert set(version["CompatibleArchitectures"]) == {"x86_64", "arm64"}
    assert version["LicenseInfo"] == "MIT, Apache-2.0"
    assert version["Description"].startswith("org/tiny, spm; sha256:")
    with zipfile.ZipFile(io.BytesIO(stored())) as zipped:
        zipped.extractall(tmp_path / "opt")
    mounted = tmp_path / "opt" / "tokenizer"
    assert [load(path).manifest.name for path in sorted(mounted.iterdir())] == ["org/tiny", "spm"]


@pytest.mark.usefixtures("aws")
def test_the_archive_is_uploaded_to_the_bucket(folder: Path) -> None:
    assert publish(folder, "--bucket", "archives") == 0
    s3 = boto3.client("s3", REGION)
    (each,) = s3.list_objects_v2(Bucket="archives")["Contents"]
    packed = pack(folder)
    assert each["Key"] == f"models/{packed.digest}.zip"
    assert s3.get_object(Bucket="archives", Key=each["Key"])["Body"].read() == packed.content


@pytest.mark.usefixtures("aws")
def test_the_same_layer_is_not_published_twice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish(folder) == 0
    first = capsys.readouterr()
    assert first.err.startswith("published: ")
    assert publish(folder) == 0
    second = capsys.readouterr()
    assert (second.out, second.err.startswith("already published: ")) == (first.out, True)
    assert len(versions()) == 1


@pytest.mark.usefixtures("aws")
def test_a_changed_layer_is_published(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish(folder) == 0
    assert publish(folder, "--architectures", "arm64") == 0
    arn = capsys.readouterr().out.splitlines()
    (folder / "spm.vocab").unlink()
    assert publish(folder) == 0
    assert len(versions()) == 3
    # An earlier version is found too.
    assert publish(folder, "--architectures", "arm64", "x86_64") == 0
    assert len(versions()) == 3
    assert len(set(arn)) == 2


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("bucket", [(), ("--bucket", "archives")])
def test_a_dry_run_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], bucket: tuple[str, ...]
) -> None:
    assert publish(folder, "--dry-run", *bucket) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "would upload s3://archives/models/" if bucket else "would publish a version of models ("
    )
    assert versions() == []
    assert "Contents" not in boto3.client("s3", REGION).list_objects_v2(Bucket="archives")
    assert publish(folder, *bucket) == 0
    arn = capsys.readouterr().out.strip()
    assert publish(folder, "--dry-run", *bucket) == 0
    assert capsys.readouterr().out == f"nothing to do: {arn} is the same\n"


def test_a_long_description_is_cut(folder: Path, compiled: Path) -> None:
    name = "a" * 190
    layer_compiler.build(compiled / "spm", name, folder)
    plan = lambda_layer.plan_publishing(folder, "models")
    assert len(plan.description) <= 256
    assert plan.description.endswith(f"…; sha256:{plan.archive.digest}")


@pytest.mark.parametrize(
    ("limit", "arguments", "problem"),
    [
        ("MAX_UNPACKED_BYTES", (), "Lambda unpacks"),
        ("MAX_REQUEST_BYTES", (), "come from S3: set --bucket"),
        (None, ("--name", "a/b"), "'a/b': a layer's name has letters"),
    ],
)
def test_a_layer_beyond_lambdas_limits_is_refused(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    limit: str | None,
    arguments: tuple[str, ...],
    problem: str,
) -> None:
    if limit:
        monkeypatch.setattr(lambda_layer, limit, 1000)
    assert publish(folder, *arguments) == 1
    assert problem in capsys.readouterr().err


@pytest.mark.usefixtures("aws")
def test_a_large_archive_goes_through_the_bucket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lambda_layer, "MAX_REQUEST_BYTES", 1000)
    assert publish(folder, "--bucket", "archives") == 0
    assert len(versions()) == 1


def test_a_damaged_vocabulary_is_not_published(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "spm.vocab"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert publish(folder) == 1
    assert "damaged" in capsys.readouterr().err


@pytest.mark.usefixtures("aws")
def test_a_refusal_of_aws_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert publish(folder, "--bucket", "missing") == 1
    assert capsys.readouterr().err.startswith("derender: AWS: An error occurred (NoSuchBucket)")

    def refuse(*_: Any, **__: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no\nand no"}}, "ListLayerVersions")

    monkeypatch.setattr(boto3, "client", refuse)
    assert publish(folder) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_another_stored_archive_is_reported(folder: Path) -> None:
    lambda_ = Mock()
    lambda_.get_paginator.return_value.paginate.return_value = []
    lambda_.publish_layer_version.return_value = {
        "LayerVersionArn": "arn:1",
        "Content": {"CodeSha256": "another"},
    }
    with pytest.raises(LayerError, match="arn:1: holds another archive than was sent; don't use it"):
        lambda_layer.publish(lambda_layer.plan_publishing(folder, "models"), lambda_, Mock())


def test_a_missing_package_is_named_with_its_extra(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert publish(folder) == 1
    assert "publish: needs boto3: pip install 'derender[publish]'" in capsys.readouterr().err
