"""A run's servers and their owner objects: their addresses, and why they are not ready."""

from __future__ import annotations

from collections.abc import Iterable

from rackrate.errors import ServersNotReady
from rackrate.measure import manifests
from rackrate.measure.cluster import Cluster
from rackrate.measure.manifests import Owner
from rackrate.measure.networks import pods_path
from rackrate.measure.pods import INITIALIZING, failed_init_containers, missing_part
from rackrate.settings import Settings
from rackrate_contract.arms import Network
from rackrate_contract.document import Json


def owner_of(run_id: str, namespace: str, cluster: Cluster) -> Owner:
    """The run's owner object in a namespace.

    Raises:
        ServersNotReady: the object is missing.
    """
    owner = find_owner(run_id, namespace, cluster)
    if owner is None:
        raise ServersNotReady("the run's owner object was deleted, and its servers with it")
    return Owner(run_id, owner["metadata"]["uid"])


def find_owner(run_id: str, namespace: str, cluster: Cluster) -> Json | None:
    """The run's owner object in a namespace, or None when it is missing."""
    return cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/{manifests.owner_name(run_id)}")


def addresses_in(
    run_id: str, network: Network, settings: Settings, cluster: Cluster
) -> dict[str, str]:
    """The IP addresses of a run's servers in a network, by node name; see `server_addresses`."""
    labels = manifests.selector(manifests.run_labels(run_id, "server"))
    return server_addresses(cluster.list(pods_path(network, settings), labels))


def server_addresses(pods: Iterable[Json]) -> dict[str, str]:
    """The IP address of the Ready servers of each node, by node name.

    A server in the network of its node has the node's address.
    """
    return {
        pod["spec"]["nodeName"]: pod["status"]["podIP"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("podIP")
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod["status"].get("conditions", [])
        )
    }


def missing_parts(pods: Iterable[Json]) -> list[str]:
    """Messages on images, and programs in them, that there are not: waiting is useless."""
    messages = {
        missing_part(pod, container["name"])
        for pod in pods
        for container in pod["status"].get("containerStatuses", [])
    }
    return sorted(filter(None, messages))


def why_waiting(pods: Iterable[Json]) -> list[str]:
    """The distinct reasons why pods or containers wait, such as a port that is taken."""
    reasons: set[str] = set()
    for pod in pods:
        status = pod["status"]
        reasons |= {*failed_init_containers(pod).values()}
        waiting = [
            container.get("state", {}).get("waiting")
            for of in ("initContainerStatuses", "containerStatuses")
            for container in status.get(of, [])
        ]
        unscheduled = [
            condition
            for condition in status.get("conditions", [])
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        for each in filter(None, [*waiting, *unscheduled]):
            reasons.add(f"{each.get('reason')}: {each.get('message', '')}".strip(": "))
    # That a container waits for an init container explains nothing if that one has a reason.
    return sorted(reasons - {INITIALIZING} or reasons)
