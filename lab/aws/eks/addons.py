"""Add-ons, which are only recorded: the lab's nodes bring their own networking and DNS."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from lab.aws.account import arn
from lab.aws.api_errors import ApiError
from lab.aws.clock import now
from lab.aws.eks import validation
from lab.aws.eks.clusters import Cluster


def create(cluster: Cluster, request: Mapping[str, Any]) -> dict[str, Any]:
    """Record an add-on. Raises ApiError for one that exists and for what EKS refuses."""
    name = request["addonName"]
    if name in cluster.addons:
        raise ApiError("ResourceInUseException", f"Addon already exists: {name}")
    validation.addon(name, request)
    addon = {
        "addonName": name,
        "clusterName": request["clusterName"],
        "status": "ACTIVE",
        "addonVersion": request.get("addonVersion") or "v1.0.0-eksbuild.1",
        "health": {"issues": []},
        "addonArn": arn("eks", f"addon/{request['clusterName']}/{name}/{uuid.uuid4()}"),
        "createdAt": now(),
        "modifiedAt": now(),
        "serviceAccountRoleArn": request.get("serviceAccountRoleArn"),
        "tags": request.get("tags") or {},
        "configurationValues": request.get("configurationValues"),
    }
    cluster.addons[name] = addon
    return addon


def update(cluster: Cluster, request: Mapping[str, Any]) -> dict[str, Any]:
    """Change an add-on's version or configuration. Returns the update; raises ApiError."""
    addon = find(cluster, request["addonName"])
    validation.addon(request["addonName"], request)
    changed = {
        name: request[name]
        for name in ("addonVersion", "configurationValues", "serviceAccountRoleArn")
        if request.get(name) is not None
    }
    addon.update(changed, modifiedAt=now())
    return {
        "id": str(uuid.uuid4()),
        "status": "Successful",
        "type": "AddonUpdate",
        "params": [
            {"type": key[0].upper() + key[1:], "value": value} for key, value in changed.items()
        ],
        "createdAt": now(),
        "errors": [],
    }


def find(cluster: Cluster, name: str) -> dict[str, Any]:
    """An add-on by name. Raises ResourceNotFoundException."""
    found = cluster.addons.get(name)
    if found is None:
        raise ApiError(
            "ResourceNotFoundException",
            f"No addon: {name} found in cluster: {cluster.description['name']}",
        )
    return found
