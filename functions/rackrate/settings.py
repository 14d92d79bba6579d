"""The settings that the stack gives its functions in environment variables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rackrate_contract.arms import BandwidthWeighting, Endpoint
from rackrate_contract.selectors import Selector, Toleration, parse_tolerations
from rackrate_text.words import listed

#: EKS puts this label on every node of a managed node group.
NODE_GROUP_LABEL = "eks.amazonaws.com/nodegroup"

#: The name of the load nodes in leases and results, where an arm has its own.
LOAD = "load"
#: What a plan calls the stack's endpoint instance.
INSTANCE = "instance"


def named_groups(names: Sequence[str]) -> str:
    """Node groups in words: `node group a`, or `node groups a and b`."""
    return f"node group{'' if len(names) == 1 else 's'} {listed(names)}"


class Cni(NamedTuple):
    """How the VPC CNI gives pods their addresses.

    Attributes:
        prefix_delegation: whether it gives them addresses of /28 prefixes.
        one_interface: whether it uses only a node's first interface, as templates/cluster.yaml
            sets it where nodes have ENA Express.
    """

    prefix_delegation: bool
    one_interface: bool


class Endpoints(NamedTuple):
    """What the arms of a plan may name as their endpoint.

    Attributes:
        allowed: the ranges of IP addresses in CIDR notation.
        instance: the stack's endpoint instance, which is always allowed; None without one.
    """

    allowed: tuple[str, ...] = ()
    instance: Endpoint | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Endpoints:
        """Read `ALLOWED_ENDPOINTS` and `ENDPOINT_INSTANCE`."""
        allowed = tuple(filter(None, environment["ALLOWED_ENDPOINTS"].split(",")))
        if not (instance := environment.get("ENDPOINT_INSTANCE")):
            return cls(allowed)
        return cls(allowed, Endpoint(name=INSTANCE, **json.loads(instance)))


NO_ENDPOINTS = Endpoints()


@dataclass(frozen=True)
class StackArm:
    """A set of nodes that the stack provides: an arm to compare, or the load nodes.

    Attributes:
        name: the arm's name in plans and results, or `LOAD`.
        placement: strategy of its placement group; `none` without one.
        baseline: whether it is the baseline unless the plan names another arm.
        node_groups: names of its EKS managed node groups, the largest first where the stack made
            them; empty when only labels are known.
        selector: selects its nodes by their labels.
        ena_express: whether its network interfaces use ENA Express.
    """

    name: str
    placement: str
    baseline: bool
    node_groups: tuple[str, ...]
    selector: Selector
    ena_express: bool = False

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StackArm:
        """Read an arm of the environment variable `ARMS`, or `LOAD_NODES`."""
        selector = Selector.parse(value["selector"])
        names = value["node_groups"]
        groups = tuple(names.split(",")) if names else selector.values_of(NODE_GROUP_LABEL)
        return cls(
            name=value["name"],
            placement=value["placement"],
            baseline=value["baseline"],
            # A selector on EKS's own label also names the node group.
            node_groups=groups,
            selector=selector,
            ena_express=value["ena_express"],
        )

    @property
    def whereabouts(self) -> str:
        """A description of its nodes for a message."""
        if self.node_groups:
            return named_groups(self.node_groups)
        return f"nodes with the labels {self.selector}"


@dataclass(frozen=True)
class Settings:
    """The names of the stack's resources, and its options.

    Attributes:
        table_name: the table of runs, trials and verdicts.
        bucket_name: the bucket of plans, raw outputs and reports.
        cluster_name: the EKS cluster.
        namespace: the Kubernetes namespace of the pods.
        tool_image: the image the pods run.
        allowed_images: the other images that a plan may ask for, each with its digest.
        endpoints: what the arms of a plan may name as their endpoint.
        arms: the arms under comparison.
        node_count: nodes in each arm when all are running.
        load: the nodes from which load comes; they belong to no arm. None without such nodes.
        load_node_count: how many these are when all are running; 0 if that is not known.
        idle_scale_to_zero: whether the node groups have zero nodes between runs.
        host_namespace: the Kubernetes namespace of pods in the nodes' own network; empty when the
            stack does not allow host networking.
        tolerations: the taints that the pods tolerate.
        nodes_on_demand: whether a run asks the cluster's autoscaler for its nodes with pods.
        bandwidth_weighting: how the nodes divide their bandwidth between network and volumes.
        owns_nodes: whether the stack made the cluster and its nodes, so that a campaign may change
            them.
        max_pods: pods that a node may hold; None leaves it to EKS. Only `plan_campaign` knows it.
        prefix_delegation: whether the VPC CNI gives pods addresses from /28 prefixes. Only
            `plan_campaign` knows it.
    """

    table_name: str
    bucket_name: str
    cluster_name: str
    namespace: str
    tool_image: str
    arms: tuple[StackArm, ...]
    node_count: int
    idle_scale_to_zero: bool
    host_namespace: str = ""
    tolerations: tuple[Toleration, ...] = ()
    nodes_on_demand: bool = False
    bandwidth_weighting: BandwidthWeighting = "default"
    owns_nodes: bool = False
    max_pods: int | None = None
    prefix_delegation: bool = False
    load: StackArm | None = None
    load_node_count: int = 0
    allowed_images: tuple[str, ...] = ()
    endpoints: Endpoints = NO_ENDPOINTS

    @property
    def node_sets(self) -> tuple[StackArm, ...]:
        """All sets of nodes that the stack has: its arms, then the load nodes."""
        return self.arms if self.load is None else (*self.arms, self.load)

    @property
    def cni(self) -> Cni:
        """How the VPC CNI of the stack's own cluster gives pods their addresses."""
        return Cni(self.prefix_delegation, any(arm.ena_express for arm in self.arms))

    def count_of(self, nodes: StackArm) -> int:
        """The number of nodes of one of the `node_sets` when all are running."""
        return self.load_node_count if nodes == self.load else self.node_count

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings.

        Raises:
            KeyError: a variable that the template sets is missing.
        """
        return cls(
            table_name=environment["TABLE_NAME"],
            bucket_name=environment["BUCKET_NAME"],
            cluster_name=environment["CLUSTER_NAME"],
            namespace=environment["NAMESPACE"],
            tool_image=environment["TOOL_IMAGE"],
            arms=tuple(StackArm.from_json(arm) for arm in json.loads(environment["ARMS"])),
            node_count=int(environment["NODE_COUNT"]),
            idle_scale_to_zero=environment["IDLE_SCALE_TO_ZERO"] == "true",
            host_namespace=environment["HOST_NAMESPACE"],
            tolerations=parse_tolerations(environment["TOLERATIONS"]),
            nodes_on_demand=environment["NODES_ON_DEMAND"] == "true",
            bandwidth_weighting=_weighting(environment["BANDWIDTH_WEIGHTING"]),
            owns_nodes=environment["OWNS_NODES"] == "true",
            max_pods=int(pods) if (pods := environment.get("MAX_PODS")) else None,
            prefix_delegation=environment.get("PREFIX_DELEGATION") == "true",
            load=StackArm.from_json(json.loads(load))
            if (load := environment["LOAD_NODES"])
            else None,
            load_node_count=int(environment["LOAD_NODE_COUNT"]),
            allowed_images=tuple(filter(None, environment["ALLOWED_IMAGES"].split(","))),
            endpoints=Endpoints.from_environment(environment),
        )


def _weighting(text: str) -> BandwidthWeighting:
    """The template allows no other values."""
    return "vpc-1" if text == "vpc-1" else "ebs-1" if text == "ebs-1" else "default"
