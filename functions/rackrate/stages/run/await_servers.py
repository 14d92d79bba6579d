"""Await servers: wait until every node of the plan has listening servers, and for workloads.

Launch asks here as well, since servers, their owner object and nodes can vanish later.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from rackrate.errors import ClusterUnreachable, NodesUnavailable, ServersNotReady
from rackrate.measure import manifests, members
from rackrate.measure.manifests import Owner
from rackrate.measure.members import Member, WorkloadStart, WorkloadStarts
from rackrate.measure.networks import namespace_of, pods_path
from rackrate.measure.node_groups import why_lacking
from rackrate.measure.nodes import is_ready, ready_nodes
from rackrate.measure.obstacles import NONE_EXPECTED, PATIENCE_SECONDS, REPLACEMENT_SECONDS, absence
from rackrate.measure.placement import ended, placed
from rackrate.measure.servers import (
    addresses_in,
    find_owner,
    missing_parts,
    server_addresses,
    why_waiting,
)
from rackrate.measure.services import serve
from rackrate.plan.items import Pair
from rackrate.plan.planned_run import PlannedRun
from rackrate.plan.replacements import choose, nodes_at
from rackrate.resources import Resources
from rackrate.settings import named_groups
from rackrate.stages.execution.take_lease import keep_lease
from rackrate.stages.run.collect import plan_nodes
from rackrate.stages.run.deploy import make_servers
from rackrate.stages.stack.bootstrap import ask_to_heal
from rackrate.times import now, seconds_between
from rackrate.workloads.base import WorkloadTest
from rackrate_contract.arms import Arm, Network, Node
from rackrate_contract.document import Document, Json
from rackrate_contract.executions import RunRecord
from rackrate_text.words import listed

#: How long a server may take to start, including the pull of the tools' image.
SERVERS_SECONDS = 300
#: How long each of many servers may take. A DaemonSet's controller sends 20 requests a second by
#: default (kube-controller-manager, --kube-api-qps), two for each pod, and also serves others: a
#: thousand pods took 0.2 s each.
SECONDS_PER_SERVER = 0.6
#: How long a run waits for a node or a server where other pairs of each arm can be measured
#: meanwhile, and the rest is repeated later.
SHORT_PATIENCE_SECONDS = 15
#: How long one call watches before it returns to the state machine: a third of its minute. What
#: it reads and writes besides took 5 s for 1002 nodes.
WATCH_SECONDS = 20.0
WAIT_SECONDS = 2
#: How many nodes an error names.
_NAMED = 10
#: The phases of a run that waits begin so.
_FOR_SERVERS = "waiting for servers"
_FOR_MEMBERS = "waiting for the members of workloads"
_FOR_ANOTHER = "waiting for another node in place of "


class Readiness(Document):
    """Whether a run can continue, and if not, when to ask again."""

    ready: bool
    wait_seconds: int
    access_lost: bool = False
    """Whether the namespace or the rights in it are missing and have to be recreated first."""


def await_servers(run_id: str, resources: Resources) -> Readiness:
    """Watch for up to `WATCH_SECONDS` until every node of the plan has listening servers.

    What Deploy created and is missing is recreated.

    Raises:
        AccessLost: the namespace or the rights in it are missing again and again.
        NodesBusy: the run does not hold its nodes any more.
        NodesUnavailable: a node of the plan has been gone or not Ready for `PATIENCE_SECONDS`, and
            no other one has come in its place within `REPLACEMENT_SECONDS`.
        ServersNotReady: `servers_seconds` are over, or the image lacks a server's program.
    """
    try:
        readiness = _await(run_id, resources)
        if readiness.ready and (run := resources.store.runs.update(run_id)) is not None:
            resources.store.runs.begin(run)
        return readiness
    except ClusterUnreachable as error:
        ask_to_heal(run_id, error, resources.store)
        return Readiness(ready=False, wait_seconds=WAIT_SECONDS, access_lost=True)


def _await(run_id: str, resources: Resources) -> Readiness:
    planned = resources.store.runs.plan(run_id)
    run = resources.store.runs.update(run_id)
    if run is None or not run.phase.startswith(_FOR_ANOTHER):
        run = resources.store.runs.update(run_id, phase=_FOR_SERVERS)
    keep_lease(run, resources.store)
    deadline = time.monotonic() + WATCH_SECONDS
    nodes = nodes_at(() if run is None else run.replacements)
    places = _places_by_network(planned)
    watched = _watch(run_id, places, nodes, deadline, resources)
    seconds = _note_missing(run_id, run, watched.missing, set().union(*places.values()), resources)
    if watched.missing:
        make_servers(planned, resources)
        return _await_missing(run, planned, watched, seconds, resources)
    served = _served(planned)
    owners = _owners(run_id, served.keys(), resources)
    if owners is None:
        make_servers(planned, resources)
        return Readiness(ready=False, wait_seconds=WAIT_SECONDS)
    # kube-proxy has to hear of new ones.
    if _serve(planned, served, watched.addresses, owners, resources)[1]:
        return Readiness(ready=False, wait_seconds=WAIT_SECONDS)
    left = max(0.0, deadline - time.monotonic())
    return _await_members(planned, left, resources)


class _Watched(NamedTuple):
    """The servers after a watch.

    Attributes:
        addresses: of those that are ready, by network and place.
        missing: the places without a server that is ready.
        complaints: what the kubelet and the scheduler say of those that wait.
        allowed_seconds: how long all of them may take to start.
    """

    addresses: Mapping[Network, Mapping[str, str]]
    missing: Set[str]
    complaints: Sequence[str]
    allowed_seconds: int


def _watch(
    run_id: str,
    places: Mapping[Network, Set[str]],
    nodes: Mapping[str, Node],
    deadline: float,
    resources: Resources,
) -> _Watched:
    """Watch the servers until all are ready or the time is up.

    Raises:
        ServersNotReady: the image or its registry lacks something.
    """
    settings, cluster = resources.settings, resources.cluster
    labels = manifests.selector(manifests.run_labels(run_id, "server"))
    missing: set[str] = set()
    complaints: list[str] = []
    addresses: dict[Network, Mapping[str, str]] = {}
    for network, expected in places.items():
        names = {_name_at(place, nodes) for place in expected}

        def settled(pods: Mapping[str, _Server], names: Set[str] = names) -> bool:
            return names <= {each.node for each in pods.values() if each.is_ready} or any(
                each.lacks_a_part for each in pods.values()
            )

        left = max(0.0, deadline - time.monotonic())
        pods, _ = cluster.watch(
            pods_path(network, settings), labels, _Server.of, settled, seconds=left
        )
        if lacking := missing_parts(pods.values()):
            raise ServersNotReady("; ".join(lacking))
        addresses[network] = _by_place(server_addresses(pods.values()), expected, nodes)
        missing |= expected - addresses[network].keys()
        complaints += why_waiting(pods.values())
    allowed = servers_seconds(sum(map(len, places.values())))
    return _Watched(addresses, missing, complaints, allowed)


def _await_missing(
    run: RunRecord | None,
    planned: PlannedRun,
    watched: _Watched,
    seconds: Mapping[str, float],
    resources: Resources,
) -> Readiness:
    """Wait for missing servers, or for other nodes in the places of lost ones.

    Args:
        run: its record.
        planned: its plan.
        watched: the servers.
        seconds: how long each of the missing ones has been missing, by place.
        resources: the stack's resources.

    Raises:
        NodesUnavailable: a node has stayed away for longer than it may.
        ServersNotReady: a server has been missing for longer than it may.
    """
    nodes = nodes_at(() if run is None else run.replacements)
    there = plan_nodes(planned, resources)
    losses = _losses(watched.missing, seconds, nodes, there, planned, resources)
    if run is not None and _replace(run, planned, losses.how, 0, resources):
        resources.store.runs.update(planned.run_id, phase=_FOR_SERVERS)
        return Readiness(ready=False, wait_seconds=WAIT_SECONDS)
    late = {place for place, waited in seconds.items() if waited > losses.patience(place)}
    _check_nodes(late, nodes, there, planned, resources)
    if losses.expected:
        resources.store.runs.update(planned.run_id, phase=_phase(losses.expected, losses, nodes))
    if max(seconds.values(), default=0.0) > watched.allowed_seconds:
        raise ServersNotReady(
            f"no server after {watched.allowed_seconds} s on"
            f" {listed(sorted(watched.missing), most=_NAMED)}"
            + "".join(f"; {line}" for line in watched.complaints)
        )
    return Readiness(ready=False, wait_seconds=WAIT_SECONDS)


def _await_members(planned: PlannedRun, seconds: float, resources: Resources) -> Readiness:
    """Watch until each member of the workloads is ready, or will not be ready any more.

    The run goes on without a workload that is not ready. Its trials fail with the reason.
    """
    of_plan = members.of_plan(planned)
    if not of_plan:
        return Readiness(ready=True, wait_seconds=0)
    resources.store.runs.update(planned.run_id, phase=_FOR_MEMBERS)
    settings, cluster = resources.settings, resources.cluster
    there = plan_nodes(planned, resources)

    def look(pods: Iterable[Json]) -> list[tuple[WorkloadTest, Arm, list[Member]]]:
        existing = list(pods)
        return [
            (test, arm, members.members(test, arm, planned, existing, there))
            for test, arm in of_plan
        ]

    def settled(pods: Mapping[str, Json]) -> bool:
        return not any(each.waits for _, _, of in look(pods.values()) for each in of)

    pods, _ = cluster.watch(
        pods_path("pod", settings),
        manifests.selector(manifests.run_labels(planned.run_id, members.ROLE)),
        lambda pod: pod,
        settled,
        seconds=seconds,
    )
    # A member whose time is over does not change, so its watch does not end.
    if not settled(pods):
        return Readiness(ready=False, wait_seconds=WAIT_SECONDS)
    starts = tuple(
        WorkloadStart(test=test.name, arm=arm.name, members=tuple(each.start for each in of))
        for test, arm, of in look(pods.values())
    )
    resources.store.runs.put(planned.run_id, members.NAME, WorkloadStarts(workloads=starts))
    return Readiness(ready=True, wait_seconds=0)


def servers_seconds(servers: int) -> int:
    """How long so many servers may take to start."""
    return max(SERVERS_SECONDS, round(servers * SECONDS_PER_SERVER))


class _Server(NamedTuple):
    """What there is to wait for of a server's pod."""

    node: str
    is_ready: bool
    lacks_a_part: bool

    @classmethod
    def of(cls, pod: Json) -> _Server:
        """What a pod says of itself; one without a node yet is not ready."""
        node = pod["spec"].get("nodeName", "")
        return cls(node, bool(server_addresses([pod])), bool(missing_parts([pod])))


class Servers(NamedTuple):
    """The servers that an item needs, as they are now.

    Attributes:
        wait_seconds: when to ask again; 0 when there is nothing worth waiting for.
        owners: the owner object of client pods, by their network.
        addresses: the IP addresses of the servers by place, by their network.
        services: those of the Services in front of them, for the pairs that need one.
        nodes: the nodes in the places where they were replaced, by place.
        there: the cluster's nodes of the plan's arms as they are now, by name.
        expected: the places whose node has ended and that will have another one, and since when
            they are waited for.
    """

    wait_seconds: int
    owners: Mapping[Network, Owner]
    addresses: Mapping[Network, Mapping[str, str]]
    services: Mapping[Network, Mapping[str, str]]
    nodes: Mapping[str, Node]
    there: Mapping[str, Json]
    expected: Mapping[str, str] = NONE_EXPECTED

    def address_for(self, pair: Pair) -> str:
        """The address that the client of a pair connects to."""
        if pair.endpoint is not None:
            return pair.endpoint.address
        addresses = self.services if pair.via == "service" else self.addresses
        return addresses[pair.server_network][pair.server]

    def node_at(self, place: str) -> str:
        """The name of the node in a place."""
        return _name_at(place, self.nodes)

    def missing(self, pairs: Iterable[Pair]) -> set[str]:
        """The places of pairs that have no server, or whose node is not there."""
        # Kubernetes keeps the pods of a node that is gone for a while, as they were.
        return {
            place
            for pair in pairs
            for place in pair.nodes
            if place not in self.addresses[pair.server_network]
            or self.node_at(place) not in self.there
            or _is_starting(self.node_at(place), self.there)
        }

    @property
    def by_place(self) -> dict[str, Json]:
        """The cluster's nodes by the places that they are in now."""
        by_name = self.there
        replaced = {
            place: by_name[new.name] for place, new in self.nodes.items() if new.name in by_name
        }
        return {name: node for name, node in by_name.items() if name not in self.nodes} | replaced


def _find_servers(
    run: RunRecord | None,
    planned: PlannedRun,
    pairs: Collection[Pair],
    resources: Resources,
) -> Servers:
    """Find the servers of pairs, and make the Services that the pairs need in front of them.

    It has no owners while the run's owner objects are being deleted.
    """
    settings, cluster = resources.settings, resources.cluster
    nodes = nodes_at(() if run is None else run.replacements)
    served: dict[Network, set[str]] = {}
    for pair in pairs:
        if pair.via == "service":
            served.setdefault(pair.server_network, set()).add(pair.server)
    networks = {pair.client_network for pair in pairs} | served.keys()
    owners = _owners(planned.run_id, networks, resources)
    addresses = {
        network: _by_place(addresses_in(planned.run_id, network, settings, cluster), places, nodes)
        for network, places in _places_by_network(planned).items()
    }
    services: Mapping[Network, Mapping[str, str]] = {}
    is_new = False
    if owners is not None:
        services, is_new = _serve(planned, served, addresses, owners, resources)
    there = plan_nodes(planned, resources)
    wait_seconds = WAIT_SECONDS if is_new else 0  # kube-proxy has to hear of new ones
    return Servers(wait_seconds, owners or {}, addresses, services, nodes, there)


def present_servers(
    run: RunRecord | None,
    planned: PlannedRun,
    pairs: Collection[Pair],
    block: int,
    resources: Resources,
    *,
    again: bool,
) -> Servers:
    """Find a run's servers. Recreate what is missing, and put other nodes in lost ones' places.

    A place without a server is waited for since it was first missed in this run, not in each item.
    If each arm has another pair to measure, that is `SHORT_PATIENCE_SECONDS`, unless this is a
    repetition, after which the trials are lost.

    Args:
        run: its item in the table; None if its start was not recorded.
        planned: its plan.
        pairs: the pairs to measure now, at least one.
        block: their block.
        resources: the stack's resources.
        again: whether lost trials are repeated.

    Raises:
        ServersNotReady: the run has ended.
    """
    servers = _find_servers(run, planned, pairs, resources)
    missing = servers.missing(pairs)
    needed = {place for pair in pairs for place in pair.nodes}
    noted = set() if run is None else needed & run.missing_since.keys()
    if servers.owners and not missing and not noted:
        return servers
    complete = make_servers(planned, resources)
    if not servers.owners or not complete:
        missing = needed  # a server that still answers is about to be deleted with its owner
    seconds = _note_missing(planned.run_id, run, missing, needed, resources)
    losses = _losses(missing, seconds, servers.nodes, servers.there, planned, resources)
    if run is not None and _replace(run, planned, losses.how, block, resources):
        return servers._replace(wait_seconds=WAIT_SECONDS)
    arms = {pair.arm for pair in pairs}
    others = {pair.arm for pair in pairs if not missing.intersection(pair.nodes)}
    is_short = arms == others and not again
    awaited = {
        place
        for place, waited in seconds.items()
        if waited <= (SHORT_PATIENCE_SECONDS if is_short else losses.patience(place))
    }
    if awaited:
        resources.store.runs.update(planned.run_id, phase=_phase(awaited, losses, servers.nodes))
        return servers._replace(wait_seconds=WAIT_SECONDS)
    if not servers.owners:
        # Kubernetes did not let go of the old owner object in time.
        raise ServersNotReady("the run's owner object is still being deleted")
    since = {} if run is None else run.missing_since
    return servers._replace(expected={place: since.get(place, now()) for place in losses.expected})


def _serve(
    planned: PlannedRun,
    places: Mapping[Network, Set[str]],
    addresses: Mapping[Network, Mapping[str, str]],
    owners: Mapping[Network, Owner],
    resources: Resources,
) -> tuple[dict[Network, Mapping[str, str]], bool]:
    """Let the servers in these places be reached through Services, as far as they are there.

    Returns:
        The Services' addresses by place, by network, and whether something was made now.
    """
    served = {
        network: serve(
            owner=owners[network],
            namespace=namespace_of(network, resources.settings),
            addresses={p: at for p, at in addresses[network].items() if p in expected},
            tests=planned.plan.tests,
            cluster=resources.cluster,
        )
        for network, expected in places.items()
    }
    reached = {network: each.addresses for network, each in served.items()}
    return reached, any(each.is_new for each in served.values())


def _is_starting(name: str, nodes: Mapping[str, Json]) -> bool:
    """Whether a node's kubelet says itself that it is not Ready, as it does after it has started.

    The node's pods may look ready: Kubernetes marks them only when the kubelet is silent.
    """
    absent = absence(name, nodes)
    return absent is not None and not absent.is_silent


def _owners(
    run_id: str, networks: Set[Network], resources: Resources
) -> dict[Network, Owner] | None:
    """The run's owner objects by network; None if one is missing or being deleted."""
    settings, cluster = resources.settings, resources.cluster
    owners: dict[Network, Owner] = {}
    for network in networks:
        owner = find_owner(run_id, namespace_of(network, settings), cluster)
        if owner is None or "deletionTimestamp" in owner["metadata"]:
            return None
        owners[network] = Owner(run_id, owner["metadata"]["uid"])
    return owners


def _note_missing(
    run_id: str,
    run: RunRecord | None,
    missing: Set[str],
    looked: Set[str],
    resources: Resources,
) -> dict[str, float]:
    """Record since when places have had no server. Returns for how many seconds, by place.

    Args:
        run_id: the run.
        run: its item; None if its start was not recorded, so that nobody knows.
        missing: the places without a server.
        looked: the places that were looked at; what is recorded of others stays.
        resources: the stack's resources.
    """
    if run is None:
        return dict.fromkeys(missing, math.inf)
    time_now, before = now(), run.missing_since
    since = {place: at for place, at in before.items() if place in missing or place not in looked}
    since |= {place: time_now for place in missing if place not in since}
    if since != before:
        resources.store.runs.update(run_id, missing_since=since)
    return {place: seconds_between(since[place], time_now) for place in missing}


class _Losses(NamedTuple):
    """The nodes that were lost.

    Attributes:
        how: how, of those that another node may replace now, by place.
        expected: the places whose node has ended, and whose node group or pool will launch another.
    """

    how: Mapping[str, str]
    expected: Set[str]

    def patience(self, place: str) -> int:
        """How long to wait for a place without a server, in seconds."""
        return REPLACEMENT_SECONDS if place in self.expected else PATIENCE_SECONDS


def _losses(
    missing: Set[str],
    seconds: Mapping[str, float],
    nodes: Mapping[str, Node],
    there: Mapping[str, Json],
    planned: PlannedRun,
    resources: Resources,
) -> _Losses:
    """Find out which nodes were lost, of the places without a server."""
    facts = planned.nodes | dict(nodes)
    missing_nodes = {place for place in missing if _name_at(place, nodes) not in there}
    silent = {
        place
        for place in missing - missing_nodes
        if not is_ready(there[_name_at(place, nodes)]) and seconds[place] > PATIENCE_SECONDS
    }
    ids = {place: own_id for place in silent if (own_id := facts[place].instance_id)}
    ended_ids = ended(resources.ec2, sorted(ids.values())) if ids else set()
    terminated = {place for place, instance_id in ids.items() if instance_id in ended_ids}
    reasons = dict.fromkeys(missing_nodes, "is gone")
    reasons |= dict.fromkeys(silent, f"was not Ready for {PATIENCE_SECONDS} s")
    reasons |= dict.fromkeys(terminated, "was terminated")
    launched = {p for p in missing_nodes | terminated if facts[p].node_group or facts[p].node_pool}
    return _Losses(reasons, launched)


def _phase(awaited: Set[str], losses: _Losses, nodes: Mapping[str, Node]) -> str:
    """What a run waits for, in words."""
    places, what = awaited & losses.expected, _FOR_ANOTHER
    if not places:
        places, what = awaited, f"{_FOR_SERVERS} on "
    return what + listed(sorted(_name_at(place, nodes) for place in places), most=3)


def _replace(
    run: RunRecord,
    planned: PlannedRun,
    lost: Mapping[str, str],
    block: int,
    resources: Resources,
) -> bool:
    """Put other Ready nodes of the stack's arms in the places of lost ones, where some fit."""
    if not lost:
        return False
    settings, cluster = resources.settings, resources.cluster
    arms = {arm.stack_arm for arm in planned.arms if set(arm.node_names) & lost.keys()}
    candidates = {
        arm.name: placed(
            resources.ec2,
            ready_nodes(cluster, arm, settings.tolerations),
        )
        for arm in settings.arms
        if arm.name in arms
    }
    replacements = choose(lost, candidates, planned.arms, run.replacements, block=block, at=now())
    if not replacements:
        return False
    if resources.store.runs.replace_nodes(run.id, replacements, run.replacements) is not None:
        # The server of the new node has its own time to start.
        since = run.missing_since | {each.place: each.at for each in replacements}
        resources.store.runs.update(run.id, missing_since=since)
    return True


def _name_at(place: str, nodes: Mapping[str, Node]) -> str:
    """The name of the node in a place."""
    return nodes[place].name if place in nodes else place


def _places_by_network(planned: PlannedRun) -> dict[Network, set[str]]:
    """The places that need servers, by the servers' network."""
    places: dict[Network, set[str]] = {}
    if planned.load_nodes:
        places["pod"] = {node.name for node in planned.load_nodes}
    for arm in planned.arms:
        places.setdefault(arm.server_network, set()).update(arm.node_names)
    return places


def _served(planned: PlannedRun) -> dict[Network, set[str]]:
    """The places whose servers are reached through Services, by the servers' network."""
    arms = tuple(arm for arm in planned.arms if arm.via == "service")
    return _places_by_network(planned.model_copy(update={"arms": arms}))


def _by_place(
    by_node: Mapping[str, str], places: Iterable[str], nodes: Mapping[str, Node]
) -> dict[str, str]:
    """Addresses by place, of those by node that are known."""
    at = {place: _name_at(place, nodes) for place in places}
    return {place: by_node[name] for place, name in at.items() if name in by_node}


def _check_nodes(
    late: Set[str],
    nodes: Mapping[str, Node],
    there: Mapping[str, Json],
    planned: PlannedRun,
    resources: Resources,
) -> None:
    """Raise NodesUnavailable if places that were waited for long enough have no Ready node."""
    ready = {name for name, node in there.items() if is_ready(node)}
    lines = []
    for arm in planned.arms:
        now_there = [nodes.get(node.name, node) for node in arm.nodes if node.name in late]
        lost = [node for node in now_there if node.name not in ready]
        if lost:
            groups = sorted({node.node_group for node in lost if node.node_group})
            cluster_name = resources.settings.cluster_name
            reasons = why_lacking(resources.eks, resources.autoscaling, cluster_name, groups)
            of_groups = f" of {named_groups(groups)}" if groups else ""
            lines_of_groups = reasons.lines(f"EKS reports no health issue{of_groups}")
            lines.append(
                f"arm {arm.name}: {', '.join(node.name for node in lost)} not Ready;"
                f" {'; '.join(lines_of_groups)}"
            )
    if lines:
        raise NodesUnavailable("\n".join(lines))
