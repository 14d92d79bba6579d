"""Karpenter, as far as a run meets it: pools bring nodes for pods, and remove what nothing holds.

The pools are real objects of the cluster. Of a NodePool count the labels, taints, the required
instance type, the node class and `disruption`; of an EC2NodeClass the first subnet's id and the
placement group's name. One pod gets one node where it wants to be apart from others of its kind.
Consolidation is harsher than Karpenter's: with `WhenEmptyOrUnderutilized` every node counts as
underutilized. So a run whose pods do not hold their nodes loses them.

Sources: https://karpenter.sh/docs/concepts/nodepools/, .../nodeclasses/ and .../disruption/, and
`ValidatePodsDisruptable` of kubernetes-sigs/karpenter: pods of DaemonSets hold a node too.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import urllib.error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from lab.aws.clients import ClientFactory
from lab.aws.eks import addons
from lab.aws.eks.clusters import Cluster, in_background
from lab.aws.eks.infrastructure import Infrastructure, Instance, KubernetesCluster, NodeLaunchError
from lab.aws.eks.instances import launch_instances, node_spec
from lab.aws.eks.user_data import KubeletSettings

LOG = logging.getLogger(__name__)

Json = dict[str, Any]

_LOOK_SECONDS = 0.5
#: How long a pod for which a node came may take to be scheduled there, before it gets another.
_NOMINATED_SECONDS = 30.0
_POOLS = ("karpenter.sh", "NodePool", "nodepools")
_CLASSES = ("karpenter.k8s.aws", "EC2NodeClass", "ec2nodeclasses")
_POOL, _CAPACITY = "karpenter.sh/nodepool", "karpenter.sh/capacity-type"
_GROUP = "karpenter.k8s.aws/placement-group-id"
_PARTITION = "karpenter.k8s.aws/placement-group-partition"
_HOLD = "karpenter.sh/do-not-disrupt"
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Karpenter:
    """Installs Karpenter in clusters. Each has a thread until it ends."""

    def __init__(self, clients: ClientFactory, infrastructure: Infrastructure) -> None:
        self._clients, self._infrastructure = clients, infrastructure
        self._started: set[str] = set()
        self._lock = threading.Lock()

    def start(self, cluster: Cluster) -> Json:
        """Install it, unless the cluster has it. Raises OSError."""
        name = cluster.description["name"]
        plane = cluster.control_plane
        if plane is None:
            raise OSError(f"cluster {name} has no control plane")
        with self._lock:
            if name in self._started:
                return {}
            for group, kind, plural in (_POOLS, _CLASSES):
                _define(plane, group, kind, plural)
            self._started.add(name)
        controller = _Controller(cluster, plane, self._clients, self._infrastructure)
        in_background(controller.run)
        return {}


@dataclass
class _Node:
    """A node of a pool. `idle_since` is since when no pod holds it, None while one does."""

    pool: str
    instance: Instance
    idle_since: float | None = None


@dataclass
class _Controller:
    """Karpenter in one cluster."""

    cluster: Cluster
    plane: KubernetesCluster
    clients: ClientFactory
    infrastructure: Infrastructure
    nodes: dict[str, _Node] = field(default_factory=dict)
    nominated: dict[str, float] = field(default_factory=dict)
    image_id: str = ""

    def run(self) -> None:
        """Look after the pools until the cluster ends."""
        while self.cluster.description["status"] == "ACTIVE":
            try:
                self._look()
            except (OSError, ClientError, NodeLaunchError, KeyError) as error:
                LOG.warning("karpenter: %s: %s", type(error).__name__, error)
            time.sleep(_LOOK_SECONDS)
        self._remove([*self.nodes])

    def _look(self) -> None:
        pools = {pool["metadata"]["name"]: pool for pool in self._list(*_POOLS)}
        pods = self._items("/api/v1/pods")
        waiting = [pod for pod in pods if _is_unschedulable(pod)]
        self._provision(waiting, pools)
        self._disrupt(pods, pools)

    # -- nodes that pods ask for

    def _provision(self, waiting: Iterable[Json], pools: Mapping[str, Json]) -> None:
        by_pool: dict[str, list[Json]] = {}
        now = time.monotonic()
        for pod in waiting:
            uid = pod["metadata"]["uid"]
            if self.nominated.get(uid, -_NOMINATED_SECONDS) > now - _NOMINATED_SECONDS:
                continue
            self.nominated[uid] = now
            fitting = [name for name, pool in pools.items() if fits(pod, pool)]
            if fitting:
                by_pool.setdefault(fitting[0], []).append(pod)
            else:
                self._warn(pod, f"no nodepool fits it, of {', '.join(sorted(pools)) or 'none'}")
        for name, pods in by_pool.items():
            apart = sum(1 for pod in pods if wants_to_be_alone(pod))
            self._launch(name, pools[name], max(1, apart))
            self.nominated |= {pod["metadata"]["uid"]: time.monotonic() for pod in pods}

    def _launch(self, name: str, pool: Json, count: int) -> None:
        template = pool["spec"]["template"]
        reference = template["spec"]["nodeClassRef"]["name"]
        classes = {each["metadata"]["name"]: each["spec"] for each in self._list(*_CLASSES)}
        group = classes[reference].get("placementGroupSelector", {})
        (instance_type,) = required_types(pool)
        started: list[Instance] = []
        instances = launch_instances(
            self.clients,
            self.infrastructure,
            description={
                "clusterName": self.cluster.description["name"],
                "capacityType": "ON_DEMAND",
                "subnets": [classes[reference]["subnetSelectorTerms"][0]["id"]],
            },
            template={
                "InstanceType": instance_type,
                "Placement": {f"Group{by.title()}": value for by, value in group.items()},
                "TagSpecifications": [
                    {"ResourceType": "instance", "Tags": [{"Key": _POOL, "Value": name}]}
                ],
            },
            image_id=self._image(),
            cluster_security_group=self.cluster.description["resourcesVpcConfig"][
                "clusterSecurityGroupId"
            ],
            count=count,
            cni=addons.cni_environment(self.cluster),
            started=started.append,
        )
        self.nodes |= {instance.name: _Node(name, instance) for instance in instances}
        labels = template.get("metadata", {}).get("labels", {})
        taints = template["spec"].get("taints", [])
        self.plane.launch_nodes(
            [
                node_spec(one, {**labels, **self._labels(name, one)}, taints, KubeletSettings())
                for one in instances
            ]
        )

    def _labels(self, pool: str, instance: Instance) -> dict[str, str]:
        labels = {_POOL: pool, _CAPACITY: "on-demand"}
        if instance.placement_group_id is not None:
            labels[_GROUP] = instance.placement_group_id
        if instance.partition_number is not None:
            labels[_PARTITION] = str(instance.partition_number)
        return labels

    def _image(self) -> str:
        if not self.image_id:
            image = self.clients.get("ec2").register_image(
                Name=f"karpenter-{self.cluster.description['name']}", Architecture="x86_64"
            )
            self.image_id = image["ImageId"]
        return self.image_id

    def _warn(self, pod: Json, message: str) -> None:
        meta = pod["metadata"]
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta['name']}-", "namespace": meta["namespace"]},
            "involvedObject": {
                "kind": "Pod",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "type": "Warning",
            "reason": "FailedScheduling",
            "message": f"Failed to schedule pod, {message}",
            "source": {"component": "karpenter"},
        }
        self.plane.request(
            f"/api/v1/namespaces/{meta['namespace']}/events", "POST", json.dumps(event).encode()
        )

    # -- nodes that nothing holds

    def _disrupt(self, pods: Iterable[Json], pools: Mapping[str, Json]) -> None:
        on: dict[str, list[Json]] = {}
        for pod in pods:
            if pod["status"].get("phase") in ("Pending", "Running"):
                on.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
        now, leaving = time.monotonic(), []
        for name, node in self.nodes.items():
            disruption = pools.get(node.pool, {}).get("spec", {}).get("disruption", {})
            if is_needed(on.get(name, []), disruption.get("consolidationPolicy")):
                node.idle_since = None
                continue
            node.idle_since = node.idle_since or now
            # As in Karpenter, the nodes of a deleted pool go at once.
            patience = seconds(disruption.get("consolidateAfter", "0s"))
            if patience is not None and now - node.idle_since >= patience:
                leaving.append(name)
        self._remove(leaving)

    def _remove(self, names: list[str]) -> None:
        if not names:
            return
        LOG.info("karpenter removes %s", ", ".join(names))
        instances = [self.nodes.pop(name).instance for name in names]
        self.plane.terminate_nodes(names)
        self.clients.get("ec2").terminate_instances(
            InstanceIds=[instance.instance_id for instance in instances]
        )
        for instance in instances:
            self.infrastructure.release_block(instance.block)

    def _list(self, group: str, kind: str, plural: str) -> list[Json]:
        return self._items(f"/apis/{group}/v1/{plural}")

    def _items(self, path: str) -> list[Json]:
        items: list[Json] = json.loads(self.plane.request(path))["items"]
        return items


def fits(pod: Json, pool: Json) -> bool:
    """Whether a node of the pool would take the pod: its labels and its taints."""
    template = pool["spec"]["template"]
    labels = {
        **template.get("metadata", {}).get("labels", {}),
        _POOL: pool["metadata"]["name"],
        _CAPACITY: "on-demand",
        "kubernetes.io/os": "linux",
    }
    spec = pod["spec"]
    if not spec.get("nodeSelector", {}).items() <= labels.items():
        return False
    required = (
        spec.get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    terms = required["nodeSelectorTerms"] if required else []
    if terms and not any(
        all(_meets(labels, each) for each in term.get("matchExpressions", [])) for term in terms
    ):
        return False
    tolerations = spec.get("tolerations", [])
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in template["spec"].get("taints", [])
        if taint["effect"] != "PreferNoSchedule"
    )


def _meets(labels: Mapping[str, str], expression: Json) -> bool:
    key, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    label, limit = labels.get(key, ""), int(values[0])  # of Gt and Lt
    if not label.isdecimal():
        return False
    return int(label) > limit if expression["operator"] == "Gt" else int(label) < limit


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, taint["key"])
    tolerated = (toleration.get("key"), toleration.get("value", ""))
    return tolerated == (taint["key"], taint.get("value", ""))


def wants_to_be_alone(pod: Json) -> bool:
    """Whether no two pods of its kind may share a node."""
    affinity = pod["spec"].get("affinity", {}).get("podAntiAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return any(term["topologyKey"] == "kubernetes.io/hostname" for term in terms)


def is_needed(pods: Iterable[Json], policy: str | None) -> bool:
    """Whether a node stays because of its pods, under a consolidation policy.

    A pod with the annotation holds it, also one of a DaemonSet. `WhenEmpty` spares nodes with other
    pods than those of DaemonSets.
    """
    pods = list(pods)
    if any(pod["metadata"].get("annotations", {}).get(_HOLD) == "true" for pod in pods):
        return True
    return policy == "WhenEmpty" and any(not _is_of_daemon_set(pod) for pod in pods)


def seconds(text: str) -> float | None:
    """A duration such as `30s` or `1m30s` in seconds; None for `Never`."""
    if text == "Never":
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)([smh])", text))


def required_types(pool: Json) -> list[str]:
    """The instance types that the pool requires."""
    for each in pool["spec"]["template"]["spec"]["requirements"]:
        if each["key"] == "node.kubernetes.io/instance-type":
            return list(each["values"])
    return []


def _is_of_daemon_set(pod: Json) -> bool:
    owners = pod["metadata"].get("ownerReferences", [])
    return any(owner["kind"] == "DaemonSet" for owner in owners)


def _is_unschedulable(pod: Json) -> bool:
    return not _is_of_daemon_set(pod) and any(
        condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
        for condition in pod.get("status", {}).get("conditions", [])
    )


def _define(plane: KubernetesCluster, group: str, kind: str, plural: str) -> None:
    """Define a kind of the cluster's objects, which keeps every field."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    try:
        plane.request(path, "POST", json.dumps(definition).encode())
    except urllib.error.HTTPError as error:
        if error.code != 409:  # it is there from an earlier time
            raise
