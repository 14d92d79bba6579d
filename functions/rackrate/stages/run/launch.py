"""Launch: start the client pods of a series of items, or of those that a make-up item repeats.

Pairs that cannot be measured now are left out, and their trials are written down as failed. When no
verdict can be had any more, the run gives up: it records why, and starts nothing more.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from rackrate.errors import AdmissionRefused, ClusterUnreachable
from rackrate.executions.store import Store
from rackrate.measure import manifests, members
from rackrate.measure.networks import pods_path
from rackrate.measure.obstacles import (
    QUOTA_WAIT_SECONDS,
    QUOTA_WAITS,
    REFUSED_ITEMS,
    Obstacle,
    hopeless,
    lost_arms,
    obstacle,
    of_a_quota,
    reasons_of,
)
from rackrate.measure.starts import Start, agreed, agreed_starts
from rackrate.plan.durations import lead_seconds, series_seconds, traffic_seconds
from rackrate.plan.items import (
    BlockItem,
    Item,
    MakeupItem,
    Pair,
    block_items,
    planned_trials,
    up_to_batch,
)
from rackrate.plan.planned_run import PlannedRun
from rackrate.plan.repetitions import (
    Repetition,
    Tried,
    choose_makeup,
    losses_beyond_repair,
    missing_trials,
    partners,
)
from rackrate.plan.series import progress
from rackrate.resources import Resources
from rackrate.stages.execution.take_lease import keep_lease
from rackrate.stages.run.await_servers import WAIT_SECONDS, Servers, present_servers
from rackrate.stages.run.collect import write_down
from rackrate.stages.stack.bootstrap import ask_to_heal
from rackrate.times import now
from rackrate.tools.base import TestBase
from rackrate.verdict import wording
from rackrate_contract.document import Document, Json
from rackrate_contract.executions import GaveUp, RunRecord
from rackrate_contract.trials import TrialKey

#: The collector starts this long before the tests can end, so that its start-up costs no time.
HEAD_START_SECONDS = 4
#: How long after Kubernetes' deadline for a pod the collector gives the pod up.
PATIENCE_SECONDS = 30
#: How many requests to the cluster run in parallel.
WORKERS = 16


class Launched(Document):
    """The pods that were started, for the states that wait and collect."""

    ready: bool = True
    """Whether the item's servers were there; otherwise nothing was started, and launch is to be
    asked again after the wait."""
    access_lost: bool = False
    """Whether the namespace or the rights in it are missing and have to be recreated first."""
    pods: int = 0
    """How many were started; 0 when nothing is missing."""
    repeated: tuple[BlockItem, ...] | None = None
    """The items to which they belong, if a make-up item repeats them. Ordinary items are in the
    execution's input already, and a state has room for 600 pairs with a third to spare."""
    attempt: int = 0
    """Which attempt at it this is."""
    wait_seconds: int = 0
    """When to start collecting, or when to ask again."""
    deadline: int = 0
    """When to give up, in seconds since 1970."""
    gave_up: GaveUp | None = None
    """Why the run measures no more once these pods have ended, if it has given up."""


def launch(run_id: str, item: Item, resources: Resources) -> Launched:
    """Start the client pods of a series, or of the trials that a make-up item repeats.

    Trials that were tried in this attempt already are not started again. So the call can be
    repeated. Pairs that cannot be measured now are left out. Their trials fail with the reason, and
    a make-up item may repeat them. A run that has given up starts nothing, and its map ends.

    Raises:
        AccessLost: the namespace or the rights in it are missing again and again.
        NodesBusy: the run does not hold its nodes any more, so another run may measure on them.
    """
    try:
        return _launch(run_id, item, resources)
    except ClusterUnreachable as error:
        ask_to_heal(run_id, error, resources.store)
        return Launched(ready=False, access_lost=True)


def _launch(run_id: str, item: Item, resources: Resources) -> Launched:
    """Choose the trials to measure now, and start their pods if the run goes on and can."""
    store = resources.store
    run = store.runs.update(run_id)
    over = None
    if run is not None and (over := run.gave_up) is None:
        over = _give_up(run_id, _too_many_lost(run, item, store), store)
    if over is not None:
        return Launched(gave_up=over)
    chosen = _choose(run_id, item, store)
    if chosen is None:
        return Launched()
    target = chosen.items[0]
    needed = _tests_of(chosen.items, chosen.trials)
    started_after = None if run is None else run.pods_started_after
    lead = lead_seconds(len(needed), max(map(len, needed.values())), started_after)
    deadline = round(1.5 * series_seconds(chosen.items) + lead) + manifests.GRACE_SECONDS
    keep_lease(run, store, seconds=deadline + PATIENCE_SECONDS)
    planned = store.runs.plan(run_id)
    again = isinstance(item, MakeupItem)
    servers = present_servers(run, planned, needed, target.block, resources, again=again)
    if servers.wait_seconds:
        return Launched(ready=False, wait_seconds=servers.wait_seconds)
    workload = _workload(target, planned, servers.there, resources)
    if workload.waits:
        return Launched(ready=False, wait_seconds=WAIT_SECONDS)
    # Not before, because each question would hide what is waited for.
    run = _announce(run_id, item, chosen.items, store)
    launch = _Launch(run, chosen, planned, servers, workload, lead, deadline, resources)
    launched = launch.start()
    if not (again and launched.pods):
        return launched
    return launched.model_copy(update={"repeated": tuple(chosen.items)})


@dataclass(frozen=True)
class _Launch:
    """The launch of a series whose servers are ready.

    Attributes:
        run: the run's item in the table; None if its start was not recorded.
        chosen: the trials to measure now.
        planned: the run's plan.
        servers: the servers.
        workload: the item's workload.
        lead_seconds: how long its pods may take to start, where tests start at agreed times.
        deadline_seconds: how long after its start a pod is ended.
        resources: the stack's resources.
    """

    run: RunRecord | None
    chosen: Repetition
    planned: PlannedRun
    servers: Servers
    workload: _Workload
    lead_seconds: float
    deadline_seconds: int
    resources: Resources

    def start(self) -> Launched:
        """Start the pods of the pairs that can be measured now, and write down the others."""
        store, (items, attempt, trials) = self.resources.store, self.chosen
        obstacles = self._obstacles(_tests_of(items, trials))
        left_out = {pair: each for pair, each in obstacles.items() if each is not None}
        reasons = _reasons(trials, left_out)
        if reasons and attempt > 1:
            reasons |= _without_partners(self.planned.run_id, items, trials, reasons, store)
        tests_of = _tests_of(items, [key for key in trials if key not in reasons])
        starts: dict[str, Start] = {}
        if items[0].has_agreed_starts:
            running = set().union(*tests_of.values())
            starts = agreed_starts(items, running, time.time() + self.lead_seconds)
        refused = self._create(tests_of, starts)
        if refused is None:
            return Launched(ready=False, wait_seconds=WAIT_SECONDS)
        if self.run and _waits_for_quota(self.run, [*refused.values()], len(tests_of), store):
            return Launched(ready=False, wait_seconds=QUOTA_WAIT_SECONDS)
        reasons |= _reasons(trials, refused)
        if reasons:
            write_down(items, attempt, reasons, self.planned, store)
        started = [tests for pair, tests in tests_of.items() if pair not in refused]
        over = self._end_if_hopeless(bool(left_out), [*refused.values()], len(started))
        if not started:
            return Launched(gave_up=over)
        longest = max(traffic_seconds(tests.values(), items[0].phase) for tests in started)
        if starts:
            ends = (
                starts[name].at / 1e3 + test.expected_seconds
                for tests in started
                for name, test in tests.items()
            )
            longest = max(ends) - time.time()
        return Launched(
            pods=len(started),
            attempt=attempt,
            wait_seconds=max(1, int(longest) - HEAD_START_SECONDS),
            deadline=int(time.time()) + self.deadline_seconds + PATIENCE_SECONDS,
            gave_up=over,
        )

    def _obstacles(self, pairs: Iterable[Pair]) -> dict[Pair, Obstacle | None]:
        """What keeps each pair from being measured now, its workload included."""
        return {
            pair: self.workload.lost.get(pair.arm) or each
            for pair, each in self._obstacles_of_nodes(pairs).items()
        }

    def _obstacles_of_nodes(self, pairs: Iterable[Pair]) -> dict[Pair, Obstacle | None]:
        nodes, addresses = self.servers.by_place, self.servers.addresses
        return {
            pair: obstacle(pair, nodes, addresses[pair.server_network], self.servers.expected)
            for pair in pairs
        }

    def _create(
        self, tests_of: Mapping[Pair, Mapping[str, TestBase]], starts: Mapping[str, Start]
    ) -> dict[Pair, Obstacle] | None:
        """Create the pods.

        Returns:
            Why pods were refused, by pair. None if a call that crashed has created some for other
            starts, which are deleted, because their tests would meet.
        """
        settings, cluster, servers = self.resources.settings, self.resources.cluster, self.servers
        clients = manifests.Clients(
            self.chosen.items[0],
            self.chosen.attempt,
            settings.tool_image,
            settings.tolerations,
            starts,
            self.deadline_seconds,
        )

        outdated: list[Pair] = []

        def create(pair: Pair) -> Obstacle | None:
            pod = clients.pod(
                pair,
                tests_of[pair],
                owner=servers.owners[pair.client_network],
                node=servers.node_at(pair.client),
                server_address=servers.address_for(pair),
                members=self.workload.addresses.get(pair.arm, ()),
            )
            try:
                created = cluster.create(pods_path(pair.client_network, settings), pod)
                if agreed(created) != agreed(pod):
                    outdated.append(pair)
            except AdmissionRefused as error:
                # Without the pod's name, so that equal reasons are reported once.
                why = str(error).removeprefix(f'pods "{pod["metadata"]["name"]}" is forbidden: ')
                return Obstacle("AdmissionRefused", f"the client pod was refused: {why}")
            return None

        with ThreadPoolExecutor(WORKERS) as pool:
            outcomes = dict(zip(tests_of, pool.map(create, tests_of), strict=True))
        labels = manifests.client_labels(self.planned.run_id, clients.item, clients.attempt)
        for network in {pair.client_network for pair in outdated}:
            cluster.delete_all(pods_path(network, settings), manifests.selector(labels))
        return None if outdated else {pair: each for pair, each in outcomes.items() if each}

    def _end_if_hopeless(
        self, are_left_out: bool, refused: Sequence[Obstacle], started: int
    ) -> GaveUp | None:
        """Record why the run measures no more, if no verdict can be had any more."""
        run, store = self.run, self.resources.store
        if run is None:
            return None
        pairs: Collection[Pair] = ()
        if are_left_out or run.lost_arms:
            pairs = _all_pairs(self.planned.run_id, self.chosen.items[0], store)
        over = _judge(run, self.planned, self._obstacles_of_nodes(pairs), store)
        over = _refused(run, refused, started, store) or over
        return _give_up(self.planned.run_id, over, store)


class _Workload(NamedTuple):
    """An item's workload as it is now; empty for an item without one.

    Attributes:
        addresses: the IP addresses of its members by arm, where all are ready.
        lost: why it cannot be measured, by arm.
        waits: whether a member is not ready yet.
    """

    addresses: Mapping[str, Sequence[str]] = {}
    lost: Mapping[str, Obstacle] = {}
    waits: bool = False


def _workload(
    item: BlockItem,
    planned: PlannedRun,
    nodes: Mapping[str, Json],
    resources: Resources,
) -> _Workload:
    """Find the members of an item's workload, and whether it has its data."""
    test = item.workload
    if test is None:
        return _Workload()
    members_of = members.read(test, planned, nodes, resources.settings, resources.cluster)
    lost = members.lost_arms(members_of)
    if test.has_data and item.phase == "measure":
        lost = _without_data(planned.run_id, test.name, resources.store) | lost
    there = {arm: of for arm, of in members_of.items() if arm not in lost}
    return _Workload(
        {arm: [each.address or "" for each in of] for arm, of in there.items()},
        {arm: Obstacle("ServersNotReady", why) for arm, why in lost.items()},
        any(each.waits for of in there.values() for each in of),
    )


def _without_data(run_id: str, test: str, store: Store) -> dict[str, str]:
    """Why the data of a workload are not loaded, by arm."""
    stored = store.trials.states(run_id, 0)
    return {
        key.arm: f"its data were not loaded: {state.reason}"
        for key, state in stored.items()
        if key.test == test and not state.is_measured
    }


def _choose(run_id: str, item: Item, store: Store) -> Repetition | None:
    """Choose the trials to measure now; None when none is missing."""
    if not isinstance(item, MakeupItem):
        ordinary = block_items([item])
        stored = store.trials.states_of(run_id, planned_trials(ordinary))
        # What this attempt has lost already is left to the make-up items.
        missing = [
            key for each in ordinary for key in missing_trials(each, stored) if key not in stored
        ]
        return Repetition(ordinary, 1, missing) if missing else None
    tried = Tried(store.trials.states(run_id), store.trials.states(run_id, kind="repeat"))
    items = up_to_batch(store.runs.items(run_id, item.schedule), item.batch)
    return choose_makeup(items, tried)


def _tests_of(
    items: Iterable[BlockItem], trials: Iterable[TrialKey]
) -> dict[Pair, dict[str, TestBase]]:
    """The tests that each pair has to run, in order, by container, without pairs that have none."""
    requested = set(trials)
    by_pair: dict[Pair, dict[str, TestBase]] = {}
    for item in items:
        for pair in item.pairs:
            for container, test in item.containers.items():
                key = TrialKey(item.block, pair.arm, test.name, pair.client, pair.server)
                if key in requested:
                    by_pair.setdefault(pair, {})[container] = test
    return by_pair


def _announce(
    run_id: str, item: Item, items: Sequence[BlockItem], store: Store
) -> RunRecord | None:
    """Record what the run does now. Returns the run's item."""
    first, last = items[0], items[-1]
    if isinstance(item, MakeupItem):
        part = f"{'the ' if first.warm_up else ''}{progress(items)}"
        return store.runs.update(run_id, phase=f"repeating lost trials of {part}")
    if first.warm_up:
        return store.runs.update(run_id, phase=first.progress)
    return store.runs.update(run_id, phase=item.progress, block=first.block, last_block=last.block)


def _reasons(keys: Iterable[TrialKey], obstacles: Mapping[Pair, Obstacle]) -> dict[TrialKey, str]:
    """Why trials cannot be measured, of those whose pair has an obstacle."""
    of = {(pair.arm, pair.client, pair.server): each.reason for pair, each in obstacles.items()}
    return {
        key: of[key.arm, key.client, key.server]
        for key in keys
        if (key.arm, key.client, key.server) in of
    }


def _without_partners(
    run_id: str,
    series: Sequence[BlockItem],
    requested: Iterable[TrialKey],
    reasons: Mapping[TrialKey, str],
    store: Store,
) -> dict[TrialKey, str]:
    """The trials with a value that need no repetition, because a partner cannot be repeated now."""
    blocks = {item.block for item in series}
    items = [each for each in block_items(store.runs.items(run_id)) if each.block in blocks]
    partners_of = partners(series if series[0].warm_up else items)
    stored = {key: state for n in blocks for key, state in store.trials.states(run_id, n).items()}
    return {
        key: f"its partner cannot be repeated: {reasons[partner]}"
        for key in requested
        if key not in reasons and key in stored and stored[key].is_measured
        for partner in partners_of[key]
        if partner in reasons
    }


def _all_pairs(run_id: str, item: BlockItem, store: Store) -> set[Pair]:
    """Every pair that the run measures."""
    name = "warm_up.json" if item.warm_up else "schedule.json"
    return {pair for each in block_items(store.runs.items(run_id, name)) for pair in each.pairs}


# -- giving up


def _too_many_lost(run: RunRecord, item: Item, store: Store) -> GaveUp | None:
    """Why the run ends if more trials are lost for good than its plan tolerates."""
    if item.batch == 0 or not run.trials_failed:
        return None
    planned_run = store.runs.plan(run.id)
    tolerated = planned_run.plan.tolerated_loss
    if run.trials_failed <= tolerated * run.trials_planned:
        return None
    items = store.runs.items(run.id)
    stored = store.trials.states(run.id)
    tried = Tried(stored, store.trials.states(run.id, kind="repeat"))
    lost, planned = losses_beyond_repair(items, item, tried), len(planned_trials(items))
    if lost <= tolerated * planned:
        return None
    causes = wording.losses(
        ((key, state) for key, state in stored.items() if key.block and not state.is_measured),
        planned_run.arms,
    )
    most = "".join(f"; most often {cause.of_trials}" for cause in causes[:1])
    return GaveUp(
        error="TrialsLost",
        message=f"at least {lost} of {planned} trials are lost for good, and the plan tolerates"
        f" {tolerated:.0%}{most}",
    )


def _judge(
    run: RunRecord, planned: PlannedRun, obstacles: Mapping[Pair, Obstacle | None], store: Store
) -> GaveUp | None:
    """Record the arms that cannot be measured now. Returns why the run ends, if it does."""
    time = now()
    lost = lost_arms(obstacles, run.lost_arms, time)
    if lost != run.lost_arms:
        store.runs.update(run.id, lost_arms=lost)
    return hopeless(obstacles, lost, planned.plan.baseline, time)


def _waits_for_quota(
    run: RunRecord, refused: Sequence[Obstacle], requested: int, store: Store
) -> bool:
    """Whether to ask again later, because a quota let no pod in. Counts how often in a row."""
    if not refused or len(refused) < requested:
        if run.quota_waits:
            store.runs.update(run.id, quota_waits=0)
        return False
    if not of_a_quota(refused) or run.quota_waits >= QUOTA_WAITS:
        return False
    phase = f"waiting for room in the quota: {reasons_of(refused)}"
    store.runs.update(run.id, phase=phase, quota_waits=run.quota_waits + 1)
    return True


def _refused(
    run: RunRecord, refused: Sequence[Obstacle], started: int, store: Store
) -> GaveUp | None:
    """Count items whose pods were all refused. Returns why the run ends, if it does."""
    items = run.refused_items + 1 if refused and not started else 0
    if items != run.refused_items:
        store.runs.update(run.id, refused_items=items)
    if items < REFUSED_ITEMS:
        return None
    message = f"no client pod of {items} items in a row was let in: {reasons_of(refused)}"
    return GaveUp(error="AdmissionRefused", message=message)


def _give_up(run_id: str, over: GaveUp | None, store: Store) -> GaveUp | None:
    """Record why the run measures no more, if it gives up. Returns the reason."""
    if over is not None:
        store.runs.update(run_id, phase=f"giving up: {over.message}", gave_up=over.to_json())
    return over
