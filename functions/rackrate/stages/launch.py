"""Launch: start the client pods of an item, or of the item that a make-up item repeats."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from rackrate.document import Document, Json
from rackrate.errors import ServersNotReady
from rackrate.measure import manifests
from rackrate.measure.networks import namespace_of, pods_path
from rackrate.measure.servers import addresses_in, owner_of
from rackrate.plan.schedule import (
    BlockItem,
    Item,
    Pair,
    Repetition,
    TrialKey,
    Tried,
    choose_makeup,
    missing_trials,
    traffic_seconds,
    up_to_batch,
)
from rackrate.resources import Resources
from rackrate.stages.take_lease import keep_lease
from rackrate.store import RunRecord, Store
from rackrate.tools import TestBase

#: The collector starts this long before the tests can end, so that its start-up costs no time.
HEAD_START_SECONDS = 4
#: How long after Kubernetes' deadline for a pod the collector gives the pod up.
PATIENCE_SECONDS = 30
#: How many requests to the cluster run in parallel.
WORKERS = 16


class Launched(Document):
    """The pods that were started, for the states that wait and collect."""

    pods: int
    """How many were started; 0 when nothing is missing."""
    item: Item
    """The item they belong to."""
    attempt: int
    """Which attempt at it this is."""
    wait_seconds: int
    """When to start collecting."""
    deadline: int
    """When to give up, in seconds since 1970."""


def launch(run_id: str, item: Item, resources: Resources) -> Launched:
    """Start the client pods of an item, or of the trials that a make-up item repeats.

    Trials that are measured already are not started again, except as partners of lost ones. So the
    call can be repeated.

    Raises:
        NodesBusy: the run does not hold its nodes any more, so another run may measure on them.
        ServersNotReady: a server that the item needs is gone.
    """
    settings, cluster, store = resources.settings, resources.cluster, resources.store
    chosen = _choose(run_id, item, store)
    if chosen is None:
        return Launched(pods=0, item=item, attempt=0, wait_seconds=0, deadline=0)
    target, attempt, wanted = chosen
    run = _announce(run_id, item, target, store)
    patience = manifests.active_deadline_seconds(target.tests) + PATIENCE_SECONDS
    keep_lease(run, store, seconds=patience)
    tests_of = _tests_of(target, wanted)
    addresses = {
        network: addresses_in(run_id, network, settings, cluster)
        for network in {pair.server_network for pair in tests_of}
    }
    owners = {
        network: owner_of(run_id, namespace_of(network, settings), cluster)
        for network in {pair.client_network for pair in tests_of}
    }
    pods: list[tuple[str, Json]] = []
    for pair, tests in tests_of.items():
        address = addresses[pair.server_network].get(pair.server)
        if address is None:
            raise ServersNotReady(f"the server on {pair.server} is gone or not ready")
        pod = manifests.client(
            run_id=run_id,
            owner_uid=owners[pair.client_network]["metadata"]["uid"],
            item=target,
            pair=pair,
            tests=tests,
            attempt=attempt,
            server_address=address,
            image=settings.tool_image,
            tolerations=settings.tolerations,
        )
        pods.append((pods_path(pair.client_network, settings), pod))
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda made: cluster.create(*made), pods))
    longest = max(traffic_seconds(tests) for tests in tests_of.values())
    return Launched(
        pods=len(pods),
        item=target,
        attempt=attempt,
        wait_seconds=max(1, int(longest) - HEAD_START_SECONDS),
        deadline=int(time.time()) + patience,
    )


def _choose(run_id: str, item: Item, store: Store) -> Repetition | None:
    """Choose the trials to measure now; None when none is missing."""
    if isinstance(item, BlockItem):
        missing = missing_trials(item, store.trial_states(run_id, item.block))
        return Repetition(item, 1, missing) if missing else None
    tried = Tried(store.trial_states(run_id), store.repeat_states(run_id))
    items = up_to_batch(store.items(run_id, item.schedule), item.batch)
    return choose_makeup(items, tried)


def _tests_of(item: BlockItem, trials: list[TrialKey]) -> dict[Pair, list[TestBase]]:
    """The tests that each pair has to run, in the item's order, without pairs that have none."""
    wanted = {(key.arm, key.client, key.server, key.test) for key in trials}
    found = {
        pair: [
            test for test in item.tests if (pair.arm, pair.client, pair.server, test.name) in wanted
        ]
        for pair in item.pairs
    }
    return {pair: tests for pair, tests in found.items() if tests}


def _announce(run_id: str, item: Item, target: BlockItem, store: Store) -> RunRecord | None:
    """Record what the run does now. Returns the run's item."""
    if not isinstance(item, BlockItem):
        part = f"{'the ' if target.warm_up else ''}{target.progress}"
        return store.update_run(run_id, phase=f"repeating lost trials of {part}")
    if target.warm_up:
        return store.update_run(run_id, phase=target.progress)
    return store.update_run(run_id, phase=target.progress, block=target.block)
