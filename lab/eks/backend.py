"""What the emulated AWS calls to get clusters, nodes and addresses (see `lab.aws.substrate`)."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lab.aws.substrate import ClusterLaunchError, NodeLaunchError, NodeSpec
from lab.eks.control_plane import ControlPlane, Programs, kubeconfig
from lab.eks.node import Node
from lab.eks.process import wait_until
from lab.errors import LabError
from lab.fabric.caps import Link
from lab.fabric.network import MTU_BYTES, Network, Placement
from lab.fabric.shaping import EnaExpress, Limits
from lab.setup import kubernetes

LOG = logging.getLogger(__name__)

NODE_BLOCK_PREFIX = 26
READY_SECONDS = 60.0
# Where a cluster's working files that are small and written often lie: memory, gone with the lab.
MEMORY = Path("/run/rackrate")


@dataclass
class Backend:
    """One machine's EKS. It has room for one cluster at a time: its endpoint is one port."""

    programs: Programs
    images: Path
    state_directory: Path
    endpoint_port: int
    network_scale: float
    cluster: Cluster | None = None
    _taken: dict[str, set[int]] = field(default_factory=dict)
    _cursors: dict[str, int] = field(default_factory=dict)
    _published: dict[str, None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create_cluster(
        self,
        *,
        name: str,
        version: str,
        vpc_cidrs: Sequence[str],
        service_cidr: str,
        authentication_webhook_url: str,
    ) -> Cluster:
        """Start a control plane; see `EksBackend`."""
        built = kubernetes.version()
        if version.split(".")[:2] != built.split(".")[:2]:
            raise ClusterLaunchError(
                f"The lab builds Kubernetes {built}, not {version}: give KubernetesVersion "
                f"{'.'.join(built.split('.')[:2])}, or change lab/kubernetes/go.mod."
            )
        with self._lock:
            if self.cluster is not None:
                raise ClusterLaunchError(
                    f"The lab runs one cluster at a time and {self.cluster.name} is up: delete "
                    "its stack first."
                )
            try:
                self.cluster = Cluster(
                    self, name, vpc_cidrs, service_cidr, authentication_webhook_url
                )
            except (OSError, TimeoutError, LabError) as error:
                raise ClusterLaunchError(str(error)) from error
            return self.cluster

    def allocate_block(self, subnet_cidr: str) -> ipaddress.IPv4Network:
        """A free /26 of the subnet; the first is left to what AWS reserves."""
        subnet = ipaddress.IPv4Network(subnet_cidr)
        room = 1 << max(NODE_BLOCK_PREFIX - subnet.prefixlen, 0)
        with self._lock:
            taken = self._taken.setdefault(subnet_cidr, set())
            start = self._cursors.get(subnet_cidr, 0)
            # In a circle: the address of a node that ended is not given to the very next one.
            candidates = (1 + (start + step) % (room - 1) for step in range(room - 1))
            number = next((one for one in candidates if one not in taken), None)
            if number is None:
                raise NodeLaunchError(
                    f"Subnet {subnet_cidr} has room for {room - 1} nodes of the lab (a /26 each): "
                    "use a wider subnet."
                )
            taken.add(number)
            self._cursors[subnet_cidr] = number
        size = 1 << (32 - NODE_BLOCK_PREFIX)
        return ipaddress.IPv4Network((int(subnet.network_address) + number * size, 26))

    def release_block(self, block: ipaddress.IPv4Network) -> None:
        """Let another node have the block; see `EksBackend`."""
        with self._lock:
            for subnet_cidr, taken in self._taken.items():
                subnet = ipaddress.IPv4Network(subnet_cidr)
                if block.subnet_of(subnet):
                    offset = int(block.network_address) - int(subnet.network_address)
                    taken.discard(offset // block.num_addresses)

    def publish_image(self, reference: str) -> None:
        """Give the tools' image one more reference on every node; see `EksBackend`."""
        with self._lock:
            self._published[reference] = None
            cluster = self.cluster
        if cluster is not None:
            cluster.tag_tools(reference)

    def published(self) -> list[str]:
        """The further references of the tools' image, in the order they came."""
        with self._lock:
            return list(self._published)


class Cluster:
    """A running cluster: its control plane, its network and its nodes."""

    def __init__(
        self,
        backend: Backend,
        name: str,
        vpc_cidrs: Sequence[str],
        service_cidr: str,
        webhook_url: str,
    ) -> None:
        self.name = name
        self._backend = backend
        self._nodes: dict[str, Node] = {}
        self._lock = threading.Lock()
        directory = backend.state_directory / "eks"
        for leftover in (directory, MEMORY):
            shutil.rmtree(leftover, ignore_errors=True)
            leftover.mkdir(parents=True)
        vpc = [ipaddress.IPv4Network(cidr) for cidr in vpc_cidrs]
        # EKS puts its network interfaces into the VPC; the lab's takes the last usable address.
        address = vpc[0].broadcast_address - 1
        self.network = Network(vpc)
        try:
            self.network.attach_services(address)
            self.control_plane = ControlPlane(
                programs=backend.programs,
                directory=directory,
                data_directory=MEMORY,
                logs=backend.state_directory / "logs",
                port=backend.endpoint_port,
                address=address,
                service_cidr=service_cidr,
                webhook_url=webhook_url,
            )
        except BaseException:
            self.network.stop()
            raise
        self.endpoint = self.control_plane.endpoint
        self.certificate_authority = self.control_plane.authority.pem
        path = backend.state_directory / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(
            kubeconfig(self.endpoint, self.certificate_authority, self.control_plane.admin),
            encoding="utf-8",
        )

    def launch_nodes(self, specs: Sequence[NodeSpec]) -> None:
        """Start nodes at the same time and wait until all are Ready; see `EksCluster`."""
        try:
            with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
                list(pool.map(self._launch, specs))
            names = {spec.name for spec in specs}
            with self._lock:
                programs = [program for name in names for program in self._nodes[name].running]
            wait_until(
                lambda: names <= self._ready_nodes(),
                seconds=READY_SECONDS,
                describe=lambda: self._describe_unready(names),
                programs=programs,
                poll_seconds=0.2,
            )
        except (OSError, TimeoutError, LabError) as error:
            raise NodeLaunchError(str(error)) from error

    def tag_tools(self, reference: str) -> None:
        """Give the tools' image one more reference on the nodes that run."""
        with self._lock:
            nodes = [node for node in self._nodes.values() if node.has_containerd]
        for node in nodes:
            try:
                node.tag_tools(reference)
            except OSError as error:
                # A node that starts asks for all references as soon as it has the image.
                LOG.warning("%s has no %s yet: %s", node.spec.name, reference, error)

    def terminate_nodes(self, names: Sequence[str]) -> None:
        """Stop nodes and remove their Node objects."""
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            list(pool.map(self._terminate, names))

    def stop(self) -> None:
        """End everything of the cluster and make room for another."""
        self.terminate_nodes(list(self._nodes))
        self.control_plane.stop()
        self.network.stop()
        (self._backend.state_directory / "kubeconfig").unlink(missing_ok=True)
        self._backend.cluster = None

    def _launch(self, spec: NodeSpec) -> None:
        started = time.monotonic()
        directory = self._backend.state_directory / "nodes" / spec.name
        port = self.network.add_node(
            name=spec.name,
            block=spec.block,
            zone=spec.zone,
            placement=Placement.of(
                spec.placement_strategy, spec.placement_group, spec.partition_number
            ),
            ena_express=EnaExpress(tcp=spec.ena_express, udp=spec.ena_express_udp),
            limits=Limits.of_instance(spec.instance_bits_per_second, self._backend.network_scale),
        )
        node = Node(
            spec=spec,
            programs=self._backend.programs,
            directory=directory,
            logs=self._backend.state_directory / "logs",
            images=self._backend.images,
            control_plane=self.control_plane,
            network_scale=self._backend.network_scale,
            mtu_bytes=MTU_BYTES,
        )
        with self._lock:
            self._nodes[spec.name] = node
        Link(spec.name, port.device, port.limits, port.has_ena_express, spec.labels).write(
            directory
        )
        node.start(self._backend.published)
        LOG.info("%s started in %.1f s", spec.name, time.monotonic() - started)

    def _terminate(self, name: str) -> None:
        with self._lock:
            node = self._nodes.pop(name, None)
        if node is None:
            return
        # The API server may have ended before its nodes; then there is no object to remove.
        with contextlib.suppress(OSError):
            self.control_plane.request(f"/api/v1/nodes/{name}", method="DELETE")
        node.stop()
        self.network.remove_node(name)

    def _ready_nodes(self) -> set[str]:
        items = json.loads(self.control_plane.request("/api/v1/nodes"))["items"]
        return {
            item["metadata"]["name"]
            for item in items
            for condition in item.get("status", {}).get("conditions", [])
            if condition["type"] == "Ready" and condition["status"] == "True"
        }

    def _describe_unready(self, names: set[str]) -> str:
        unready = sorted(names - self._ready_nodes())
        ends = "; ".join(
            f"{program.name}: {program.last_lines(1)}"
            for name in unready
            for program in self._nodes[name].running
        )
        return f"not Ready after {READY_SECONDS:.0f} s: {', '.join(unready)} ({ends})"
