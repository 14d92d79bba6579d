"""EKS drains a node before it terminates it, and the disruption budget of CoreDNS can hold a node.

The lab evicts no pod by its budget, but keeps what CoreDNS's does when the last nodes of a cluster
go at once. The budget (at most one of two replicas unavailable) lets the first replica be evicted.
No other node takes it, so the second may not be evicted, and its node stays until the drain times
out.

Sources: EKS user guide, "Understand each phase of node updates" (pods have 15 minutes to leave),
and CoreDNS's disruption budget (terraform-aws-eks 2785).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

from lab.aws.eks.clusters import Cluster
from lab.waiting import until

#: How long EKS waits for the pods of a node.
DRAIN_SECONDS = 900.0
_LOOK_SECONDS = 0.2

_marking = threading.Lock()


def begin(cluster: Cluster, leaving: Iterable[str]) -> str | None:
    """Mark nodes as unschedulable. Returns the one that holds CoreDNS's last replica, or None."""
    names = list(leaving)
    with _marking:
        cluster.draining.update(names)
        return names[-1] if _is_held(cluster) else None


def wait(cluster: Cluster) -> None:
    """Wait until CoreDNS's last replica may leave its node, or the drain times out."""
    until(lambda: not _is_held(cluster), seconds=DRAIN_SECONDS, poll_seconds=_LOOK_SECONDS)


def _is_held(cluster: Cluster) -> bool:
    """Whether CoreDNS has a budget and no node takes its replicas."""
    addon = cluster.addons.get("coredns")
    if addon is None:
        return False
    values = json.loads(addon.get("configurationValues") or "{}")
    if values.get("podDisruptionBudget", {}).get("enabled") is False:
        return False
    nodes = {one.name for group in list(cluster.node_groups.values()) for one in group.instances}
    return nodes <= cluster.draining
