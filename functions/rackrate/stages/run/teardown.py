"""Teardown: delete the objects that a run created in the cluster, however the run ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools import Logger

from rackrate.errors import ClusterUnreachable, RackrateError, suppress_codes, translated
from rackrate.measure import manifests
from rackrate.measure.networks import namespaces
from rackrate.measure.obstacles import absence
from rackrate.resources import Resources
from rackrate.results.build import RunFailure
from rackrate.stages.execution.rest_nodes import Rested, rest_unneeded
from rackrate.stages.run.finish import Ended, record_end
from rackrate.stages.stack.bootstrap import ask_to_heal
from rackrate.times import now, seconds_between
from rackrate_contract.document import Document
from rackrate_contract.executions import Kind, RunRecord, Status

logger = Logger(child=True)

#: How long one call waits for pods to be gone. Each pod has a grace period of one second.
GONE_SECONDS = 60.0

#: A run is overdue after its expected duration times this factor, plus this many seconds.
OVERDUE_FACTOR = 2
OVERDUE_GRACE_SECONDS = 1800

#: Step Functions' statuses for the end of an execution, and ours.
STATUSES: Mapping[str, Status] = {
    "ABORTED": "aborted",
    "TIMED_OUT": "timed_out",
    "FAILED": "failed",
}


#: Why the runs end that go on when their stack is deleted.
STACK_DELETED = RunFailure("StackDeleted", "the stack was deleted while this went on", stopped=True)


class TornDown(Document):
    """The result of cleaning up after executions that ended."""

    runs: tuple[str, ...] = ()
    """The runs that were cleaned up."""
    gone: bool = True
    """Are the pods of all of them gone?"""
    access_lost: bool = False
    """Whether the namespace or the rights in it are missing and have to be recreated first."""
    ended: tuple[Ended, ...] = ()
    """How those were recorded whose end nobody had written."""
    overdue: tuple[str, ...] = ()
    """The runs that should have ended long ago."""
    nodes: Rested = Rested()


def teardown(run_id: str, resources: Resources) -> TornDown:
    """Delete a run's owner objects and everything they own, and wait until its pods are gone.

    The pods of silent nodes are deleted without their kubelets' word. A kubelet that comes back
    ends them. The call can be repeated.
    """
    cluster, store = resources.cluster, resources.store
    store.runs.begin_teardown(run_id)
    labels = manifests.selector({manifests.RUN: manifests.run_label(run_id)})
    _delete_pods(labels, resources)
    delete_owners(run_id, resources)
    bases = [f"/api/v1/namespaces/{namespace}" for namespace in namespaces(resources.settings)]
    deadline = time.monotonic() + GONE_SECONDS
    all_removed = True
    silent = _silent_nodes(resources)

    def is_stuck(pod: Mapping[str, Any]) -> bool:
        return pod["spec"].get("nodeName") in silent and "deletionTimestamp" in pod["metadata"]

    for base in bases:
        left = max(0.0, deadline - time.monotonic())
        pods, removed = cluster.watch(
            f"{base}/pods", labels, is_stuck, lambda stuck: all(stuck.values()), seconds=left
        )
        for name in (name for name, pod in pods.items() if is_stuck(pod)):
            cluster.delete(f"{base}/pods/{name}", at_once=True)
        all_removed = all_removed and removed
    return TornDown(runs=(run_id,), gone=all_removed)


def _delete_pods(labels: str, resources: Resources) -> None:
    """Delete a run's DaemonSets, then its pods with one request for each namespace.

    Kubernetes' garbage collection deletes them too, but one by one, with 20 requests a second for
    all of the cluster. A DaemonSet that is being deleted recreates no pods.
    """
    for namespace in namespaces(resources.settings):
        daemon_sets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
        for each in resources.cluster.list(daemon_sets, labels):
            resources.cluster.delete(f"{daemon_sets}/{each['metadata']['name']}", foreground=True)
        resources.cluster.delete_all(f"/api/v1/namespaces/{namespace}/pods", labels)


def teardown_of_execution(run_id: str, resources: Resources) -> TornDown:
    """Clean up at the end of a run whose execution can have lost access restored.

    Raises:
        AccessLost: the namespace or the rights in it are missing again and again.
    """
    try:
        return teardown(run_id, resources)
    except ClusterUnreachable as error:
        ask_to_heal(run_id, error, resources.store)
        return TornDown(runs=(run_id,), gone=False, access_lost=True)


def _silent_nodes(resources: Resources) -> set[str]:
    """The nodes that cannot confirm that a pod has ended. Kubernetes would wait for them."""
    nodes = {node["metadata"]["name"]: node for node in resources.cluster.list("/api/v1/nodes")}
    return {
        name for name in nodes if (absent := absence(name, nodes)) is not None and absent.is_silent
    }


def delete_owners(run_id: str, resources: Resources) -> None:
    """Delete a run's owner objects. Kubernetes deletes what they own before them."""
    owner = manifests.owner_name(run_id)
    for namespace in namespaces(resources.settings):
        path = f"/api/v1/namespaces/{namespace}/configmaps/{owner}"
        resources.cluster.delete(path, foreground=True)


def teardown_stopped(detail: Mapping[str, Any], resources: Resources) -> TornDown:
    """Clean up after an execution that did not succeed, and record its end if nobody did.

    Args:
        detail: the detail of EventBridge's "Step Functions Execution Status Change".
        resources: the stack's resources.
    """
    run_id, status = detail["name"], STATUSES[detail["status"]]
    if not has_ended(execution_of(resources.step_functions, detail["executionArn"])):
        # It was redriven since. Its new end makes another event.
        return TornDown()
    removed = teardown(run_id, resources).gone
    ended = record_end(
        "run",
        run_id,
        status,
        execution_arn=detail["executionArn"],
        failure=RunFailure.of_execution(detail),
        resources=resources,
    )
    nodes = rest_unneeded(resources, runs={run_id})
    return TornDown(runs=(run_id,), gone=removed, ended=(ended,), nodes=nodes)


@contextlib.contextmanager
def left_alone(name: str) -> Iterator[None]:
    """Let a clean-up go on to the next item if one fails; the log names it.

    Anybody who may write to the table may have written the item, with any values.

    Raises:
        RackrateError: what passes by itself, so that the clean-up is tried again.
    """
    try:
        with translated():
            yield
    except RackrateError:
        raise
    except Exception:
        logger.exception("what cannot be cleaned up was left alone", item=name)


def sweep(resources: Resources) -> TornDown:
    """Clean up after every run whose execution is no longer running, and record its end."""
    store = resources.store
    owned = _owned_runs(resources)
    running = {run.id: run for run in store.runs.running()}
    # What the table says of a run counts more than what an object in the cluster says.
    arn_of = owned | {run.id: run.execution_arn for run in running.values()}
    swept: list[str] = []
    ended: list[Ended] = []
    overdue: list[str] = []
    all_removed = True
    for run_id, arn in sorted(arn_of.items()):
        with left_alone(run_id):
            ending = ending_of(resources.step_functions, arn)
            if ending is not None:
                if run_id in owned:
                    all_removed = teardown(run_id, resources).gone and all_removed
                # An execution that succeeded has recorded its own end. An item that nobody can
                # read is not among those that go on.
                stored = store.runs.find(run_id) if run_id in running else None
                if stored is not None and stored.is_running:
                    status, why = ending
                    end = record_end(
                        "run", run_id, status, execution_arn=arn, failure=why, resources=resources
                    )
                    ended.append(end)
                swept.append(run_id)
                continue
        if run_id in running and is_overdue(running[run_id]):
            overdue.append(run_id)
    nodes = rest_unneeded(resources, runs=swept)
    return TornDown(
        runs=tuple(swept), gone=all_removed, ended=tuple(ended), overdue=tuple(overdue), nodes=nodes
    )


def _owned_runs(resources: Resources) -> dict[str, str]:
    """The runs with an owner object, and their executions, as the objects say."""
    labels = manifests.selector({manifests.ROLE: "owner"})
    arn_of: dict[str, str] = {}
    for namespace in namespaces(resources.settings):
        for owner in resources.cluster.list(f"/api/v1/namespaces/{namespace}/configmaps", labels):
            notes = owner["metadata"].get("annotations") or {}
            if manifests.RUN_ID in notes and manifests.EXECUTION in notes:
                arn_of[notes[manifests.RUN_ID]] = notes[manifests.EXECUTION]
            else:
                logger.warning("an owner names no run", owner=owner["metadata"]["name"])
    return arn_of


def stop_all(kind: Kind, resources: Resources) -> tuple[Ended, ...]:
    """Stop every run, or every campaign, because the stack is deleted, and record the ends.

    Nothing is cleaned up: the namespace takes the runs' objects with it when the stack deletes it,
    and a campaign changes only a cluster of its stack, which is deleted too.
    """
    ended = []
    for record in resources.store.of(kind).running():
        with left_alone(record.id):
            stop(resources.step_functions, record.execution_arn, STACK_DELETED)
            end = record_end(
                kind,
                record.id,
                "aborted",
                execution_arn=record.execution_arn,
                failure=STACK_DELETED,
                resources=resources,
            )
            ended.append(end)
    return tuple(ended)


def stop(step_functions: Any, arn: str, why: RunFailure) -> None:
    """Stop an execution. It is no error when Step Functions has forgotten it."""
    with suppress_codes("ExecutionDoesNotExist"):
        step_functions.stop_execution(executionArn=arn, error=why.error, cause=why.cause)


def is_overdue(run: RunRecord) -> bool:
    """Whether a run exceeds twice its expected time plus half an hour, and so probably hangs.

    A run that is not planned yet has an expected time of zero. Half an hour is more than waking
    nodes may take.
    """
    age = seconds_between(run.started_at, now())
    return age > OVERDUE_FACTOR * run.expected_seconds + OVERDUE_GRACE_SECONDS


def ending_of(step_functions: Any, arn: str) -> tuple[Status, RunFailure] | None:
    """The status and the failure with which an execution ended; None while it goes on."""
    execution = execution_of(step_functions, arn)
    if not has_ended(execution):
        return None
    return STATUSES.get(execution["status"], "failed"), RunFailure.of_execution(execution)


def has_ended(execution: Mapping[str, Any]) -> bool:
    """Whether an execution goes on no more."""
    return execution["status"] not in ("RUNNING", "PENDING_REDRIVE")


def execution_of(step_functions: Any, arn: str) -> Mapping[str, Any]:
    """An execution as Step Functions describes it; a failed one if it is forgotten."""
    with suppress_codes("ExecutionDoesNotExist"):
        response: Mapping[str, Any] = step_functions.describe_execution(executionArn=arn)
        return response
    # Step Functions deletes the record of an execution 90 days after its end.
    return {"status": "FAILED", "error": "ExecutionDoesNotExist"}
