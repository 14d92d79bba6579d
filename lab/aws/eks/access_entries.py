"""Access entries: who may reach a cluster's API server, and as whom."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from lab.aws.account import arn
from lab.aws.api_errors import ApiError
from lab.aws.clock import now
from lab.aws.eks.clusters import AccessEntry, Cluster
from lab.aws.eks.validation import invalid

_POLICIES = "arn:aws:eks::aws:cluster-access-policy/"
CLUSTER_ADMIN_POLICY = f"{_POLICIES}AmazonEKSClusterAdminPolicy"


def create(cluster: Cluster, request: Mapping[str, Any]) -> AccessEntry:
    """Create an access entry. Raises ApiError for what EKS refuses."""
    _require_access_api(cluster)
    principal = request["principalArn"]
    if principal in cluster.access_entries:
        raise ApiError(
            "ResourceInUseException",
            "The specified access entry resource is already in use on this cluster.",
        )
    kind = request.get("type") or "STANDARD"
    groups = request.get("kubernetesGroups") or []
    _check_groups(kind, groups)
    return put(
        cluster,
        principal,
        username=request.get("username"),
        groups=groups,
        tags=request.get("tags"),
        kind=kind,
    )


def update(cluster: Cluster, request: Mapping[str, Any]) -> AccessEntry:
    """Change an entry's groups. Raises ApiError for what EKS refuses."""
    entry = find(cluster, request["principalArn"])
    groups = request["kubernetesGroups"]
    _check_groups(entry.description["type"], groups)
    entry.description["kubernetesGroups"] = groups
    entry.description["modifiedAt"] = now()
    return entry


def _check_groups(kind: str, groups: Sequence[str]) -> None:
    if kind != "STANDARD" and groups:
        raise invalid(f"Access entries of type {kind} take no kubernetesGroups")
    reserved = [group for group in groups if group.startswith("system:")]
    if reserved:
        raise invalid(
            f"The kubernetes group name {reserved[0]} is invalid, it cannot start with system:"
        )


def put(
    cluster: Cluster,
    principal: str,
    *,
    username: str | None = None,
    groups: list[str] | None = None,
    tags: dict[str, str] | None = None,
    kind: str = "STANDARD",
) -> AccessEntry:
    """Add an entry without EKS's checks."""
    name = cluster.description["name"]
    entry = AccessEntry(
        {
            "clusterName": name,
            "principalArn": principal,
            "kubernetesGroups": groups or [],
            "accessEntryArn": arn(
                "eks", f"access-entry/{name}/{_kind_account_and_name(principal)}/{uuid.uuid4()}"
            ),
            "createdAt": now(),
            "modifiedAt": now(),
            "tags": tags or {},
            "username": username or _default_username(principal),
            "type": kind,
        }
    )
    cluster.access_entries[principal] = entry
    return entry


def _kind_account_and_name(principal: str) -> str:
    """The middle of an entry's ARN, such as `role/123456789012/mine`."""
    kind, name = principal.split(":")[-1].split("/", 1)
    return f"{kind}/{principal.split(':')[4]}/{name}"


def _default_username(principal: str) -> str:
    """EKS's default user name; that of a role contains the session's name."""
    if ":role/" not in principal:
        return principal
    account, role = principal.split(":")[4], principal.rsplit("/", 1)[1]
    return f"arn:aws:sts::{account}:assumed-role/{role}/{{{{SessionName}}}}"


def ensure_node_role(cluster: Cluster, role: str) -> None:
    """Add the node role's entry, as EKS does in clusters with the access-entry API."""
    mode = cluster.description["accessConfig"]["authenticationMode"]
    if mode != "CONFIG_MAP" and role not in cluster.access_entries:
        put(
            cluster,
            role,
            username="system:node:{{EC2PrivateDNSName}}",
            groups=["system:nodes"],
            kind="EC2_LINUX",
        )


def _require_access_api(cluster: Cluster) -> None:
    if cluster.description["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
        raise ApiError(
            "InvalidRequestException",
            "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP]"
            " to perform this operation.",
        )


def find(cluster: Cluster, principal: str) -> AccessEntry:
    """The access entry of a principal. Raises ResourceNotFoundException."""
    entry = cluster.access_entries.get(principal)
    if entry is None:
        raise ApiError(
            "ResourceNotFoundException",
            f"The specified principalArn could not be found: {principal}.",
        )
    return entry


def associate_policy(
    cluster: Cluster, principal: str, policy_arn: str, scope: Mapping[str, Any]
) -> dict[str, Any]:
    """Give an entry one of EKS's access policies. Raises ApiError."""
    _require_access_api(cluster)
    entry = find(cluster, principal)
    if not policy_arn.startswith(_POLICIES):
        raise invalid(f"The policyArn parameter format is not valid: {policy_arn}")
    if entry.description["type"] != "STANDARD":
        raise invalid("Access policies can only be associated with entries of type STANDARD")
    return associate(entry, policy_arn, scope)


def associate(entry: AccessEntry, policy_arn: str, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Add an access policy without EKS's checks."""
    association = {
        "policyArn": policy_arn,
        "accessScope": {"type": scope["type"], "namespaces": scope.get("namespaces") or []},
        "associatedAt": now(),
        "modifiedAt": now(),
    }
    entry.policies[policy_arn] = association
    return association
