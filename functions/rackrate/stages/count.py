"""Count: read the nodes' network counters before and after the trials.

Only a pod in a node's own network sees them, so they are read only where the stack allows host
networking. Counters help to explain a result. A counter that cannot be read is noted and does not
fail the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from kubernetes.client import ApiException

from rackrate.document import Document, Json
from rackrate.errors import RackrateError
from rackrate.measure import counters, manifests
from rackrate.measure.cluster import Cluster
from rackrate.measure.counters import Counters, Counts, Unreadable
from rackrate.measure.pods import missing_program
from rackrate.measure.servers import owner_of
from rackrate.resources import Resources
from rackrate.settings import Settings

When = Literal["before", "after"]

NAME = "counters.json"
READING = "rackrate.dev/reading"
NOT_ALLOWED = "not read: the stack does not allow host networking (HostNetwork=true)"
NO_ENA = "no interface has ENA's allowance counters"
#: Likely names of a node's network interface: on Nitro instances, and without predictable names.
GUESSES = ("ens5", "eth0")
#: How long the pods of one reading may take; also their `activeDeadlineSeconds`.
SECONDS = 30
#: How many requests to the cluster run in parallel.
WORKERS = 16
_NAMED = 10
_REASON_LENGTH = 300

_TRAFFIC = "traffic"


class Counted(Document):
    """What was read."""

    nodes: int
    """How many nodes."""
    note: str | None
    """What was not read."""


def count(run_id: str, when: When, resources: Resources) -> Counted:
    """Read the counters of the plan's nodes, and store them with the run.

    Args:
        run_id: the run.
        when: `before` the trials or `after` them; the second reading knows the interfaces.
        resources: the stack's resources.
    """
    store = resources.store
    stored = store.get(run_id, NAME, Counters)
    notes = [] if when == "before" or stored.note is None else [stored.note]
    read: Counts = {}
    if not resources.settings.host_namespace:
        notes = [NOT_ALLOWED]
    else:
        nodes = sorted({name for arm in store.plan(run_id).arms for name in arm.node_names})
        known = {node: list(stored.before.get(node, {})) for node in nodes}
        reading = _Reading(run_id, when, resources.settings)
        try:
            read = reading.read(resources.cluster, known)
        except (RackrateError, ApiException) as error:
            reading.note(f"not read {when} the trials: {error}")
        notes += reading.notes
    note = "; ".join(dict.fromkeys(notes)) or None
    counted = (
        Counters(before=read, after=stored.after, note=note)
        if when == "before"
        else Counters(before=stored.before, after=read, note=note)
    )
    store.put(run_id, NAME, counted)
    return Counted(nodes=len(read), note=note)


class _Reading:
    """One reading of all nodes. Failures are in `notes`."""

    def __init__(self, run_id: str, when: When, settings: Settings) -> None:
        self._run_id = run_id
        self._when = when
        self._settings = settings
        self._path = f"/api/v1/namespaces/{settings.host_namespace}/pods"
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Note what was not read."""
        self.notes.append(text[:_REASON_LENGTH])

    def read(self, cluster: Cluster, interfaces: Mapping[str, Sequence[str]]) -> Counts:
        """Read each node's counters: node to interface to counter.

        Unknown interfaces are guessed first, because most nodes use one of a few names. A node that
        turns out to have other interfaces is read a second time.

        Args:
            cluster: the cluster.
            interfaces: the known interfaces of each node.

        Raises:
            RackrateError, ApiException: errors of the cluster; nothing was read.
        """
        asked = {node: list(names) or list(GUESSES) for node, names in interfaces.items()}
        read = self._of_pods(cluster, "first", asked)
        others = {
            node: list(found) for node, found in read.items() if set(found) - set(asked[node])
        }
        read |= self._of_pods(cluster, "again", others)
        counted = {name for of in read.values() for counts in of.values() for name in counts}
        if read and counted.isdisjoint(counters.ALLOWANCES):
            self.note(NO_ENA)
        return read

    def _of_pods(
        self, cluster: Cluster, step: str, interfaces: Mapping[str, Sequence[str]]
    ) -> Counts:
        """Run a pod on each node, and read what its containers printed, by node."""
        if not interfaces:
            return {}
        owner = owner_of(self._run_id, self._settings.host_namespace, cluster)
        labels = {
            manifests.RUN: manifests.run_label(self._run_id),
            manifests.ROLE: "counter",
            READING: f"{step}-{self._when}",
        }
        asked = {
            node: self._pod(node, labels, owner["metadata"]["uid"], names)
            for node, names in interfaces.items()
        }
        selector = manifests.selector(labels)
        wanted = {pod["metadata"]["name"] for pod in asked.values()}

        def settled(pods: Mapping[str, Json]) -> bool:
            return all(name in pods and _has_ended(pods[name]) for name in wanted)

        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda pod: cluster.create(self._path, pod), asked.values()))
            pods, _ = cluster.watch(self._path, selector, settled, seconds=SECONDS)
            read = list(pool.map(lambda pod: self._result(cluster, pod, pods), asked.values()))
        cluster.delete_all(self._path, selector)
        results = dict(zip(asked, read, strict=True))
        missing = [f"{node} ({reason})" for node, (_, reason) in results.items() if reason]
        if missing:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            self.note(f"not read {self._when} the trials: {', '.join(missing[:_NAMED])}{more}")
        return {node: found for node, (found, _) in results.items() if found}

    def _pod(
        self, node: str, labels: Mapping[str, str], owner_uid: str, interfaces: Sequence[str]
    ) -> Json:
        image = self._settings.tool_image
        where = manifests.short_hash(node)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{manifests.owner_name(self._run_id)}-{labels[READING]}-{where}",
                "labels": dict(labels),
                "annotations": manifests.HOLD,
                "ownerReferences": manifests.owned_by(self._run_id, owner_uid),
            },
            "spec": {
                **manifests.pod_spec("host", self._settings.tolerations),
                "nodeName": node,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": SECONDS,
                "containers": [
                    manifests.container(_TRAFFIC, ["cat", "/proc/net/dev"], image),
                    # Numbered, because an interface's name may be invalid as a container's name.
                    *(
                        manifests.container(
                            f"interface-{number}", ["ethtool", "--statistics", interface], image
                        )
                        for number, interface in enumerate(interfaces)
                    ),
                ],
            },
        }

    def _result(
        self, cluster: Cluster, asked: Json, pods: Mapping[str, Json]
    ) -> tuple[dict[str, dict[str, int]], str | None]:
        """The counters that a pod read of its node's interfaces, and why some are missing."""
        name = asked["metadata"]["name"]
        pod = pods.get(name)
        if pod is None or not _has_ended(pod):
            return {}, f"its pod had not ended after {SECONDS} s"
        text = cluster.log(self._settings.host_namespace, name, _TRAFFIC)
        try:
            found = counters.traffic(text or "")
        except Unreadable as error:
            return {}, missing_program(pod, _TRAFFIC) or str(error)
        lacking = None
        for container in asked["spec"]["containers"][1:]:
            text = cluster.log(self._settings.host_namespace, name, container["name"])
            lacking = lacking or missing_program(pod, container["name"])
            interface = container["command"][-1]
            if interface in found:
                found[interface] |= counters.allowances(text or "")
        return found, lacking if found else "none of its interfaces leaves the node"


def _has_ended(pod: Mapping[str, Any]) -> bool:
    status = pod.get("status", {})
    states = [container.get("state", {}) for container in status.get("containerStatuses", [])]
    return status.get("phase") in ("Succeeded", "Failed") or (
        len(states) == len(pod["spec"]["containers"])
        and all("terminated" in state for state in states)
    )
