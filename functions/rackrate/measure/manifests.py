"""The Kubernetes objects of a run. Pure: values in, manifests out.

All pods follow the Pod Security Standard "restricted", except that pods of the network `host` use
their node's network (https://kubernetes.io/docs/concepts/security/pod-security-standards/). Each
namespace has one owner object, because owner references do not cross namespaces. Deleting the owner
objects deletes the run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackrate.measure.starts import STARTS, Start, waiting
from rackrate.plan.items import BlockItem, Pair, Phase
from rackrate.settings import StackArm
from rackrate.tools.base import Port, Server, TestBase
from rackrate.workloads.base import FILES, WorkloadTest
from rackrate_contract.arms import Network
from rackrate_contract.document import Json
from rackrate_contract.selectors import Toleration

RUN, ROLE, ARM = "rackrate.dev/run", "rackrate.dev/role", "rackrate.dev/arm"
NETWORK = "rackrate.dev/network"
BLOCK, ROUND, ATTEMPT = "rackrate.dev/block", "rackrate.dev/round", "rackrate.dev/attempt"
RUN_ID, EXECUTION = "rackrate.dev/run-id", "rackrate.dev/execution"
#: Names the stack that created an object. Objects without it belong to somebody else.
STACK = "rackrate.dev/stack"
#: Annotations of every pod of a run. They keep its node until the run ends. Karpenter does not
#: disrupt a node with such a pod, not even with one of a DaemonSet; it still expires nodes, and
#: follows EC2's interruptions (https://karpenter.sh/docs/concepts/disruption/). Cluster Autoscaler
#: ignores the pods of DaemonSets, so that client pods and holders hold its nodes
#: (https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md).
HOLD = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
#: Kubernetes' annotation that names a pod's main container. A service mesh may inject others.
MAIN = "kubectl.kubernetes.io/default-container"
#: Kubernetes' label of a node's operating system. The tools need Linux.
OS_LABEL = "kubernetes.io/os"
#: Kubernetes' label of an EndpointSlice.
SERVICE_NAME = "kubernetes.io/service-name"
#: The beginning of the annotations with the files of a load pod.
FILE = "rackrate.dev/file"
CLIENT_NODE, SERVER_NODE = "rackrate.dev/client-node", "rackrate.dev/server-node"

#: The user "nonroot" of the distroless images. Any user other than root would work.
USER = 65532
#: Extra time for a client pod besides its tests, to start containers and to end slowly.
GRACE_SECONDS = 45
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def short_hash(run_id: str) -> str:
    """A hash of ten hexadecimal digits that identifies a run in names."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:10]


def run_label(run_id: str) -> str:
    """The run's id as a label value, or its hash where the id is not a valid label value."""
    return run_id if _LABEL_VALUE.fullmatch(run_id) else short_hash(run_id)


def owner_name(run_id: str) -> str:
    """The name of the run's owner object."""
    return f"run-{short_hash(run_id)}"


def run_labels(run_id: str, role: str) -> dict[str, str]:
    """The labels that all objects of a run with the same role share."""
    return {RUN: run_label(run_id), ROLE: role}


def selector(labels: Mapping[str, object]) -> str:
    """A label selector for the Kubernetes API."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def owner(run_id: str, execution_arn: str) -> Json:
    """The object that owns a run's objects in its namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": owner_name(run_id),
            "labels": run_labels(run_id, "owner"),
            "annotations": {RUN_ID: run_id, EXECUTION: execution_arn},
        },
        "immutable": True,
    }


@dataclass(frozen=True)
class Owner:
    """The object that owns a run's objects in a namespace.

    Attributes:
        run_id: the run.
        uid: the UID of the object.
    """

    run_id: str
    uid: str

    def name(self, part: str) -> str:
        """The name of an object of the run."""
        return f"{owner_name(self.run_id)}-{part}"

    def manifest(
        self,
        kind: str,
        name: str,
        labels: Mapping[str, str],
        *,
        api: str = "v1",
        annotations: Mapping[str, str] | None = None,
        **content: Any,
    ) -> Json:
        """An object that it owns, with this content beside its metadata."""
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner_name(self.run_id),
            "uid": self.uid,
            # Foreground deletion of the owner waits for objects with this flag.
            "blockOwnerDeletion": True,
        }
        metadata: Json = {"name": name, "labels": dict(labels), "ownerReferences": [reference]}
        if annotations:
            metadata["annotations"] = dict(annotations)
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}


#: Where no test needs a server, this one gives ping a pod to reach. Every image with coreutils or
#: busybox has `sleep`, and `cat` for the counters. It sleeps longer than any run takes.
_IDLE = Server("idle", ("sleep", "2147483647"), ())


def servers_of(tests: Sequence[TestBase]) -> list[Server]:
    """The distinct servers that tests need, by name.

    Raises:
        ValueError: two different servers have the same name; their tool has to rename one.
    """
    needed = {server for test in tests if (server := test.server) is not None} or {_IDLE}
    if len({server.name for server in needed}) < len(needed):
        raise ValueError(f"different servers have the same name: {sorted(needed, key=str)}")
    return sorted(needed, key=lambda server: server.name)


def servers(
    *,
    owner: Owner,
    nodes: StackArm,
    network: Network,
    tests: Sequence[TestBase],
    image: str,
    tolerations: Sequence[Toleration] = (),
) -> Json:
    """A DaemonSet that runs the servers of the tests on every node of the stack's arm.

    Several of the plan's arms may use the same nodes and share it.

    Args:
        owner: the run's owner object in the DaemonSet's namespace.
        nodes: the stack's arm, or the load nodes.
        network: the network of its pods.
        tests: the plan's tests.
        image: the tools' image.
        tolerations: the taints that its pods tolerate.
    """
    labels = {**run_labels(owner.run_id, "server"), ARM: nodes.name, NETWORK: network}
    spec = {
        **pod_spec(network, tolerations),
        "affinity": nodes.selector.affinity,
        "containers": [_server(server, image) for server in servers_of(tests)],
    }
    return owner.manifest(
        "DaemonSet",
        owner.name(f"{nodes.name}-{network}"),
        labels,
        api="apps/v1",
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": HOLD}, "spec": spec},
        },
    )


def ports_of(tests: Sequence[TestBase]) -> list[Port]:
    """The ports of the servers that tests need."""
    return sorted({port for server in servers_of(tests) for port in server.ports})


@dataclass(frozen=True)
class Front:
    """What lets clients reach a run's servers through Services.

    Attributes:
        owner: the run's owner object in the servers' namespace.
        ports: the ports of the servers, at least one.
    """

    owner: Owner
    ports: Sequence[Port]

    def service(self, place: str) -> Json:
        """A Service in front of the server in a place, without a selector."""
        return self.owner.manifest(
            "Service",
            self._name(place),
            self._labels,
            annotations={SERVER_NODE: place},
            spec={"type": "ClusterIP", "ports": self._ports},
        )

    def endpoint_slice(self, place: str, address: str) -> Json:
        """The endpoint of a `service`. Another address has a slice of another name."""
        service = self._name(place)
        labels = {
            SERVICE_NAME: service,
            "endpointslice.kubernetes.io/managed-by": "rackrate.dev",
        }
        return self.owner.manifest(
            "EndpointSlice",
            f"{service}-{short_hash(address)}",
            self._labels | labels,
            api="discovery.k8s.io/v1",
            addressType="IPv6" if ":" in address else "IPv4",
            endpoints=[{"addresses": [address], "conditions": {"ready": True}}],
            ports=self._ports,
        )

    def _name(self, place: str) -> str:
        return self.owner.name(short_hash(place))

    @property
    def _labels(self) -> dict[str, str]:
        return run_labels(self.owner.run_id, "service")

    @property
    def _ports(self) -> list[Json]:
        return [
            {
                "name": f"{port.protocol.lower()}-{port.number}",
                "port": port.number,
                "protocol": port.protocol,
            }
            for port in self.ports
        ]


def _server(server: Server, image: str) -> Json:
    manifest = container(server.name, server.argv, image)
    # On the host's network this reserves the node's port. If two runs use the same port, the later
    # run's server stays pending with a message about the port.
    manifest["ports"] = [
        {"containerPort": port.number, "protocol": port.protocol} for port in server.ports
    ]
    if listening := next((port for port in server.ports if port.protocol == "TCP"), None):
        # A startup probe stops once the server listens. A readiness probe would keep connecting and
        # disturb measurements, because iperf3 takes a connection for a client. UDP has no probe
        # that works without an extra program.
        manifest["startupProbe"] = {
            "tcpSocket": {"port": listening.number},
            "periodSeconds": 1,
            "failureThreshold": 120,
        }
    return manifest


def client_labels(run_id: str, item: BlockItem, attempt: int) -> dict[str, str]:
    """The labels that all client pods of one attempt at a series share, by its first item."""
    return {
        **run_labels(run_id, "client"),
        BLOCK: str(item.block),
        ROUND: str(item.round),
        ATTEMPT: str(attempt),
    }


@dataclass(frozen=True)
class Clients:
    """What the client pods of one attempt at a series have in common.

    Attributes:
        item: the first item of the series.
        attempt: 1, or more for a repetition.
        image: the tools' image.
        tolerations: the taints that they tolerate.
        starts: when their tests start, by container; empty: at once.
        deadline_seconds: how long after its start a pod is ended.
    """

    item: BlockItem
    attempt: int
    image: str
    tolerations: Sequence[Toleration]
    starts: Mapping[str, Start]
    deadline_seconds: int

    def pod(
        self,
        pair: Pair,
        tests: Mapping[str, TestBase],
        *,
        owner: Owner,
        node: str,
        server_address: str,
        members: Sequence[str],
    ) -> Json:
        """A pod that runs tests one after the other against one server, or is a workload's load.

        Each test has a container, which waits for its start. A workload's measurement is an init
        container if another container is to clear what it left.

        Args:
            pair: the places of the two nodes.
            tests: the tests to run, in order, by container.
            owner: the run's owner object.
            node: the name of the node in the client's place.
            server_address: IP address of the server's pod, or of the endpoint.
            members: the IP addresses of the members of the item's workload, in their order.
        """
        hashed = short_hash(json.dumps([pair.arm, pair.client, pair.server]))
        item = self.item
        name = owner.name(f"{item.block}-{item.round}-{hashed}-{self.attempt}")
        starts = {each: self.starts[each].at for each in tests} if self.starts else {}
        files = {} if item.workload is None else item.workload.load_files
        before: list[Json] = []
        port = None if pair.endpoint is None else pair.endpoint.port
        if item.workload is None:
            containers = [
                container(
                    each,
                    waiting(test.argv(server_address, port), self.starts.get(each)),
                    self.image,
                    sharers=len(tests),
                )
                for each, test in tests.items()
            ]
        else:
            number = int(short_hash(name), 16)
            of_load = _of_load(item.workload, item.phase, members, self.image, number=number)
            before, containers = of_load[:-1], of_load[-1:]
        return owner.manifest(
            "Pod",
            name,
            {**client_labels(owner.run_id, item, self.attempt), ARM: pair.arm},
            annotations={
                **HOLD,
                MAIN: containers[-1]["name"],
                CLIENT_NODE: pair.client,
                SERVER_NODE: pair.server,
                **({STARTS: json.dumps(starts)} if starts else {}),
                **{f"{FILE}-{file}": content for file, content in files.items()},
            },
            spec={
                **self._pod_spec(pair.client_network, tests.values(), files),
                # The plan chose the node, so the pod skips the scheduler.
                "nodeName": node,
                "initContainers": before,
                "containers": containers,
            },
        )

    def _pod_spec(
        self, network: Network, tests: Collection[TestBase], files: Mapping[str, str]
    ) -> Json:
        """A pod's spec without its node and its containers."""
        sysctls: dict[str, str] = {}
        for test in tests:
            sysctls.update(test.sysctls)
        spec = pod_spec(network, self.tolerations, sysctls)
        if files:
            spec["volumes"] += [_files_of_load(files)]
        if any(test.uses_cluster_dns for test in tests):
            # In the network of a node, `ClusterFirst` would be the node's own DNS.
            spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        return {**spec, "restartPolicy": "Never", "activeDeadlineSeconds": self.deadline_seconds}


#: The end of the name of the container that removes what a workload's measurement left.
CLEAR = "-clear"


def _files_of_load(files: Mapping[str, str]) -> Json:
    """The volume with the files of a load pod, which are among the pod's own annotations."""
    items = [
        {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{FILE}-{name}']"}}
        for name in files
    ]
    return {"name": "files", "downwardAPI": {"items": items}}


def _of_load(
    workload: WorkloadTest, phase: Phase, members: Sequence[str], image: str, *, number: int
) -> list[Json]:
    """The containers of a load pod: one for the phase, and one to clear after a measurement."""
    mounts = [{"name": "files", "mountPath": FILES, "readOnly": True}] * bool(workload.load_files)
    environment = {**workload.environment, "POD_NUMBER": str(number)}
    commands: dict[str, list[str] | None] = {workload.name: workload.load_argv(members)}
    if phase == "measure":
        commands[workload.name] = workload.measure_argv(members)
        commands[workload.name + CLEAR] = workload.clear_argv(members)
    containers = [
        container(name, argv, workload.load_image or image)
        for name, argv in commands.items()
        if argv is not None
    ]
    return [
        each
        | {
            "env": env(environment),
            "resources": resources(workload.cpu, workload.load_memory_mib),
            "volumeMounts": [*each["volumeMounts"], *mounts],
        }
        for each in containers
    ]


def env(variables: Mapping[str, str]) -> list[Json]:
    """Environment variables of a container."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def holder(
    *,
    owner: Owner,
    arm: StackArm,
    number: int,
    image: str,
    tolerations: Sequence[Toleration],
) -> Json:
    """A pod that idles on a node of an arm, alone among the run's holders.

    While no such node has room, it waits, and the cluster's autoscaler brings a node for it. It
    keeps the node until the run ends.

    Args:
        owner: the run's owner object.
        arm: the arm.
        number: differs from those of the arm's other holders.
        image: the tools' image.
        tolerations: the taints that it tolerates.
    """
    labels = {**run_labels(owner.run_id, "holder"), ARM: arm.name}
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return owner.manifest(
        "Pod",
        owner.name(f"{arm.name}-holder-{number}"),
        labels,
        annotations=HOLD,
        spec={
            **pod_spec("pod", tolerations),
            "affinity": {**arm.selector.affinity, "podAntiAffinity": {required: [apart]}},
            "containers": [container(_IDLE.name, _IDLE.argv, image)],
        },
    )


def pod_spec(
    network: Network,
    tolerations: Sequence[Toleration],
    sysctls: Mapping[str, str] | None = None,
) -> Json:
    """The part of a pod's spec that all pods share.

    Args:
        network: the network that the pod uses, `pod` or `host`.
        tolerations: the taints that the pod tolerates.
        sysctls: kernel settings of the pod's own network namespace. Kubernetes refuses them for
            host networking, where the node's settings apply. On nodes with systemd 243 or later,
            such as Amazon Linux 2023, ordinary users may ping (its `sysctl.d/50-default.conf` opens
            `net.ipv4.ping_group_range`).
    """
    security: Json = {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if sysctls and network != "host":
        security["sysctls"] = [{"name": k, "value": v} for k, v in sorted(sysctls.items())]
    return {
        **({"hostNetwork": True} if network == "host" else {}),
        "nodeSelector": {OS_LABEL: "linux"},
        "tolerations": [each.manifest for each in tolerations],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsPolicy": "Default",  # most tools get IP addresses and look up no names
        "terminationGracePeriodSeconds": 1,
        "securityContext": security,
        # iperf3 keeps the data that it sends in a temporary file.
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
    }


def container(name: str, argv: Sequence[str], image: str, *, sharers: int = 1) -> Json:
    """A container that runs one program of the tools' image.

    Args:
        name: its name.
        argv: its command line.
        image: the tools' image.
        sharers: how many containers of its pod run in turn, and reserve together what one needs.
    """
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(argv),
        # What a program that fails printed last, such as why it cannot run at all.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # No CPU limit, because throttling would change the measured traffic.
        "resources": {
            "requests": {"cpu": f"{100 // sharers}m", "memory": f"{64 // sharers}Mi"},
            "limits": {"memory": "512Mi"},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def resources(cpus: float, memory_mib: int) -> Json:
    """What a container of a workload reserves and may use; without a CPU limit for that reason."""
    memory = f"{memory_mib}Mi"
    return {
        "requests": {"cpu": f"{round(cpus * 1000)}m", "memory": memory},
        "limits": {"memory": memory},
    }
