"""A run's holders: pods that bring an arm's nodes, one each, and keep them until the run ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rackrate.measure import manifests
from rackrate.measure.cluster import Cluster
from rackrate.measure.networks import pods_path
from rackrate.measure.servers import why_waiting
from rackrate.settings import Settings, StackArm
from rackrate_contract.document import Json

#: How many requests to the cluster run in parallel.
WORKERS = 16


def hold(
    run_id: str,
    execution_arn: str,
    arms: Iterable[StackArm],
    settings: Settings,
    cluster: Cluster,
) -> list[Json]:
    """Create the holders of arms and load nodes, one for each node; keep those that exist.

    They belong to the run's owner object. Deleting it lets the nodes go.

    Returns:
        The holders.
    """
    path = pods_path("pod", settings)
    labels = manifests.run_labels(run_id, "holder")
    existing = cluster.create(
        f"/api/v1/namespaces/{settings.namespace}/configmaps",
        manifests.owner(run_id, execution_arn),
    )
    owner = manifests.Owner(run_id, existing["metadata"]["uid"])
    pods = {pod["metadata"]["name"]: pod for pod in cluster.list(path, manifests.selector(labels))}
    holders = [
        manifests.holder(
            owner=owner,
            arm=arm,
            number=number,
            image=settings.tool_image,
            tolerations=settings.tolerations,
        )
        for arm in arms
        for number in range(1, settings.count_of(arm) + 1)
    ]
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(
            pool.map(
                lambda pod: pods.get(pod["metadata"]["name"]) or cluster.create(path, pod), holders
            )
        )


def is_holding(pod: Json) -> bool:
    """Whether a holder runs, so that its node is there and Ready."""
    return bool(pod.get("status", {}).get("phase") == "Running")


def why_no_node(pods: Sequence[Json], settings: Settings, cluster: Cluster) -> list[str]:
    """Why pods wait: as the scheduler, the kubelet and the cluster's autoscaler tell, each once."""
    names = {pod["metadata"]["name"] for pod in pods}
    events = cluster.list(f"/api/v1/namespaces/{settings.namespace}/events")
    warnings = [
        f"{event.get('reason')}: {event.get('message')}"
        for event in events
        if event.get("involvedObject", {}).get("name") in names and event.get("type") == "Warning"
    ]
    return sorted({*why_waiting(pods), *warnings})
