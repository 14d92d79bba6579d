"""Empty a bucket, because CloudFormation deletes only an empty one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from rackrate.stack.custom_resource import Answer


class NotEmpty(Exception):
    """The bucket still holds something."""


def empty(bucket: str, s3: Any, *, seconds: float) -> int:
    """Deletes every version of every object and every delete marker.

    Args:
        bucket: the bucket; one that is gone already is fine.
        s3: a boto3 client.
        seconds: how long it may take.

    Returns:
        How many were deleted.

    Raises:
        NotEmpty: there was no time for the rest, or S3 refused some.
    """
    deadline = time.monotonic() + seconds
    deleted = 0
    try:
        # Always the first page, since what is deleted moves the others. It holds at most a
        # thousand, which is what one deletion takes.
        while found := _first_page(bucket, s3):
            if time.monotonic() > deadline:
                raise NotEmpty(
                    f"{deleted} objects of the bucket {bucket} were deleted and there was no time"
                    " for the rest; delete the stack again"
                )
            answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": found, "Quiet": True})
            if errors := answer.get("Errors"):
                first = errors[0]
                raise NotEmpty(
                    f"{len(errors)} objects of the bucket {bucket} could not be deleted; the first"
                    f" is {first['Key']}: {first['Code']}, {first.get('Message', '')}"
                )
            deleted += len(found)
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchBucket":
            raise
    return deleted


def _first_page(bucket: str, s3: Any) -> list[dict[str, str]]:
    page = s3.list_object_versions(Bucket=bucket)
    return [
        {"Key": entry["Key"], "VersionId": entry["VersionId"]}
        for entry in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
    ]


def serve_request(event: Mapping[str, Any], s3: Any, *, seconds: float) -> Answer:
    """Does what CloudFormation asks: nothing, until the resource is deleted.

    Args:
        event: CloudFormation's request, with the property `BucketName`.
        s3: a boto3 client.
        seconds: how long it may take.

    Returns:
        The bucket's name as physical id, so that a bucket is emptied before it is replaced.
    """
    if event["RequestType"] != "Delete":
        return Answer(event["ResourceProperties"]["BucketName"])
    empty(event["ResourceProperties"]["BucketName"], s3, seconds=seconds)
    return Answer(event["PhysicalResourceId"])
