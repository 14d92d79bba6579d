"""Teardown: remove what a run made in the cluster, however the run ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from rackrate import manifests
from rackrate.cluster import Cluster
from rackrate.settings import Settings
from rackrate.stages.concluding import record_end
from rackrate.store import TERMINAL, Store

Json = dict[str, Any]

#: How long one call waits for pods to be gone; they have one second of grace each.
GONE_SECONDS = 60.0

#: How Step Functions calls the end of an execution, and how we do.
STATUSES = {"ABORTED": "aborted", "TIMED_OUT": "timed_out", "FAILED": "failed"}


def tear_down(run_id: str, *, settings: Settings, cluster: Cluster) -> bool:
    """Deletes a run's owner, and with it all that it owns, and waits until its pods are gone.

    Returns:
        Are they gone? Deleting again is harmless.
    """
    base = f"/api/v1/namespaces/{settings.namespace}"
    cluster.delete(f"{base}/configmaps/{manifests.owner_name(run_id)}", foreground=True)
    labels = manifests.selector({manifests.RUN: manifests.run_label(run_id)})
    _, gone = cluster.watch(f"{base}/pods", labels, lambda pods: not pods, seconds=GONE_SECONDS)
    return gone


def tear_down_stopped(
    detail: Mapping[str, Any], *, settings: Settings, cluster: Cluster, store: Store
) -> Json:
    """Cleans up after an execution that ended badly, and writes its end down if nobody did.

    Args:
        detail: the detail of EventBridge's "Step Functions Execution Status Change".
        settings: the stack's.
        cluster: the cluster.
        store: the store.
    """
    run_id, status = detail["name"], STATUSES[detail["status"]]
    gone = tear_down(run_id, settings=settings, cluster=cluster)
    failure = {"Error": detail.get("error"), "Cause": detail.get("cause")}
    record_end(run_id, status, execution_arn=detail["executionArn"], failure=failure, store=store)
    return {"run_id": run_id, "status": status, "gone": gone}


def sweep(*, settings: Settings, cluster: Cluster, store: Store, states: Any) -> Json:
    """Removes what is left of runs whose execution is no longer running, and ends their records.

    Args:
        settings: the stack's.
        cluster: the cluster.
        store: the store.
        states: a Step Functions client.
    """
    path = f"/api/v1/namespaces/{settings.namespace}/configmaps"
    owners = cluster.list(path, manifests.selector({manifests.ROLE: "owner"}))
    arn_of = {
        notes[manifests.RUN_ID]: notes[manifests.EXECUTION]
        for notes in (owner["metadata"]["annotations"] for owner in owners)
    }
    owned = set(arn_of)
    for run in store.running_runs():
        arn_of.setdefault(run["run_id"], run["execution_arn"])
    swept = []
    for run_id, arn in sorted(arn_of.items()):
        execution = _execution(states, arn)
        if execution["status"] in ("RUNNING", "PENDING_REDRIVE"):
            continue
        if run_id in owned:
            tear_down(run_id, settings=settings, cluster=cluster)
        # An execution that succeeded has written its own end.
        if (stored := store.run(run_id)) is not None and stored["status"] not in TERMINAL:
            failure = {"Error": execution.get("error"), "Cause": execution.get("cause")}
            status = STATUSES.get(execution["status"], "failed")
            record_end(run_id, status, execution_arn=arn, failure=failure, store=store)
        swept.append(run_id)
    return {"swept": swept}


def _execution(states: Any, arn: str) -> Json:
    try:
        answer: Json = states.describe_execution(executionArn=arn)
    except ClientError as error:
        # Step Functions forgets executions 90 days after their end.
        if error.response["Error"]["Code"] == "ExecutionDoesNotExist":
            return {"status": "FAILED", "error": "ExecutionDoesNotExist"}
        raise
    return answer
