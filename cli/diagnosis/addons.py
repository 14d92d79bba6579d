"""Check the cluster's add-ons: their health, and whether newer versions take their settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import unless_missing
from ..reading.stack import Stack
from .check import Check, required

ADDONS = ("vpc-cni", "kube-proxy", "coredns")
_IN_PROGRESS = {"CREATING", "UPDATING"}


def addons(stack: Stack) -> Iterator[Check]:
    """Check each add-on that the stack makes."""
    if stack.parameters.get("ExistingClusterName"):
        yield Check("add-ons", "ok", "those of a cluster that exists")
        return
    eks, cluster = stack.client("eks"), required(stack.outputs, "ClusterName")
    version = eks.describe_cluster(name=cluster)["cluster"]["version"]
    for name in ADDONS:
        described = unless_missing(
            eks.describe_addon, "ResourceNotFoundException", clusterName=cluster, addonName=name
        )
        if described is None:
            yield Check(name, "failed", "the cluster has no such add-on", "deploy the stack again")
            continue
        newest = _newest(eks, name, version)
        settings = eks.describe_addon_configuration(addonName=name, addonVersion=newest)
        yield addon_check(described["addon"], newest, settings.get("configurationSchema"))


def _newest(eks: Any, name: str, kubernetes_version: str) -> str:
    """The newest version of an add-on, which EKS lists first."""
    [listed] = eks.describe_addon_versions(addonName=name, kubernetesVersion=kubernetes_version)[
        "addons"
    ]
    return str(listed["addonVersions"][0]["addonVersion"])


def addon_check(addon: Mapping[str, Any], newest: str, schema: str | None) -> Check:
    """Turn EKS's description of an add-on into a finding.

    Args:
        addon: the add-on, as in DescribeAddon.
        newest: its newest version for the cluster's Kubernetes version.
        schema: the JSON schema of that version's configuration, None if EKS returns none.
    """
    name, status = addon["addonName"], addon["status"]
    state = f"{addon['addonVersion']}, {status}"
    issues = (addon.get("health") or {}).get("issues") or []
    if issues or status not in {"ACTIVE", *_IN_PROGRESS}:
        quoted = "".join(f"; {issue.get('code')}: {issue.get('message')}" for issue in issues)
        return Check(name, "failed", state + quoted, "see the add-on in the EKS console")
    if status in _IN_PROGRESS:
        return Check(name, "warning", state, "wait until it is ACTIVE")
    if not addon.get("configurationValues"):
        return Check(name, "ok", f"{state}, with EKS's own settings")
    try:
        fault = _fault(addon["configurationValues"], schema or "")
    except ModuleNotFoundError:
        return Check(
            name,
            "unknown",
            f"{state}; jsonschema is not installed, which checks its settings against {newest}",
            "install rackrate with its extra: rackrate[doctor]",
        )
    except ValueError:
        return Check(name, "unknown", f"{state}; EKS has no schema of {newest} that can be read")
    if fault is None:
        return Check(name, "ok", f"{state}; {newest} takes its settings too")
    return Check(
        name,
        "warning",
        f"{state}; {newest} would refuse its settings: {fault}",
        f"keep {addon['addonVersion']} when you deploy, and report it as a fault of rackrate",
    )


def _fault(settings: str, schema: str) -> str | None:
    """What a JSON schema has against settings; None if nothing.

    Raises:
        ValueError: the schema or the settings cannot be read.
        ModuleNotFoundError: jsonschema is missing, which only rackrate[doctor] requires.
    """
    # Imported late: it takes a fifth of the time in which every other command starts.
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    parsed = json.loads(schema)
    validator = validator_for(parsed)
    try:
        validator.check_schema(parsed)
    except SchemaError as error:
        raise ValueError(error.message) from None
    first = next(iter(validator(parsed).iter_errors(json.loads(settings))), None)
    return None if first is None else first.message
