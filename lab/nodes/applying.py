"""Objects of add-ons in the cluster, applied server-side as EKS does, with its conflicts."""

from __future__ import annotations

import json
import re
import urllib.error
from collections.abc import Mapping
from typing import Any

from lab.aws.eks.infrastructure import AddonConflict
from lab.nodes.control_plane import ControlPlane

NAMESPACE = "kube-system"
# https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html
REGISTRY = "602401143452.dkr.ecr.us-east-1.amazonaws.com"
RBAC = "rbac.authorization.k8s.io"
_PATHS = {
    "ClusterRole": f"/apis/{RBAC}/v1/clusterroles",
    "ClusterRoleBinding": f"/apis/{RBAC}/v1/clusterrolebindings",
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "DaemonSet": f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "Node": "/api/v1/nodes",
    "Service": f"/api/v1/namespaces/{NAMESPACE}/services",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
}
_STEP = re.compile(r'\.([\w-]+)|\[(\w+)="([^"]*)"\]')


def metadata(name: str, label: str) -> dict[str, Any]:
    """The metadata of an object of an add-on; `label` is the value of `k8s-app`."""
    return {"name": name, "namespace": NAMESPACE, "labels": {"k8s-app": label}}


def service_account(name: str, label: str) -> dict[str, Any]:
    """The account of an add-on's pods."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, label)}


def config_map(name: str, label: str, data: Mapping[str, str]) -> dict[str, Any]:
    """The files of an add-on's pods."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, label),
        "data": data,
    }


def daemon_set(name: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """The DaemonSet of an add-on's pods, rolled out as EKS's are."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name, name),
        "spec": {
            "selector": {"matchLabels": {"k8s-app": name}},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "10%"},
            },
            "template": template,
        },
    }


def role_binding(name: str, label: str, *, role: str, account: str) -> dict[str, Any]:
    """What gives the account of an add-on's pods a ClusterRole."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {"k8s-app": label}},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }


def pod_template(
    label: Mapping[str, str], values: Mapping[str, Any], spec: Mapping[str, Any]
) -> dict[str, Any]:
    """An add-on's pods, with the labels and annotations of its configuration `values`."""
    return {
        "metadata": {
            "labels": {**label, **values.get("podLabels", {})},
            "annotations": dict(values.get("podAnnotations", {})),
        },
        "spec": spec,
    }


def apply(control_plane: ControlPlane, manifest: dict[str, Any], conflicts: str) -> dict[str, Any]:
    """Apply an object; returns it as it is then.

    `conflicts` says what happens to fields that somebody else has set: OVERWRITE, PRESERVE, or NONE
    to refuse. Raises AddonConflict, OSError.
    """
    try:
        return _apply(control_plane, manifest, force=conflicts == "OVERWRITE")
    except AddonConflict as conflict:
        if conflicts != "PRESERVE":
            raise
        for field in conflict.fields:
            _leave_out(manifest, field)
        return _apply(control_plane, manifest, force=False)


def _apply(control_plane: ControlPlane, manifest: dict[str, Any], *, force: bool) -> dict[str, Any]:
    try:
        response = control_plane.request(
            f"{_path(manifest)}?fieldManager=eks&force={str(force).lower()}",
            "PATCH",
            json.dumps(manifest).encode(),
            "application/apply-patch+yaml",
        )
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
        causes = json.loads(error.read()).get("details", {}).get("causes", [])
        raise AddonConflict(_eks_name(manifest), [cause["field"] for cause in causes]) from error
    applied: dict[str, Any] = json.loads(response)
    return applied


def _path(manifest: dict[str, Any]) -> str:
    return f"{_PATHS[manifest['kind']]}/{manifest['metadata']['name']}"


def _eks_name(manifest: dict[str, Any]) -> str:
    """An object as EKS names it in a conflict, such as `DaemonSet.apps aws-node`."""
    group = manifest["apiVersion"].rpartition("/")[0]
    return f"{manifest['kind']}{f'.{group}' * bool(group)} {manifest['metadata']['name']}"


def _leave_out(part: Any, path: str) -> None:
    """Remove the field at a path such as `.containers[name="a"].image` from a manifest."""
    steps = [step.groups() for step in _STEP.finditer(path)]
    for name, key, value in steps[:-1]:
        if name is not None:
            part = part[name]
        else:
            part = next(item for item in part if item.get(key) == value)
    name, key, value = steps[-1]
    if name is not None:
        part.pop(name, None)
    else:
        part[:] = [item for item in part if item.get(key) != value]


def remove(control_plane: ControlPlane, kind: str, name: str) -> None:
    """Delete an object, if there is one. Raises OSError."""
    try:
        control_plane.request(f"{_PATHS[kind]}/{name}", "DELETE")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise


def is_rolled_out(control_plane: ControlPlane, kind: str, name: str) -> bool:
    """Whether the newest pods of a DaemonSet or a Deployment are all available. Raises OSError."""
    workload = json.loads(control_plane.request(f"{_PATHS[kind]}/{name}"))
    status = workload.get("status", {})
    if kind == "DaemonSet":
        updated = status.get("updatedNumberScheduled", 0)
        desired, available = status.get("desiredNumberScheduled", 0), "numberAvailable"
    else:
        updated = status.get("updatedReplicas", 0)
        desired, available = workload["spec"]["replicas"], "availableReplicas"
    return bool(
        status.get("observedGeneration", 0) >= workload["metadata"]["generation"]
        and updated >= desired
        and status.get(available, 0) >= desired
    )


def evict(control_plane: ControlPlane, node: str) -> None:
    """Remove the add-ons' pods of a node that has ended, so that others take over at once.

    EKS drains a node before. Without it, Kubernetes keeps such pods for a minute. Raises OSError.
    """
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    chosen = f"?fieldSelector=spec.nodeName%3D{node}&gracePeriodSeconds=0"
    control_plane.request(f"{pods}{chosen}", "DELETE")
