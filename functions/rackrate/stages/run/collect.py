"""Collect: wait for a series' client pods and store their trials, or write them down as failed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from rackrate.errors import ClusterUnreachable, Throttled
from rackrate.executions.store import Store
from rackrate.measure import cpu_use, manifests, members
from rackrate.measure.cluster import SlowLog
from rackrate.measure.cpu_use import Span
from rackrate.measure.members import Member
from rackrate.measure.networks import namespaces, pods_path
from rackrate.measure.nodes import nodes_of
from rackrate.measure.obstacles import Absence, absence
from rackrate.measure.outputs import Client, Drafts, ReadTrial, client_of, failed, read_output
from rackrate.measure.pods import age_seconds, has_started, is_finished, outcome, started_after
from rackrate.measure.servers import why_waiting
from rackrate.measure.trials import Trial
from rackrate.plan.durations import further_seconds
from rackrate.plan.items import BlockItem, Item, block_items, planned_trials
from rackrate.plan.planned_run import PlannedRun
from rackrate.plan.repetitions import (
    Attempted,
    Partners,
    Tried,
    missing_trials,
    partners,
    repeated_together,
    trials_to_measure,
)
from rackrate.resources import Resources
from rackrate.results.build import RunFailure
from rackrate.stages.stack.bootstrap import ask_to_heal
from rackrate.tools.base import LOG_BYTES
from rackrate.workloads.base import WorkloadTest
from rackrate_contract.arms import Network
from rackrate_contract.document import Document, Json
from rackrate_contract.trials import TrialKey

#: How many requests to the cluster and to AWS run in parallel.
WORKERS = 16
#: How often Collect asks whether the pods that have not finished still can.
GLANCE_SECONDS = 10
#: No more members are asked for their CPU time after so long. It is not worth an item.
_CPU_SECONDS = 20
#: How long Collect waits at most until members have printed what they used to the end.
_CPU_WAIT_SECONDS = 2.0
#: How long after its watch a call begins to read logs. What it leaves is read by the next call.
READ_SECONDS = 60
#: Logs of up to so many bytes are read and parsed in parallel. Larger ones take turns after them,
#: because a parsed log can take more than twenty times its size.
_SMALL_LOG_BYTES = 256 * 1024
#: Pods of one launch that start so far apart show that their nodes' clocks disagree.
_APART_SECONDS = 10.0
#: How long the reading of a small log, and of a large one, may take until it counts as failed.
_SMALL_LOG_SECONDS, _LARGE_LOG_SECONDS = 10.0, 30.0


class Collected(Document):
    """The counts that a call stored, and whether the item is finished."""

    finished: bool = True
    """Is everything stored?"""
    wait_seconds: int = 0
    """When to ask again, if not."""
    access_lost: bool = False
    """Whether the namespace or the rights in it are missing. They have to be recreated, and what is
    missing of the item has to be launched again."""
    measured: int = 0
    """How many trials this call stored as measured."""
    failed: int = 0
    """How many it stored as failed."""
    warm_up: bool
    """Were they the warm-up's, which count for nothing?"""

    def and_those_of(self, other: Collected) -> Collected:
        """This call's counts with those of another part of it."""
        measured, failed = self.measured + other.measured, self.failed + other.failed
        return self.model_copy(update={"measured": measured, "failed": failed})


def collect(
    run_id: str,
    items: Sequence[BlockItem],
    resources: Resources,
    *,
    attempt: int,
    deadline: float,
    watch_seconds: float,
) -> Collected:
    """Watch the client pods of a series, and store their trials when the pods have finished.

    A pod that died, was deleted or exceeded its deadline leaves failed trials with the reason, and
    so does one whose output is no report, or comes too slowly. Trials are stored as they are read,
    and what a call has no time for is left to the next one. What a repetition measured of a trial
    that had a value counts once it measured all of its partners.

    Args:
        run_id: the run.
        items: the series whose pods to collect.
        resources: the stack's resources.
        attempt: the number of the attempt at it.
        deadline: when to give up, in seconds since 1970.
        watch_seconds: how long to watch in this call.

    Raises:
        AccessLost: the namespace or the rights in it are missing again and again.
        ClusterUnreachable, Throttled: some logs could not be read, as when a node does not answer.
            The other trials are stored. The call can be repeated for the rest.
    """
    try:
        return _collect(run_id, items, resources, attempt, deadline, watch_seconds)
    except ClusterUnreachable as error:
        ask_to_heal(run_id, error, resources.store)
        return Collected(finished=False, access_lost=True, warm_up=items[0].warm_up)


def _collect(
    run_id: str,
    items: Sequence[BlockItem],
    resources: Resources,
    attempt: int,
    deadline: float,
    watch_seconds: float,
) -> Collected:
    settings, cluster, store = resources.settings, resources.cluster, resources.store
    first = items[0]
    partners_of = _partners(run_id, items, attempt, store)
    tried = _tried(run_id, items, attempt, store)
    keys = [key for item in items for key in trials_to_measure(item, attempt, partners_of, tried)]
    clients = {client_of(key) for key in keys}
    labels = manifests.selector(manifests.client_labels(run_id, first, attempt))

    planned = store.runs.plan(run_id)
    until = time.time() + watch_seconds + READ_SECONDS
    watched = _watch(items, labels, clients, planned, resources, deadline, watch_seconds)
    if not watched.finished and time.time() < deadline:
        return Collected(finished=False, wait_seconds=1, warm_up=first.warm_up)
    counts = _Reader(items, attempt, planned, watched, until, resources).store(keys, tried)
    if not counts.finished:
        return counts
    if attempt > 1:
        for item in items:
            _let_repeats_count(run_id, item, attempt, partners_of, store)
    for network, left_over in watched.pods.items():
        if left_over:
            cluster.delete_all(pods_path(network, settings), labels)
    _note_start(run_id, [pod for pods in watched.pods.values() for pod in pods], store)
    return counts


def _note_start(run_id: str, pods: Collection[Json], store: Store) -> None:
    """Record how long the pods took to start, which the next series is to wait for.

    Pods are created by the cluster's clock, and start by their nodes'. Warn if those disagree.
    """
    containers = max((len(pod["spec"]["containers"]) for pod in pods), default=1)
    started = started_after(pods) - further_seconds(containers)
    run = store.runs.update(run_id, pods_started_after=max(0.0, started))
    after = {pod["spec"]["nodeName"]: started_after([pod]) for pod in pods if has_started(pod)}
    if run is None or not after or max(after.values()) - min(after.values()) < _APART_SECONDS:
        return
    late, early = max(after, key=after.__getitem__), min(after, key=after.__getitem__)
    text = (
        f"The clocks of {late} and {early} disagree, or pods start much later on {late}: tests that"
        " were to run at the same time may have met others."
    )
    if text not in run.warnings:
        store.runs.update(run_id, warnings=(*run.warnings, text))


#: A trial as it was read, or why it has to be read again; None if there was no time for it, or if
#: its log is large and has to take turns.
type _Outcome = ReadTrial | ClusterUnreachable | Throttled | None


class _Reader:
    """Reads the trials of a series whose pods have finished, or will not.

    Args:
        items: the series.
        attempt: the number of the attempt at it.
        planned: the run's plan.
        watched: the series' pods.
        until: when to leave the rest to the next call, in seconds since 1970.
        resources: the stack's resources.
    """

    def __init__(
        self,
        items: Sequence[BlockItem],
        attempt: int,
        planned: PlannedRun,
        watched: _Watched,
        until: float,
        resources: Resources,
    ) -> None:
        self._run_id, self._first, self._attempt = planned.run_id, items[0], attempt
        self._planned, self._until, self._resources = planned, until, resources
        self._hopeless = watched.hopeless
        self._pod_of = {_client_of(pod): pod for pods in watched.pods.values() for pod in pods}
        self._members = _members(self._first, planned, resources)
        # What a workload answers without one of its members is another workload's figure.
        self._lost_workloads = members.lost_arms(self._members)
        nodes = resources.store.runs.nodes_at(planned.run_id)
        self._drafts = Drafts(items, planned, attempt, nodes)

    def store(self, keys: Sequence[TrialKey], tried: Tried) -> Collected:
        """Read trials, and store them as they are read, the large outputs last and one by one.

        Raises:
            ClusterUnreachable, Throttled: some logs could not be read. The others are stored.
        """
        with ThreadPoolExecutor(WORKERS) as pool:
            outcomes = dict(zip(keys, pool.map(self._read, keys), strict=True))
            counts = self._keep(outcomes.values(), tried, pool)
            for key in [key for key, outcome in outcomes.items() if outcome is None]:
                if (outcome := self._read(key, is_large=True)) is None:
                    break
                outcomes[key] = outcome
                counts = counts.and_those_of(self._keep([outcome], tried, pool))
        if unread := [each for each in outcomes.values() if isinstance(each, Exception)]:
            raise unread[0]
        if None in outcomes.values():
            return counts.model_copy(update={"finished": False, "wait_seconds": 1})
        return counts

    def _keep(
        self, outcomes: Iterable[_Outcome], tried: Tried, pool: ThreadPoolExecutor
    ) -> Collected:
        """Store those trials that were read."""
        reads = [each for each in outcomes if isinstance(each, ReadTrial)]
        with_cpu_use = self._with_cpu_use(reads, pool)
        samples_key = self._put_raw_values(with_cpu_use)
        trials = [read.stored_with(samples_key) for read in with_cpu_use]
        store = self._resources.store
        return _put_tried(self._run_id, self._first, trials, tried, store, pool)

    def _read(self, key: TrialKey, *, is_large: bool = False) -> _Outcome:
        draft = self._drafts.of(key)
        if (why := self._hopeless.get(client_of(key))) is not None:
            return failed(draft, why)
        if time.time() > self._until:
            return None
        try:
            item = self._drafts.item_of(key)
            read = self._read_trial(draft, item, is_large=is_large)
        except SlowLog as error:
            return failed(draft, str(error))
        except Throttled as error:
            return error
        except ClusterUnreachable as error:
            why = self._why_silent(key)
            return error if why is None else failed(draft, why)
        why = self._lost_workloads.get(key.arm)
        return read if read is None or why is None else read.failed(draft, why)

    def _why_silent(self, key: TrialKey) -> str | None:
        """Why a trial's node is silent, if it is: then its logs alone cannot be read."""
        try:
            absent = self._absent.get(self._pod_of[client_of(key)]["spec"]["nodeName"])
        except (ClusterUnreachable, Throttled):
            return None
        return absent.reason if absent is not None and absent.is_silent else None

    @functools.cached_property
    def _absent(self) -> dict[str, Absence]:
        return _absences(self._pod_of.values(), self._planned, self._resources)

    def _read_trial(self, draft: Trial, item: BlockItem, *, is_large: bool) -> ReadTrial | None:
        """Read one test's outcome. Its output is stored exactly as printed before it is parsed.

        Args:
            draft: the trial as it is before it is read.
            item: its item.
            is_large: whether it is known that the log is large. Otherwise a large one is not read.

        Raises:
            ClusterUnreachable, Throttled: the log could not be read.
            SlowLog: it could not be read in time.
        """
        test = next(each for each in item.tests if each.name == draft.test)
        pod = self._pod_of.get(client_of(draft.key))
        container = item.container(test)
        ended = outcome(pod, container)
        if pod is None or not ended.started:
            return read_output(draft, test, None, failure=ended.failure, phase=item.phase)
        failure = ended.failure
        clears = isinstance(test, WorkloadTest) and test.clears and item.phase == "measure"
        if failure is None and clears:
            cleared = outcome(pod, container + manifests.CLEAR)
            if cleared.failure is not None:
                failure = f"clearing what it left {cleared.failure}"
        where = pod["metadata"]["namespace"], pod["metadata"]["name"], container
        most, patience = _SMALL_LOG_BYTES, _SMALL_LOG_SECONDS
        if is_large:
            most, patience = LOG_BYTES, _LARGE_LOG_SECONDS
        log = self._resources.cluster.log(*where, most, seconds=patience)
        if log is not None and not log.is_whole and not is_large:
            return None
        raw_key = None
        if log is not None:
            name = f"raw/{draft.key.id}.{draft.attempt}.txt"
            runs = self._resources.store.runs
            raw_key = runs.put_text(self._run_id, name, log.text, "text/plain")
        times = {"started_at": ended.started_at, "finished_at": ended.finished_at}
        seen = draft.model_copy(update={**times, "raw_key": raw_key})
        return read_output(seen, test, log, failure=failure, phase=item.phase)

    def _with_cpu_use(
        self, reads: Sequence[ReadTrial], pool: ThreadPoolExecutor
    ) -> Sequence[ReadTrial]:
        """Trials with the CPU time of their workload's members, as far as it can be read.

        It is read once for all trials of a series, and for none of the warm-up.
        """
        spans = {read.trial.key: span for read in reads if (span := _span(read.trial)) is not None}
        item, cluster = self._first, self._resources.cluster
        test = item.workload
        if test is None or item.phase != "measure" or item.warm_up or not spans:
            return reads
        of_arm: dict[str, set[Span]] = {}
        for key, span in spans.items():
            of_arm.setdefault(key.arm, set()).add(span)
        late = cpu_use.covered_at(max(span.finished for span in spans.values())) - time.time()
        time.sleep(min(_CPU_WAIT_SECONDS, max(0.0, late)))
        lines = cpu_use.lines_since(min(span.started for span in spans.values()), time.time())
        until = time.monotonic() + _CPU_SECONDS
        container = members.counting(test.name)

        def used_by(member: Member, during: Iterable[Span]) -> dict[Span, float | None]:
            if member.pod is None or time.monotonic() > until:
                return {}
            named = member.pod["metadata"]
            where = named["namespace"], named["name"], container
            try:
                readings = cpu_use.readings(cluster.last_lines(*where, lines, timestamps=True))
            except (ClusterUnreachable, Throttled):
                return {}
            return {span: cpu_use.percent_used(readings, span) for span in during}

        pending = {
            arm: [pool.submit(used_by, member, during) for member in self._members[arm]]
            for arm, during in of_arm.items()
        }

        def completed(read: ReadTrial) -> ReadTrial:
            if (span := spans.get(read.trial.key)) is None:
                return read
            percents = [each.result().get(span) for each in pending[read.trial.arm]]
            return read._replace(trial=read.trial.with_members_cpu(percents))

        return [completed(read) for read in reads]

    def _put_raw_values(self, reads: Iterable[ReadTrial]) -> str | None:
        """Store the raw values of a call's trials in one object, and return its key or None."""
        values = {read.trial.key.id: read.raw for read in reads if not read.raw.is_empty}
        if not values:
            return None
        # The digest names the content, so a repeated call rewrites its object, or adds one with the
        # values that were still missing.
        written = json.dumps({trial: raw.to_json() for trial, raw in values.items()})
        digest = hashlib.sha256(written.encode()).hexdigest()[:8]
        name = (
            f"samples/{self._first.block:04d}-{self._first.round}.{self._attempt}.{digest}.json.gz"
        )
        return self._resources.store.trials.put_raw_values(self._run_id, name, values)


class _Watched(NamedTuple):
    """The client pods of a series, by network, and why some will not finish, by client."""

    pods: Mapping[Network, list[Json]]
    hopeless: Mapping[Client, str]
    finished: bool


def _watch(
    items: Sequence[BlockItem],
    labels: str,
    clients: Collection[Client],
    planned: PlannedRun,
    resources: Resources,
    deadline: float,
    watch_seconds: float,
) -> _Watched:
    """Watch a series' client pods until none that can finish is unfinished, or the time is up."""
    hopeless: dict[Client, str] = {}

    def is_settled(pod: Json) -> bool:
        client = _client_of(pod)
        return client not in clients or client in hopeless or is_finished(pod)

    pods: dict[Network, list[Json]] = {}
    finished = True
    stop = min(deadline, time.time() + watch_seconds)
    for _ in range(max(1, math.ceil(watch_seconds / GLANCE_SECONDS))):
        finished = True
        glance = min(stop, time.time() + GLANCE_SECONDS)
        for network in sorted({pair.client_network for item in items for pair in item.pairs}):
            path, left = pods_path(network, resources.settings), max(0.0, glance - time.time())
            by_name, done = resources.cluster.watch(
                path, labels, is_settled, lambda settled: all(settled.values()), seconds=left
            )
            pods[network], finished = list(by_name.values()), finished and done
        if finished or time.time() >= stop:
            break
        unfinished = [
            pod for of_network in pods.values() for pod in of_network if not is_finished(pod)
        ]
        hopeless |= _hopeless(unfinished, planned, resources)
        lost_workloads = members.lost_arms(_members(items[0], planned, resources))
        of_lost = filter(lambda client: client[0] in lost_workloads, map(_client_of, unfinished))
        hopeless |= {client: lost_workloads[client[0]] for client in of_lost}
    return _Watched(pods, hopeless, finished)


def _absences(
    pods: Iterable[Json], planned: PlannedRun, resources: Resources
) -> dict[str, Absence]:
    """Why nodes of pods can run no pod now, by the nodes' names."""
    nodes = plan_nodes(planned, resources)
    absences = {name: absence(name, nodes) for name in {pod["spec"]["nodeName"] for pod in pods}}
    return {name: each for name, each in absences.items() if each is not None}


def _hopeless(pods: Iterable[Json], planned: PlannedRun, resources: Resources) -> dict[Client, str]:
    """Why unfinished pods will not finish, by client: a node is absent, or they do not start."""
    unfinished = list(pods)
    absent = _absences(unfinished, planned, resources) if unfinished else {}
    reasons: dict[Client, str] = {}
    for pod in unfinished:
        if (of_node := absent.get(pod["spec"]["nodeName"])) is not None:
            reasons[_client_of(pod)] = of_node.reason
        elif not has_started(pod) and age_seconds(pod) > manifests.GRACE_SECONDS:
            details = "".join(f": {reason}" for reason in why_waiting([pod]))
            reasons[_client_of(pod)] = (
                f"was not started within {manifests.GRACE_SECONDS} s{details}"
            )
    return reasons


def _members(item: BlockItem, planned: PlannedRun, resources: Resources) -> dict[str, list[Member]]:
    """The members of an item's workload, by arm; empty for an item without one."""
    if item.workload is None:
        return {}
    nodes, settings = plan_nodes(planned, resources), resources.settings
    return members.read(item.workload, planned, nodes, settings, resources.cluster)


def plan_nodes(planned: PlannedRun, resources: Resources) -> dict[str, Json]:
    """The cluster's nodes that the plan uses as they are now, by name."""
    return {
        node["metadata"]["name"]: node
        for each in planned.plan.node_sets(resources.settings)
        for node in nodes_of(resources.cluster, each)
    }


def _partners(
    run_id: str, items: Sequence[BlockItem], attempt: int, store: Store
) -> Mapping[TrialKey, Partners]:
    """The partners of trials; only of the series' where nothing is repeated with them."""
    if attempt == 1 or items[0].warm_up:
        return partners(items)
    blocks = {item.block for item in items}
    return partners(each for each in block_items(store.runs.items(run_id)) if each.block in blocks)


def _tried(run_id: str, items: Sequence[BlockItem], attempt: int, store: Store) -> Tried:
    if attempt == 1:  # its partners are in the series itself, or measured with it
        return Tried(store.trials.states_of(run_id, planned_trials(items)))
    trials: dict[TrialKey, Attempted] = {}
    repeats: dict[TrialKey, Attempted] = {}
    for block in {item.block for item in items}:
        trials |= store.trials.states(run_id, block)
        repeats |= store.trials.states(run_id, block, "repeat")
    return Tried(trials, repeats)


def _let_repeats_count(
    run_id: str,
    item: BlockItem,
    attempt: int,
    partners_of: Mapping[TrialKey, Partners],
    store: Store,
) -> None:
    """Put what a repetition measured of all partners in place of what was measured before."""
    trials = store.trials.of(run_id, item.block)
    repeats = store.trials.of(run_id, item.block, "repeat")
    for key in repeated_together(item, attempt, partners_of, Tried(trials, repeats)):
        repeat = repeats.get(key)
        trial = trials[key] if repeat is None or repeat.attempt != attempt else repeat
        if trials[key] != (counted := trial.model_copy(update={"repeated_together": True})):
            store.trials.replace(run_id, counted)


def give_up(run_id: str, item: Item, failure: RunFailure, resources: Resources) -> Collected:
    """Write an item's trials down as failed, with the error that prevented their measurement.

    If the cluster can be reached, the item's pods are deleted so that they do not disturb the next
    item.
    """
    with contextlib.suppress(ClusterUnreachable, Throttled):
        labels = manifests.run_labels(run_id, "client")
        for namespace in namespaces(resources.settings):
            path = f"/api/v1/namespaces/{namespace}/pods"
            resources.cluster.delete_all(path, manifests.selector(labels))
    items = block_items([item])
    if not items:
        # The trials keep their stored reason.
        return Collected(warm_up=False)
    store = resources.store
    drafts = Drafts(items, store.runs.plan(run_id), 1, store.runs.nodes_at(run_id))
    stored = store.trials.states_of(run_id, planned_trials(items))
    missing = [key for each in items for key in missing_trials(each, stored)]
    trials = [failed(drafts.of(key), failure.text).trial for key in missing]
    with ThreadPoolExecutor(WORKERS) as pool:
        return _put_all(run_id, items[0], trials, store, pool)


def write_down(
    items: Sequence[BlockItem],
    attempt: int,
    reasons: Mapping[TrialKey, str],
    planned: PlannedRun,
    store: Store,
) -> Collected:
    """Write trials down as failed that could not be started, each with its reason.

    A trial that was measured before keeps its value; only its repetition has failed.
    """
    drafts = Drafts(items, planned, attempt, store.runs.nodes_at(planned.run_id))
    trials = [failed(drafts.of(key), reason).trial for key, reason in reasons.items()]
    tried = _tried(planned.run_id, items, attempt, store)
    with ThreadPoolExecutor(WORKERS) as pool:
        return _put_tried(planned.run_id, items[0], trials, tried, store, pool)


def _client_of(pod: Mapping[str, Any]) -> Client:
    notes = pod["metadata"]["annotations"]
    arm = pod["metadata"]["labels"][manifests.ARM]
    return arm, notes[manifests.CLIENT_NODE], notes[manifests.SERVER_NODE]


def _span(trial: Trial) -> Span | None:
    """When a measured trial ran, as precisely as its members' CPU time is read; None if unknown."""
    if not trial.is_measured or trial.interval is None:
        return None
    seconds = trial.detail("seconds")
    return Span(*trial.interval, None if seconds is None else max(0.1, round(seconds, 1)))


def _put_tried(
    run_id: str,
    item: BlockItem,
    trials: Sequence[Trial],
    tried: Tried,
    store: Store,
    pool: ThreadPoolExecutor,
) -> Collected:
    """Store trials, those that have a value already as their repetitions."""
    again = [trial for trial in trials if not tried.is_lost(trial.key)]
    list(pool.map(lambda trial: store.trials.put_repeat(run_id, trial), again))
    lost = [trial for trial in trials if tried.is_lost(trial.key)]
    return _put_all(run_id, item, lost, store, pool)


def _put_all(
    run_id: str,
    item: BlockItem,
    trials: Sequence[Trial],
    store: Store,
    pool: ThreadPoolExecutor,
) -> Collected:
    """Store trials and count them in the run's item.

    A run that is stopped loses its pods. The trials that this cut are not stored: nothing failed.
    """
    if not all(trial.is_measured for trial in trials):
        run = store.runs.update(run_id)
        if run is not None and (run.torn_down_at is not None or not run.is_running):
            trials = [trial for trial in trials if trial.is_measured]
    replaced = store.trials.put_many(run_id, trials, pool)
    written = [(t, r.before) for t, r in zip(trials, replaced, strict=True) if r.written]
    measured = sum(trial.is_measured for trial, _ in written)
    failed = len(written) - measured
    failed_before = sum(before is not None and not before.is_measured for _, before in written)
    if not item.warm_up:
        store.runs.count_trials(run_id, measured=measured, failed=failed - failed_before)
    return Collected(measured=measured, failed=failed, warm_up=item.warm_up)
