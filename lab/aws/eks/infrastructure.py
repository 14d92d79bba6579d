"""What EKS needs from the machine: clusters, nodes and address blocks.

The AWS side defines and calls this interface; the lab's Kubernetes side implements it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class NodeLaunchError(Exception):
    """A node did not become Ready; the message goes to the node group's health issues."""


class ClusterLaunchError(Exception):
    """A control plane did not become ready; the message goes to the stack's events."""


class AddonConflict(Exception):
    """Somebody else has set fields that an add-on sets too; `fields` has their paths.

    `owner` is the object that they are in, such as `DaemonSet.apps aws-node`.
    """

    def __init__(self, owner: str, fields: Sequence[str]) -> None:
        super().__init__(", ".join(fields))
        self.owner, self.fields = owner, list(fields)


class AddonLaunchError(Exception):
    """An add-on did not become ready on every node."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A running instance and the address block it was given.

    `block` is its own /26. The first host address is the node's, the rest are its pods'.
    `placement_group` is the group's name and `placement_strategy` one of cluster, partition,
    spread, precision-time; both None outside a group. `partition_number` counts from 1 and is None
    in any other strategy. `instance_bits_per_second` is the documented peak bandwidth of the
    instance type, unscaled; the fabric adds the limits per flow. `ena_express` and
    `ena_express_udp` say whether TCP and UDP flows use ENA Express. `default_max_pods` is EKS's own
    choice for the type, and `pod_addresses` the number of addresses that its network interfaces
    have for pods.
    """

    name: str
    instance_id: str
    instance_type: str
    zone: str
    image_id: str
    block: ipaddress.IPv4Network
    placement_group: str | None
    placement_group_id: str | None
    placement_strategy: str | None
    partition_number: int | None
    instance_bits_per_second: float
    ena_express: bool
    ena_express_udp: bool
    default_max_pods: int
    pod_addresses: int


@dataclass(frozen=True, kw_only=True)
class NodeSpec(Instance):
    """One EC2 instance that will be a node.

    `kubelet_configuration` holds fields of KubeletConfiguration and `kubelet_flags` flags as
    --name=value, both from the instance's user data. `user_data` is the script of an instance that
    is no node, and empty for a node.
    """

    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    kubelet_configuration: Mapping[str, Any]
    kubelet_flags: Sequence[str]
    user_data: str = ""


class KubernetesCluster(Protocol):
    """A running cluster. `certificate_authority` is PEM, `endpoint` an https URL."""

    name: str
    endpoint: str
    certificate_authority: str

    def launch_nodes(self, specs: Sequence[NodeSpec]) -> None:
        """Block until every node is Ready, and others have booted. Raises NodeLaunchError."""

    def terminate_nodes(self, names: Sequence[str]) -> None:
        """Stop the nodes with these names and remove their Node objects."""

    def roll_out(self, addon: str, version: str, values: Mapping[str, Any], conflicts: str) -> None:
        """Give the cluster, including later nodes, this version of an add-on.

        `addon` is `vpc-cni`, `kube-proxy` or `coredns`, and `values` its configuration. Blocks
        until its pods run it; with another VPC CNI, pods that exist keep their network.
        `conflicts` is NONE, OVERWRITE or PRESERVE. Raises AddonConflict, AddonLaunchError.
        """

    def remove_addon(self, addon: str) -> None:
        """Remove an add-on's pods. What it set up on the nodes stays, as on EKS."""

    def upgrade(self, version: str) -> None:
        """Give the control plane a version such as 1.37. Raises ClusterLaunchError."""

    def request(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send a request to the Kubernetes API as its administrator. Raises OSError."""

    def stop(self) -> None:
        """Stop the control plane."""


class Infrastructure(Protocol):
    """Makes clusters and allocates addresses."""

    def create_cluster(
        self,
        *,
        name: str,
        version: str,
        vpc_cidrs: Sequence[str],
        service_cidr: str,
        authentication_webhook_url: str,
    ) -> KubernetesCluster:
        """Block until the API server's /readyz succeeds. Raises ClusterLaunchError.

        `vpc_cidrs` has all CIDR blocks of the VPC, the primary one first.
        """

    def allocate_block(self, subnet_cidr: str) -> ipaddress.IPv4Network:
        """Take a /26 of the subnet that no node has. Raises NodeLaunchError when none is left."""

    def release_block(self, block: ipaddress.IPv4Network) -> None:
        """Let another node have the block. Safe to call twice."""

    def publish_image(self, reference: str) -> None:
        """Let pods on all nodes, including later ones, run the tools' image by this reference.

        `reference` includes the registry, as in 1.dkr.ecr.example.com/tools:2.
        """
