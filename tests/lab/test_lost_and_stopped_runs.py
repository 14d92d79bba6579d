"""Bad days of a run: what dies, vanishes or is stopped costs a repetition or has a name."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest
from kubernetes import client as kubernetes

from tests.lab.running import SHORT, Lab
from tests.lab.waiting import eventually

# Long enough for a client to be met alive.
CATCHABLE = [
    {"name": "tcp-1", "seconds": 2},
    {"name": "rtt", "count": 10, "interval_seconds": 0.2},
]


def measuring_client(
    lab: Lab, run_id: str, *, block: int, arm: str, attempt: int = 1
) -> kubernetes.V1Pod:
    """A client pod of which a container runs."""

    def found() -> kubernetes.V1Pod | None:
        for pod in lab.pods(run_id, "client"):
            labels = pod.metadata.labels
            wanted = (str(block), arm, str(attempt))
            if tuple(labels[f"rackrate.dev/{n}"] for n in ("block", "arm", "attempt")) != wanted:
                continue
            statuses = [
                *(pod.status.init_container_statuses or []),
                *(pod.status.container_statuses or []),
            ]
            if any(status.state.running for status in statuses):
                return pod
        return None

    return eventually(found, seconds=60, poll_seconds=0.05)


def delete(lab: Lab, pod: kubernetes.V1Pod) -> None:
    lab.core.delete_namespaced_pod(
        pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0
    )


def kill_tool(lab: Lab, pod: kubernetes.V1Pod) -> None:
    """End the program that a client pod runs now."""
    statuses = [*pod.status.init_container_statuses, *pod.status.container_statuses]
    running = next(status.name for status in statuses if status.state.running)
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    argv = next(c.command for c in containers if c.name == running)
    lab.signal(lab.process(" ".join(argv[1:]), name=argv[0]), signal.SIGKILL)


def raw_outputs(lab: Lab, run_id: str, attempt: int) -> set[str]:
    """The raw outputs of an attempt."""
    return {name for name in lab.objects(run_id) if name.endswith(f".{attempt}.txt")}


def test_trials_of_a_client_that_is_deleted_or_killed_are_repeated_and_never_zero(
    lab: Lab,
) -> None:
    lab.start("lost", {**SHORT, "tests": CATCHABLE, "blocks": 4})
    delete(lab, measuring_client(lab, "lost", block=1, arm="treatment"))
    kill_tool(lab, measuring_client(lab, "lost", block=2, arm="baseline"))
    execution = lab.ended("lost", seconds=120)
    assert execution["status"] == "SUCCEEDED", execution
    trials = lab.items("lost", "trial#")
    assert len(trials) == 16
    assert all(trial["status"] == "measured" and trial["value"] > 0 for trial in trials)
    again = {(int(t["block"]), t["arm"]) for t in trials if t["attempt"] == 2}
    assert again == {(1, "treatment"), (2, "baseline")}
    # A deleted pod takes both tests along; its trials were run again, in the first's place.
    assert all(t["attempt"] == 2 for t in trials if (t["block"], t["arm"]) == (1, "treatment"))
    assert len(raw_outputs(lab, "lost", 2)) == sum(1 for t in trials if t["attempt"] == 2)
    record = lab.record("lost")
    counts = (record["trials_planned"], record["trials_measured"], record["trials_failed"])
    assert (record["status"], counts) == ("succeeded", (16, 16, 0))
    assert lab.left_in_cluster("lost") == []


def test_a_trial_that_cannot_be_repeated_is_reported_failed_with_its_reason(lab: Lab) -> None:
    plan = {**SHORT, "tests": CATCHABLE, "blocks": 1, "tolerated_loss": 0.5}
    lab.start("failed", plan)
    for attempt in (1, 2):
        delete(lab, measuring_client(lab, "failed", block=1, arm="baseline", attempt=attempt))
    execution = lab.ended("failed")
    assert execution["status"] == "SUCCEEDED", execution
    results = lab.document("failed", "results.json")
    assert results["run"]["status"] == "degraded"
    trials = results["trials"]
    assert (trials["planned"], trials["measured"], trials["failed"]) == (4, 2, 2)
    assert {f["test"] for f in trials["failures"]} == {"tcp-1", "rtt"}
    assert all("client pod was deleted" in f["reason"] for f in trials["failures"])
    for verdict in results["verdicts"]:
        assert verdict["verdict"] == "inconclusive"
        # An arm that was measured alone says nothing about the other, nor about the block.
        assert (verdict["blocks"], verdict["ratio"]) == (0, None)
        assert (verdict["arm_median"], verdict["baseline_median"]) == (None, None)
    stored = [t for t in lab.items("failed", "trial#") if t["status"] == "failed"]
    assert len(stored) == 2
    assert all("value" not in t and t["attempt"] == 2 for t in stored)


def test_ctrl_c_in_a_block_stops_the_run_and_cleans_up_before_the_command_ends(lab: Lab) -> None:
    with subprocess.Popen(
        lab.run_command({**SHORT, "tests": CATCHABLE, "blocks": 6}, "interrupted"),
        env=lab.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        measuring_client(lab, "interrupted", block=1, arm="baseline")
        command.send_signal(signal.SIGINT)
        _, errors = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "was stopped and cleaned up" in errors
    assert "Traceback" not in errors
    assert lab.left_in_cluster("interrupted") == []
    assert lab.execution("interrupted")["status"] == "ABORTED"
    assert lab.record("interrupted")["status"] == "aborted"
    # The run's own functions must not go on behind the abort.
    trials = lab.items("interrupted", "trial#")
    assert all(int(trial["block"]) == 1 for trial in trials)


def exec_iperf3(lab: Lab, run_id: str) -> float:
    """Bits per second from one of the treatment's servers to the other, as a user measures it."""

    def ready() -> list[kubernetes.V1Pod]:
        pods = [
            pod
            for pod in lab.pods(run_id, "server")
            if pod.metadata.labels["rackrate.dev/arm"] == "treatment"
            and all(status.ready for status in pod.status.container_statuses or [])
            and pod.status.container_statuses
        ]
        return pods if len(pods) == 2 else []

    client, server = eventually(ready, seconds=30)
    done = lab.command(
        *("kubectl", "exec", "--namespace", lab.namespace, client.metadata.name, "--"),
        *("iperf3", "-c", server.status.pod_ip, "-t", "2", "--omit", "1", "--json"),
    )
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"])


@pytest.fixture(scope="module")
def waiting_runs(lab: Lab) -> float:
    """Three runs that wait for a server that cannot start, and end each in its own way.

    Answers what `kubectl exec` of iperf3 measured between the servers that did start, in bits per
    second: while a run waits no client disturbs them.
    """
    node = lab.nodes(placement_group=False)[0]

    def started(run_id: str) -> str:
        arn = lab.start(run_id, SHORT)
        eventually(lambda: lab.record(run_id).get("phase") == "waiting for servers", seconds=30)
        return arn

    with lab.tainted(node):
        started("owner-deleted")
        stopped = started("stopped")
        owner = next(e for e in lab.left_in_cluster("owner-deleted") if e.startswith("owner "))
        lab.core.delete_namespaced_config_map(owner.removeprefix("owner "), lab.namespace)
        lab.aws("stepfunctions").stop_execution(executionArn=stopped)
        started("node-lost")
        measured = exec_iperf3(lab, "node-lost")
        lab.ended("owner-deleted")
        with lab.halted_kubelet(node):
            lab.ended("node-lost")
    return measured


def explained(execution: dict[str, Any]) -> str:
    """The message for people in an execution's cause."""
    return str(json.loads(execution["cause"])["errorMessage"])


def test_servers_that_vanish_while_they_are_awaited_fail_the_run_as_servers_not_ready(
    lab: Lab, waiting_runs: float
) -> None:
    execution = lab.execution("owner-deleted")
    assert (execution["status"], execution["error"]) == ("FAILED", "ServersNotReady")
    assert explained(execution) == "the run's owner object was deleted, and its servers with it"
    assert lab.record("owner-deleted")["status"] == "failed"
    assert lab.left_in_cluster("owner-deleted") == []


def test_a_node_that_is_lost_while_servers_are_awaited_fails_the_run_as_nodes_unavailable(
    lab: Lab, waiting_runs: float
) -> None:
    execution = lab.execution("node-lost")
    assert (execution["status"], execution["error"]) == ("FAILED", "NodesUnavailable")
    node = lab.nodes(placement_group=False)[0]
    quoted = f"arm baseline: {node} not Ready; EKS reports no health issue of node group "
    assert explained(execution).startswith(quoted)
    assert lab.left_in_cluster("node-lost") == []
    # A run that ends badly still reports, with what there is: nothing measured, nothing claimed.
    results = lab.document("node-lost", "results.json")
    assert results["run"]["status"] == "failed"
    assert results["run"]["error"] == "NodesUnavailable"
    assert results["trials"]["measured"] == 0
    assert all(verdict["verdict"] == "inconclusive" for verdict in results["verdicts"])


def test_an_execution_that_is_stopped_is_cleaned_up_by_the_rule(
    lab: Lab, waiting_runs: float
) -> None:
    assert lab.execution("stopped")["status"] == "ABORTED"
    eventually(lambda: lab.record("stopped")["status"] == "aborted", seconds=30)
    assert lab.left_in_cluster("stopped") == []


def test_kubectl_exec_can_measure_between_a_runs_servers(lab: Lab, waiting_runs: float) -> None:
    cap = 10e9 * lab.status["network_scale"]
    assert 0.85 * cap < waiting_runs < cap
