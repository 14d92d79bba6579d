"""Launch an item's client pods and collect what they measured."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, NamedTuple

from rackrate import manifests, tools
from rackrate.cluster import Cluster
from rackrate.errors import ClusterUnreachable, ServersNotReady, Throttled
from rackrate.networks import namespace_of, namespaces
from rackrate.outcomes import is_finished, may_not_ping, outcome
from rackrate.schedule import (
    PlannedTrial,
    TrialKey,
    choose_makeup,
    missing_trials,
    traffic_seconds,
)
from rackrate.settings import Settings
from rackrate.stages.serving import addresses_in, owner_of
from rackrate.store import Store
from rackrate.tools import Measurement, ParseError, TestBase

Json = dict[str, Any]

#: The collector starts so much before the tests can end, so that its own start costs no time.
HEAD_START_SECONDS = 4
#: How long after Kubernetes' own deadline the collector stops believing in a pod.
PATIENCE_SECONDS = 30
#: Requests to the cluster and to AWS at the same time.
WORKERS = 16
_REASON_LENGTH = 500


def launch(
    run_id: str, item: Mapping[str, Any], *, settings: Settings, cluster: Cluster, store: Store
) -> Json:
    """Starts the client pods of an item, or of the item a make-up repeats.

    A trial that is measured already is not measured again, so a repeated call is harmless.

    Returns:
        pods: how many were started; 0 when nothing is missing.
        item: the item they belong to.
        attempt: which attempt at it this is.
        wait_seconds: when to start collecting.
        deadline: when to give up, in seconds since 1970.

    Raises:
        ServersNotReady: a server the item needs is gone.
    """
    target, stored = _target(run_id, item, store)
    if target is None:
        return {"pods": 0, "item": dict(item), "attempt": 0, "wait_seconds": 0, "deadline": 0}
    _announce(run_id, item, target, store)
    missing = missing_trials(target, stored)
    attempt = 1
    if item["kind"] == "makeup":
        attempt += max(int(stored.get(t.key, {}).get("attempt", 1)) for t in missing)
    tests = [tools.load_test(test) for test in target["tests"]]
    wanted = {trial.key for trial in missing}
    pairs = [
        (pair, chosen)
        for pair in target["pairs"]
        if (chosen := [test for test in tests if _key(target, test, pair) in wanted])
    ]
    addresses = {
        network: addresses_in(run_id, network, settings, cluster)
        for network in {pair["server_network"] for pair, _ in pairs}
    }
    owners = {
        network: owner_of(run_id, namespace_of(network, settings), cluster)
        for network in {pair["client_network"] for pair, _ in pairs}
    }
    pods: list[tuple[str, Json]] = []
    for pair, chosen in pairs:
        address = addresses[pair["server_network"]].get(pair["server"])
        if address is None:
            raise ServersNotReady(f"the server on {pair['server']} is gone or not ready")
        pod = manifests.client(
            run_id=run_id,
            owner_uid=owners[pair["client_network"]]["metadata"]["uid"],
            item=target,
            pair=pair,
            tests=chosen,
            attempt=attempt,
            server_address=address,
            image=settings.tool_image,
        )
        pods.append((_pods_path(pair["client_network"], settings), pod))
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda made: cluster.create(*made), pods))
    longest = max(traffic_seconds(chosen) for _, chosen in pairs)
    patience = manifests.active_deadline_seconds(tests) + PATIENCE_SECONDS
    return {
        "pods": len(pods),
        "item": dict(target),
        "attempt": attempt,
        "wait_seconds": max(1, int(longest) - HEAD_START_SECONDS),
        "deadline": int(time.time()) + patience,
    }


def _target(
    run_id: str, item: Mapping[str, Any], store: Store
) -> tuple[Mapping[str, Any] | None, dict[TrialKey, Json]]:
    """The ordinary item to run now, if any of its trials is missing, and the trials stored."""
    if item["kind"] == "block":
        stored = store.trial_states(run_id, item["block"])
        return (item if missing_trials(item, stored) else None), stored
    stored = store.trial_states(run_id)
    return choose_makeup(store.get_json(run_id, item["schedule"]), stored), stored


def _announce(
    run_id: str, item: Mapping[str, Any], target: Mapping[str, Any], store: Store
) -> None:
    warm_up = target["warm_up"]
    phase = "the warm-up" if warm_up else f"block {target['block']} of {target['blocks']}"
    if target["rounds"] > 1:
        phase += f", round {target['round']} of {target['rounds']}"
    if item["kind"] == "makeup":
        store.update_run(run_id, {"phase": f"repeating lost trials of {phase}"})
    elif warm_up:
        store.update_run(run_id, {"phase": phase.removeprefix("the ")})
    else:
        store.update_run(run_id, {"phase": phase, "block": target["block"]})


def _key(item: Mapping[str, Any], test: TestBase, pair: Mapping[str, str]) -> TrialKey:
    return TrialKey(item["block"], pair["arm"], test.name, pair["client"], pair["server"])


def _pods_path(network: str, settings: Settings) -> str:
    return f"/api/v1/namespaces/{namespace_of(network, settings)}/pods"


def collect(
    run_id: str,
    item: Mapping[str, Any],
    *,
    attempt: int,
    deadline: float,
    watch_seconds: float,
    settings: Settings,
    cluster: Cluster,
    store: Store,
) -> Json:
    """Watches an item's client pods; when they are finished, stores their trials.

    A pod that died, was deleted or overran its deadline leaves failed trials with the reason.

    Args:
        run_id: the run.
        item: the ordinary item whose pods to collect.
        attempt: which attempt at it.
        deadline: when to give up, in seconds since 1970.
        watch_seconds: how long to watch in this call.
        settings: the stack's.
        cluster: the cluster.
        store: the store.

    Returns:
        finished: is everything stored?
        wait_seconds: when to ask again, if not.
        measured: how many trials this call stored as measured.
        failed: how many it stored as failed.
        warm_up: were they the warm-up's, which count for nothing?
    """
    warm_up = bool(item["warm_up"])
    stored = store.trial_states(run_id, item["block"])
    scope = [
        trial
        for trial in missing_trials(item, stored)
        if int(stored.get(trial.key, {}).get("attempt", 0)) < attempt
    ]
    clients = {_client(trial.key) for trial in scope}
    labels = manifests.selector(manifests.client_labels(run_id, item, attempt))

    def settled(pods: Mapping[str, Json]) -> bool:
        return all(is_finished(pod) for pod in pods.values() if _client_of(pod) in clients)

    pods: dict[str, list[Json]] = {}
    finished = True
    stop = min(deadline, time.time() + watch_seconds)
    for network in sorted({pair["client_network"] for pair in item["pairs"]}):
        left = max(0.0, stop - time.time())
        found, done = cluster.watch(_pods_path(network, settings), labels, settled, seconds=left)
        pods[network], finished = list(found.values()), finished and done
    if not finished and time.time() < deadline:
        return {**_nothing(warm_up), "finished": False, "wait_seconds": 1}
    pod_of = {_client_of(pod): pod for found in pods.values() for pod in found}
    about = _About(item, store.get_json(run_id, "plan.json"))
    tests = {test["name"]: tools.load_test(test) for test in item["tests"]}

    def read_one(trial: PlannedTrial) -> Read:
        test, pod = tests[trial.key.test], pod_of.get(_client(trial.key))
        return _read_trial(run_id, trial, test, pod, attempt, cluster, store)

    def store_one(trial: PlannedTrial, read: Read) -> Stored:
        result = {**_head(trial, tests[trial.key.test]), **read.result}
        if read.raw:
            result["samples_key"] = samples_key
        return _put(run_id, trial, {**result, **about(trial), "attempt": attempt}, store)

    with ThreadPoolExecutor(WORKERS) as pool:
        reads = list(pool.map(read_one, scope))
        samples_key = _put_samples(run_id, item, attempt, scope, reads, store)
        counts = _count(run_id, item, list(pool.map(store_one, scope, reads)), store)
    for network, left_over in pods.items():
        if left_over:
            cluster.delete_all(_pods_path(network, settings), labels)
    return {**_nothing(warm_up), **counts}


def give_up(
    run_id: str,
    item: Mapping[str, Any],
    failure: Mapping[str, str],
    *,
    settings: Settings,
    connect: Callable[[], Cluster],
    store: Store,
) -> Json:
    """Writes an item's trials down as failed, with the error that kept them from being measured.

    Its pods are removed if the cluster can be reached, lest they disturb the next item.
    """
    with contextlib.suppress(ClusterUnreachable, Throttled):
        labels = {manifests.RUN: manifests.run_label(run_id), manifests.ROLE: "client"}
        cluster = connect()
        for namespace in namespaces(settings):
            cluster.delete_all(f"/api/v1/namespaces/{namespace}/pods", manifests.selector(labels))
    if item["kind"] == "makeup":
        # The trials keep the reason they have.
        return _nothing(warm_up=False)
    reason = f"{failure.get('Error', 'unknown error')}: {failure.get('Cause', '')}"[:_REASON_LENGTH]
    stored = store.trial_states(run_id, item["block"])
    about = _About(item, store.get_json(run_id, "plan.json"))
    tests = {test["name"]: tools.load_test(test) for test in item["tests"]}
    changes = [
        _put(
            run_id,
            trial,
            {
                **_head(trial, tests[trial.key.test]),
                **about(trial),
                "status": "failed",
                "reason": reason,
                "attempt": 1,
            },
            store,
        )
        for trial in missing_trials(item, stored)
    ]
    counts = _count(run_id, item, changes, store)
    return {**_nothing(item["warm_up"]), **counts}


def _nothing(warm_up: bool) -> Json:
    """The answer of a call that ended and stored nothing."""
    return {"finished": True, "wait_seconds": 0, "measured": 0, "failed": 0, "warm_up": warm_up}


def _client(key: TrialKey) -> tuple[str, str, str]:
    """What names a client pod among those of an attempt at an item."""
    return key.arm, key.client, key.server


def _client_of(pod: Mapping[str, Any]) -> tuple[str, str, str]:
    notes = pod["metadata"]["annotations"]
    arm = pod["metadata"]["labels"][manifests.ARM]
    return arm, notes[manifests.CLIENT_NODE], notes[manifests.SERVER_NODE]


def _head(trial: PlannedTrial, test: TestBase) -> Json:
    return {
        "round": trial.round,
        "tool": test.tool,
        "metric": test.primary.name,
        "unit": test.primary.unit,
    }


class Read(NamedTuple):
    """What was read of a trial: what goes into the table, and raw values and series."""

    result: Json
    raw: Json


def _read_trial(
    run_id: str,
    trial: PlannedTrial,
    test: TestBase,
    pod: Mapping[str, Any] | None,
    attempt: int,
    cluster: Cluster,
    store: Store,
) -> Read:
    """One test's outcome; whatever it printed is stored exactly as printed, before it is parsed."""
    ended = outcome(pod, test.name)
    result: Json = {}
    for name in ("started_at", "finished_at"):
        if (moment := getattr(ended, name)) is not None:
            result[name] = moment
    text = None
    if pod is not None and ended.started:
        where = pod["metadata"]
        text = cluster.log(where["namespace"], where["name"], test.name)
    if text is not None:
        name = f"raw/{trial.key.id}.{attempt}.txt"
        result["raw_key"] = store.put_text(run_id, name, text, "text/plain")
    failure, measurement = ended.failure, None
    try:
        measurement = tools.parse(test, text or "")
    except ParseError as error:
        # The tool's own words say more than an exit code, if there are any.
        words = (may_not_ping(text) or str(error)) if text else None
        failure = "; ".join(filter(None, (failure, words))) or str(error)
    if failure is not None or measurement is None:
        return Read({**result, "status": "failed", "reason": (failure or "")[:_REASON_LENGTH]}, {})
    return Read({**result, **_measured(test, measurement)}, _raw(measurement))


def _measured(test: TestBase, measurement: Measurement) -> Json:
    found: Json = {
        "status": "measured",
        "value": measurement.values[test.primary.name],
        "values": dict(measurement.values),
        "samples": {kind: len(values) for kind, values in measurement.samples.items()},
        "details": dict(measurement.details),
    }
    if measurement.version is not None:
        found["tool_version"] = measurement.version
    return found


def _raw(measurement: Measurement) -> Json:
    """Raw values and series, empty when a trial has neither."""
    if not measurement.samples and not measurement.series:
        return {}
    return {
        "samples": {kind: list(values) for kind, values in measurement.samples.items()},
        "series": [asdict(interval) for interval in measurement.series],
    }


def _put_samples(
    run_id: str,
    item: Mapping[str, Any],
    attempt: int,
    scope: Sequence[PlannedTrial],
    reads: Sequence[Read],
    store: Store,
) -> str | None:
    """Stores the raw values of all trials of a call in one object; None when there are none."""
    value = {trial.key.id: read.raw for trial, read in zip(scope, reads, strict=True) if read.raw}
    if not value:
        return None
    # A call that is repeated writes what it wrote before, or what was still missing.
    digest = hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
    name = f"samples/{item['block']:04d}-{item['round']}.{attempt}.{digest}.json.gz"
    return store.put_samples(run_id, name, value)


class Stored(NamedTuple):
    """What storing a trial changed, each 0 or 1."""

    measured: int = 0
    failed: int = 0
    failed_before: int = 0


def _put(run_id: str, trial: PlannedTrial, value: Json, store: Store) -> Stored:
    """Stores a trial."""
    before = store.put_trial(run_id, trial.key, value)
    if before is None:
        return Stored()
    return Stored(
        measured=int(value["status"] == "measured"),
        failed=int(value["status"] == "failed"),
        failed_before=int(before.get("status") == "failed"),
    )


def _count(
    run_id: str, item: Mapping[str, Any], changes: Sequence[Stored], store: Store
) -> dict[str, int]:
    """Counts trials in the run's item; returns how many were stored as measured and as failed."""
    measured = sum(change.measured for change in changes)
    failed = sum(change.failed for change in changes)
    repaired = sum(change.failed_before for change in changes)
    if not item["warm_up"]:
        added = {"trials_measured": measured, "trials_failed": failed - repaired}
        store.update_run(run_id, {}, added)
    return {"measured": measured, "failed": failed}


class _About:
    """What trials carry of their arm and their two nodes, as the plan noted it."""

    def __init__(self, item: Mapping[str, Any], stored_plan: Json) -> None:
        self._item = item
        self._placements = {arm["name"]: arm["placement"] for arm in stored_plan["arms"]}
        self._nodes = {node["name"]: node for arm in stored_plan["arms"] for node in arm["nodes"]}

    def __call__(self, trial: PlannedTrial) -> Json:
        return {
            "placement": self._placements[trial.key.arm],
            "client_network": trial.client_network,
            "server_network": trial.server_network,
            "client_node": self._node(trial.key.client),
            "server_node": self._node(trial.key.server),
            **({"warm_up": True} if self._item["warm_up"] else {}),
        }

    def _node(self, name: str) -> Json:
        return {k: v for k, v in self._nodes[name].items() if v not in (None, [])}
