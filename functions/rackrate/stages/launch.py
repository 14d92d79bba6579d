"""Launch: start the client pods of an item, or of the item that a make-up item repeats."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from rackrate.document import Document, Json
from rackrate.errors import ServersNotReady
from rackrate.measure import manifests
from rackrate.measure.networks import namespace_of, pods_path
from rackrate.measure.servers import addresses_in, owner_of
from rackrate.measure.trials import TrialState
from rackrate.plan.schedule import (
    BlockItem,
    Item,
    Pair,
    TrialKey,
    choose_makeup,
    missing_trials,
    most_attempts,
    traffic_seconds,
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
    """Start the client pods of an item, or of the item that a make-up item repeats.

    Trials that are measured already are not started again, so the call can be repeated.

    Raises:
        NodesBusy: the run does not hold its nodes any more, so another run may measure on them.
        ServersNotReady: a server that the item needs is gone.
    """
    settings, cluster, store = resources.settings, resources.cluster, resources.store
    chosen = _choose(run_id, item, store)
    if chosen is None:
        return Launched(pods=0, item=item, attempt=0, wait_seconds=0, deadline=0)
    target, stored = chosen
    run = _announce(run_id, item, target, store)
    patience = manifests.active_deadline_seconds(target.tests) + PATIENCE_SECONDS
    keep_lease(run, store, seconds=patience)
    missing = missing_trials(target, stored)
    attempt = 1 if isinstance(item, BlockItem) else 1 + most_attempts(missing, stored)
    tests_of = _tests_of(target, missing)
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


class _Chosen(NamedTuple):
    """The ordinary item to run now, and the stored trials."""

    target: BlockItem
    stored: Mapping[TrialKey, TrialState]


def _choose(run_id: str, item: Item, store: Store) -> _Chosen | None:
    """Choose the ordinary item to run now; None when no trial is missing."""
    if isinstance(item, BlockItem):
        stored = store.trial_states(run_id, item.block)
        return _Chosen(item, stored) if missing_trials(item, stored) else None
    stored = store.trial_states(run_id)
    target = choose_makeup(store.items(run_id, item.schedule), stored)
    return None if target is None else _Chosen(target, stored)


def _tests_of(item: BlockItem, missing: list[TrialKey]) -> dict[Pair, list[TestBase]]:
    """The tests that each pair has to run, in the item's order, without pairs that have none."""
    wanted = {(key.arm, key.client, key.server, key.test) for key in missing}
    found = {
        pair: [
            test for test in item.tests if (pair.arm, pair.client, pair.server, test.name) in wanted
        ]
        for pair in item.pairs
    }
    return {pair: tests for pair, tests in found.items() if tests}


def _announce(run_id: str, item: Item, target: BlockItem, store: Store) -> RunRecord | None:
    """Record what the run does now. Returns the run's item."""
    phase = "the warm-up" if target.warm_up else f"block {target.block} of {target.blocks}"
    if target.rounds > 1:
        phase += f", round {target.round} of {target.rounds}"
    if not isinstance(item, BlockItem):
        return store.update_run(run_id, phase=f"repeating lost trials of {phase}")
    if target.warm_up:
        return store.update_run(run_id, phase=phase.removeprefix("the "))
    return store.update_run(run_id, phase=phase, block=target.block)
