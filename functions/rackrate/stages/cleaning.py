"""Teardown: remove what a run made in the cluster, however the run ended."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from rackrate import manifests
from rackrate.cluster import Cluster
from rackrate.comparison import is_comparison
from rackrate.networks import namespaces
from rackrate.settings import Settings
from rackrate.stages.concluding import record_end
from rackrate.stages.idling import rest
from rackrate.store import TERMINAL, Store, now, seconds_between

Json = dict[str, Any]

#: How long one call waits for pods to be gone; they have one second of grace each.
GONE_SECONDS = 60.0

#: When a run counts as overdue: after so many times its expected seconds, and so many seconds more.
OVERDUE_FACTOR = 2
OVERDUE_GRACE_SECONDS = 1800

#: How Step Functions calls the end of an execution, and how we do.
STATUSES = {"ABORTED": "aborted", "TIMED_OUT": "timed_out", "FAILED": "failed"}


def tear_down(run_id: str, *, settings: Settings, cluster: Cluster) -> bool:
    """Deletes a run's owners, and with them all that they own, and waits until its pods are gone.

    Returns:
        Are they gone? Deleting again is harmless.
    """
    bases = [f"/api/v1/namespaces/{namespace}" for namespace in namespaces(settings)]
    for base in bases:
        cluster.delete(f"{base}/configmaps/{manifests.owner_name(run_id)}", foreground=True)
    labels = manifests.selector({manifests.RUN: manifests.run_label(run_id)})
    deadline = time.monotonic() + GONE_SECONDS
    all_gone = True
    for base in bases:
        left = max(0.0, deadline - time.monotonic())
        _, gone = cluster.watch(f"{base}/pods", labels, lambda pods: not pods, seconds=left)
        all_gone = all_gone and gone
    return all_gone


def tear_down_stopped(
    detail: Mapping[str, Any], *, settings: Settings, cluster: Cluster, store: Store, eks: Any
) -> Json:
    """Cleans up after an execution that ended badly, and writes its end down if nobody did.

    Args:
        detail: the detail of EventBridge's "Step Functions Execution Status Change".
        settings: the stack's.
        cluster: the cluster.
        store: the store.
        eks: an EKS client.

    Returns:
        run_id: the run, or None when the execution was a comparison, which leaves nothing behind.
        comparison: its name then.
        gone: are its pods?
        ended: what `record_end` says, in a list as the sweep has them.
        nodes: what `rest` says.
    """
    run_id, status = detail["name"], STATUSES[detail["status"]]
    if _compared(detail.get("input")):
        nothing: Json = {"rested": [], "busy": [], "needed_by": []}
        return {"run_id": None, "comparison": run_id, "gone": True, "ended": [], "nodes": nothing}
    gone = tear_down(run_id, settings=settings, cluster=cluster)
    failure = {"Error": detail.get("error"), "Cause": detail.get("cause")}
    ended = record_end(
        run_id, status, execution_arn=detail["executionArn"], failure=failure, store=store
    )
    nodes = rest(settings=settings, store=store, eks=eks, apart_from={run_id})
    return {"run_id": run_id, "gone": gone, "ended": [ended], "nodes": nodes}


def _compared(text: str | None) -> bool:
    """Was an execution with this input a comparison?

    EventBridge leaves out an input that is too large for its events, which only a plan's is.
    """
    return text is not None and is_comparison(json.loads(text))


def sweep(*, settings: Settings, cluster: Cluster, store: Store, states: Any, eks: Any) -> Json:
    """Removes what is left of runs whose execution is no longer running, and ends their records.

    Args:
        settings: the stack's.
        cluster: the cluster.
        store: the store.
        states: a Step Functions client.
        eks: an EKS client.

    Returns:
        swept: the runs that were cleaned up.
        ended: what `record_end` says of those whose end nobody had written.
        overdue: the runs that should have ended long ago.
        nodes: what `rest` says.
    """
    labels = manifests.selector({manifests.ROLE: "owner"})
    owners = [
        owner
        for namespace in namespaces(settings)
        for owner in cluster.list(f"/api/v1/namespaces/{namespace}/configmaps", labels)
    ]
    arn_of = {
        notes[manifests.RUN_ID]: notes[manifests.EXECUTION]
        for notes in (owner["metadata"]["annotations"] for owner in owners)
    }
    owned = set(arn_of)
    running = {run["run_id"]: run for run in store.running_runs()}
    for run in running.values():
        arn_of.setdefault(run["run_id"], run["execution_arn"])
    swept: list[str] = []
    ended: list[Json] = []
    overdue: list[str] = []
    for run_id, arn in sorted(arn_of.items()):
        execution = _execution(states, arn)
        if execution["status"] in ("RUNNING", "PENDING_REDRIVE"):
            if run_id in running and is_overdue(running[run_id]):
                overdue.append(run_id)
            continue
        if run_id in owned:
            tear_down(run_id, settings=settings, cluster=cluster)
        # An execution that succeeded has written its own end.
        if (stored := store.run(run_id)) is not None and stored["status"] not in TERMINAL:
            failure = {"Error": execution.get("error"), "Cause": execution.get("cause")}
            status = STATUSES.get(execution["status"], "failed")
            ended.append(
                record_end(run_id, status, execution_arn=arn, failure=failure, store=store)
            )
        swept.append(run_id)
    nodes = rest(settings=settings, store=store, eks=eks, apart_from=swept)
    return {"swept": swept, "ended": ended, "overdue": overdue, "nodes": nodes}


def is_overdue(run: Mapping[str, Any]) -> bool:
    """Has a run gone on for twice its expected time and half an hour, and so probably hangs?

    The time of a run that is not planned yet is not known; half an hour is more than waking nodes
    may take.
    """
    expected = float(run.get("expected_seconds", 0))
    age = seconds_between(run["started_at"], now())
    return age > OVERDUE_FACTOR * expected + OVERDUE_GRACE_SECONDS


def _execution(states: Any, arn: str) -> Json:
    try:
        answer: Json = states.describe_execution(executionArn=arn)
    except ClientError as error:
        # Step Functions forgets executions 90 days after their end.
        if error.response["Error"]["Code"] == "ExecutionDoesNotExist":
            return {"status": "FAILED", "error": "ExecutionDoesNotExist"}
        raise
    return answer
