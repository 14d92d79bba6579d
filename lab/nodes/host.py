"""The `lab.aws.eks.infrastructure` of one machine."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Sequence

from lab.aws.eks.infrastructure import ClusterLaunchError
from lab.errors import LabError
from lab.nodes.address_blocks import PREFIX, SIMULATED_PREFIX, AddressBlocks
from lab.nodes.cluster import Machine, RunningCluster, require_built
from lab.simulated.cluster import SimulatedCluster


class Host:
    """Makes clusters, one at a time, because their endpoint is one port."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._blocks = AddressBlocks(PREFIX if machine.kwok is None else SIMULATED_PREFIX)
        self._cluster: RunningCluster | SimulatedCluster | None = None
        self._published: dict[str, None] = {}
        self._lock = threading.Lock()

    @property
    def cluster(self) -> RunningCluster | None:
        """The cluster that is up and has real nodes, None without one."""
        with self._lock:
            running = self._cluster
        return running if isinstance(running, RunningCluster) and not running.stopped else None

    def create_cluster(
        self,
        *,
        name: str,
        version: str,
        vpc_cidrs: Sequence[str],
        service_cidr: str,
        authentication_webhook_url: str,
    ) -> RunningCluster | SimulatedCluster:
        """Start a control plane; see `Infrastructure`."""
        require_built(version)
        if self._machine.kwok is not None and ":" in service_cidr:
            raise ClusterLaunchError("Simulated clusters have IPv4 only: leave ipFamily out.")
        with self._lock:
            if self._cluster is not None and not self._cluster.stopped:
                raise ClusterLaunchError(
                    f"The lab runs one cluster at a time and {self._cluster.name} is up: delete "
                    "its stack first."
                )
            kind = RunningCluster if self._machine.kwok is None else SimulatedCluster
            try:
                self._cluster = kind(
                    self._machine,
                    name=name,
                    vpc_cidrs=vpc_cidrs,
                    service_cidr=service_cidr,
                    webhook_url=authentication_webhook_url,
                    published=self.published,
                )
            except (OSError, TimeoutError, LabError) as error:
                raise ClusterLaunchError(str(error)) from error
            return self._cluster

    def allocate_block(self, subnet_cidr: str) -> ipaddress.IPv4Network:
        """Take a free block of the subnet; see `Infrastructure`."""
        return self._blocks.allocate(subnet_cidr)

    def release_block(self, block: ipaddress.IPv4Network) -> None:
        """Let another node have the block; see `Infrastructure`."""
        self._blocks.release(block)

    def publish_image(self, reference: str) -> None:
        """Give the tools' image one more reference on every node; see `Infrastructure`."""
        with self._lock:
            self._published[reference] = None
            cluster = self._cluster
        if isinstance(cluster, RunningCluster):
            cluster.tag_tools(reference)

    def published(self) -> list[str]:
        """The additional references of the tools' image, oldest first."""
        with self._lock:
            return list(self._published)
