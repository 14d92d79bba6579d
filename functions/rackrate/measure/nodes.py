"""The cluster's nodes: which are Ready, and the facts about each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rackrate.foreign import plain
from rackrate.measure.cluster import Cluster
from rackrate.measure.manifests import OS_LABEL
from rackrate.settings import NODE_GROUP_LABEL, StackArm
from rackrate_contract.arms import Node
from rackrate_contract.document import Json
from rackrate_contract.selectors import Toleration, taint_text

#: The label of nodes whose network is scaled down on purpose. Results report the scale.
NETWORK_SCALE_LABEL = "rackrate.dev/network-scale"
#: The label of nodes that a hunt has left in place; its value is the hunt's id.
KEPT_LABEL = "rackrate.dev/kept"
NODES = "/api/v1/nodes"

#: The VPC CNI's DaemonSet, and its container's name.
CNI_DAEMON_SET = "aws-node"
#: The Service of the cluster's DNS, in the namespace `kube-system`, and its Endpoints.
DNS_SERVICE = "kube-dns"
KUBE_PROXY_DAEMON_SET = "kube-proxy"

#: More layers or CPUs than any machine has are no fact about it.
_MOST_LAYERS, _MOST_CPUS = 16, 100_000
_INSTANCE_ID = re.compile(r"i-[0-9a-z-]{1,60}", re.ASCII)
_TOPOLOGY_PREFIX = "topology.k8s.aws/network-node-layer-"
#: Taints that Kubernetes takes from a node some seconds after it became Ready
#: (https://kubernetes.io/docs/reference/labels-annotations-taints/).
_TAINTS_UNTIL_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def system_of(node: Mapping[str, Any]) -> str:
    """The node's operating system, such as `linux` or `windows`; each kubelet labels its node."""
    return str(node["metadata"].get("labels", {}).get(OS_LABEL, "linux"))


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether the node is Ready and accepts new pods of Linux."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    leaving = "deletionTimestamp" in node["metadata"]
    unschedulable = node.get("spec", {}).get("unschedulable", False)
    return ready and not leaving and not unschedulable and system_of(node) == "linux"


def ready_at(node: Mapping[str, Any]) -> str | None:
    """When a node that is Ready became so, ISO 8601; None if it does not tell."""
    conditions = node.get("status", {}).get("conditions", [])
    return next((c.get("lastTransitionTime") for c in conditions if c["type"] == "Ready"), None)


def untolerated_taints(node: Mapping[str, Any], tolerations: Sequence[Toleration]) -> list[str]:
    """The node's taints that keep pods with these tolerations away, such as `key=value:NoSchedule`.

    Taints that only ask to prefer other nodes keep no pod away. Those that last until the node is
    Ready are left to `is_ready`.
    """
    return [
        taint_text(taint)
        for taint in node.get("spec", {}).get("taints", [])
        if taint["effect"] != "PreferNoSchedule"
        and taint["key"] not in _TAINTS_UNTIL_READY
        and not any(toleration.covers(taint) for toleration in tolerations)
    ]


def node_of(node: Mapping[str, Any]) -> Node:
    """The facts about a node that results record: instance, zone, image, versions.

    A node writes them itself, so each is clipped, and one that makes no sense counts as unknown.
    """
    labels = _plain(node["metadata"].get("labels", {}))
    info = _plain(node.get("status", {}).get("nodeInfo", {}))
    topology = {
        k.removeprefix(_TOPOLOGY_PREFIX): v for k, v in labels.items() if _TOPOLOGY_PREFIX in k
    }
    return Node(
        name=node["metadata"]["name"],
        instance_id=_instance_id(node.get("spec", {}).get("providerID", "")),
        instance_type=labels.get("node.kubernetes.io/instance-type"),
        zone=labels.get("topology.kubernetes.io/zone"),
        region=labels.get("topology.kubernetes.io/region"),
        image=labels.get("eks.amazonaws.com/nodegroup-image"),
        architecture=labels.get("kubernetes.io/arch"),
        node_group=labels.get(NODE_GROUP_LABEL),
        kernel=info.get("kernelVersion"),
        os_image=info.get("osImage"),
        kubernetes=info.get("kubeletVersion"),
        container_runtime=info.get("containerRuntimeVersion"),
        cpus=_cpus(node.get("status", {}).get("capacity", {}).get("cpu")),
        network_scale=_scale(labels.get(NETWORK_SCALE_LABEL)),
        network_layers=tuple(topology[layer] for layer in sorted(topology))[:_MOST_LAYERS] or None,
        node_pool=labels.get("karpenter.sh/nodepool"),
        capacity_type=_capacity_type(labels),
        labelled_group_id=labels.get("karpenter.k8s.aws/placement-group-id"),
        labelled_partition=labels.get("karpenter.k8s.aws/placement-group-partition"),
    )


def cni(daemon_set: Mapping[str, Any] | None) -> str | None:
    """The VPC CNI that the cluster runs, such as `amazon-k8s-cni:v1.20.4-eksbuild.1`.

    Args:
        daemon_set: `aws-node` of the namespace `kube-system`, or None where it cannot be read.

    Returns:
        Name and tag of its image. None where there is none, and during a rollout, when some nodes
        still run another image.
    """
    if daemon_set is None:
        return None
    status = daemon_set.get("status", {})
    desired = status.get("desiredNumberScheduled", 0)
    if status.get("updatedNumberScheduled", 0) < desired:
        return None
    containers = daemon_set["spec"]["template"]["spec"]["containers"]
    images = [each["image"] for each in containers if each["name"] == CNI_DAEMON_SET]
    return plain(images[0].rpartition("/")[2]) if images else None


def dns_nodes(endpoints: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """The nodes of the pods that answer for the cluster's DNS, sorted; with a node for each pod.

    Args:
        endpoints: the Endpoints `kube-dns` of the namespace `kube-system`, or None where they
            cannot be read.

    Returns:
        None where they are not known.
    """
    if endpoints is None:
        return None
    addresses = [a for s in endpoints.get("subsets") or () for a in s.get("addresses") or ()]
    return tuple(sorted(plain(each.get("nodeName") or "unknown") for each in addresses)) or None


def _plain(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: plain(fact) for name, fact in facts.items()}


def _instance_id(provider_id: str) -> str | None:
    """The id of an instance of EC2, from such as `aws:///us-east-1a/i-0123456789abcdef0`."""
    name = provider_id.rpartition("/")[2]
    return name if _INSTANCE_ID.fullmatch(name) else None


def _capacity_type(labels: Mapping[str, str]) -> str | None:
    """`on-demand`, `spot` or `reserved` in Karpenter's spelling; EKS writes `ON_DEMAND`."""
    label = labels.get("karpenter.sh/capacity-type") or labels.get("eks.amazonaws.com/capacityType")
    return label and label.lower().replace("_", "-")


def _cpus(quantity: str | None) -> int | None:
    """The number of CPUs in a node's capacity, a Kubernetes quantity such as `2` or `1930m`.

    A fraction counts as a whole CPU, because a thread may run on it. A malformed quantity counts as
    unknown instead of raising an error.
    """
    if quantity is None:
        return None
    text = str(quantity)
    try:
        cpus = float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        return None
    return math.ceil(cpus) if 0 < cpus <= _MOST_CPUS else None


def _scale(label: str | None) -> float | None:
    """The scale that a label names; None if it is no share of a network.

    `rackrate.stages.run.plan` refuses nodes that do not all have the same.
    """
    try:
        scale = math.nan if label is None else float(label)
    except ValueError:
        return None
    return scale if 0 < scale <= 1 else None


def nodes_of(cluster: Cluster, arm: StackArm) -> list[Json]:
    """An arm's nodes as the API returns them, Ready or not."""
    return cluster.list(NODES, str(arm.selector))


def ready_nodes(
    cluster: Cluster, arm: StackArm, tolerations: Sequence[Toleration] = ()
) -> list[Node]:
    """An arm's Ready nodes that take pods with these tolerations, sorted by name."""
    nodes = (
        node_of(node)
        for node in nodes_of(cluster, arm)
        if is_ready(node) and not untolerated_taints(node, tolerations)
    )
    return sorted(nodes, key=lambda node: node.name)
