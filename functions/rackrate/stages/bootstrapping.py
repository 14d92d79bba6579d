"""Bootstrap: the custom resource that makes a cluster ready for the benchmark.

The cluster may be somebody else's. So nothing is touched that does not carry this stack's mark, and
when the stack is deleted the cluster is as it was before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rackrate import manifests
from rackrate.cluster import Cluster
from rackrate.custom_resource import Answer
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


class NotOurs(Exception):
    """The cluster has something of the same name that this stack did not make."""


def apply(cluster: Cluster, namespace: str, group: str, owner: str) -> None:
    """Creates what the benchmark needs, and corrects what is there but differs.

    Args:
        cluster: the cluster.
        namespace: the benchmark's namespace.
        group: the Kubernetes group of the functions.
        owner: name of the root stack; what carries another mark is left alone.

    Raises:
        NotOurs: something of that name exists and is not this stack's; nothing was changed.
        ClusterUnreachable: what an earlier deletion removes is not gone yet.
    """
    wanted = []
    for manifest in manifests.bootstrap(namespace, group, owner):
        collection, path = _paths(manifest, namespace)
        found = cluster.get(path)
        if found is not None and not _is_marked(found, owner):
            raise NotOurs(_refusal(manifest, found))
        if found is not None and found["metadata"].get("deletionTimestamp"):
            raise ClusterUnreachable(f"the {_called(manifest)} is still being deleted")
        wanted.append((manifest, collection, path, found))
    for manifest, collection, path, found in wanted:
        if found is None:
            cluster.create(collection, manifest)
        elif manifest["kind"] != "Namespace":
            cluster.replace(path, manifest)


def remove(cluster: Cluster, namespace: str, group: str, owner: str, *, seconds: float) -> None:
    """Deletes what `apply` created, last first, and waits for the namespace to be gone.

    Raises:
        ClusterUnreachable: the namespace is still there.
    """
    for manifest in reversed(manifests.bootstrap(namespace, group, owner)):
        _, path = _paths(manifest, namespace)
        found = cluster.get(path)
        if found is not None and _is_marked(found, owner):
            cluster.delete(path)
    deadline = time.monotonic() + seconds
    while (found := cluster.get(f"/api/v1/namespaces/{namespace}")) is not None:
        if not _is_marked(found, owner):
            return
        if time.monotonic() > deadline:
            raise ClusterUnreachable(f"the namespace {namespace} is still being deleted")
        time.sleep(1)


def _paths(manifest: Json, namespace: str) -> tuple[str, str]:
    collection = _KINDS[manifest["kind"]].format(namespace=namespace)
    return collection, f"{collection}/{manifest['metadata']['name']}"


def _is_marked(thing: Mapping[str, Any], owner: str) -> bool:
    return (thing["metadata"].get("annotations") or {}).get(manifests.STACK) == owner


def _called(manifest: Json) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _refusal(manifest: Json, found: Mapping[str, Any]) -> str:
    other = (found["metadata"].get("annotations") or {}).get(manifests.STACK)
    whose = f"belongs to the stack {other}" if other else "was not made by this stack"
    return (
        f"the {_called(manifest)} exists in the cluster and {whose}; it was left as it is."
        " Choose another Namespace"
    )


def serve_request(
    event: Mapping[str, Any], connect: Callable[[], Cluster | None], seconds: float
) -> Answer:
    """Does what CloudFormation asks; a new access entry may take a while to be believed.

    Args:
        event: CloudFormation's request, with the properties `Namespace`, `Group` and `Owner`.
        connect: gives the cluster, or None when it does not exist any more.
        seconds: how long to try.

    Returns:
        The namespace as physical id, so that CloudFormation deletes an old one after a new one was
        made; `Namespace` and `Group` as attributes.
    """
    properties = event["ResourceProperties"]
    namespace, group, owner = (properties[name] for name in ("Namespace", "Group", "Owner"))
    answer = Answer(namespace, {"Namespace": namespace, "Group": group})
    deadline = time.monotonic() + seconds
    while True:
        try:
            cluster = connect()
            if event["RequestType"] != "Delete":
                if cluster is None:
                    raise LookupError("the cluster does not exist")
                apply(cluster, namespace, group, owner)
                return answer
            if cluster is not None:
                remove(cluster, namespace, group, owner, seconds=deadline - time.monotonic())
            return Answer(event["PhysicalResourceId"], answer.data)
        except (ClusterUnreachable, Throttled):
            if time.monotonic() + _PAUSE_SECONDS > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
