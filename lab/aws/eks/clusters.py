"""The clusters that exist, with what belongs to each.

Descriptions are kept in the API's own form.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from lab.aws.api_errors import ApiError
from lab.aws.clients import ClientFactory
from lab.aws.clock import now
from lab.aws.eks.infrastructure import Instance, KubernetesCluster
from lab.aws.eks.validation import invalid


def in_background(work: Callable[[], None]) -> None:
    """Do slow work in a thread; a description's `status` shows its progress, as with EKS."""
    threading.Thread(target=work, name="eks", daemon=True).start()


class Updates:
    """The updates of a cluster, of a node group or of an add-on, as DescribeUpdate shows them."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str, Any]] = {}

    def begin(self, kind: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Add an update that has begun."""
        update: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "status": "InProgress",
            "type": kind,
            "params": [
                {
                    "type": key[0].upper() + key[1:],
                    "value": value if isinstance(value, str) else json.dumps(value),
                }
                for key, value in parameters.items()
            ],
            "createdAt": now(),
            "errors": [],
        }
        self._by_id[update["id"]] = update
        return update

    def find(self, identity: str) -> dict[str, Any]:
        """An update by id. Raises ResourceNotFoundException."""
        if identity not in self._by_id:
            raise ApiError("ResourceNotFoundException", f"No update found for ID: {identity}")
        return self._by_id[identity]


def subnets_of(clients: ClientFactory, subnet_ids: list[str]) -> list[dict[str, Any]]:
    """EC2's descriptions of subnets. Raises ApiError without any, and for one that is missing."""
    if not subnet_ids:
        raise invalid("Subnets are required")
    try:
        response = clients.get("ec2").describe_subnets(SubnetIds=subnet_ids)
    except ClientError as error:
        raise invalid(error.response["Error"]["Message"]) from error
    return list(response["Subnets"])


@dataclass
class AccessEntry:
    """A principal's access to a cluster."""

    description: dict[str, Any]
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class NodeGroup:
    """A node group, its description in the API, its instances and its Auto Scaling activities."""

    description: dict[str, Any]
    template: Mapping[str, Any]
    instances: list[Instance] = field(default_factory=list)
    updates: Updates = field(default_factory=Updates)
    activities: list[dict[str, Any]] = field(default_factory=list)
    busy: threading.Lock = field(default_factory=threading.Lock)
    is_going: threading.Event = field(default_factory=threading.Event)


@dataclass
class Cluster:
    """A cluster, its description in the API, and its control plane."""

    description: dict[str, Any]
    vpc_cidrs: tuple[str, ...]
    control_plane: KubernetesCluster | None = None
    node_groups: dict[str, NodeGroup] = field(default_factory=dict)
    addons: dict[str, dict[str, Any]] = field(default_factory=dict)
    addon_updates: dict[str, Updates] = field(default_factory=lambda: defaultdict(Updates))
    updates: Updates = field(default_factory=Updates)
    access_entries: dict[str, AccessEntry] = field(default_factory=dict)
    # Names of nodes that take no pods any more.
    draining: set[str] = field(default_factory=set)


class Clusters:
    """All clusters of the Region, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Cluster] = {}
        self._lock = threading.Lock()

    def all(self) -> list[Cluster]:
        """Every cluster."""
        return list(self._by_name.values())

    def add(self, cluster: Cluster) -> None:
        """Add a cluster. Raises ResourceInUseException."""
        name = cluster.description["name"]
        with self._lock:
            if name in self._by_name:
                raise ApiError(
                    "ResourceInUseException", f"Cluster already exists with name: {name}"
                )
            self._by_name[name] = cluster

    def remove(self, name: str) -> None:
        """Remove a cluster."""
        with self._lock:
            del self._by_name[name]

    def find(self, name: str) -> Cluster:
        """A cluster by name. Raises ResourceNotFoundException."""
        cluster = self._by_name.get(name)
        if cluster is None:
            raise ApiError("ResourceNotFoundException", f"No cluster found for name: {name}.")
        return cluster

    def node_group(self, cluster_name: str, name: str) -> NodeGroup:
        """A node group of a cluster. Raises ResourceNotFoundException."""
        group = self.find(cluster_name).node_groups.get(name)
        if group is None:
            raise ApiError("ResourceNotFoundException", f"No node group found for name: {name}.")
        return group

    def tags(self, resource_arn: str) -> dict[str, str]:
        """The tags of a cluster or of what belongs to one. Raises NotFoundException."""
        for cluster in self.all():
            resources = [
                cluster.description,
                *(group.description for group in cluster.node_groups.values()),
                *cluster.addons.values(),
                *(entry.description for entry in cluster.access_entries.values()),
            ]
            for one in resources:
                if resource_arn in (
                    one.get(key) for key in ("nodegroupArn", "addonArn", "accessEntryArn", "arn")
                ):
                    tags: dict[str, str] = one["tags"]
                    return tags
        raise ApiError("NotFoundException", f"Resource not found: {resource_arn}")
