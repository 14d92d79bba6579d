"""The cluster of a lab: a control plane, the nodes that join it, the network between them."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.aws.eks.infrastructure import (
    AddonLaunchError,
    ClusterLaunchError,
    NodeLaunchError,
    NodeSpec,
)
from lab.errors import LabError
from lab.fabric.caps import Link
from lab.fabric.luck import Luck
from lab.fabric.network import MTU_BYTES, Kin, Network, Placement
from lab.fabric.shaping import EnaExpress, Limits
from lab.nodes import applying, cni, coredns, kube_proxy
from lab.nodes.containerd import Images
from lab.nodes.control_plane import ControlPlane, client_kubeconfig
from lab.nodes.node import Instance, Node
from lab.nodes.process import wait_until
from lab.nodes.programs import Programs
from lab.setup import kubernetes

LOG = logging.getLogger(__name__)

READY_SECONDS = 180.0
ADDON_SECONDS = 300.0
# For a cluster's small files that change often: it is in memory and goes with the lab.
MEMORY = Path("/run/rackrate")


@dataclass(frozen=True)
class Machine:
    """The programs and images of a lab's clusters, and where their files and the endpoint are.

    `luck` draws the places of all nodes. With `kwok`, its program, the nodes are simulated.
    """

    programs: Programs
    images: Images
    state_directory: Path
    endpoint_port: int
    network_scale: float
    luck: Luck
    kwok: Path | None = None


class HostCluster:
    """What clusters of real and of simulated nodes share: how their control plane is reached."""

    def __init__(self, name: str, state_directory: Path) -> None:
        self.name = name
        self.stopped = False
        self._kubeconfig = state_directory / "kubeconfig"

    def _reach(self, control_plane: ControlPlane) -> None:
        """Let EKS, and by a kubeconfig people, reach the control plane."""
        self.control_plane = control_plane
        self.request = control_plane.request
        self.endpoint = control_plane.endpoint
        self.certificate_authority = control_plane.authority.pem
        self._kubeconfig.touch(mode=0o600)
        self._kubeconfig.write_text(
            client_kubeconfig(self.endpoint, self.certificate_authority, control_plane.admin),
            encoding="utf-8",
        )

    def upgrade(self, version: str) -> None:
        """Refuse any other version than the one that the lab builds; see `KubernetesCluster`."""
        require_built(version)

    def stop(self) -> None:
        """Stop the control plane, so that another cluster can start."""
        self.control_plane.stop()
        self._kubeconfig.unlink(missing_ok=True)
        self.stopped = True


class RunningCluster(HostCluster):
    """A control plane, its network and its nodes.

    `published` returns the additional references of the tools' image, oldest first.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        name: str,
        vpc_cidrs: Sequence[str],
        service_cidr: str,
        webhook_url: str,
        published: Callable[[], Sequence[str]],
    ) -> None:
        super().__init__(name, machine.state_directory)
        self._machine, self._published = machine, published
        self._nodes: dict[str, Node] = {}
        self._launched: Counter[str] = Counter()
        self._cni_version: str | None = None
        self._addon_images: dict[str, None] = {}
        self._lock = threading.Lock()
        directory = empty_directories(machine)
        vpc = [ipaddress.IPv4Network(cidr) for cidr in vpc_cidrs]
        # EKS puts its network interfaces into the VPC; the lab's takes the last usable address.
        address = vpc[0].broadcast_address - 1
        self.network = Network(vpc, machine.luck, ipaddress.ip_network(service_cidr))
        try:
            self.network.attach_services(address)
            control_plane = ControlPlane(
                programs=machine.programs,
                directory=directory,
                data_directory=MEMORY,
                logs=machine.state_directory / "logs",
                port=machine.endpoint_port,
                address=address,
                service_cidr=service_cidr,
                webhook_url=webhook_url,
            )
        except BaseException:
            self.network.stop()
            raise
        self._reach(control_plane)

    def launch_nodes(self, specs: Sequence[NodeSpec]) -> None:
        """Start nodes at the same time and wait until all are Ready; see `KubernetesCluster`."""
        try:
            with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
                list(pool.map(self._launch, specs, [self._kin(spec) for spec in specs]))
            names = {spec.name for spec in specs if not spec.user_data}
            with self._lock:
                processes = [one for name in names for one in self._nodes[name].running]
            wait_until(
                lambda: names <= self._ready_nodes(),
                seconds=READY_SECONDS,
                describe=lambda: self._describe_unready(names),
                processes=processes,
                poll_seconds=0.2,
            )
        except (OSError, TimeoutError, LabError) as error:
            raise NodeLaunchError(str(error)) from error
        for node in self.nodes:
            if node.spec.name in names:
                node.supervise()

    @property
    def nodes(self) -> list[Node]:
        """The nodes by name, those that start included."""
        with self._lock:
            return [node for _, node in sorted(self._nodes.items()) if not node.spec.user_data]

    def roll_out(self, addon: str, version: str, values: Mapping[str, Any], conflicts: str) -> None:
        """Give the cluster a version of an add-on; see `KubernetesCluster`."""
        try:
            if addon == kube_proxy.NAME:
                objects = kube_proxy.objects(
                    version,
                    values,
                    programs=self._machine.programs,
                    server=self.control_plane.internal_endpoint,
                )
                self._roll_out_objects(kube_proxy.image(version), objects, conflicts)
            elif addon == coredns.NAME:
                objects = coredns.objects(
                    version,
                    values,
                    programs=self._machine.programs,
                    service_cidr=self.control_plane.service_cidr,
                )
                self._roll_out_objects(coredns.image(version), objects, conflicts)
            else:
                self._roll_out_cni(version, values.get("env") or {}, conflicts)
        except (OSError, TimeoutError) as error:
            raise AddonLaunchError(str(error)) from error

    def _roll_out_objects(
        self, image: str, objects: Sequence[dict[str, Any]], conflicts: str
    ) -> None:
        """Apply an add-on's objects, and wait for the pods of the last."""
        self._tag(image)
        for manifest in objects:
            applying.apply(self.control_plane, manifest, conflicts)
        kind, name = objects[-1]["kind"], objects[-1]["metadata"]["name"]
        wait_until(
            lambda: applying.is_rolled_out(self.control_plane, kind, name),
            seconds=ADDON_SECONDS,
            describe=lambda: f"{image} does not run everywhere after {ADDON_SECONDS:.0f} s",
            poll_seconds=0.2,
        )

    def _tag(self, image: str) -> None:
        """Let all nodes, including later ones, run an add-on's image."""
        with self._lock:
            self._addon_images[image] = None
            nodes = [node for node in self._nodes.values() if node.has_containerd]
        for node in nodes:
            # A node that starts takes all images as soon as it can.
            with contextlib.suppress(OSError):
                node.tag_addon(image)

    def _addons(self) -> list[str]:
        with self._lock:
            return list(self._addon_images)

    def _roll_out_cni(self, version: str, environment: Mapping[str, str], conflicts: str) -> None:
        """Give all nodes this version of the VPC CNI, one after another."""
        image = cni.apply(self.control_plane, cni.daemon_set(version, environment), conflicts)
        chosen = image.rpartition(":")[2]
        self._cni_version = chosen
        wait_until(
            lambda: self._cni_reached(chosen, image),
            seconds=ADDON_SECONDS,
            describe=lambda: f"{image} does not run on every node after {ADDON_SECONDS:.0f} s",
            poll_seconds=0.2,
        )

    def _cni_reached(self, version: str, image: str) -> bool:
        """Bring the version to the nodes that are ready for it; whether all nodes have it."""
        everywhere = cni.is_rolled_out(self.control_plane)
        with self._lock:
            nodes = {name: node for name, node in self._nodes.items() if node.has_containerd}
        for node in nodes.values():
            # A node that starts or ends now is asked again.
            with contextlib.suppress(OSError):
                node.tag_addon(cni.image(version))
        for name in cni.nodes_with(self.control_plane, image) & nodes.keys():
            nodes[name].use_cni(version)
        return everywhere

    def remove_addon(self, addon: str) -> None:
        """Remove its pods; see `KubernetesCluster`."""
        with contextlib.suppress(OSError):  # the API server may end before
            if addon == kube_proxy.NAME:
                # Its rules stay on the nodes, as on EKS.
                applying.remove(self.control_plane, "DaemonSet", kube_proxy.NAME)
            elif addon == coredns.NAME:
                applying.remove(self.control_plane, "Deployment", coredns.NAME)
                applying.remove(self.control_plane, "Service", coredns.SERVICE)
            else:
                self._cni_version = None
                applying.remove(self.control_plane, "DaemonSet", cni.NAME)

    def tag_tools(self, reference: str) -> None:
        """Give the tools' image one more reference on the running nodes."""
        with self._lock:
            nodes = [node for node in self._nodes.values() if node.has_containerd]
        for node in nodes:
            try:
                node.tag_tools(reference)
            except OSError as error:
                # A node that is starting gets all references as soon as it has the image.
                LOG.warning("%s has no %s yet: %s", node.spec.name, reference, error)

    def terminate_nodes(self, names: Sequence[str]) -> None:
        """Stop nodes and remove their Node objects."""
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            list(pool.map(self._terminate, names))

    def stop(self) -> None:
        """Stop the whole cluster, so that another can start."""
        self.terminate_nodes(list(self._nodes))
        super().stop()
        self.network.stop()

    def _kin(self, spec: NodeSpec) -> Kin:
        """Who a node is to luck. EKS's own labels have ids that differ from stack to stack."""
        own = {key: value for key, value in spec.labels.items() if "amazonaws.com/" not in key}
        kind = f"{spec.placement_strategy}/{json.dumps(own, sort_keys=True)}"
        with self._lock:
            self._launched[kind] += 1
            return Kin(kind, self._launched[kind])

    def _launch(self, spec: NodeSpec, kin: Kin) -> None:
        started = time.monotonic()
        directory = self._machine.state_directory / "nodes" / spec.name
        port = self.network.add_node(
            name=spec.name,
            block=spec.block,
            zone=spec.zone,
            placement=Placement.of(
                spec.placement_strategy,
                spec.placement_group,
                spec.partition_number,
                spec.zone,
            ),
            kin=kin,
            ena_express=EnaExpress(tcp=spec.ena_express, udp=spec.ena_express_udp),
            limits=Limits.of_instance(spec.instance_bits_per_second, self._machine.network_scale),
        )
        node = (Instance if spec.user_data else Node)(
            spec=spec,
            programs=self._machine.programs,
            directory=directory,
            logs=self._machine.state_directory / "logs",
            images=self._machine.images,
            control_plane=self.control_plane,
            network_scale=self._machine.network_scale,
            mtu_bytes=MTU_BYTES,
            bits_per_second=port.limits.instance,
            cni_version=self._cni_version,
        )
        with self._lock:
            self._nodes[spec.name] = node
        link = Link(
            node=spec.name,
            instance_id=spec.instance_id,
            device=port.device,
            limits=port.limits,
            ena_express=port.has_ena_express,
            labels=spec.labels,
            rack=port.rack.bridge,
            place=port.rack.luck,
        )
        link.write(directory)
        link.remember(self._machine.state_directory)
        node.start(self._published, self._addons)
        LOG.info("%s started in %.1f s", spec.name, time.monotonic() - started)

    def _terminate(self, name: str) -> None:
        with self._lock:
            node = self._nodes.pop(name, None)
        if node is None:
            return
        # The API server may end before its nodes; then there is no Node object to remove.
        with contextlib.suppress(OSError):
            self.control_plane.request(f"/api/v1/nodes/{name}", method="DELETE")
            applying.evict(self.control_plane, name)
        node.stop()
        self.network.remove_node(name)

    def is_ready(self, name: str, *, since: float) -> bool:
        """Has the node's kubelet reported it Ready since a time? Raises OSError."""
        node = json.loads(self.control_plane.request(f"/api/v1/nodes/{name}"))
        # Kubernetes counts whole seconds.
        return _ready_at(node) >= int(since)

    def _ready_nodes(self) -> set[str]:
        items = json.loads(self.control_plane.request("/api/v1/nodes"))["items"]
        return {item["metadata"]["name"] for item in items if _ready_at(item)}

    def _describe_unready(self, names: set[str]) -> str:
        unready = sorted(names - self._ready_nodes())
        ends = "; ".join(
            f"{process.name}: {process.last_lines(1)}"
            for name in unready
            for process in self._nodes[name].running
        )
        return f"not Ready after {READY_SECONDS:.0f} s: {', '.join(unready)} ({ends})"


def empty_directories(machine: Machine) -> Path:
    """The directory of a new control plane; empty, as is `MEMORY`."""
    directory = machine.state_directory / "control-plane"
    for leftover in (directory, MEMORY):
        shutil.rmtree(leftover, ignore_errors=True)
        leftover.mkdir(parents=True)
    return directory


def require_built(version: str) -> None:
    """Raise ClusterLaunchError for another version of Kubernetes than the one the lab builds."""
    built = kubernetes.version()
    minor = ".".join(built.split(".")[:2])
    if version.split(".")[:2] != minor.split("."):
        raise ClusterLaunchError(
            f"The lab builds Kubernetes {built}, not {version}: give KubernetesVersion {minor}, or"
            " change lab/kubernetes/go.mod."
        )


def _ready_at(node: Mapping[str, Any]) -> float:
    """When a Ready node's kubelet reported last, in seconds since the epoch; 0 for another node."""
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "True":
            return datetime.fromisoformat(condition["lastHeartbeatTime"]).timestamp()
    return 0.0
