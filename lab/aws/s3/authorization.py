"""Checks S3's requests against the caller's permissions: actions, keys, listing and presigned URLs.

S3 does not share the code of moto's other services, and its actions have names of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import xmltodict  # type: ignore[import-untyped]
from moto.s3.exceptions import BucketAccessDeniedError, S3ClientError
from moto.s3.models import s3_backends
from moto.s3.responses import S3Response

from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.authorization.actions import Need
from lab.aws.authorization.authorizer import AccessDenied, Authorizer
from lab.aws.iam.policies import as_list
from lab.aws.kms import customer_key
from lab.aws.s3.presigned_urls import require_signature

# Operations whose IAM action has another name; for the rest moto uses IAM's names.
_ACTIONS = {"HeadBucket": "ListBucket", "SelectObject": "GetObject"}
_SUBRESOURCES = {
    "encryption": "EncryptionConfiguration",
    "ownershipControls": "BucketOwnershipControls",
    "publicAccessBlock": "BucketPublicAccessBlock",
    "object-lock": "BucketObjectLockConfiguration",
}
#: The condition keys of the requests that S3 makes to KMS.
_OF_S3 = {"kms:viaservice": [f"s3.{REGION}.amazonaws.com"], "kms:calleraccount": [ACCOUNT_ID]}


def authorize(
    self: S3Response,
    authorizer: Authorizer,
    bucket_name: str | None = None,
    key_name: str | None = None,
) -> None:
    """Refuse a request to S3 that the caller may not make. Raises S3's own error."""
    require_signature(self)
    session = authorizer.session(_access_key(self))
    if session is None:
        return
    role_arn, caller = session
    query = self.querystring
    prefix = query.get("prefix", [None])[0]
    context: dict[str, list[str]] = {"s3:prefix": [str(prefix)]} if prefix else {}
    checks = [
        (_needs(self, bucket_name, key_name), context),
        (_key_needs(self, bucket_name, key_name), _OF_S3),
        (_listing_needs(self, bucket_name, key_name), {}),
    ]
    try:
        for needed, of_request in checks:
            authorizer.require(role_arn, needed, of_request, caller=caller)
    except AccessDenied as denied:
        if bucket_name and "delete" in query:
            raise BucketAccessDeniedError(bucket_name) from denied  # S3 reports it for each object
        raise S3ClientError("AccessDenied", str(denied)) from denied


def _key_needs(response: S3Response, bucket_name: str | None, key_name: str | None) -> list[Need]:
    """The uses that S3 makes, for the caller, of the object's customer-managed key, if any."""
    bucket = s3_backends[ACCOUNT_ID]["aws"].buckets.get(bucket_name or "")
    if bucket is None or key_name is None:
        return []
    action = response.data["Action"]
    if action in ("GetObject", "GetObjectVersion") and response.method == "GET":
        stored = bucket.keys.get(key_name)
        key_id = stored.kms_key_id if stored and stored.encryption == "aws:kms" else None
        actions = ["kms:Decrypt"]
    elif action == "PutObject":
        rule = (bucket.encryption or {}).get("Rule") or {}
        default = rule.get("ApplyServerSideEncryptionByDefault") or {}
        key_id = response.headers.get(
            "x-amz-server-side-encryption-aws-kms-key-id", default.get("KMSMasterKeyID")
        )
        multipart = {"uploads", "uploadId"} & set(response.querystring)
        actions = ["kms:GenerateDataKey", *(["kms:Decrypt"] if multipart else [])]
    else:
        return []
    key_arn = customer_key(key_id)
    return [(name, key_arn) for name in actions] if key_arn else []


def _listing_needs(
    response: S3Response, bucket_name: str | None, key_name: str | None
) -> list[Need]:
    """S3 says that an object does not exist only to those who may list the bucket."""
    bucket = s3_backends[ACCOUNT_ID]["aws"].buckets.get(bucket_name or "")
    if bucket is None or key_name is None or key_name in bucket.keys:
        return []
    is_read = response.data["Action"] == "GetObject"
    return [("s3:ListBucket", f"arn:aws:s3:::{bucket_name}")] if is_read else []


def _access_key(response: S3Response) -> str:
    credential = response.querystring.get("X-Amz-Credential")
    if credential:  # a presigned URL
        return str(credential[0]).split("/", 1)[0]
    return response.access_key


def _needs(response: S3Response, bucket: str | None, key: str | None) -> list[Need]:
    action = str(response.data["Action"])
    if key is None:
        for name, subject in _SUBRESOURCES.items():
            if name in response.querystring:
                action = f"{'Get' if response.method == 'GET' else 'Put'}{subject}"
    action = f"s3:{_ACTIONS.get(action, action)}"
    if bucket is None:
        return [(action, "*")]
    resource = f"arn:aws:s3:::{bucket}"
    if key is None and "delete" in response.querystring:
        return [
            (
                "s3:DeleteObjectVersion" if item.get("VersionId") else "s3:DeleteObject",
                f"{resource}/{item['Key']}",
            )
            for item in _deleted_objects(response.body)
        ]
    needs = [(action, f"{resource}/{key}" if key is not None else resource)]
    source = response.headers.get("x-amz-copy-source")
    if source:
        needs.append(("s3:GetObject", f"arn:aws:s3:::{unquote(source).lstrip('/')}"))
    return needs


def _deleted_objects(body: bytes | str) -> list[Mapping[str, Any]]:
    document = xmltodict.parse(body, strip_whitespace=False)
    return as_list(document["Delete"].get("Object"))
