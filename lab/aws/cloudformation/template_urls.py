"""Templates named by URL: https, http (the lab's endpoint) and s3."""

from __future__ import annotations

from urllib.parse import unquote, urlparse

from botocore.exceptions import ClientError

from lab.aws.api_errors import ApiError
from lab.aws.clients import ClientFactory
from lab.aws.cloudformation.template import URL_BYTES


def read_template_url(clients: ClientFactory, url: str) -> str:
    """Read a template from S3. Raises ApiError if it cannot be read or is too large."""
    bucket, key = _bucket_and_key(url)
    try:
        response = clients.get("s3").get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        raise ApiError(
            "ValidationError", f"S3 error: {error.response['Error']['Message']} ({url})"
        ) from error
    content = response["Body"].read()
    if len(content) > URL_BYTES:
        raise ApiError("ValidationError", f"Template may not exceed {URL_BYTES} bytes in size.")
    return str(content, "utf-8")


def _bucket_and_key(url: str) -> tuple[str, str]:
    """Bucket and key of an S3 URL in path style, virtual-host style, or s3://.

    A host that is not AWS's is the lab's own endpoint, which uses path style.
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
