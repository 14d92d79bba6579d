"""Await servers: wait until every node of the plan has listening servers."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence, Set
from typing import Any

from rackrate.document import Document, Json
from rackrate.errors import NodesUnavailable, ServersNotReady
from rackrate.measure import manifests
from rackrate.measure.networks import pods_path
from rackrate.measure.node_groups import health_issues
from rackrate.measure.nodes import is_ready
from rackrate.measure.servers import (
    lacking_programs,
    owner_of,
    server_addresses,
    server_labels,
    why_waiting,
)
from rackrate.plan.arms import Network
from rackrate.plan.planned_run import PlannedRun
from rackrate.resources import Resources
from rackrate.settings import named_groups
from rackrate.stages.take_lease import keep_lease

#: How long a server may take to start, including the pull of the tools' image.
SERVERS_SECONDS = 300
#: How long one call watches before it returns to the state machine.
WATCH_SECONDS = 25.0
WAIT_SECONDS = 2


class Readiness(Document):
    """Whether a run can continue, and if not, when to ask again."""

    ready: bool
    wait_seconds: int


def await_servers(run_id: str, resources: Resources) -> Readiness:
    """Watch for up to `WATCH_SECONDS` until every node of the plan has listening servers.

    Raises:
        NodesBusy: the run does not hold its nodes any more.
        NodesUnavailable: a node of the plan is gone or not Ready.
        ServersNotReady: `SERVERS_SECONDS` are over, or the image lacks a server's program.
    """
    settings, cluster = resources.settings, resources.cluster
    planned = resources.store.plan(run_id)
    run = resources.store.update_run(run_id, phase="waiting for servers")
    keep_lease(run, resources.store)
    labels = manifests.selector(server_labels(run_id))
    deadline = time.monotonic() + WATCH_SECONDS
    missing: set[str] = set()
    complaints: list[str] = []
    for network, names in _nodes_by_network(planned).items():

        def settled(pods: Mapping[str, Json], names: Set[str] = names) -> bool:
            ready = server_addresses(pods.values()).keys()
            return names <= ready or bool(lacking_programs(pods.values()))

        left = max(0.0, deadline - time.monotonic())
        pods, _ = cluster.watch(pods_path(network, settings), labels, settled, seconds=left)
        if lacking := lacking_programs(pods.values()):
            raise ServersNotReady("; ".join(lacking))
        missing |= names - server_addresses(pods.values()).keys()
        complaints += why_waiting(pods.values())
    if not missing:
        return Readiness(ready=True, wait_seconds=0)
    _check_nodes(sorted(missing), planned, resources)
    owner = owner_of(run_id, settings.namespace, cluster)
    if _age_seconds(owner) > SERVERS_SECONDS:
        raise ServersNotReady(
            f"no server after {SERVERS_SECONDS} s on {', '.join(sorted(missing))}"
            + "".join(f"; {line}" for line in complaints)
        )
    return Readiness(ready=False, wait_seconds=WAIT_SECONDS)


def _nodes_by_network(planned: PlannedRun) -> dict[Network, set[str]]:
    """The names of the nodes that need servers, by the servers' network."""
    nodes: dict[Network, set[str]] = {}
    for arm in planned.arms:
        nodes.setdefault(arm.server_network, set()).update(arm.node_names)
    return nodes


def _check_nodes(missing: Sequence[str], planned: PlannedRun, resources: Resources) -> None:
    nodes = resources.cluster.list("/api/v1/nodes")
    ready = {node["metadata"]["name"] for node in nodes if is_ready(node)}
    lines = []
    for arm in planned.arms:
        lost = [node for node in arm.nodes if node.name in missing and node.name not in ready]
        if lost:
            groups = sorted({node.node_group for node in lost if node.node_group})
            issues = health_issues(resources.eks, resources.settings.cluster_name, groups)
            of_groups = f" of {named_groups(groups)}" if groups else ""
            healthy = f"EKS reports no health issue{of_groups}"
            lines.append(
                f"arm {arm.name}: {', '.join(node.name for node in lost)} not Ready;"
                f" {'; '.join(issues) or healthy}"
            )
    if lines:
        raise NodesUnavailable("\n".join(lines))


def _age_seconds(thing: Mapping[str, Any]) -> float:
    created = datetime.datetime.fromisoformat(thing["metadata"]["creationTimestamp"])
    return (datetime.datetime.now(datetime.UTC) - created).total_seconds()
