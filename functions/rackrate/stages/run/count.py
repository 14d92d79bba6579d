"""Count: read the nodes' network counters before and after the trials, and what their cards are.

Only a pod in a node's own network sees them, so they are read only where the stack allows host
networking. Counters help to explain a result. A counter that cannot be read is noted and does not
fail the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from rackrate.errors import RackrateError
from rackrate.foreign import plain
from rackrate.measure import counters, interfaces, manifests
from rackrate.measure.cluster import ApiError, Cluster
from rackrate.measure.commands import Printed, printed_by_each, running
from rackrate.measure.counters import Counters, Counts
from rackrate.measure.interfaces import Unreadable
from rackrate.measure.manifests import Owner
from rackrate.measure.obstacles import absence
from rackrate.measure.pods import is_finished, missing_part, no_program_in
from rackrate.measure.servers import owner_of
from rackrate.measure.starts import NO_PROGRAM_CODE
from rackrate.resources import Resources
from rackrate.settings import Settings
from rackrate.stages.run.collect import plan_nodes
from rackrate_contract.arms import Interface
from rackrate_contract.document import Document, Json

When = Literal["before", "after"]

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
#: What a reading may print. The counters of a node take a few kilobytes.
_MOST_BYTES = 256 * 1024

_TRAFFIC, _MTU = "traffic", "mtu"
_STATISTICS = ("ethtool", "--statistics")
#: The one container of a reading's pod.
_CONTAINER = "counters"


class Counted(Document):
    """What was read."""

    nodes: int
    """How many nodes."""
    note: str | None
    """What was not read."""


def count(run_id: str, when: When, resources: Resources) -> Counted:
    """Read the counters of the nodes in the plan's places, and store them with the run.

    The first reading also reads what the interfaces are, since a node may be gone afterwards.

    Args:
        run_id: the run.
        when: `before` the trials or `after` them; the second reading knows the interfaces.
        resources: the stack's resources.
    """
    store = resources.store
    stored = store.runs.read(run_id, counters.NAME, Counters)
    notes = [] if when == "before" or stored.note is None else [stored.note]
    read: Counts = {}
    facts = stored.interfaces
    if not resources.settings.host_namespace:
        notes = [NOT_ALLOWED]
    else:
        planned = store.runs.plan(run_id)
        there_now = store.runs.nodes_at(run_id)
        places = {name for arm in planned.arms for name in arm.node_names}
        nodes = sorted(there_now[p].name if p in there_now else p for p in places)
        reading = _Reading(run_id, when, resources.settings)
        try:
            there = plan_nodes(planned, resources)
            absent = {name: why for name in nodes if (why := absence(name, there)) is not None}
            for why in absent.values():
                reading.note(f"not read {when} the trials: {why.reason}")
            came = {node.name for node in there_now.values()} - stored.before.keys()
            for name in sorted(came if when == "after" else ()):
                reading.note(f"not read before the trials: node {name} came later")
            known = {
                name: list(stored.before.get(name, {})) for name in nodes if name not in absent
            }
            read = reading.read(resources.cluster, known)
        except (RackrateError, ApiError) as error:
            reading.note(f"not read {when} the trials: {error}")
        notes += reading.notes
        facts = reading.facts if when == "before" else facts
    note = "; ".join(dict.fromkeys(notes)) or None
    counted = stored.model_copy(update={when: read, "interfaces": facts, "note": note})
    store.runs.put(run_id, counters.NAME, counted)
    return Counted(nodes=len(read), note=note)


class _Reading:
    """One reading of all nodes. Failures are in `notes`."""

    def __init__(self, run_id: str, when: When, settings: Settings) -> None:
        self._run_id = run_id
        self._when = when
        self._settings = settings
        self._path = f"/api/v1/namespaces/{settings.host_namespace}/pods"
        self.notes: list[str] = []
        #: What the interfaces are, by node and name; only of a reading before the trials.
        self.facts: dict[str, dict[str, Interface]] = {}

    def note(self, text: str) -> None:
        """Note what was not read."""
        self.notes.append(plain(text, _REASON_LENGTH))

    def read(self, cluster: Cluster, known: Mapping[str, Sequence[str]]) -> Counts:
        """Read each node's counters: node to interface to counter.

        Unknown interfaces are guessed first, because most nodes use one of a few names. A node that
        turns out to have other interfaces is read a second time.

        Args:
            cluster: the cluster.
            known: the known interfaces of each node.

        Raises:
            RackrateError, ApiError: errors of the cluster; nothing was read.
        """
        interfaces = {node: list(names) or list(GUESSES) for node, names in known.items()}
        read = self._of_pods(cluster, "first", interfaces)
        others = {
            node: list(names) for node, names in read.items() if set(names) - set(interfaces[node])
        }
        read |= self._of_pods(cluster, "again", others)
        counted = {name for of in read.values() for counts in of.values() for name in counts}
        if read and counted.isdisjoint(counters.ALLOWANCES):
            self.note(NO_ENA)
        return read

    def _of_pods(self, cluster: Cluster, step: str, names: Mapping[str, Sequence[str]]) -> Counts:
        """Run a pod on each node, and read what its commands printed, by node."""
        if not names:
            return {}
        owner = owner_of(self._run_id, self._settings.host_namespace, cluster)
        labels = {
            **manifests.run_labels(self._run_id, "counter"),
            READING: f"{step}-{self._when}",
        }
        manifest_of = {
            node: self._pod(node, labels, owner, of_node) for node, of_node in names.items()
        }
        selector = manifests.selector(labels)
        expected = {pod["metadata"]["name"] for pod in manifest_of.values()}

        def settled(ended: Mapping[str, bool]) -> bool:
            return all(ended.get(name, False) for name in expected)

        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda pod: cluster.create(self._path, pod), manifest_of.values()))
            pods, _ = cluster.watch(self._path, selector, is_finished, settled, seconds=SECONDS)
            read = list(
                pool.map(
                    lambda node: self._result(cluster, manifest_of[node], names[node], pods),
                    manifest_of,
                )
            )
        cluster.delete_all(self._path, selector)
        results = dict(zip(manifest_of, read, strict=True))
        missing = [f"{node} ({reason})" for node, (_, reason) in results.items() if reason]
        if missing:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            self.note(f"not read {self._when} the trials: {', '.join(missing[:_NAMED])}{more}")
        return {node: counts for node, (counts, _) in results.items() if counts}

    def _commands(self, names: Sequence[str]) -> dict[str, list[str]]:
        """What a pod runs, by a name for each command."""
        commands = {_TRAFFIC: ["cat", "/proc/net/dev"]}
        parts = {"statistics": _STATISTICS}
        if self._when == "before":
            commands[_MTU] = interfaces.mtu_command(names)
            parts |= {"driver": interfaces.DRIVER, "queues": interfaces.QUEUES}
        return commands | {
            f"{part}-{number}": [*command, name]
            for number, name in enumerate(names)
            for part, command in parts.items()
        }

    def _pod(
        self, node: str, labels: Mapping[str, str], owner: Owner, names: Sequence[str]
    ) -> Json:
        image = self._settings.tool_image
        where = manifests.short_hash(node)
        return owner.manifest(
            "Pod",
            owner.name(f"{labels[READING]}-{where}"),
            labels,
            annotations={**manifests.HOLD, manifests.MAIN: _CONTAINER},
            spec={
                **manifests.pod_spec("host", self._settings.tolerations),
                "nodeName": node,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": SECONDS,
                "containers": [
                    manifests.container(_CONTAINER, running(self._commands(names)), image)
                ],
            },
        )

    def _result(
        self,
        cluster: Cluster,
        manifest: Json,
        names: Sequence[str],
        pods: Mapping[str, Json],
    ) -> tuple[dict[str, dict[str, int]], str | None]:
        """The counters that a pod read of its node's interfaces, and why some are missing."""
        name = manifest["metadata"]["name"]
        pod = pods.get(name)
        if pod is None or not is_finished(pod):
            return {}, f"its pod had not ended after {SECONDS} s"
        if (lacking := missing_part(pod, _CONTAINER)) is not None:
            return {}, lacking
        log = cluster.log(self._settings.host_namespace, name, _CONTAINER, _MOST_BYTES)
        # The beginning of an endless output says nothing of the node.
        printed = printed_by_each(log.text) if log is not None and log.is_whole else {}
        for part, command in self._commands(names).items():
            if part in printed and printed[part].code == NO_PROGRAM_CODE:
                lacking = lacking or no_program_in(self._settings.tool_image, command[0])
        try:
            traffic = counters.traffic(_text(printed, _TRAFFIC))
        except Unreadable as error:
            return {}, lacking or str(error)
        for number, interface in enumerate(names):
            if interface in traffic:
                traffic[interface] |= counters.ena(_text(printed, f"statistics-{number}"))
        if self._when == "before":
            facts = {n: each for n, each in _facts(names, printed).items() if n in traffic}
            node = manifest["spec"]["nodeName"]
            self.facts[node] = self.facts.get(node, {}) | facts
        return traffic, lacking if traffic else "none of its interfaces leaves the node"


def _text(printed: Mapping[str, Printed], part: str) -> str:
    """What a command of a pod printed; empty where it did not end."""
    return printed[part].text if part in printed else ""


def _facts(names: Sequence[str], printed: Mapping[str, Printed]) -> dict[str, Interface]:
    """What the interfaces are, by name, as a pod's commands printed it."""
    mtus: dict[str, int] = {}
    reason = "there is no such file"
    try:
        mtus = interfaces.mtus(_text(printed, _MTU), names)
    except Unreadable as error:
        reason = str(error)
    return {
        name: interfaces.interface(
            _text(printed, f"driver-{number}"),
            _text(printed, f"queues-{number}"),
            mtus.get(name, reason),
        )
        for number, name in enumerate(names)
    }
