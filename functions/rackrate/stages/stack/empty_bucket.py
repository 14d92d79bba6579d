"""Empty bucket: empty a bucket, because CloudFormation deletes only an empty one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rackrate.errors import suppress_codes
from rackrate.stack.custom_resource import Answer


class NotEmpty(Exception):
    """The bucket still has objects."""


def empty(bucket: str, s3: Any, *, seconds: float) -> int:
    """Delete every version of every object and every delete marker.

    Args:
        bucket: the bucket; it is no error when the bucket is gone already.
        s3: a boto3 client.
        seconds: how long it may take.

    Returns:
        How many versions and markers were deleted.

    Raises:
        NotEmpty: the time was up before all were deleted, or S3 refused to delete some.
    """
    deadline = time.monotonic() + seconds
    deleted = 0
    with suppress_codes("NoSuchBucket"):
        # Always read the first page, because each deletion moves the remaining objects up. A page
        # has at most 1000 entries, which is also the limit of one deletion.
        while versions := _first_page(bucket, s3):
            if time.monotonic() > deadline:
                raise NotEmpty(
                    f"{deleted} objects of the bucket {bucket} were deleted and there was no time"
                    " for the rest; delete the stack again"
                )
            response = s3.delete_objects(Bucket=bucket, Delete={"Objects": versions, "Quiet": True})
            if errors := response.get("Errors"):
                first = errors[0]
                raise NotEmpty(
                    f"{len(errors)} objects of the bucket {bucket} could not be deleted; the first"
                    f" is {first['Key']}: {first['Code']}, {first.get('Message', '')}"
                )
            deleted += len(versions)
    return deleted


def _first_page(bucket: str, s3: Any) -> list[dict[str, str]]:
    page = s3.list_object_versions(Bucket=bucket)
    return [
        {"Key": entry["Key"], "VersionId": entry["VersionId"]}
        for entry in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
    ]


def serve_request(event: Mapping[str, Any], s3: Any, *, seconds: float) -> Answer:
    """Handle CloudFormation's request: empty the bucket when the resource is deleted.

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
