"""Signatures of presigned requests (Signature Version 4), as the services check them.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from lab.aws.iam.identity import iam, sts

_UNRESERVED = "-_.~"


class SignatureRefused(Exception):
    """Why a signature is not accepted."""


def secret_of(key_id: str, security_token: str) -> str:
    """The secret access key of a user's or a session's key. Raises SignatureRefused."""
    key = iam().access_keys.get(key_id)
    session = sts().get_assumed_role_from_access_key(key_id)
    if key is None and session is None:
        raise SignatureRefused("The security token included in the request is invalid")
    if session is not None:
        if not hmac.compare_digest(security_token, str(session.session_token)):
            raise SignatureRefused("The security token included in the request is invalid")
        if session.expiration < datetime.datetime.now(tz=session.expiration.tzinfo or None):
            raise SignatureRefused("The security token included in the request is expired")
    return str(session.secret_access_key if session is not None else key.secret_access_key)  # type: ignore[union-attr]


def signature(
    secret: str,
    *,
    path: str,
    pairs: Sequence[tuple[str, str]],
    headers: Mapping[str, str],
    signed: Sequence[str],
    payload_hash: str,
    time: str,
    scope: str,
) -> str:
    """The signature of a presigned GET.

    Args:
        secret: the secret access key.
        path: as it is in the URL, encoded.
        pairs: the query's parameters, decoded; the signature among them is left out.
        headers: the signed headers, by their name in lower case.
        signed: the names of the signed headers in the order of the URL.
        payload_hash: the hash that the service uses for the empty body.
        time: X-Amz-Date.
        scope: date, Region, service and terminator, as in X-Amz-Credential.
    """
    canonical = "\n".join(
        [
            "GET",
            path or "/",
            "&".join(
                f"{quote(name, safe=_UNRESERVED)}={quote(value, safe=_UNRESERVED)}"
                for name, value in sorted(pairs)
                if name.lower() != "x-amz-signature"
            ),
            *(f"{name}:{headers[name]}" for name in signed),
            "",
            ";".join(signed),
            payload_hash,
        ]
    )
    text = "\n".join(
        ["AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()]
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
