"""Presigned URLs of objects: S3 serves them to anyone who has one, until they expire.

moto accepts the name of the access key in the URL as proof, so the lab checks the signature.
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

from __future__ import annotations

import datetime
import hmac
from urllib.parse import parse_qsl, urlsplit

from moto.s3.exceptions import S3ClientError
from moto.s3.responses import S3Response

from lab.aws.iam.signatures import SignatureRefused, secret_of, signature

_LONGEST_SECONDS = 7 * 86_400
_PAYLOAD = "UNSIGNED-PAYLOAD"


def require_signature(response: S3Response) -> None:
    """Refuse a presigned URL with a wrong signature or one that has expired, as S3 does.

    Requests without a presigned URL pass.
    """
    # The URL as it was sent, because the signature covers the encoded form.
    url = urlsplit(response.request.environ["RAW_URI"])
    # "+" is a plus in S3's queries.
    pairs = parse_qsl(url.query.replace("+", "%2B"), keep_blank_values=True)
    query = dict(pairs)
    if response.method != "GET" or "X-Amz-Signature" not in query:
        return
    try:
        signed_at = datetime.datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
        seconds = int(query["X-Amz-Expires"])
        key_id, _, scope = query["X-Amz-Credential"].partition("/")
        signed = query["X-Amz-SignedHeaders"].split(";")
    except (KeyError, ValueError) as error:
        raise S3ClientError("AuthorizationQueryParametersError", str(error)) from error
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise S3ClientError(
            "AuthorizationQueryParametersError",
            "X-Amz-Expires must be less than a week (in seconds) that is 604800",
        )
    age = datetime.datetime.now(tz=datetime.UTC) - signed_at.replace(tzinfo=datetime.UTC)
    if age.total_seconds() > seconds:
        raise S3ClientError("AccessDenied", "Request has expired")
    headers = {name.lower(): value for name, value in response.request.headers.items()}
    try:
        expected = signature(
            secret_of(key_id, query.get("X-Amz-Security-Token", "")),
            path=url.path,
            pairs=pairs,
            headers={name: headers.get(name, "") for name in signed},
            signed=signed,
            payload_hash=_PAYLOAD,
            time=query["X-Amz-Date"],
            scope=scope,
        )
    except SignatureRefused as error:
        raise S3ClientError("InvalidToken", str(error)) from error
    if not hmac.compare_digest(expected, query["X-Amz-Signature"]):
        raise S3ClientError(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided."
            " Check your key and signing method.",
        )
