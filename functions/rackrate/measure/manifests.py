"""The Kubernetes objects of a run. Pure: values in, manifests out.

Everything obeys the Pod Security Standard "restricted", but that pods of the network `host` use
their node's (https://kubernetes.io/docs/concepts/security/pod-security-standards/). Everything
belongs to one owner object in its namespace, so that deleting the owners deletes the run: owner
references do not cross namespaces.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from rackrate.document import Json
from rackrate.plan.arms import Arm, Network
from rackrate.plan.schedule import BlockItem, Pair, traffic_seconds
from rackrate.tools import TestBase
from rackrate.tools.base import Server

RUN, ROLE, ARM = "rackrate.dev/run", "rackrate.dev/role", "rackrate.dev/arm"
NETWORK = "rackrate.dev/network"
BLOCK, ROUND, ATTEMPT = "rackrate.dev/block", "rackrate.dev/round", "rackrate.dev/attempt"
RUN_ID, EXECUTION = "rackrate.dev/run-id", "rackrate.dev/execution"
#: The mark of the stack that made something; what lacks it is somebody else's.
STACK = "rackrate.dev/stack"
CLIENT_NODE, SERVER_NODE = "rackrate.dev/client-node", "rackrate.dev/server-node"

#: "nonroot" of the distroless images; any user but root would do.
USER = 65532
#: Time a client pod may take beyond its tests, for starting containers and for slow endings.
GRACE_SECONDS = 45
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def short_hash(run_id: str) -> str:
    """Ten hexadecimal digits that stand for a run in names."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:10]


def run_label(run_id: str) -> str:
    """The run's id as a label's value; its hash where the id cannot be one."""
    return run_id if _LABEL_VALUE.fullmatch(run_id) else short_hash(run_id)


def owner_name(run_id: str) -> str:
    """The name of the run's owner object."""
    return f"run-{short_hash(run_id)}"


def selector(labels: Mapping[str, object]) -> str:
    """A label selector for the Kubernetes API."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def owner(run_id: str, execution_arn: str) -> Json:
    """The object that owns everything of a run."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": owner_name(run_id),
            "labels": {RUN: run_label(run_id), ROLE: "owner"},
            "annotations": {RUN_ID: run_id, EXECUTION: execution_arn},
        },
        "immutable": True,
    }


def owned_by(run_id: str, owner_uid: str) -> list[Json]:
    """The owner references of what the run's owner object owns."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner_name(run_id),
            "uid": owner_uid,
            # Foreground deletion of the owner waits for what blocks it.
            "blockOwnerDeletion": True,
        }
    ]


#: Where no test needs a server, a pod must be there all the same, to be pinged. `sleep` is in every
#: image with coreutils or busybox, as is the `cat` that reads the counters; no run takes so long.
_IDLE = Server("idle", ("sleep", "2147483647"), ())


def servers_of(tests: Sequence[TestBase]) -> list[Server]:
    """The distinct servers that tests need, by name.

    Raises:
        ValueError: two different servers have one name; a tool has to name them apart.
    """
    found = {server for test in tests if (server := test.server) is not None} or {_IDLE}
    if len({server.name for server in found}) < len(found):
        raise ValueError(f"different servers have the same name: {sorted(found, key=str)}")
    return sorted(found, key=lambda server: server.name)


def servers(
    *,
    run_id: str,
    owner_uid: str,
    arm: Arm,
    tests: Sequence[TestBase],
    image: str,
) -> Json:
    """A DaemonSet: the servers that the tests need, on every node of an arm.

    Several of a plan's arms may share it: it has the name of the stack's arm, whose nodes they use.

    Args:
        run_id: the run.
        owner_uid: the UID of its owner object in the DaemonSet's namespace.
        arm: an arm; its servers use its `server_network`.
        tests: what the plan runs.
        image: the tools' image.
    """
    network = arm.server_network
    labels = {RUN: run_label(run_id), ROLE: "server", ARM: arm.stack_arm, NETWORK: network}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": f"{owner_name(run_id)}-{arm.stack_arm}-{network}",
            "labels": labels,
            "ownerReferences": owned_by(run_id, owner_uid),
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **pod_spec(network),
                    "nodeSelector": arm.selector,
                    "containers": [_server(server, image) for server in servers_of(tests)],
                },
            },
        },
    }


def _server(server: Server, image: str) -> Json:
    made = container(server.name, server.argv, image)
    # On the host's network this claims the node's port: of two runs, the later one's server waits
    # with a message that says so.
    made["ports"] = [
        {"containerPort": port.number, "protocol": port.protocol} for port in server.ports
    ]
    if listening := next((port for port in server.ports if port.protocol == "TCP"), None):
        # A start-up probe, because it stops once the server listens: the connection of a readiness
        # probe would disturb measurements, for iperf3 takes it for a client. There is no probe for
        # UDP that needs no program of its own.
        made["startupProbe"] = {
            "tcpSocket": {"port": listening.number},
            "periodSeconds": 1,
            "failureThreshold": 120,
        }
    return made


def client_labels(run_id: str, item: BlockItem, attempt: int) -> dict[str, str]:
    """The labels all client pods of one attempt at an item share."""
    return {
        RUN: run_label(run_id),
        ROLE: "client",
        BLOCK: str(item.block),
        ROUND: str(item.round),
        ATTEMPT: str(attempt),
    }


def client(
    *,
    run_id: str,
    owner_uid: str,
    item: BlockItem,
    pair: Pair,
    tests: Sequence[TestBase],
    attempt: int,
    server_address: str,
    image: str,
) -> Json:
    """A pod that runs tests one after the other against one server.

    All but the last test are init containers, which Kubernetes runs in order; the last is the main
    container, which saves starting one more.

    Args:
        run_id: the run.
        owner_uid: the UID of its owner object.
        item: the item of the schedule.
        pair: the two nodes.
        tests: what to run, in order.
        attempt: 1, or more for a repetition.
        server_address: IP address of the server's pod.
        image: the tools' image.
    """
    containers = [container(test.name, test.argv(server_address), image) for test in tests]
    sysctls: dict[str, str] = {}
    for test in tests:
        sysctls.update(test.sysctls)
    where = short_hash(json.dumps([pair.arm, pair.client, pair.server]))
    name = f"{owner_name(run_id)}-{item.block}-{item.round}-{where}-{attempt}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**client_labels(run_id, item, attempt), ARM: pair.arm},
            "annotations": {CLIENT_NODE: pair.client, SERVER_NODE: pair.server},
            "ownerReferences": owned_by(run_id, owner_uid),
        },
        "spec": {
            **pod_spec(pair.client_network, sysctls),
            # The plan chose the node; there is nothing for a scheduler to decide.
            "nodeName": pair.client,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": active_deadline_seconds(tests),
            "initContainers": containers[:-1],
            "containers": containers[-1:],
        },
    }


def active_deadline_seconds(tests: Sequence[TestBase]) -> int:
    """When Kubernetes stops a client pod, in seconds after its start."""
    return round(traffic_seconds(tests) * 1.5 + GRACE_SECONDS)


def pod_spec(network: Network, sysctls: Mapping[str, str] | None = None) -> Json:
    """What all pods have in common.

    Args:
        network: whose network the pod uses, `pod` or `host`.
        sysctls: settings of the pod's own network. Kubernetes refuses them where that is the
            host's; what holds there is the node's. On nodes with systemd 243 or later, such as
            Amazon Linux 2023, ordinary users may ping (its `sysctl.d/50-default.conf` opens
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
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsPolicy": "Default",  # the tools are given addresses and look up nothing
        "terminationGracePeriodSeconds": 1,
        "securityContext": security,
        # iperf3 keeps what it sends in a temporary file.
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
    }


def container(name: str, argv: Sequence[str], image: str) -> Json:
    """A container that runs one program of the tools' image."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(argv),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # No limit on processor time: throttling would shape the very traffic that is measured.
        "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"memory": "512Mi"},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
