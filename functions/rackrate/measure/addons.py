"""EKS add-ons: their version and configuration, the versions that EKS offers, and updates."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from rackrate.errors import ChangeFailed, suppress_codes, translated
from rackrate_contract.document import Json


@dataclass(frozen=True)
class Addon:
    """An add-on as EKS describes it.

    Attributes:
        name: its name, such as `vpc-cni`.
        version: its version, such as `v1.20.4-eksbuild.1`.
        status: EKS's status, such as ACTIVE or UPDATING.
        configuration: its configuration values; empty for EKS's own.
        issues: its health issues, each `<code>: <message>`.
    """

    name: str
    version: str
    status: str
    configuration: Json = field(default_factory=dict)
    issues: tuple[str, ...] = ()


def describe(eks: Any, cluster_name: str, name: str) -> Addon | None:
    """An add-on, or None when the cluster does not have it as an EKS add-on.

    Raises:
        Throttled: EKS throttled the request.
    """
    with suppress_codes("ResourceNotFoundException"), translated():
        addon = eks.describe_addon(clusterName=cluster_name, addonName=name)["addon"]
        return Addon(
            name=name,
            version=addon["addonVersion"],
            status=addon["status"],
            configuration=json.loads(addon.get("configurationValues") or "{}"),
            issues=_reasons(addon.get("health", {}).get("issues", ()), "code", "message"),
        )
    return None


def versions(eks: Any, name: str, kubernetes_version: str | None) -> list[str]:
    """The versions of an add-on that EKS offers, the newest first, as EKS lists them.

    Args:
        eks: a client of EKS.
        name: the add-on.
        kubernetes_version: the cluster's Kubernetes version; None lists those for any.

    Raises:
        Throttled: EKS throttled the request.
    """
    filters = {"kubernetesVersion": kubernetes_version} if kubernetes_version else {}
    with translated():
        pages = eks.get_paginator("describe_addon_versions").paginate(addonName=name, **filters)
        return [
            version["addonVersion"]
            for page in pages
            for addon in page["addons"]
            for version in addon["addonVersions"]
        ]


def allowed_values(eks: Any, addon: Addon, option: str) -> list[str] | None:
    """The values that EKS accepts for an option of an add-on's configuration.

    Returns:
        The values, or None when the schema of the add-on's version does not list them.

    Raises:
        Throttled: EKS throttled the request.
    """
    with translated():
        response = eks.describe_addon_configuration(
            addonName=addon.name, addonVersion=addon.version
        )
    schema = json.loads(response.get("configurationSchema") or "{}")
    # EKS's schemas refer to definitions: {"$ref": "#/definitions/KubeProxy", "definitions": {...}}.
    name = schema.get("$ref", "").removeprefix("#/definitions/")
    root: Mapping[str, Any] = schema.get("definitions", {}).get(name, schema)
    values: list[str] | None = root.get("properties", {}).get(option, {}).get("enum")
    return values


def update(eks: Any, cluster_name: str, target: Addon) -> str | None:
    """Update an add-on in place to a version and a configuration, and overwrite conflicts.

    Returns:
        The update's id; None while EKS refuses because another update is in progress.

    Raises:
        ChangeFailed: EKS refuses it; the message has EKS's words.
        Throttled: EKS throttled the request.
    """
    return begin_update(
        lambda: eks.update_addon(
            clusterName=cluster_name,
            addonName=target.name,
            addonVersion=target.version,
            # Always given, because EKS resets a configuration that an update leaves out.
            configurationValues=json.dumps(target.configuration),
            resolveConflicts="OVERWRITE",
        ),
        f"the add-on {target.name} cannot be updated to {target.version}",
    )


def require_no_failure(eks: Any, what: str, **of: str) -> None:
    """See that an update of an add-on or a node group has not failed.

    Args:
        eks: a client of EKS.
        what: what is updated to what.
        of: the cluster, the add-on or node group, and the update, as EKS's DescribeUpdate has them.

    Raises:
        ChangeFailed: it has; the message has EKS's reasons.
        Throttled: EKS throttled the request.
    """
    with translated():
        update = eks.describe_update(**of)["update"]
    if update["status"] in ("Failed", "Cancelled"):
        reasons = _reasons(update.get("errors", ()), "errorCode", "errorMessage")
        failure = f"the update of {what} is {update['status']}"
        raise ChangeFailed("\n".join([failure, *(reasons or ("EKS reports no reason",))]))


def begin_update(request: Callable[[], Any], refused: str) -> str | None:
    """Ask EKS for an update.

    Args:
        request: calls the API.
        refused: what to say before EKS's words if it refuses.

    Returns:
        The update's id; None while EKS refuses because another update is in progress.

    Raises:
        ChangeFailed: EKS refuses it; the message has EKS's words.
        Throttled: EKS throttled the request.
    """
    try:
        with translated():
            response = request()
    except ClientError as error:
        refusal = error.response["Error"]
        if refusal["Code"] == "ResourceInUseException":
            return None
        if refusal["Code"] in ("InvalidParameterException", "InvalidRequestException"):
            raise ChangeFailed(f"{refused}: {refusal.get('Message', refusal['Code'])}") from error
        raise
    id_: str = response["update"]["id"]
    return id_


def _reasons(problems: Any, code: str, message: str) -> tuple[str, ...]:
    return tuple(f"{each.get(code)}: {each.get(message)}" for each in problems)


def nodes_with_it(daemon_set: Mapping[str, Any] | None) -> tuple[int, int]:
    """How far the rollout of an add-on's DaemonSet has come. Pure.

    Args:
        daemon_set: the DaemonSet, or None if the add-on runs nothing on the nodes.

    Returns:
        The number of nodes whose pod is new and available, and the number of all its nodes.
    """
    if daemon_set is None:
        return 0, 0
    status = daemon_set.get("status", {})
    nodes = int(status.get("desiredNumberScheduled", 0))
    if status.get("observedGeneration", 0) < daemon_set["metadata"].get("generation", 0):
        # The controller has not seen the change yet, so its other figures are old. Without nodes
        # there is nothing to wait for either way.
        return 0, max(nodes, 1)
    new, available = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    return int(min(new, available)), nodes
