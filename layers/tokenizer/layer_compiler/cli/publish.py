"""`derender layer publish`."""

# ruff: noqa: T201 - commands print

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from layer_compiler.errors import LayerError, explain_missing_package
from layer_compiler.publishing.lambda_layer import ARCHITECTURES, find_published, plan_publishing, publish

if TYPE_CHECKING:
    import argparse

    from layer_compiler.publishing.lambda_layer import LayerVersion, Plan

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", type=Path, help="folder of compiled vocabularies")
    parser.add_argument("--name", required=True, help="the layer's name")
    parser.add_argument("--bucket", help="upload the archive to this bucket; required from 50 MB")
    parser.add_argument("--region", help="AWS region (default: that of AWS's own tools)")
    parser.add_argument(
        "--architectures",
        nargs="+",
        choices=ARCHITECTURES,
        default=ARCHITECTURES,
        help=f"processors that the layer is offered for (default: {' '.join(ARCHITECTURES)})",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, change nothing")


def run(options: argparse.Namespace) -> int:
    """Publish a layer and print its ARN."""
    plan = plan_publishing(
        options.folder, options.name, bucket=options.bucket, architectures=options.architectures
    )
    with explain_missing_package("publish", "publish"):
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    try:
        lambda_ = boto3.client("lambda", region_name=options.region)
        if options.dry_run:
            print(_preview(plan, find_published(plan, lambda_)))
            return 0
        version = publish(plan, lambda_, boto3.client("s3", region_name=options.region))
    except (BotoCoreError, ClientError) as error:
        raise LayerError(f"AWS: {error}") from error
    print(f"{'published' if version.is_new else 'already published'}: {plan.description}", file=sys.stderr)
    # Scripts read the ARN, alone on standard output.
    print(version.arn)
    return 0


def _preview(plan: Plan, published: LayerVersion | None) -> str:
    if published is not None:
        return f"nothing to do: {published.arn} is the same"
    upload = "" if plan.bucket is None else f"upload s3://{plan.bucket}/{plan.key} and "
    details = f"{len(plan.archive.content) / 1e6:.1f} MB, {', '.join(plan.architectures)}"
    return f"would {upload}publish a version of {plan.name} ({details}): {plan.description}"
