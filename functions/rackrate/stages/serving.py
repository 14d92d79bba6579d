"""Deploy and await the servers."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from rackrate import manifests, tools
from rackrate.cluster import Cluster
from rackrate.errors import NodesUnavailable, ServersNotReady
from rackrate.networks import namespace_of, namespaces
from rackrate.node_groups import health_issues
from rackrate.nodes import is_ready
from rackrate.outcomes import missing_program
from rackrate.settings import Settings
from rackrate.store import Store

Json = dict[str, Any]

#: How long a server may take: a node has to pull the tools' image first.
SERVERS_SECONDS = 300
#: How long one call watches before it hands back to the state machine.
WATCH_SECONDS = 25.0
WAIT_SECONDS = 2


def deploy(
    run_id: str, execution_arn: str, *, settings: Settings, cluster: Cluster, store: Store
) -> Json:
    """Creates the run's owners and the DaemonSets of servers; what exists is kept.

    There is an owner in each namespace, and a DaemonSet for each set of nodes and each network of
    which an arm of the plan has its servers.
    """
    stored = store.get_json(run_id, "plan.json")
    store.update_run(run_id, {"phase": "starting servers"})
    tests = [tools.load_test(test) for test in stored["plan"]["tests"]]
    owners = {
        namespace: cluster.create(
            f"/api/v1/namespaces/{namespace}/configmaps", manifests.owner(run_id, execution_arn)
        )
        for namespace in namespaces(settings)
    }
    wanted = {(arm["stack_arm"], arm["server_network"]): arm for arm in stored["arms"]}
    for (stack_arm, network), arm in wanted.items():
        namespace = namespace_of(network, settings)
        cluster.create(
            f"/apis/apps/v1/namespaces/{namespace}/daemonsets",
            manifests.servers(
                run_id=run_id,
                owner_uid=owners[namespace]["metadata"]["uid"],
                arm=stack_arm,
                network=network,
                node_selector=arm["selector"],
                tests=tests,
                image=settings.tool_image,
            ),
        )
    return {"daemon_sets": len(wanted)}


def await_servers(
    run_id: str, *, settings: Settings, cluster: Cluster, store: Store, eks: Any
) -> Json:
    """Watches for a while whether every node the plan counts on has servers that listen.

    Raises:
        NodesUnavailable: a node of the plan is gone or not Ready.
        ServersNotReady: the servers had their time, or the image lacks their program.
    """
    stored = store.get_json(run_id, "plan.json")
    store.update_run(run_id, {"phase": "waiting for servers"})
    labels = manifests.selector(_labels(run_id))
    deadline = time.monotonic() + WATCH_SECONDS
    missing: set[str] = set()
    complaints: list[str] = []
    for network, names in _nodes_by_network(stored).items():
        path = f"/api/v1/namespaces/{namespace_of(network, settings)}"

        def settled(pods: Mapping[str, Json], names: Set[str] = names) -> bool:
            return names <= server_addresses(pods.values()).keys() or bool(_lacking(pods.values()))

        left = max(0.0, deadline - time.monotonic())
        pods, _ = cluster.watch(f"{path}/pods", labels, settled, seconds=left)
        if lacking := _lacking(pods.values()):
            raise ServersNotReady("; ".join(lacking))
        missing |= names - server_addresses(pods.values()).keys()
        complaints += _complaints(pods.values())
    if not missing:
        return {"ready": True, "wait_seconds": 0}
    _check_nodes(sorted(missing), stored, settings, cluster, eks)
    owner = owner_of(run_id, settings.namespace, cluster)
    if _age_seconds(owner) > SERVERS_SECONDS:
        raise ServersNotReady(
            f"no server after {SERVERS_SECONDS} s on {', '.join(sorted(missing))}"
            + "".join(f"; {line}" for line in complaints)
        )
    return {"ready": False, "wait_seconds": WAIT_SECONDS}


def owner_of(run_id: str, namespace: str, cluster: Cluster) -> Json:
    """The run's owner object in a namespace.

    Raises:
        ServersNotReady: it is gone.
    """
    owner = cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/{manifests.owner_name(run_id)}")
    if owner is None:
        raise ServersNotReady("the run's owner object was deleted, and its servers with it")
    return owner


def addresses_in(run_id: str, network: str, settings: Settings, cluster: Cluster) -> dict[str, str]:
    """The IP addresses of a run's servers in a network, by node name; see `server_addresses`."""
    path = f"/api/v1/namespaces/{namespace_of(network, settings)}/pods"
    return server_addresses(cluster.list(path, manifests.selector(_labels(run_id))))


def server_addresses(pods: Iterable[Json]) -> dict[str, str]:
    """The IP address of the Ready servers of each node, by node name.

    Those of a pod in the network of its node are at the node's address.
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


def _labels(run_id: str) -> dict[str, str]:
    return {manifests.RUN: manifests.run_label(run_id), manifests.ROLE: "server"}


def _nodes_by_network(stored: Json) -> dict[str, set[str]]:
    """The names of the nodes that need servers, by the servers' network."""
    nodes: dict[str, set[str]] = {}
    for arm in stored["arms"]:
        nodes.setdefault(arm["server_network"], set()).update(n["name"] for n in arm["nodes"])
    return nodes


def _check_nodes(
    missing: Sequence[str], stored: Json, settings: Settings, cluster: Cluster, eks: Any
) -> None:
    ready = {n["metadata"]["name"] for n in cluster.list("/api/v1/nodes") if is_ready(n)}
    lines = []
    for arm in stored["arms"]:
        lost = [n for n in arm["nodes"] if n["name"] in missing and n["name"] not in ready]
        if lost:
            groups = sorted({n.get("node_group") or arm["node_group"] for n in lost} - {""})
            issues = health_issues(eks, settings.cluster_name, groups)
            healthy = " of node group ".join(["EKS reports no health issue", *groups])
            lines.append(
                f"arm {arm['name']}: {', '.join(n['name'] for n in lost)} not Ready;"
                f" {'; '.join(issues) or healthy}"
            )
    if lines:
        raise NodesUnavailable("\n".join(lines))


def _age_seconds(thing: Mapping[str, Any]) -> float:
    created = datetime.datetime.fromisoformat(thing["metadata"]["creationTimestamp"])
    return (datetime.datetime.now(datetime.UTC) - created).total_seconds()


def _lacking(pods: Iterable[Json]) -> list[str]:
    """Which programs of servers are not in the image; no waiting will bring them."""
    found = {
        missing_program(pod, container["name"])
        for pod in pods
        for container in pod["status"].get("containerStatuses", [])
    }
    return sorted(filter(None, found))


def _complaints(pods: Iterable[Json]) -> list[str]:
    """Why pods or containers wait, such as a port that is taken; each reason once."""
    reasons: set[str] = set()
    for pod in pods:
        waiting = [
            container.get("state", {}).get("waiting")
            for container in pod["status"].get("containerStatuses", [])
        ]
        unscheduled = [
            condition
            for condition in pod["status"].get("conditions", [])
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        for each in filter(None, [*waiting, *unscheduled]):
            reasons.add(f"{each.get('reason')}: {each.get('message', '')}".strip(": "))
    return sorted(reasons)
