"""Bootstrap: the custom resource that makes a cluster ready for the benchmark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import urllib3

from rackrate import manifests
from rackrate.cluster import Cluster
from rackrate.errors import ClusterUnreachable, Throttled

Json = dict[str, Any]

_KINDS = {
    "Namespace": "/api/v1/namespaces",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
_PAUSE_SECONDS = 3.0


def apply(cluster: Cluster, namespace: str, group: str) -> None:
    """Creates what the benchmark needs, and corrects what is there but differs."""
    for manifest in manifests.bootstrap(namespace, group):
        collection = _KINDS[manifest["kind"]].format(namespace=namespace)
        path = f"{collection}/{manifest['metadata']['name']}"
        if cluster.get(path) is None:
            cluster.create(collection, manifest)
        elif manifest["kind"] != "Namespace":
            cluster.replace(path, manifest)


def remove(cluster: Cluster, namespace: str, group: str, *, seconds: float) -> None:
    """Deletes what `apply` created, last first, and waits for the namespace to be gone.

    Raises:
        ClusterUnreachable: the namespace is still there.
    """
    for manifest in reversed(manifests.bootstrap(namespace, group)):
        collection = _KINDS[manifest["kind"]].format(namespace=namespace)
        cluster.delete(f"{collection}/{manifest['metadata']['name']}")
    deadline = time.monotonic() + seconds
    while cluster.get(f"/api/v1/namespaces/{namespace}") is not None:
        if time.monotonic() > deadline:
            raise ClusterUnreachable(f"the namespace {namespace} is still being deleted")
        time.sleep(1)


def serve_request(
    event: Mapping[str, Any], connect: Callable[[], Cluster | None], seconds: float
) -> Json:
    """Does what CloudFormation asks; a new access entry may take a while to be believed.

    Args:
        event: CloudFormation's request.
        connect: gives the cluster, or None when it does not exist any more.
        seconds: how long to try.

    Returns:
        The resource's attributes.
    """
    properties = event["ResourceProperties"]
    namespace, group = properties["Namespace"], properties["Group"]
    deadline = time.monotonic() + seconds
    while True:
        try:
            cluster = connect()
            if event["RequestType"] != "Delete":
                if cluster is None:
                    raise LookupError("the cluster does not exist")
                apply(cluster, namespace, group)
            elif cluster is not None:
                remove(cluster, namespace, group, seconds=deadline - time.monotonic())
            return {"Namespace": namespace, "Group": group}
        except (ClusterUnreachable, Throttled):
            if time.monotonic() + _PAUSE_SECONDS > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)


def respond(event: Mapping[str, Any], *, data: Json | None, error: str | None) -> None:
    """Answers CloudFormation (AWS CloudFormation user guide, "Custom resource response objects").

    Args:
        event: CloudFormation's request.
        data: the resource's attributes, of a request that was met.
        error: why the request was not met, or None.
    """
    # The id changes with the namespace, so that CloudFormation deletes the old one afterwards.
    namespace = event["ResourceProperties"].get("Namespace", "unknown")
    answer = {
        "Status": "FAILED" if error else "SUCCESS",
        "Reason": (error or "done")[:1000],
        "PhysicalResourceId": event.get("PhysicalResourceId", namespace)
        if event["RequestType"] == "Delete"
        else namespace,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": data or {},
    }
    response = urllib3.request(
        "PUT",
        event["ResponseURL"],
        body=json.dumps(answer),
        headers={"Content-Type": ""},  # the URL is signed for an empty one
        timeout=10,
        retries=urllib3.Retry(4, backoff_factor=0.5, status_forcelist=(500, 502, 503, 504)),
    )
    if response.status >= 400:
        raise RuntimeError(f"CloudFormation's URL answered {response.status}")
