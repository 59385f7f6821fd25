"""Publish a layer in AWS, once.

The description of a version contains a digest of the layer's content. A layer is not published again if a
version has the same content and properties.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from layer_compiler.errors import LayerError

from .archive import Archive, measure_unpacked, pack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_lambda.type_defs import LayerVersionsListItemTypeDef
    from mypy_boto3_s3 import S3Client

__all__ = ["ARCHITECTURES", "RUNTIMES", "LayerVersion", "Plan", "find_published", "plan_publishing", "publish"]

Architecture = Literal["x86_64", "arm64"]
ARCHITECTURES: Final[tuple[Architecture, ...]] = ("x86_64", "arm64")
RUNTIMES: Final = ("python3.13",)
"""The functions' runtime in template.yaml."""
MAX_UNPACKED_BYTES: Final = 250 * 1024 * 1024
"""Lambda's limit for a function together with its layers."""
MAX_REQUEST_BYTES: Final = 50 * 1024 * 1024
"""Lambda's limit for an archive in a request. Larger ones must come from S3."""

_LAYER_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,140}")
_MAX_DESCRIPTION: Final = 256
_MAX_LICENCE: Final = 512


@dataclass(frozen=True)
class Plan:
    """A layer that is ready to be published."""

    name: str
    archive: Archive
    bucket: str | None
    """The bucket for the archive, or None to send it in the request."""
    architectures: tuple[Architecture, ...]

    @property
    def key(self) -> str:
        """The archive's key in the bucket, the same for the same content."""
        return f"{self.name}/{self.archive.digest}.zip"

    @property
    def mark(self) -> str:
        """The end of the description of each version with this content."""
        return f"sha256:{self.archive.digest}"

    @property
    def description(self) -> str:
        """As many models as fit, and the mark."""
        space = _MAX_DESCRIPTION - len(self.mark) - 2
        models = ", ".join(manifest.name for manifest in self.archive.manifests)
        return f"{models if len(models) <= space else models[: space - 1] + '…'}; {self.mark}"

    @property
    def licence(self) -> str:
        """The licences of all models, each once."""
        licences = dict.fromkeys(manifest.licence for manifest in self.archive.manifests if manifest.licence)
        return ", ".join(licences)[:_MAX_LICENCE]


@dataclass(frozen=True)
class LayerVersion:
    """A published version."""

    arn: str
    is_new: bool
    """Whether it was published just now."""


def plan_publishing(
    folder: Path,
    name: str,
    *,
    bucket: str | None = None,
    architectures: Sequence[Architecture] = ARCHITECTURES,
) -> Plan:
    """Pack a folder's vocabularies, and check Lambda's limits.

    Args:
        folder: The layer's folder.
        name: The layer's name in AWS.
        bucket: The bucket for the archive. By default it is sent in the request, which limits its size.
        architectures: The processors that the layer is offered for. Its content suits all.

    Raises:
        LayerError: The layer is too large, or the name is invalid.
        VocabularyError: There is no vocabulary in the folder, or one is damaged.
    """
    if not _LAYER_NAME.fullmatch(name):
        raise LayerError(f"{name[:140]!r}: a layer's name has letters, digits, - and _, at most 140")
    size = measure_unpacked(folder)
    if size > MAX_UNPACKED_BYTES:
        raise LayerError(
            f"{folder}: {size >> 20} MB; Lambda unpacks at most {MAX_UNPACKED_BYTES >> 20} MB, the function "
            "included: split the layer"
        )
    archive = pack(folder)
    if bucket is None and len(archive.content) > MAX_REQUEST_BYTES:
        raise LayerError(
            f"{folder}: {len(archive.content) >> 20} MB packed; more than {MAX_REQUEST_BYTES >> 20} MB must "
            "come from S3: set --bucket"
        )
    return Plan(name, archive, bucket, tuple(dict.fromkeys(architectures)))


def find_published(plan: Plan, lambda_: LambdaClient) -> LayerVersion | None:
    """Return the latest version with the same content and properties, if there is one."""
    pages = lambda_.get_paginator("list_layer_versions").paginate(LayerName=plan.name)
    for version in (version for page in pages for version in page["LayerVersions"]):
        if _is_same(plan, version):
            return LayerVersion(version["LayerVersionArn"], is_new=False)
    return None


def publish(plan: Plan, lambda_: LambdaClient, s3: S3Client) -> LayerVersion:
    """Publish a layer, unless it is published already.

    Args:
        plan: The packed layer.
        lambda_: Client for the region's Lambda.
        s3: Client for the bucket's S3.

    Raises:
        LayerError: Lambda stored another archive than was sent.
    """
    published = find_published(plan, lambda_)
    if published is not None:
        return published
    archive = plan.archive.content
    content: dict[str, Any] = {"ZipFile": archive}
    if plan.bucket is not None:
        s3.put_object(Bucket=plan.bucket, Key=plan.key, Body=archive, ContentType="application/zip")
        content = {"S3Bucket": plan.bucket, "S3Key": plan.key}
    version = lambda_.publish_layer_version(
        LayerName=plan.name,
        Description=plan.description,
        Content=content,  # type: ignore[arg-type]
        CompatibleRuntimes=[*RUNTIMES],
        CompatibleArchitectures=[*plan.architectures],
        LicenseInfo=plan.licence,
    )
    digest = base64.b64encode(hashlib.sha256(archive).digest()).decode()
    if version["Content"].get("CodeSha256") != digest:
        raise LayerError(f"{version['LayerVersionArn']}: holds another archive than was sent; don't use it")
    return LayerVersion(version["LayerVersionArn"], is_new=True)


def _is_same(plan: Plan, version: LayerVersionsListItemTypeDef) -> bool:
    return (
        version.get("Description", "").endswith(plan.mark)
        and set(version.get("CompatibleArchitectures", ())) == set(plan.architectures)
        and set(version.get("CompatibleRuntimes", ())) == set(RUNTIMES)
        and version.get("LicenseInfo", "") == plan.licence
    )
