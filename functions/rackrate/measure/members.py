"""The members of a run's workloads: their Kubernetes objects, and what their pods tell.

Members are plain pods that are never started again, because a member that ended has lost its data
or its place in the service. A headless Service gives each of them a DNS name that resolves before
it is ready, so that command lines can name all members.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rackrate.foreign import plain
from rackrate.measure import cpu_use, manifests
from rackrate.measure.cluster import Cluster
from rackrate.measure.manifests import Owner
from rackrate.measure.networks import pods_path
from rackrate.measure.obstacles import absence
from rackrate.measure.pods import missing_part, outcome
from rackrate.measure.servers import why_waiting
from rackrate.plan.planned_run import PlannedRun
from rackrate.plan.workloads import host_names, places, workloads
from rackrate.settings import Settings
from rackrate.workloads.base import DATA, FILES, Volume, WorkloadTest
from rackrate_contract.arms import Arm, Node
from rackrate_contract.document import Document, Json
from rackrate_contract.results import MemberStart
from rackrate_contract.selectors import Toleration

TEST, MEMBER = "rackrate.dev/test", "rackrate.dev/member"
#: The role of members among the objects of a run.
ROLE = "member"
#: How long the image of a member may take to come, besides the seconds until it is ready.
PULL_SECONDS = 300
#: The kubelet would end a member that its probe calls late. Await servers says why it is late.
_PROBES = 86_400
_REASON_LENGTH = 450
#: The volume of a member's data.
_DATA = "data"
#: How many lines of its log are read of a member that ended.
_LINES = 100


class WorkloadStart(Document):
    """How the members of a workload started in an arm."""

    test: str
    arm: str
    members: tuple[MemberStart, ...]


class WorkloadStarts(Document):
    """workloads.json: how all workloads of a run started."""

    workloads: tuple[WorkloadStart, ...]


#: The object with the `WorkloadStarts`.
NAME = "workloads.json"


class Member(NamedTuple):
    """A member as it is now.

    Attributes:
        name: its host name.
        node: its node's name.
        pod: its pod, with the status of the member's container alone; None if there is none.
        address: its IP address if it is ready, or else None.
        lost: why it will not be ready any more, or None.
        waits: why it is not ready yet; empty if it is ready or lost.
    """

    name: str
    node: str
    pod: Json | None
    address: str | None
    lost: str | None
    waits: str

    @property
    def start(self) -> MemberStart:
        """How it started."""
        status: Json = {} if self.pod is None else self.pod.get("status", {})
        is_ready = (c for c in status.get("conditions", []) if c["type"] == "Ready")
        ready: Json = next((c for c in is_ready if c["status"] == "True"), {})
        states = [c.get("state", {}) for c in status.get("containerStatuses", [])]
        state: Json = states[0] if states else {}
        ran = state.get("running") or state.get("terminated") or {}
        return MemberStart(
            name=self.name,
            node=self.node,
            created_at=None if self.pod is None else self.pod["metadata"]["creationTimestamp"],
            started_at=ran.get("startedAt"),
            ready_at=ready.get("lastTransitionTime") if self.address else None,
            failure=self.lost or self.waits or None,
        )


def service(owner: Owner) -> Json:
    """The headless Service that gives members of all workloads their names."""
    labels = manifests.run_labels(owner.run_id, ROLE)
    # Without ports: each workload has its own, and names need none.
    spec = {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True}
    return owner.manifest("Service", manifests.owner_name(owner.run_id), labels, spec=spec)


def of_plan(planned: PlannedRun) -> list[tuple[WorkloadTest, Arm]]:
    """Each workload of a plan in each arm."""
    return [(test, arm) for test in workloads(planned.plan.tests) for arm in planned.arms]


def _hosts(test: WorkloadTest, arm: str) -> list[str]:
    return host_names(test, arm, manifests.short_hash(f"{test.name}/{arm}"))


def _labels(run_id: str, test: WorkloadTest, arm: str, host: str) -> dict[str, str]:
    of_run = manifests.run_labels(run_id, ROLE)
    return {**of_run, manifests.ARM: arm, TEST: test.name, MEMBER: host}


def files(owner: Owner, test: WorkloadTest, arm: str) -> list[Json]:
    """A ConfigMap with the files of each member; none where a workload has no files."""
    names = _dns_names(owner.run_id, test, arm)
    return [
        owner.manifest(
            "ConfigMap",
            owner.name(host),
            _labels(owner.run_id, test, arm, host),
            immutable=True,
            data=dict(content),
        )
        for index, host in enumerate(_hosts(test, arm))
        if (content := test.files(index, names))
    ]


def _dns_names(run_id: str, test: WorkloadTest, arm: str) -> list[str]:
    """The members' names in the search domain of their namespace."""
    return [f"{host}.{manifests.owner_name(run_id)}" for host in _hosts(test, arm)]


def pods(
    *,
    owner: Owner,
    test: WorkloadTest,
    arm: Arm,
    load_nodes: Sequence[Node],
    image: str,
    tolerations: Sequence[Toleration] = (),
) -> list[Json]:
    """The pods of a workload's members in an arm.

    Args:
        owner: the run's owner object.
        test: the workload.
        arm: the arm.
        load_nodes: the run's load nodes.
        image: the tools' image.
        tolerations: the taints that the pods tolerate.
    """
    names = _dns_names(owner.run_id, test, arm.name)
    nodes = places(test, arm, load_nodes).members
    created = []
    for index, (host, node) in enumerate(zip(_hosts(test, arm.name), nodes, strict=True)):
        name = owner.name(host)
        files = name if test.files(index, names) else None
        containers = [
            # The kubelet starts them in this order, so that a member's pod is ready when it is.
            _counting(test, image),
            _container(index, names, test, image, has_files=files is not None),
        ]
        created.append(
            owner.manifest(
                "Pod",
                name,
                _labels(owner.run_id, test, arm.name, host),
                annotations={**manifests.HOLD, manifests.MAIN: test.name},
                spec={
                    **_pod_spec(test, node, files, tolerations),
                    "hostname": host,
                    "subdomain": manifests.owner_name(owner.run_id),
                    "containers": containers,
                },
            )
        )
    return created


def _pod_spec(
    test: WorkloadTest, node: str, files: str | None, tolerations: Sequence[Toleration]
) -> Json:
    """The spec of a member's pod without its names and containers.

    Args:
        test: the workload.
        node: the pod's node.
        files: the ConfigMap with the member's files, or None.
        tolerations: the taints that the pod tolerates.
    """
    spec = manifests.pod_spec("pod", tolerations)
    spec["volumes"].append(_data(test))
    if files is not None:
        spec["volumes"].append({"name": "files", "configMap": {"name": files}})
    if isinstance(test.storage, Volume):
        spec["securityContext"]["fsGroup"] = manifests.USER
    return {
        **spec,
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Never",
        **_on(node, test),
        # What counts a member's CPU time sees its processes.
        "shareProcessNamespace": True,
    }


def _on(node: str, test: WorkloadTest) -> Json:
    """What puts a pod on a node.

    A volume that waits for its pod is made once the scheduler has chosen the pod's node, so a pod
    with one has to go by the scheduler.
    """
    if not isinstance(test.storage, Volume):
        return {"nodeName": node}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [term]}}}}


def _data(test: WorkloadTest) -> Json:
    """The volume of a member's data."""
    if isinstance(test.storage, Volume):
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": test.storage.storage_class,
            "resources": {"requests": {"storage": f"{test.storage.gib}Gi"}},
        }
        return {"name": _DATA, "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    # What is in memory counts as the member's, which needs the rest itself.
    in_memory = {"medium": "Memory", "sizeLimit": f"{test.memory_mib // 2}Mi"}
    return {"name": _DATA, "emptyDir": in_memory if test.storage == "memory" else {}}


def _container(
    index: int, names: Sequence[str], test: WorkloadTest, image: str, *, has_files: bool
) -> Json:
    manifest = manifests.container(test.name, test.member_argv(index, names), test.image or image)
    first = test.ports[0].number
    probe: Json = {"tcpSocket": {"port": first}}
    if test.ready_path is not None:
        probe = {"httpGet": {"path": test.ready_path, "port": first}}
    own_address = {"fieldRef": {"fieldPath": "status.podIP"}}
    manifest |= {
        "env": [{"name": "POD_IP", "valueFrom": own_address}, *manifests.env(test.environment)],
        "ports": [{"containerPort": p.number, "protocol": p.protocol} for p in test.ports],
        "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": _PROBES},
        "resources": manifests.resources(test.cpu, test.memory_mib),
        "volumeMounts": [
            *manifest["volumeMounts"],
            {"name": _DATA, "mountPath": DATA},
            *([{"name": "files", "mountPath": FILES, "readOnly": True}] if has_files else []),
        ],
    }
    return manifest


def counting(test: str) -> str:
    """The name of the container that counts the CPU time of a workload's member."""
    return test + cpu_use.SUFFIX


def _counting(test: WorkloadTest, image: str) -> Json:
    """The container that counts a member's CPU time, of the tools' image whatever the member's is.

    It is no init container that restarts: a member would wait for the start of such a container.
    """
    manifest = manifests.container(counting(test.name), cpu_use.ARGV, image)
    reserved = manifests.resources(cpu_use.CPUS, cpu_use.MEMORY_MIB)
    limits = {"memory": f"{cpu_use.MOST_MEMORY_MIB}Mi"}
    return manifest | {"resources": {**reserved, "limits": limits}, "volumeMounts": []}


def members(
    test: WorkloadTest,
    arm: Arm,
    planned: PlannedRun,
    pods: Iterable[Json],
    nodes: Mapping[str, Json],
) -> list[Member]:
    """The members of a workload in an arm, in their order.

    Args:
        test: the workload.
        arm: the arm.
        planned: the run's plan.
        pods: the pods of the run's members.
        nodes: the cluster's nodes by name.
    """
    ours = (_member_alone(pod, test) for pod in pods if _is_of(pod, test.name, arm.name))
    of = {pod["metadata"]["labels"][MEMBER]: pod for pod in ours}
    at = places(test, arm, planned.load_nodes).members
    return [
        _member(host, node, of.get(host), test, nodes)
        for host, node in zip(_hosts(test, arm.name), at, strict=True)
    ]


def _is_of(pod: Json, test: str, arm: str) -> bool:
    marks = pod["metadata"]["labels"]
    return bool(marks.get(TEST) == test and marks.get(manifests.ARM) == arm)


def _member_alone(pod: Json, test: WorkloadTest) -> Json:
    """A member's pod without the status of the container that counts, which may fail."""
    status = pod.get("status", {})
    statuses = [c for c in status.get("containerStatuses", []) if c.get("name") == test.name]
    return {**pod, "status": {**status, "containerStatuses": statuses}}


def _is_ready(pod: Json) -> bool:
    """Whether a member's container is ready. Its pod is not if the other container has ended."""
    return any(each.get("ready") for each in pod["status"]["containerStatuses"])


def _member(
    host: str, node: str, pod: Json | None, test: WorkloadTest, nodes: Mapping[str, Json]
) -> Member:
    address = None
    if pod is not None and "deletionTimestamp" not in pod["metadata"] and _is_ready(pod):
        address = pod["status"].get("podIP") or None
    lost, waits = None, ""
    if (absent := absence(node, nodes)) is not None:
        lost, address = absent.reason, None
    elif pod is None or "deletionTimestamp" in pod["metadata"]:
        lost, address = "its pod was deleted", None
    elif (lacking := missing_part(pod, test.name)) is not None:
        lost = lacking
    elif has_ended(pod):
        lost, address = outcome(pod, test.name).failure or "ended with exit code 0", None
    elif address is None:
        waits = "; ".join(why_waiting([pod])) or "is not ready"
        if (seconds := _late(pod, test)) is not None:
            lost = f"was not ready within {seconds} s" + (
                f": {waits}" if waits != "is not ready" else ""
            )
    if lost is not None:
        reason = f"member {host} on {node}: {lost}"
        return Member(host, node, pod, None, plain(reason, _REASON_LENGTH), "")
    return Member(host, node, pod, address, None, waits)


def read(
    test: WorkloadTest,
    planned: PlannedRun,
    nodes: Mapping[str, Json],
    settings: Settings,
    cluster: Cluster,
) -> dict[str, list[Member]]:
    """The members of a workload as they are now, by arm.

    One that ended has its last words, and one that has no volume the message of its claim.
    """
    selector = manifests.selector({**manifests.run_labels(planned.run_id, ROLE), TEST: test.name})
    pods = cluster.list(pods_path("pod", settings), selector)
    of_arms = {arm.name: members(test, arm, planned, pods, nodes) for arm in planned.arms}
    claims: Mapping[str, str] = {}
    if isinstance(test.storage, Volume) and any(
        each.lost and not _has_run(each, test) for of in of_arms.values() for each in of
    ):
        claims = _of_claims(cluster.list(f"/api/v1/namespaces/{settings.namespace}/events"))
    return {
        arm: [
            _with_words_of_claim(_with_last_words(each, test, cluster), test, claims) for each in of
        ]
        for arm, of in of_arms.items()
    }


def _has_run(member: Member, test: WorkloadTest) -> bool:
    return member.pod is not None and outcome(member.pod, test.name).started


def _of_claims(events: Iterable[Json]) -> dict[str, str]:
    """The last message of each PersistentVolumeClaim, by its name."""
    of_claims = [e for e in events if e["involvedObject"].get("kind") == "PersistentVolumeClaim"]
    of_claims.sort(key=lambda event: event.get("lastTimestamp") or "")
    return {event["involvedObject"]["name"]: event.get("message") or "" for event in of_claims}


def _with_words_of_claim(member: Member, test: WorkloadTest, claims: Mapping[str, str]) -> Member:
    """A member that never ran, with the message of the claim of its volume."""
    if member.lost is None or member.pod is None or _has_run(member, test):
        return member
    # Kubernetes names the claim of an ephemeral volume after the pod and the volume.
    message = claims.get(f"{member.pod['metadata']['name']}-{_DATA}")
    if not message:
        return member
    return member._replace(lost=plain(f"{member.lost}; its volume: {message}", _REASON_LENGTH))


def lost_arms(by_arm: Mapping[str, Sequence[Member]]) -> dict[str, str]:
    """Why a workload is lost, by arm: the first of its members that is lost."""
    reasons = {arm: [each.lost for each in of_arm if each.lost] for arm, of_arm in by_arm.items()}
    return {arm: lost[0] for arm, lost in reasons.items() if lost}


def _with_last_words(member: Member, test: WorkloadTest, cluster: Cluster) -> Member:
    """A member with the last line that it printed, if it ran and has ended."""
    pod = member.pod
    if member.lost is None or pod is None or not _has_run(member, test):
        return member
    where = pod["metadata"]["namespace"], pod["metadata"]["name"], test.name
    last = _last_words(cluster.last_lines(*where, _LINES))
    if not last:
        return member
    return member._replace(lost=plain(f"{member.lost}; it printed last: {last}", _REASON_LENGTH))


#: The head of a stack trace of Go, which says where a program gave up, and not why.
_GO_TRACE = re.compile(r"^goroutine \d{1,9} \[", re.MULTILINE)


#: A frame of a stack trace of Java.
_JAVA_FRAME = re.compile(r"at [\w.$/]{1,200}\(|\.\.\. \d{1,9} more")


def _last_words(printed: str) -> str:
    """Why a program ended, from the end of what it printed: an error in JSON, or the last line.

    Java's stack traces are left out, and an error that is logged counts more than what follows.
    """
    lines = [line.strip() for line in _GO_TRACE.split(printed, maxsplit=1)[0].splitlines()]
    for line in reversed(lines):
        if line.startswith("{") and '"error"' in line:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record.get("level") in ("error", "fatal", "panic"):
                return f"{record.get('msg')}: {record['error']}"
    messages = [line for line in lines if line and not _JAVA_FRAME.match(line)]
    errors = [line for line in messages if line.startswith("ERROR ")]
    return next(reversed(errors or messages), "")


def has_ended(pod: Json) -> bool:
    """Whether a member's container has ended."""
    status = pod.get("status", {})
    return status.get("phase") in ("Succeeded", "Failed") or any(
        "terminated" in each.get("state", {}) for each in status.get("containerStatuses", [])
    )


def _late(pod: Json, test: WorkloadTest) -> int | None:
    """How long a member that is not ready could have taken; None if it still may."""
    status, now = pod.get("status", {}), datetime.datetime.now(datetime.UTC)
    running = [
        each["state"]["running"]["startedAt"]
        for each in status.get("containerStatuses", [])
        if each.get("state", {}).get("running", {}).get("startedAt")
    ]
    allowed = test.ready_seconds if running else PULL_SECONDS
    since = running[0] if running else pod["metadata"]["creationTimestamp"]
    waited = (now - datetime.datetime.fromisoformat(since)).total_seconds()
    return allowed if waited > allowed else None
