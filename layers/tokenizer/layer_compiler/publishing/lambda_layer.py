"""A layer in AWS: packed, put into a bucket where it has to be, and published once.

    plan = plan_publishing(folder, LayerVersion(…))
    published = publish(plan, …)

The description of a version holds a digest of its content. What has been published with the same properties is
not published again.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from .archive import Archive, archive, unpacked_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_lambda.type_defs import LayerVersionsListItemTypeDef
    from mypy_boto3_s3 import S3Client

__all__ = ["ARCHITECTURES", "RUNTIMES", "Plan", "PublishError", "Published", "plan_publishing", "publish"]

Architecture = Literal["x86_64", "arm64"]
ARCHITECTURES: Final[tuple[Architecture, ...]] = ("x86_64", "arm64")
RUNTIMES: Final = ("python3.13",)
"""The function's, as template.yaml has it."""
MOST_UNPACKED: Final = 250 * 1024 * 1024
"""What Lambda unpacks for a function, its layers included."""
MOST_DIRECT: Final = 50 * 1024 * 1024
"""Largest archive that Lambda takes in a request; others come from S3."""

_LAYER_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,140}")
_LONGEST_DESCRIPTION: Final = 256
_LONGEST_LICENCE: Final = 512


class PublishError(ValueError):
    """A layer that can't be published; one line that says why."""


@dataclass(frozen=True)
class Plan:
    """What is to be published."""

    name: str
    archive: Archive
    bucket: str | None
    """Where the archive is put; None where it is sent along."""
    architectures: tuple[Architecture, ...]

    @property
    def key(self) -> str:
        """The archive's name in the bucket: the same content has the same."""
        return f"{self.name}/{self.archive.digest}.zip"

    @property
    def mark(self) -> str:
        """What the description of a version with this content ends with."""
        return f"sha256:{self.archive.digest}"

    @property
    def description(self) -> str:
        """The models, as many as there is room for, and the mark."""
        room = _LONGEST_DESCRIPTION - len(self.mark) - 2
        models = ", ".join(manifest.name for manifest in self.archive.manifests)
        return f"{models if len(models) <= room else models[: room - 1] + '…'}; {self.mark}"

    @property
    def licence(self) -> str:
        """The licences of all models, each once."""
        named = dict.fromkeys(manifest.licence for manifest in self.archive.manifests if manifest.licence)
        return ", ".join(named)[:_LONGEST_LICENCE]


@dataclass(frozen=True)
class Published:
    """A version of a layer."""

    arn: str
    is_new: bool
    """Whether it was made now."""


def plan_publishing(
    folder: Path,
    name: str,
    *,
    bucket: str | None = None,
    architectures: Sequence[Architecture] = ARCHITECTURES,
) -> Plan:
    """Pack a folder's vocabularies.

    Args:
        folder: The layer's folder.
        name: The layer's name in AWS.
        bucket: Where to put the archive; by default it is sent along, which only smaller ones can be.
        architectures: What processors it is offered for. It suits all.

    Raises:
        PublishError: It is too large, or the name is none.
        VocabularyError: There is no vocabulary in the folder, or one is damaged.
    """
    if not _LAYER_NAME.fullmatch(name):
        raise PublishError(f"{name[:140]!r} is no layer's name: letters, digits, - and _, 140 at most")
    size = unpacked_size(folder)
    if size > MOST_UNPACKED:
        raise PublishError(
            f"{folder}: {size / 1024**2:.0f} MB; Lambda unpacks {MOST_UNPACKED // 1024**2} MB at most, the "
            "function included: make several layers of it"
        )
    packed = archive(folder)
    if bucket is None and len(packed.content) > MOST_DIRECT:
        raise PublishError(
            f"{folder}: {len(packed.content) / 1024**2:.0f} MB packed; more than {MOST_DIRECT // 1024**2} MB "
            "come from S3 only: give a --bucket"
        )
    return Plan(name, packed, bucket, tuple(dict.fromkeys(architectures)))


def published_before(plan: Plan, lambda_: LambdaClient) -> Published | None:
    """The latest version of the layer that is the same, if there is one."""
    pages = lambda_.get_paginator("list_layer_versions").paginate(LayerName=plan.name)
    for version in (each for page in pages for each in page["LayerVersions"]):
        if _is_same(plan, version):
            return Published(version["LayerVersionArn"], is_new=False)
    return None


def publish(plan: Plan, lambda_: LambdaClient, s3: S3Client) -> Published:
    """Publish a layer, unless it was.

    Args:
        plan: What to publish.
        lambda_: The region's Lambda.
        s3: The bucket's S3.

    Raises:
        PublishError: Lambda keeps another archive than was sent.
    """
    before = published_before(plan, lambda_)
    if before is not None:
        return before
    content: dict[str, Any] = {"ZipFile": plan.archive.content}
    if plan.bucket is not None:
        s3.put_object(
            Bucket=plan.bucket, Key=plan.key, Body=plan.archive.content, ContentType="application/zip"
        )
        content = {"S3Bucket": plan.bucket, "S3Key": plan.key}
    made = lambda_.publish_layer_version(
        LayerName=plan.name,
        Description=plan.description,
        Content=content,  # type: ignore[arg-type]
        CompatibleRuntimes=[*RUNTIMES],
        CompatibleArchitectures=[*plan.architectures],
        LicenseInfo=plan.licence,
    )
    if made["Content"].get("CodeSha256") != code_sha256(plan.archive):
        raise PublishError(f"{made['LayerVersionArn']}: holds another archive than was sent; don't use it")
    return Published(made["LayerVersionArn"], is_new=True)


def code_sha256(packed: Archive) -> str:
    """The digest of the archive, as Lambda says it."""
    return base64.b64encode(hashlib.sha256(packed.content).digest()).decode()


def _is_same(plan: Plan, version: LayerVersionsListItemTypeDef) -> bool:
    return (
        version.get("Description", "").endswith(plan.mark)
        and set(version.get("CompatibleArchitectures", ())) == set(plan.architectures)
        and set(version.get("CompatibleRuntimes", ())) == set(RUNTIMES)
        and version.get("LicenseInfo", "") == plan.licence
    )
