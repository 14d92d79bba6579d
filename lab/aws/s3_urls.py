"""Objects named by URL: https, http (the lab's endpoint) and s3."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from botocore.exceptions import ClientError

from .cloudformation.engine import StackError
from .cloudformation.template import URL_BYTES

if TYPE_CHECKING:
    from .services import Services


def bucket_and_key(url: str) -> tuple[str, str]:
    """Bucket and key of an S3 URL in path style, virtual-host style, or s3://.

    A host that is not AWS's is this endpoint, which is addressed in path style.
    """
    parts = urlparse(url)
    path = unquote(parts.path.lstrip("/"))
    host = parts.hostname or ""
    if parts.scheme == "s3":
        return parts.netloc, path
    if host.endswith("amazonaws.com") and not host.startswith("s3"):
        return host.split(".s3", 1)[0], path
    bucket, _, key = path.partition("/")
    return bucket, key


def read_s3_url(services: Services, url: str) -> bytes:
    """The object's content. Raises StackError as CloudFormation does for what it cannot read."""
    bucket, key = bucket_and_key(url)
    try:
        found = services.clients.get("s3").get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        raise StackError(
            "ValidationError", f"S3 error: {error.response['Error']['Message']} ({url})"
        ) from error
    return bytes(found["Body"].read())


def read_template_url(services: Services, url: str) -> str:
    """A template named by URL. Raises StackError, also for one that is too large."""
    content = read_s3_url(services, url)
    if len(content) > URL_BYTES:
        raise StackError("ValidationError", f"Template may not exceed {URL_BYTES} bytes in size.")
    return content.decode()
