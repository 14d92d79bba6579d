"""Launch an item's client pods and collect what they measured."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from rackrate import manifests, tools
from rackrate.cluster import Cluster
from rackrate.errors import ClusterUnreachable, ServersNotReady, Throttled
from rackrate.outcomes import is_finished, outcome
from rackrate.schedule import (
    PlannedTrial,
    TrialKey,
    choose_makeup,
    missing_trials,
    traffic_seconds,
)
from rackrate.settings import Settings
from rackrate.stages.serving import server_addresses
from rackrate.store import Store
from rackrate.tools import ParseError, TestBase

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
    base = f"/api/v1/namespaces/{settings.namespace}"
    labels = {manifests.RUN: manifests.run_label(run_id), manifests.ROLE: "server"}
    addresses = server_addresses(cluster.list(f"{base}/pods", manifests.selector(labels)))
    owner = cluster.get(f"{base}/configmaps/{manifests.owner_name(run_id)}")
    if owner is None:
        raise ServersNotReady("the run's owner object was deleted, and its servers with it")
    wanted = {trial.key for trial in missing}
    pods: list[Json] = []
    longest = 0.0
    for pair in target["pairs"]:
        chosen = [t for t in tests if _key(target, t, pair) in wanted]
        if not chosen:
            continue
        if pair["server"] not in addresses:
            raise ServersNotReady(f"the server on {pair['server']} is gone or not ready")
        longest = max(longest, traffic_seconds(chosen))
        pods.append(
            manifests.client(
                run_id=run_id,
                owner_uid=owner["metadata"]["uid"],
                item=target,
                pair=pair,
                tests=chosen,
                attempt=attempt,
                server_address=addresses[pair["server"]],
                image=settings.tool_image,
            )
        )
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda pod: cluster.create(f"{base}/pods", pod), pods))
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
    return choose_makeup(store.get_json(run_id, "schedule.json"), stored), stored


def _announce(
    run_id: str, item: Mapping[str, Any], target: Mapping[str, Any], store: Store
) -> None:
    phase = f"block {target['block']} of {target['blocks']}"
    if target["rounds"] > 1:
        phase += f", round {target['round']} of {target['rounds']}"
    if item["kind"] == "makeup":
        store.update_run(run_id, {"phase": f"repeating lost trials of {phase}"})
    else:
        store.update_run(run_id, {"phase": phase, "block": target["block"]})


def _key(item: Mapping[str, Any], test: TestBase, pair: Mapping[str, str]) -> TrialKey:
    return TrialKey(item["block"], test.name, pair["client"], pair["server"])


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
    """
    stored = store.trial_states(run_id, item["block"])
    scope = [
        trial
        for trial in missing_trials(item, stored)
        if int(stored.get(trial.key, {}).get("attempt", 0)) < attempt
    ]
    clients = {(trial.key.client, trial.key.server) for trial in scope}
    path = f"/api/v1/namespaces/{settings.namespace}/pods"
    labels = manifests.selector(manifests.client_labels(run_id, item, attempt))

    def settled(pods: Mapping[str, Json]) -> bool:
        return all(is_finished(pod) for pod in pods.values() if _pair(pod) in clients)

    left = max(0.0, deadline - time.time())
    pods, finished = cluster.watch(path, labels, settled, seconds=min(watch_seconds, left))
    if not finished and time.time() < deadline:
        return {"finished": False, "wait_seconds": 1, "measured": 0, "failed": 0}
    pod_of = {_pair(pod): pod for pod in pods.values()}
    facts = _facts(store.get_json(run_id, "plan.json"))
    tests = {test["name"]: tools.load_test(test) for test in item["tests"]}

    def finish_one(trial: PlannedTrial) -> Stored:
        pod = pod_of.get((trial.key.client, trial.key.server))
        result = _read_trial(
            run_id, trial, tests[trial.key.test], pod, attempt, settings, cluster, store
        )
        return _put(run_id, trial, {**result, **_about(trial, facts), "attempt": attempt}, store)

    with ThreadPoolExecutor(WORKERS) as pool:
        counts = _count(run_id, list(pool.map(finish_one, scope)), store)
    if pods:
        cluster.delete_all(path, labels)
    return {"finished": True, "wait_seconds": 0, **counts}


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
        connect().delete_all(
            f"/api/v1/namespaces/{settings.namespace}/pods", manifests.selector(labels)
        )
    if item["kind"] == "makeup":
        # The trials keep the reason they have.
        return {"finished": True, "wait_seconds": 0, "measured": 0, "failed": 0}
    reason = f"{failure.get('Error', 'unknown error')}: {failure.get('Cause', '')}"[:_REASON_LENGTH]
    stored = store.trial_states(run_id, item["block"])
    facts = _facts(store.get_json(run_id, "plan.json"))
    tests = {test["name"]: tools.load_test(test) for test in item["tests"]}
    changes = [
        _put(
            run_id,
            trial,
            {
                **_head(trial, tests[trial.key.test]),
                **_about(trial, facts),
                "status": "failed",
                "reason": reason,
                "attempt": 1,
            },
            store,
        )
        for trial in missing_trials(item, stored)
    ]
    return {"finished": True, "wait_seconds": 0, **_count(run_id, changes, store)}


def _pair(pod: Mapping[str, Any]) -> tuple[str, str]:
    notes = pod["metadata"]["annotations"]
    return notes[manifests.CLIENT_NODE], notes[manifests.SERVER_NODE]


def _head(trial: PlannedTrial, test: TestBase) -> Json:
    return {
        "arm": trial.arm,
        "round": trial.round,
        "tool": test.tool,
        "metric": test.metric,
        "unit": test.unit,
    }


def _read_trial(
    run_id: str,
    trial: PlannedTrial,
    test: TestBase,
    pod: Mapping[str, Any] | None,
    attempt: int,
    settings: Settings,
    cluster: Cluster,
    store: Store,
) -> Json:
    """One test's outcome; whatever it printed is stored exactly as printed, before it is parsed."""
    ended = outcome(pod, test.name)
    trial_json = _head(trial, test)
    for name in ("started_at", "finished_at"):
        if (moment := getattr(ended, name)) is not None:
            trial_json[name] = moment
    text = None
    if pod is not None and ended.started:
        text = cluster.log(settings.namespace, pod["metadata"]["name"], test.name)
    if text is not None:
        name = f"raw/{trial.key.id}.{attempt}.txt"
        trial_json["raw_key"] = store.put_text(run_id, name, text, "text/plain")
    failure = ended.failure
    try:
        measurement = tools.parse(test, text or "")
    except ParseError as error:
        # The tool's own words say more than an exit code, if there are any.
        failure = "; ".join(filter(None, (failure, str(error) if text else None))) or str(error)
    if failure is not None:
        return {**trial_json, "status": "failed", "reason": failure[:_REASON_LENGTH]}
    trial_json |= {
        "status": "measured",
        "value": measurement.value,
        "samples": len(measurement.samples),
        "details": dict(measurement.details),
    }
    if measurement.version is not None:
        trial_json["tool_version"] = measurement.version
    return trial_json


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


def _count(run_id: str, changes: Sequence[Stored], store: Store) -> dict[str, int]:
    """Counts trials in the run's item; returns how many were stored as measured and as failed."""
    measured = sum(change.measured for change in changes)
    failed = sum(change.failed for change in changes)
    repaired = sum(change.failed_before for change in changes)
    store.update_run(run_id, {}, {"trials_measured": measured, "trials_failed": failed - repaired})
    return {"measured": measured, "failed": failed}


def _facts(stored_plan: Json) -> Json:
    """What the plan noted of arms and nodes, by name."""
    return {
        "placement": {arm["name"]: arm["placement"] for arm in stored_plan["arms"]},
        "nodes": {node["name"]: node for arm in stored_plan["arms"] for node in arm["nodes"]},
    }


def _about(trial: PlannedTrial, facts: Json) -> Json:
    """What a trial carries of its arm and its two nodes."""
    nodes = facts["nodes"]
    return {
        "placement": facts["placement"][trial.arm],
        "client_node": {k: v for k, v in nodes[trial.key.client].items() if v not in (None, [])},
        "server_node": {k: v for k, v in nodes[trial.key.server].items() if v not in (None, [])},
    }
