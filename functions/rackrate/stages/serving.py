"""Deploy and await the servers."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from rackrate import manifests
from rackrate.cluster import Cluster
from rackrate.errors import NodesUnavailable, ServersNotReady
from rackrate.node_groups import health_issues
from rackrate.nodes import is_ready
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
    """Creates the run's owner and a DaemonSet of servers for each arm; what exists is kept."""
    stored = store.get_json(run_id, "plan.json")
    store.update_run(run_id, {"phase": "starting servers"})
    base = f"/api/v1/namespaces/{settings.namespace}"
    created = cluster.create(f"{base}/configmaps", manifests.owner(run_id, execution_arn))
    for arm in stored["arms"]:
        cluster.create(
            f"/apis/apps/v1/namespaces/{settings.namespace}/daemonsets",
            manifests.servers(
                run_id=run_id,
                owner_uid=created["metadata"]["uid"],
                arm=arm["name"],
                node_selector=arm["selector"],
                image=settings.tool_image,
            ),
        )
    return {"arms": len(stored["arms"])}


def await_servers(
    run_id: str, *, settings: Settings, cluster: Cluster, store: Store, eks: Any
) -> Json:
    """Watches for a while whether every node the plan counts on has a server that listens.

    Raises:
        NodesUnavailable: a node of the plan is gone or not Ready.
        ServersNotReady: the servers had their time.
    """
    stored = store.get_json(run_id, "plan.json")
    store.update_run(run_id, {"phase": "waiting for servers"})
    names = {node["name"] for arm in stored["arms"] for node in arm["nodes"]}
    labels = {manifests.RUN: manifests.run_label(run_id), manifests.ROLE: "server"}
    path = f"/api/v1/namespaces/{settings.namespace}"
    pods, ready = cluster.watch(
        f"{path}/pods",
        manifests.selector(labels),
        lambda pods: names <= set(server_addresses(pods.values())),
        seconds=WATCH_SECONDS,
    )
    if ready:
        return {"ready": True, "wait_seconds": 0}
    missing = sorted(names - set(server_addresses(pods.values())))
    _check_nodes(missing, stored, settings, cluster, eks)
    owner = cluster.get(f"{path}/configmaps/{manifests.owner_name(run_id)}")
    if owner is None:
        raise ServersNotReady("the run's owner object was deleted, and its servers with it")
    if _age_seconds(owner) > SERVERS_SECONDS:
        raise ServersNotReady(
            f"no server after {SERVERS_SECONDS} s on {', '.join(missing)}"
            + "".join(f"; {line}" for line in _complaints(pods.values()))
        )
    return {"ready": False, "wait_seconds": WAIT_SECONDS}


def server_addresses(pods: Any) -> dict[str, str]:
    """The IP address of the Ready server of each node, by node name."""
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


def _complaints(pods: Any) -> list[str]:
    """Why containers wait, such as an image that cannot be pulled; each reason once."""
    reasons = {
        f"{waiting.get('reason')}: {waiting.get('message', '')}".strip(": ")
        for pod in pods
        for container in pod["status"].get("containerStatuses", [])
        if (waiting := container.get("state", {}).get("waiting"))
    }
    return sorted(reasons)
