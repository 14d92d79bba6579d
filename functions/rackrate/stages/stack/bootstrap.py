"""Bootstrap: the custom resource that prepares a cluster for the benchmark.

The cluster may belong to somebody else. So bootstrap changes only objects that carry this stack's
mark, and deleting the stack restores the cluster to its state before.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from rackrate.errors import AccessLost, ClusterUnreachable, Throttled
from rackrate.executions.store import Store
from rackrate.measure.cluster import Cluster
from rackrate.measure.manifests import NETWORK, STACK
from rackrate.stack import tenancy
from rackrate.stack.administration import AccessPolicy
from rackrate.stack.custom_resource import NOTHING, Answer
from rackrate.stack.time_limit import OutOfTime, time_limit
from rackrate_contract.executions import GaveUp

Json = dict[str, Any]

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ResourceQuota": "/api/v1/namespaces/{namespace}/resourcequotas",
    "Role": f"{_RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{{namespace}}/rolebindings",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
}
_PAUSE_SECONDS = 3.0
#: How often a run has its namespace and its rights recreated. Whoever deletes them more often does
#: so on purpose.
MOST_HEALS = 3
#: How long a run waits for its namespace. A stack's deletion first deletes what can ask for this,
#: and takes longer until it deletes the namespace.
HEAL_SECONDS = 60.0
#: The end of the function's time, in which it gives the right back, which may take three tries
#: (`aws.session`), and answers.
RESERVE_SECONDS = 60.0
#: The longest namespace of a stack has 58 characters (template.yaml).
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,56}[a-z0-9])?")

Connect = Callable[[], Cluster | None]


class NotOurs(Exception):
    """The cluster has an object of the same name that this stack did not create."""


class NotOurRequest(Exception):
    """The request does not come from this function's stack."""


@dataclass(frozen=True)
class Tenant:
    """A stack in a cluster.

    Attributes:
        namespace: the benchmark's namespace.
        group: the Kubernetes group of the functions.
        owner: name of the root stack; objects with another stack's mark are left alone.
        host_network: whether pods may use the nodes' own network, in a second namespace.
        stack_id: id of the root stack; requests of another stack are refused.
        owns_nodes: whether the stack made the cluster and its nodes.
    """

    namespace: str
    group: str
    owner: str
    host_network: bool = False
    stack_id: str = ""
    owns_nodes: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """The stack as its template describes it. No request can name another one."""
        return cls(
            namespace=environment["NAMESPACE"],
            group=environment["GROUP"],
            owner=environment["OWNER"],
            host_network=environment["HOST_NETWORK"] == "true",
            stack_id=environment["STACK_ID"],
            owns_nodes=environment["OWNS_NODES"] == "true",
        )

    @property
    def ordinary(self) -> list[Json]:
        """The objects that every such stack needs."""
        names = self.namespace, self.group, self.owner
        keeper = tenancy.keeper_manifests(*names) if self.owns_nodes else []
        return [*tenancy.manifests(*names), *keeper]

    @property
    def host(self) -> list[Json]:
        """The objects that host networking needs, whether it is allowed or not."""
        return tenancy.host_manifests(self.namespace, self.group, self.owner)


def apply(cluster: Cluster, tenant: Tenant, *, seconds: float) -> None:
    """Create the objects that the benchmark needs, and correct those that differ.

    If host networking is not allowed (any more), its namespace and guard are deleted.

    Args:
        cluster: the cluster.
        tenant: the stack.
        seconds: how long to wait for the deletion of the second namespace.

    Raises:
        NotOurs: an object of that name exists and is not this stack's; nothing was changed.
        ClusterUnreachable: the objects of an earlier deletion still exist.
    """
    objects = []
    for manifest in [*tenant.ordinary, *(tenant.host if tenant.host_network else [])]:
        collection, path = _paths(manifest)
        existing = cluster.get(path)
        if existing is not None and not _is_marked(existing, manifest):
            raise NotOurs(_refusal(manifest, existing))
        if existing is not None and existing["metadata"].get("deletionTimestamp"):
            raise ClusterUnreachable(f"the {_called(manifest)} is still being deleted")
        objects.append((manifest, collection, path, existing))
    if not tenant.host_network:
        _remove(cluster, tenant.host, seconds)
    for manifest, collection, path, existing in objects:
        if existing is None:
            cluster.create(collection, manifest)
        else:
            cluster.replace(path, _in_place_of(manifest, existing))


def remove(cluster: Cluster, tenant: Tenant, *, seconds: float) -> None:
    """Delete what `apply` created, in reverse order, and wait until the namespaces are gone.

    Raises:
        ClusterUnreachable: a namespace still exists after the wait.
    """
    _remove(cluster, [*tenant.ordinary, *tenant.host], seconds)


def _remove(cluster: Cluster, created: Sequence[Json], seconds: float) -> None:
    for manifest in reversed(created):
        _, path = _paths(manifest)
        existing = cluster.get(path)
        if existing is not None and _is_marked(existing, manifest):
            cluster.delete(path)
    deadline = time.monotonic() + seconds
    for manifest in created:
        if manifest["kind"] != "Namespace":
            continue
        _, path = _paths(manifest)
        while (existing := cluster.get(path)) is not None and _is_marked(existing, manifest):
            if time.monotonic() > deadline:
                raise ClusterUnreachable(f"the {_called(manifest)} is still being deleted")
            time.sleep(1)


def _paths(manifest: Json) -> tuple[str, str]:
    metadata = manifest["metadata"]
    collection = _COLLECTIONS[manifest["kind"]].format(namespace=metadata.get("namespace"))
    return collection, f"{collection}/{metadata['name']}"


def _in_place_of(manifest: Json, existing: Mapping[str, Any]) -> Json:
    """The manifest with the found object's version, without which some kinds refuse an update.

    A namespace keeps what others have written on it, except levels of Pod Security.
    """
    metadata = {**manifest["metadata"]}
    if "resourceVersion" in existing["metadata"]:
        metadata["resourceVersion"] = existing["metadata"]["resourceVersion"]
    if manifest["kind"] == "Namespace":
        labels = {
            name: value
            for name, value in (existing["metadata"].get("labels") or {}).items()
            if not name.startswith(f"{tenancy.POD_SECURITY}/")
        }
        notes = existing["metadata"].get("annotations") or {}
        metadata["labels"] = labels | metadata["labels"]
        metadata["annotations"] = notes | metadata["annotations"]
    return {**manifest, "metadata": metadata}


def _is_marked(thing: Mapping[str, Any], manifest: Json) -> bool:
    """Whether this stack created the object, and for the same purpose."""
    marks, expected = (of["metadata"].get("annotations") or {} for of in (thing, manifest))
    return all(marks.get(name) == expected.get(name) for name in (STACK, NETWORK))


def _called(manifest: Json) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _refusal(manifest: Json, existing: Mapping[str, Any]) -> str:
    other = (existing["metadata"].get("annotations") or {}).get(STACK)
    whose = f"belongs to the stack {other}" if other else "was not made by this stack"
    return (
        f"the {_called(manifest)} exists in the cluster and {whose}; it was left as it is."
        " Choose another Namespace"
    )


def serve_request(
    event: Mapping[str, Any],
    tenant: Tenant,
    connect: Connect,
    administration: AccessPolicy,
    seconds: float,
) -> Answer:
    """Handle CloudFormation's request, with retries because a new access entry takes effect late.

    Args:
        event: CloudFormation's request. Its properties only make CloudFormation send it.
        tenant: the function's stack.
        connect: returns the cluster, or None when it does not exist any more.
        administration: the right that the work needs.
        seconds: how long to retry.

    Returns:
        The namespace as physical id, so that CloudFormation deletes an old namespace after it has
        created the new one. The attributes are `Namespace`, `HostNamespace` (empty without one) and
        `Group`.

    Raises:
        NotOurRequest: the request is of another stack, or its physical id is no namespace.
    """
    if event["StackId"] != tenant.stack_id:
        raise NotOurRequest(f"this function serves {tenant.stack_id}, not {event['StackId']}")
    if event["RequestType"] == "Delete":
        old = _former(tenant, event["PhysicalResourceId"])

        def work(cluster: Cluster | None, left: float) -> None:
            if cluster is not None:
                remove(cluster, old, seconds=left)

        _administer(work, connect, administration, seconds)
        return Answer(event["PhysicalResourceId"])
    return heal(tenant, connect, administration, seconds)


def heal(tenant: Tenant, connect: Connect, administration: AccessPolicy, seconds: float) -> Answer:
    """Create and correct the stack's objects, also those that somebody deleted.

    Raises:
        NotOurs: see `apply`.
        ClusterUnreachable: it still did not work after `seconds`.
        LookupError: the cluster does not exist.
    """

    def work(cluster: Cluster | None, left: float) -> None:
        if cluster is None:
            raise LookupError("the cluster does not exist")
        apply(cluster, tenant, seconds=left)

    _administer(work, connect, administration, seconds)
    host = tenancy.host_namespace(tenant.namespace) if tenant.host_network else ""
    return Answer(
        tenant.namespace,
        {"Namespace": tenant.namespace, "HostNamespace": host, "Group": tenant.group},
    )


def ask_to_heal(run_id: str, error: ClusterUnreachable, store: Store) -> None:
    """Count that a run that has lost its access asks for this function.

    Raises:
        ClusterUnreachable: the error, where nothing is lost that this function makes.
        AccessLost: it was recreated `MOST_HEALS` times. The run measures no more.
    """
    if not error.access_lost:
        raise error
    if store.runs.count_heal(run_id) <= MOST_HEALS:
        return
    over = GaveUp(
        error="AccessLost",
        message=f"{error}. Its namespace and roles were recreated {MOST_HEALS} times; the log of"
        " the bootstrap function says what became of that",
    )
    store.runs.update(run_id, phase=f"giving up: {over.message}", gave_up=over.to_json())
    raise AccessLost(over.message) from error


def _administer(
    work: Callable[[Cluster | None, float], None],
    connect: Connect,
    administration: AccessPolicy,
    seconds: float,
) -> None:
    """Work as an administrator of the cluster for some time at most, and be none afterwards.

    The right is given back in any case: an earlier call that was ended may have left it.
    """
    deadline = time.monotonic() + seconds - _PAUSE_SECONDS
    failure: Exception = ClusterUnreachable("the cluster or AWS is too slow to prepare the cluster")
    try:
        with time_limit(seconds):
            while True:
                try:
                    cluster = connect()
                    if cluster is not None:
                        # Again in each attempt, because another call may have given it back.
                        administration.take()
                    work(cluster, deadline - time.monotonic())
                    return
                except (ClusterUnreachable, Throttled) as error:
                    failure = error
                    time.sleep(_PAUSE_SECONDS)
    except OutOfTime:
        raise failure from None
    finally:
        administration.give_back()


def _former(tenant: Tenant, physical_id: str) -> Tenant:
    """The stack with the namespace that it had; a creation that failed has no physical id."""
    if physical_id == NOTHING:
        return tenant
    if not _NAMESPACE.fullmatch(physical_id):
        raise NotOurRequest(f"{physical_id} is not the name of a namespace")
    return replace(tenant, namespace=physical_id)
