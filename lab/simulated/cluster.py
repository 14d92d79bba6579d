"""A cluster whose control plane is real and whose nodes are simulated, for a thousand nodes.

A node is a Node object with the labels, the addresses and the provider's id of its instance. kwok
(https://kwok.sigs.k8s.io) renews its lease and plays its pods by the timetable of `stages.yaml`. A
server of ours prints its pods' logs (`logs.py`). Nothing is measured: such a lab shows what a run
costs, and how it behaves, at sizes for which one machine has no room.
"""

from __future__ import annotations

import ipaddress
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lab.aws.eks.infrastructure import (
    AddonLaunchError,
    ClusterLaunchError,
    NodeLaunchError,
    NodeSpec,
)
from lab.nodes import applying, cni, coredns, kube_proxy
from lab.nodes.cluster import MEMORY, HostCluster, Machine, empty_directories
from lab.nodes.control_plane import RESTART_SECONDS, ControlPlane
from lab.nodes.process import RARE_COLLECTION, Process, wait_until
from lab.setup import kubernetes

KUBELET_PORT = 10250
STAGES = Path(__file__).parent / "stages.yaml"
ADDON_SECONDS = 300.0
#: Requests of the API that create nodes, at the same time.
_WORKERS = 8
#: kwok renews a lease after a quarter of it; a Node without a renewal for 50 s is not Ready.
_LEASE_SECONDS = 80
#: A node lists its images, which make up most of its object: twelve on a new node of EKS.
_IMAGES = tuple(
    {
        "names": [
            f"602401143452.dkr.ecr.us-east-1.amazonaws.com/simulated-{number}@sha256:{number:064x}",
            f"602401143452.dkr.ecr.us-east-1.amazonaws.com/simulated-{number}:v1.{number}.0",
        ],
        "sizeBytes": 50_000_000,
    }
    for number in range(12)
)
#: The audit log leaves out the cluster's own programs, kwok and the lab's administrator. What
#: remains are the requests of functions, and of whoever else has an EKS token.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "userGroups": ["system:masters", "system:serviceaccounts"]},
        {
            "level": "None",
            "users": [
                "system:apiserver",
                "system:kube-controller-manager",
                "system:kube-scheduler",
            ],
        },
        {"level": "Metadata"},
    ],
}


class SimulatedCluster(HostCluster):
    """A control plane, kwok, and the Node objects; see `KubernetesCluster`."""

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
        if machine.kwok is None:
            raise ClusterLaunchError("The lab has no kwok: start it with one.")
        super().__init__(name, machine.state_directory)
        self._programs: list[Process] = []
        logs = machine.state_directory / "logs"
        logs.mkdir(exist_ok=True)
        vpc = [ipaddress.IPv4Network(cidr) for cidr in vpc_cidrs]
        for network in vpc:
            # All addresses of the VPC are this namespace's own: one server answers for all nodes.
            subprocess.run(
                ["ip", "route", "replace", "local", str(network), "dev", "lo"], check=True
            )
        self._reach(
            _control_plane(
                machine,
                logs,
                address=vpc[0].broadcast_address - 1,
                service_cidr=service_cidr,
                webhook_url=webhook_url,
            )
        )
        try:
            self._start_programs(machine.kwok, logs)
        except BaseException:
            self.stop()
            raise

    def _start_programs(self, kwok: Path, logs: Path) -> None:
        """Start kwok, and the server that answers for all kubelets."""
        plane = self.control_plane
        nodes = plane.client_file("simulated-nodes", "simulated-nodes", "system:masters")
        serving = plane.authority.issue("kubelets", "kubelets", names=["kubelets"])
        self._run(
            "kwok",
            logs,
            [
                str(kwok),
                f"--kubeconfig={nodes}",
                f"--config={STAGES}",
                "--manage-all-nodes=true",
                f"--node-lease-duration-seconds={_LEASE_SECONDS}",
                "--server-address=127.0.0.1:10247",
                "--v=WARN",  # not a line for each change of each pod
            ],
        )
        self._run(
            "kubelets",
            logs,
            [
                *(sys.executable, "-m", "lab.simulated.logs", str(KUBELET_PORT)),
                *(str(serving.certificate), str(serving.key), plane.internal_endpoint),
                *map(str, (plane.authority.certificate, plane.admin.certificate, plane.admin.key)),
            ],
        )

    def launch_nodes(self, specs: Sequence[NodeSpec]) -> None:
        """Create the Node objects; see `KubernetesCluster`."""
        try:
            with ThreadPoolExecutor(_WORKERS) as pool:
                list(pool.map(self._create_node, specs))
        except OSError as error:
            raise NodeLaunchError(str(error)) from error

    def _create_node(self, spec: NodeSpec) -> None:
        body = json.dumps(node(spec)).encode()
        self.control_plane.request("/api/v1/nodes", "POST", body)

    def terminate_nodes(self, names: Sequence[str]) -> None:
        """Remove the Node objects; Kubernetes removes their pods."""
        for name in names:
            applying.remove(self.control_plane, "Node", name)

    def roll_out(self, addon: str, version: str, values: Mapping[str, Any], conflicts: str) -> None:
        """Give all nodes a version of the VPC CNI; see `KubernetesCluster`.

        Simulated nodes have no network, so kube-proxy and CoreDNS would do nothing there.
        """
        if addon in (kube_proxy.NAME, coredns.NAME):
            return
        try:
            manifest = cni.daemon_set(version, values.get("env") or {})
            cni.apply(self.control_plane, manifest, conflicts)
            wait_until(
                lambda: cni.is_rolled_out(self.control_plane),
                seconds=ADDON_SECONDS,
                describe=lambda: f"the CNI is not on every node after {ADDON_SECONDS:.0f} s",
                processes=self._programs,
                poll_seconds=0.5,
            )
        except (OSError, TimeoutError) as error:
            raise AddonLaunchError(str(error)) from error

    def remove_addon(self, addon: str) -> None:
        """Remove the CNI's pods."""
        if addon not in (kube_proxy.NAME, coredns.NAME):
            applying.remove(self.control_plane, "DaemonSet", cni.NAME)

    def stop(self) -> None:
        """Stop kwok, the logs' server and the control plane."""
        for program in self._programs:
            program.stop()
        super().stop()

    def _run(self, name: str, logs: Path, argv: list[str]) -> None:
        program = Process(name, argv, logs / f"{name}.log", environment=RARE_COLLECTION)
        program.supervise(RESTART_SECONDS)
        self._programs.append(program)


def _control_plane(
    machine: Machine,
    logs: Path,
    *,
    address: ipaddress.IPv4Address,
    service_cidr: str,
    webhook_url: str,
) -> ControlPlane:
    """Start a control plane in empty directories, with an audit log."""
    directory = empty_directories(machine)
    policy = directory / "audit-policy.json"
    policy.write_text(json.dumps(_AUDIT_POLICY), encoding="utf-8")
    return ControlPlane(
        programs=machine.programs,
        directory=directory,
        data_directory=MEMORY,
        logs=logs,
        port=machine.endpoint_port,
        address=address,
        service_cidr=service_cidr,
        webhook_url=webhook_url,
        api_server_flags=[
            f"--audit-policy-file={policy}",
            f"--audit-log-path={logs / 'audit.jsonl'}",
            # kwok begins its watches with a list, for which Debian's etcd is too old. Where the
            # API does not offer that, it lists and then watches.
            "--feature-gates=WatchList=false",
            # One certificate cannot name a thousand nodes that come and go.
            "--kubelet-certificate-authority=",
        ],
        # By default it takes a fifth of the API server's processor time at 1002 nodes.
        environment=RARE_COLLECTION,
    )


def node(spec: NodeSpec) -> dict[str, Any]:
    """The Node object of an instance, as its kubelet would register it. Pure but for the time."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    quantities = {"cpu": "2", "memory": "4Gi", "pods": str(spec.default_max_pods)}
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now}
        for kind, status in (
            ("Ready", "True"),
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
        )
    ]
    # The node has the first address; kwok counts those of pods from one network's start on.
    *_, for_pods = spec.block.subnets(prefixlen_diff=1)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "labels": {
                **spec.labels,
                "kubernetes.io/hostname": spec.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": machine,
            },
        },
        "spec": {
            "podCIDR": str(for_pods),
            "podCIDRs": [str(for_pods)],
            "providerID": f"aws:///{spec.zone}/{spec.instance_id}",
            "taints": [dict(taint) for taint in spec.taints],
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": str(next(spec.block.hosts()))},
                {"type": "Hostname", "address": spec.name},
            ],
            "allocatable": quantities,
            "capacity": quantities,
            "conditions": conditions,
            "images": list(_IMAGES),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
            "nodeInfo": {
                "architecture": machine,
                "operatingSystem": "linux",
                "kubeletVersion": f"v{kubernetes.version()}",
                "kubeProxyVersion": "",
                "kernelVersion": platform.release(),
                "osImage": "simulated by kwok",
                "containerRuntimeVersion": "kwok://simulated",
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
            },
        },
    }
