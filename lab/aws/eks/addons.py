"""Add-ons: their versions, and how an update reaches the nodes.

The cluster runs them as far as it can; an update is in progress until every node has it.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from lab.aws.account import arn
from lab.aws.api_errors import ApiError
from lab.aws.clock import now
from lab.aws.eks import validation
from lab.aws.eks.clusters import Cluster, in_background
from lab.aws.eks.infrastructure import AddonConflict, AddonLaunchError

LOG = logging.getLogger(__name__)

VPC_CNI = "vpc-cni"
# The default version first. EKS has other lists for other versions of Kubernetes, and withdraws old
# versions; the lab keeps those of docs/plans/e3.json.
VERSIONS: Mapping[str, Sequence[str]] = {
    VPC_CNI: (
        "v1.21.1-eksbuild.1",
        "v1.20.4-eksbuild.1",
        "v1.20.1-eksbuild.3",
        "v1.19.0-eksbuild.1",
        "v1.18.1-eksbuild.1",
        "v1.16.0-eksbuild.1",
        "v1.15.4-eksbuild.1",
        "v1.15.1-eksbuild.1",
        "v1.14.1-eksbuild.1",
    ),
    "kube-proxy": ("v1.36.0-eksbuild.2", "v1.35.0-eksbuild.2"),
    "coredns": ("v1.13.1-eksbuild.1", "v1.12.1-eksbuild.2"),
}
_KINDS = {VPC_CNI: "networking", "kube-proxy": "networking", "coredns": "networking"}
_CHANGEABLE = ("addonVersion", "configurationValues", "serviceAccountRoleArn")
_one_at_a_time = threading.Lock()


def versions(request: Mapping[str, Any], cluster_versions: Sequence[str]) -> list[dict[str, Any]]:
    """DescribeAddonVersions: the add-ons with their versions, the newest first."""
    chosen = request.get("addonName")
    kubernetes = [request["kubernetesVersion"]] if request.get("kubernetesVersion") else []
    return [
        {
            "addonName": name,
            "type": _KINDS[name],
            "publisher": "eks",
            "owner": "aws",
            "addonVersions": [
                {
                    "addonVersion": version,
                    "architecture": ["amd64", "arm64"],
                    "requiresConfiguration": False,
                    "compatibilities": [
                        {
                            "clusterVersion": cluster_version,
                            "platformVersions": ["*"],
                            "defaultVersion": version == listed[0],
                        }
                        for cluster_version in kubernetes or cluster_versions
                    ],
                }
                for version in listed
            ],
        }
        for name, listed in VERSIONS.items()
        if chosen in (None, name)
    ]


def configuration(request: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeAddonConfiguration: the schema of a version. Raises ApiError for an unknown one."""
    name, version = request["addonName"], request["addonVersion"]
    if version not in VERSIONS.get(name, ()):
        raise ApiError(
            "ResourceNotFoundException", f"Addon {name} with version {version} is not found"
        )
    schema = json.dumps(validation.addon_schema(name))
    return {"addonName": name, "addonVersion": version, "configurationSchema": schema}


def create(cluster: Cluster, request: Mapping[str, Any]) -> dict[str, Any]:
    """Install an add-on. Raises ApiError for one that exists and for what EKS refuses."""
    name = request["addonName"]
    _check(name, request)
    addon = {
        "addonName": name,
        "clusterName": request["clusterName"],
        "status": "CREATING",
        "addonVersion": request.get("addonVersion") or VERSIONS[name][0],
        "health": {"issues": []},
        "addonArn": arn("eks", f"addon/{request['clusterName']}/{name}/{uuid.uuid4()}"),
        "createdAt": now(),
        "modifiedAt": now(),
        "serviceAccountRoleArn": request.get("serviceAccountRoleArn"),
        "tags": request.get("tags") or {},
        "configurationValues": request.get("configurationValues"),
    }
    with _one_at_a_time:
        if name in cluster.addons:
            raise ApiError("ResourceInUseException", f"Addon already exists: {name}")
        cluster.addons[name] = addon

    # Nothing of its own can differ yet, so PRESERVE is like NONE.
    resolution = "OVERWRITE" if request.get("resolveConflicts") == "OVERWRITE" else "NONE"

    def run() -> None:
        failure = _roll_out(cluster, addon, resolution)
        if failure:
            code, message = failure
            # A health issue has no code for what is unknown, unlike an update's error.
            issue = "InternalFailure" if code == "Unknown" else code
            addon["health"] = {"issues": [{"code": issue, "message": message, "resourceIds": []}]}
        addon["status"] = "CREATE_FAILED" if failure else "ACTIVE"

    in_background(run)
    return dict(addon)


def update(cluster: Cluster, request: Mapping[str, Any]) -> dict[str, Any]:
    """Change an add-on's version or configuration. Returns the update; raises ApiError.

    What is not given stays as it is.
    """
    name = request["addonName"]
    addon = find(cluster, name)
    _check(name, request)
    changed = {key: request[key] for key in _CHANGEABLE if request.get(key) is not None}
    resolution = {"resolveConflicts": request.get("resolveConflicts") or "NONE"}
    with _one_at_a_time:
        if addon["status"] in ("CREATING", "UPDATING", "DELETING"):
            raise ApiError(
                "ResourceInUseException",
                f"Addon {name} cannot be updated as it is currently in {addon['status']} state",
            )
        addon["status"] = "UPDATING"
    change = cluster.addon_updates[name].begin("AddonUpdate", changed | resolution)
    response = dict(change)

    def run() -> None:
        failure = _roll_out(cluster, addon | changed, resolution["resolveConflicts"])
        if failure:
            code, message = failure
            change["errors"] = [{"errorCode": code, "errorMessage": message, "resourceIds": []}]
        else:
            addon.update(changed, modifiedAt=now())
        # The update ends before the add-on does: who sees it ACTIVE can read how it went.
        change["status"] = "Failed" if failure else "Successful"
        addon["status"] = "UPDATE_FAILED" if failure else "ACTIVE"

    in_background(run)
    return response


def delete(cluster: Cluster, name: str) -> dict[str, Any]:
    """Remove an add-on and its pods. Raises ApiError."""
    addon = find(cluster, name)
    del cluster.addons[name]
    if cluster.control_plane is not None:
        cluster.control_plane.remove_addon(name)
    return {**addon, "status": "DELETING"}


def find(cluster: Cluster, name: str) -> dict[str, Any]:
    """An add-on by name. Raises ResourceNotFoundException."""
    addon = cluster.addons.get(name)
    if addon is None:
        raise ApiError(
            "ResourceNotFoundException",
            f"No addon: {name} found in cluster: {cluster.description['name']}",
        )
    return addon


def cni_environment(cluster: Cluster) -> dict[str, str]:
    """The environment that the add-on vpc-cni gives the CNI; empty without the add-on."""
    values = cluster.addons.get(VPC_CNI, {}).get("configurationValues") or "{}"
    return dict(json.loads(values).get("env") or {})


def _check(name: str, request: Mapping[str, Any]) -> None:
    if name not in VERSIONS:
        raise validation.invalid("Addon specified is not supported")
    validation.addon(name, request, VERSIONS[name])


def _roll_out(
    cluster: Cluster, addon: Mapping[str, Any], resolution: str
) -> tuple[str, str] | None:
    """Bring an add-on to the nodes. Returns an error code of EKS and a message if that fails."""
    try:
        if cluster.control_plane is not None:
            cluster.control_plane.roll_out(
                addon["addonName"],
                addon["addonVersion"],
                json.loads(addon["configurationValues"] or "{}"),
                resolution,
            )
    except AddonConflict as conflict:
        return "ConfigurationConflict", _conflicts(conflict)
    except AddonLaunchError as error:
        return "Unknown", str(error)
    except Exception as error:
        LOG.exception("add-on %s", addon["addonName"])
        return "Unknown", f"{type(error).__name__}: {error}"
    return None


def _conflicts(conflict: AddonConflict) -> str:
    lines = "\n".join(f"{conflict.owner} - {field}" for field in conflict.fields)
    return (
        "Conflicts found when trying to apply. Will not continue due to resolve conflicts mode."
        f" Conflicts:\n{lines}"
    )
