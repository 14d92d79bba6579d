"""The API server's token review: whether an EKS token is valid, and whose it is.

The token is a presigned STS GetCallerIdentity request. EKS sends it to STS and maps the answer
to an access entry. Source of the token's form: aws-cli, customizations/eks/get_token.py. Source of
the checks: aws-iam-authenticator, pkg/token.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from lab.aws.eks.access_entries import CLUSTER_ADMIN_POLICY
from lab.aws.eks.clusters import AccessEntry, Cluster
from lab.aws.iam.identity import iam, sts
from lab.aws.iam.signatures import SignatureRefused, secret_of, signature

_PREFIX = "k8s-aws-v1."
_CLUSTER_HEADER = "x-k8s-aws-id"
_MAX_BYTES = 4096
# EKS accepts a token for 15 minutes and ignores the expiry in the URL itself.
_LIFETIME_SECONDS = 15 * 60
# Clocks may differ by this much.
_SKEW_SECONDS = 5 * 60
_PARAMETERS = {
    "action",
    "version",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
}
_ASSUMED_ROLE = re.compile(r"arn:aws:sts::(\d+):assumed-role/([^/]+)/(.+)")


class TokenRefused(Exception):
    """Why a token is not accepted."""


@dataclass(frozen=True)
class Caller:
    """The caller whom STS names for the token's request."""

    arn: str
    account_id: str
    user_id: str
    session_name: str
    access_key_id: str

    @property
    def principal_arn(self) -> str:
        """The IAM principal: the role of an assumed-role session, else the ARN itself."""
        match = _ASSUMED_ROLE.fullmatch(self.arn)
        if match is None:
            return self.arn
        for role in iam().roles.values():
            if role.name == match[2]:
                return str(role.arn)
        return f"arn:aws:iam::{match[1]}:role/{match[2]}"


def review(request: Mapping[str, Any], cluster: Cluster, endpoint_url: str) -> dict[str, Any]:
    """Answer an authentication.k8s.io/v1 TokenReview for a cluster."""
    token = str(request.get("spec", {}).get("token", ""))
    try:
        caller = identify(token, cluster.description["name"], endpoint_url)
        status = {"authenticated": True, "user": _user(caller, cluster)}
    except TokenRefused as error:
        status = {"authenticated": False, "error": str(error)}
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "status": status,
    }


def identify(token: str, cluster_name: str, endpoint_url: str) -> Caller:
    """Check a token as EKS does, and ask STS whose it is. Raises TokenRefused."""
    if len(token) > _MAX_BYTES:
        raise TokenRefused("token is too large")
    if not token.startswith(_PREFIX):
        raise TokenRefused(f'token is missing the expected "{_PREFIX}" prefix')
    encoded = token.removeprefix(_PREFIX)
    try:
        url = base64.b64decode(
            encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True
        ).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TokenRefused(f"token is not base64: {error}") from error
    parts = urlsplit(url)
    if parts.netloc != urlsplit(endpoint_url).netloc:
        raise TokenRefused(f'unexpected hostname "{parts.netloc}" in pre-signed URL')
    if parts.path not in ("", "/"):
        raise TokenRefused("unexpected path in pre-signed URL")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = {name.lower(): value for name, value in pairs}
    if len(query) != len(pairs):
        raise TokenRefused("query parameter with multiple values not supported")
    strange = sorted(set(query) - _PARAMETERS)
    if strange:
        raise TokenRefused(f'non-whitelisted query parameter "{strange[0]}"')
    if query.get("action") != "GetCallerIdentity":
        raise TokenRefused("unexpected action parameter in pre-signed URL")
    signed = query.get("x-amz-signedheaders", "").split(";")
    if _CLUSTER_HEADER not in signed:
        raise TokenRefused(f'client did not sign the "{_CLUSTER_HEADER}" header in the request')
    _check_age(query)
    return _get_caller_identity(parts.netloc, parts.path, pairs, query, signed, cluster_name)


def _check_age(query: Mapping[str, str]) -> None:
    try:
        signed_at = datetime.datetime.strptime(
            query.get("x-amz-date", ""), "%Y%m%dT%H%M%SZ"
        ).replace(tzinfo=datetime.UTC)
        expires = int(query.get("x-amz-expires", ""))
    except ValueError as error:
        raise TokenRefused(f"X-Amz-Date or X-Amz-Expires is not valid: {error}") from error
    if not 0 <= expires <= _LIFETIME_SECONDS:
        raise TokenRefused(f"invalid X-Amz-Expires parameter in pre-signed URL: {expires}")
    age = (datetime.datetime.now(tz=datetime.UTC) - signed_at).total_seconds()
    if age < -_SKEW_SECONDS:
        raise TokenRefused("X-Amz-Date parameter is in the future")
    if age > _LIFETIME_SECONDS:
        raise TokenRefused(
            f"X-Amz-Date parameter is expired ({_LIFETIME_SECONDS // 60} minute expiration)"
            f" {query['x-amz-date']}"
        )


def _get_caller_identity(
    host: str,
    path: str,
    pairs: list[tuple[str, str]],
    query: Mapping[str, str],
    signed: list[str],
    cluster_name: str,
) -> Caller:
    """Do STS's part: check the signature, which covers the header with the cluster's name."""
    try:
        key_id, date, region, service, terminator = query["x-amz-credential"].split("/")
    except (KeyError, ValueError) as error:
        raise TokenRefused("X-Amz-Credential is not valid") from error
    if service != "sts" or terminator != "aws4_request":
        raise TokenRefused("the request is not signed for sts")
    try:
        secret = secret_of(key_id, query.get("x-amz-security-token", ""))
    except SignatureRefused as error:
        raise TokenRefused(f"sts: {error}") from error
    headers = {"host": host, _CLUSTER_HEADER: cluster_name}
    if set(signed) - set(headers):
        raise TokenRefused(f"unexpected signed headers: {';'.join(signed)}")
    expected = signature(
        secret,
        path=path,
        pairs=pairs,
        headers=headers,
        signed=signed,
        payload_hash=hashlib.sha256(b"").hexdigest(),
        time=query["x-amz-date"],
        scope=f"{date}/{region}/{service}/{terminator}",
    )
    if not hmac.compare_digest(expected, query.get("x-amz-signature", "")):
        raise TokenRefused(
            "sts: The request signature does not match the key, the cluster's name or the host"
        )
    user_id, arn, account_id = sts().get_caller_identity(key_id, region)
    return Caller(arn, account_id, user_id, arn.rsplit("/", 1)[-1], key_id)


def _user(caller: Caller, cluster: Cluster) -> dict[str, Any]:
    """The Kubernetes user of a caller's access entry. Raises TokenRefused if it has none."""
    entry = cluster.access_entries.get(caller.principal_arn)
    if entry is None:
        raise TokenRefused(
            f"{caller.principal_arn} has no access entry in cluster {cluster.description['name']}"
        )
    description = entry.description
    return {
        "username": description["username"]
        .replace("{{SessionName}}", caller.session_name.replace("@", "-"))
        .replace("{{AccountID}}", caller.account_id),
        "uid": f"aws-iam-authenticator:{caller.account_id}:{caller.user_id.split(':')[0]}",
        "groups": [*description["kubernetesGroups"], *_policy_groups(entry)],
        "extra": {
            "accessKeyId": [caller.access_key_id],
            "arn": [caller.arn],
            "canonicalArn": [caller.principal_arn],
            "principalId": [caller.user_id.split(":")[0]],
            "sessionName": [caller.session_name],
        },
    }


def _policy_groups(entry: AccessEntry) -> list[str]:
    """The Kubernetes groups that represent EKS's own access policies."""
    association = entry.policies.get(CLUSTER_ADMIN_POLICY)
    if association is not None and association["accessScope"]["type"] == "cluster":
        return ["system:masters"]
    return []
