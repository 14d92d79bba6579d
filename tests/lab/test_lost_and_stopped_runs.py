"""Bad days of a run: what dies, vanishes or is stopped costs a repetition or has a name."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as kubernetes

from lab import daemon
from rackrate.measure.starts import awaited
from tests.docs.blocks import ROOT, blocks_of
from tests.lab.running import BLOCK_BY_BLOCK, SHORT, Lab
from tests.lab.waiting import BUSY, eventually

# Long enough for a client to be met alive.
CATCHABLE = [
    {"name": "tcp-1", "seconds": 2},
    {"name": "rtt", "count": 10, "interval_seconds": 0.2},
]


def measuring_client(
    lab: Lab, run_id: str, *, block: int, arm: str, attempt: int = 1
) -> kubernetes.V1Pod:
    """A client pod of the series that begins with a block, of which a container runs."""

    def measuring() -> kubernetes.V1Pod | None:
        for pod in lab.pods(run_id, "client"):
            labels = pod.metadata.labels
            expected = (str(block), arm, str(attempt))
            if tuple(labels[f"rackrate.dev/{n}"] for n in ("block", "arm", "attempt")) != expected:
                continue
            if any(status.state.running for status in pod.status.container_statuses or []):
                return pod
        return None

    return eventually(measuring, seconds=60, poll_seconds=0.05)


def delete(lab: Lab, pod: kubernetes.V1Pod) -> None:
    lab.core.delete_namespaced_pod(
        pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0
    )


def delete_owner(lab: Lab, run_id: str) -> None:
    """Delete a run's owner object, and with it all that it owns, and wait until that is gone."""
    before = {pod.metadata.uid for pod in lab.pods(run_id)}
    owner = next(each for each in lab.left_in_cluster(run_id) if each.startswith("owner "))
    lab.core.delete_namespaced_config_map(owner.removeprefix("owner "), lab.namespace)
    eventually(
        lambda: not before & {pod.metadata.uid for pod in lab.pods(run_id)},
        seconds=30,
        poll_seconds=0.1,
    )


def kill_tool(lab: Lab, run_id: str, *, block: int, arm: str) -> None:
    """End a program of a client pod while it runs."""

    def killed() -> bool:
        pod = measuring_client(lab, run_id, block=block, arm=arm)
        for container in pod.spec.containers:
            name, *arguments = awaited(container.command)
            for pid in lab.processes(" ".join(arguments), name=name):
                with contextlib.suppress(subprocess.CalledProcessError):
                    lab.signal(pid, signal.SIGKILL)
                    return True
        return False

    eventually(killed, seconds=60, poll_seconds=0.05)


def raw_outputs(lab: Lab, run_id: str, attempt: int) -> set[str]:
    """The raw outputs of an attempt."""
    return {name for name in lab.objects(run_id) if name.endswith(f".{attempt}.txt")}


def parted(trials: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The warm-up's trials, and those that count."""
    warm_ups = [trial for trial in trials if trial.get("warm_up")]
    return warm_ups, [trial for trial in trials if not trial.get("warm_up")]


@pytest.mark.core
def test_trials_of_a_client_that_is_deleted_or_killed_are_repeated_and_never_zero(
    lab: Lab,
) -> None:
    lab.start("lost", {**SHORT, "tests": CATCHABLE, "blocks": 4, "warm_up": True})
    delete(lab, measuring_client(lab, "lost", block=1, arm="treatment"))
    kill_tool(lab, "lost", block=1, arm="baseline")
    execution = lab.ended("lost", seconds=120)
    assert execution["status"] == "SUCCEEDED", execution
    warm_ups, trials = parted(lab.items("lost", "trial#"))
    assert {trial["status"] for trial in warm_ups} == {"measured"}
    assert len(trials) == 16
    assert all(trial["status"] == "measured" and trial["value"] > 0 for trial in trials)
    # The other arm's trials were repeated with them, so that the arms stay paired in time.
    again = [trial for trial in trials if trial["attempt"] == 2]
    assert all(trial["repeated_together"] for trial in again)
    of_arm = {
        arm: {(int(t["block"]), t["test"]) for t in again if t["arm"] == arm}
        for arm in ("treatment", "baseline")
    }
    assert of_arm["treatment"] == of_arm["baseline"]
    # A deleted pod takes the tests of every second block along, and a program only itself.
    whole = {block for block, _ in of_arm["treatment"] if (block, "rtt") in of_arm["treatment"]}
    assert {1, 3} <= whole or {2, 4} <= whole
    assert len(of_arm["treatment"]) in (4, 5)
    # What the other arm measured at first is kept too.
    assert len(raw_outputs(lab, "lost", 2)) == len(again)
    kept = [t["raw_key"] for t in again if t["arm"] == "baseline"]
    first = {key.removeprefix("runs/lost/").replace(".2.txt", ".1.txt") for key in kept}
    assert first <= raw_outputs(lab, "lost", 1)
    record = lab.record("lost")
    counts = (record["trials_planned"], record["trials_measured"], record["trials_failed"])
    assert (record["status"], counts) == ("succeeded", (16, 16, 0))
    assert lab.left_in_cluster("lost") == []


def test_a_trial_that_cannot_be_repeated_is_reported_failed_with_its_reason(lab: Lab) -> None:
    plan = {**SHORT, "tests": CATCHABLE, "tolerated_loss": 0.5}
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
        # An arm that was measured alone tells its own median, and nothing about the other.
        assert (verdict["blocks"], verdict["ratio"], verdict["ci95"]) == (0, None, None)
        assert verdict["arm_median"] > 0
        assert verdict["baseline_median"] is None
    _, trials = parted(lab.items("failed", "trial#"))
    stored = [trial for trial in trials if trial["status"] == "failed"]
    assert len(stored) == 2
    assert all("value" not in t and t["attempt"] == 2 for t in stored)


def test_a_run_whose_node_is_lost_for_good_measures_the_others_ends_soon_and_names_it(
    lab: Lab,
) -> None:
    node = lab.nodes(placement_group=False)[0]
    lab.start("given-up", {**SHORT, **BLOCK_BY_BLOCK, "tests": CATCHABLE, "blocks": 12})
    measuring_client(lab, "given-up", block=2, arm="baseline")
    with lab.halted_kubelet(node):
        lost_at = time.monotonic()
        execution = lab.ended("given-up", seconds=150)
        seconds = time.monotonic() - lost_at
    print(f"{seconds:.0f} s from the fault to the end")
    assert (execution["status"], execution["error"]) == ("FAILED", "NodesUnavailable")
    message = execution["cause"]
    assert message.startswith(f"arm baseline has no pair left to measure: node {node} is not Ready")
    assert "of 48 trials were measured" in message
    assert seconds < BUSY * 120
    _, trials = parted(lab.items("given-up", "trial#"))
    healthy = [trial for trial in trials if trial["arm"] == "treatment"]
    assert {trial["status"] for trial in healthy} == {"measured"}
    lost = [trial for trial in trials if trial["status"] == "failed"]
    assert lost and all(f"node {node} is not Ready" in trial["reason"] for trial in lost)
    results = lab.document("given-up", "results.json")
    assert results["trials"]["measured"] == len(trials) - len(lost)
    assert (results["run"]["status"], results["run"]["error"]) == ("failed", "NodesUnavailable")
    eventually(lambda: lab.left_in_cluster("given-up") == [], seconds=60)


@pytest.mark.core
def test_a_node_whose_instance_ends_is_replaced_and_the_page_names_both_nodes(lab: Lab) -> None:
    lost = lab.nodes(placement_group=True)[0]
    instance = lab.core.read_node(lost).spec.provider_id.rpartition("/")[2]
    lab.start("replaced", {**SHORT, "tests": CATCHABLE, "blocks": 2})
    measuring_client(lab, "replaced", block=1, arm="treatment")
    lab.aws("ec2").terminate_instances(InstanceIds=[instance])
    execution = lab.ended("replaced", seconds=150)
    assert execution["status"] == "SUCCEEDED", execution
    assert lost not in lab.nodes(placement_group=True)
    record = lab.record("replaced")
    counts = (record["trials_planned"], record["trials_measured"], record["trials_failed"])
    assert counts == (8, 8, 0)
    results = lab.document("replaced", "results.json")
    (replaced,) = results["replacements"]
    new = replaced["node"]["name"]
    assert replaced["lost"] == lost and new in lab.nodes(placement_group=True)
    assert replaced["node"]["ec2_placement"]["strategy"] == "cluster"
    assert any(lost in each and new in each for each in results["warnings"])
    page = lab.read("runs/replaced/report.html").decode()
    assert f"{new}, in place of {lost}" in page
    assert lab.left_in_cluster("replaced") == []


@pytest.mark.core
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
        _, errors = command.communicate(timeout=BUSY * 60)
    assert command.returncode == 130
    assert "was stopped and cleaned up" in errors
    assert "Traceback" not in errors
    assert lab.left_in_cluster("interrupted") == []
    assert lab.execution("interrupted")["status"] == "ABORTED"
    assert lab.record("interrupted")["status"] == "aborted"
    # The run's own functions must not go on behind the abort.
    _, trials = parted(lab.items("interrupted", "trial#"))
    assert all(int(trial["block"]) == 1 for trial in trials)


def caller_policy(lab: Lab) -> Any:
    """The policy of docs/security.md for whoever starts runs, with the lab's names."""
    (text,) = [
        block.text
        for block in blocks_of(ROOT / "docs/security.md")
        if (block.language, block.title) == ("json", "caller")
    ]
    machine = lab.outputs["StateMachineArn"].split(":")
    names = {"REGION": machine[3], "ACCOUNT": machine[4]}
    names |= {name.upper(): lab.outputs[f"{name}Name"] for name in ("Table", "Bucket")}
    for name, value in names.items():
        text = text.replace(name, value)
    return json.loads(text)


@pytest.mark.core
def test_a_stopped_run_is_continued_and_measures_only_what_is_missing(
    lab: Lab, tmp_path: Path
) -> None:
    # The trials of a warm-up are forgotten, and repeated.
    plan = {**SHORT, **BLOCK_BY_BLOCK, "tests": CATCHABLE, "blocks": 2, "warm_up": True}
    arn = lab.start("continued", plan)
    measuring_client(lab, "continued", block=2, arm="baseline")
    lab.aws("stepfunctions").stop_execution(executionArn=arn)
    eventually(lambda: lab.record("continued")["status"] == "aborted", seconds=60)
    first = {t["sk"]: t for t in lab.items("continued", "trial#") if t["block"] == 1}
    assert len(first) == 4
    with lab.allowed("caller", caller_policy(lab)) as environment:
        done = lab.command(
            *("rackrate", "run", "--continue", "continued", "--out", str(tmp_path)),
            seconds=180,
            environment=environment,
        )
    assert "continued from its stored trials" in done.stderr
    trials = {t["sk"]: t for t in lab.items("continued", "trial#") if not t.get("warm_up")}
    assert len(trials) == 8
    assert all(trial["status"] == "measured" for trial in trials.values())
    assert {key: trials[key]["started_at"] for key in first} == {
        key: trial["started_at"] for key, trial in first.items()
    }
    record = lab.record("continued")
    assert (record["status"], record["trials_measured"], record["trials_failed"]) == (
        ("succeeded", 8, 0)
    )
    (message,) = [
        warning
        for warning in lab.document("continued", "results.json")["warnings"]
        if "continued at" in warning
    ]
    assert "4 of 8 trials were measured before, on the same nodes" in message
    assert lab.left_in_cluster("continued") == []


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
        *("iperf3", "-c", server.status.pod_ip, "-t", "1", "--json"),
    )
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"])


@pytest.fixture(scope="module")
def waiting_runs(lab: Lab) -> float:
    """Two runs that wait for a server that cannot start, and end each in its own way.

    The first one loses its owner object and its servers before it is stopped. The second one first
    waits for it to give back the nodes, and a third run refuses to wait. Answers what `kubectl
    exec` of iperf3 measured between the servers that did start, in bits per second: while a run
    waits for servers no client disturbs them.
    """
    node = lab.nodes(placement_group=False)[0]

    def shows(run_id: str, phase: str) -> None:
        eventually(lambda: lab.record(run_id).get("phase") == phase, seconds=60)

    with lab.full(node):
        stopped = lab.start("stopped", SHORT)
        shows("stopped", "waiting for servers")
        lab.start("refused-while-busy", {**SHORT, "if_busy": "refuse"})
        lab.start("node-lost", SHORT)
        shows("node-lost", "waiting for stopped, which holds the nodes of treatment and baseline")
        delete_owner(lab, "stopped")
        lab.ended("refused-while-busy")
        # Recreated, with servers where there is room.
        eventually(lambda: len(lab.pods("stopped", "server")) == 4, seconds=60)
        lab.aws("stepfunctions").stop_execution(executionArn=stopped)
        shows("node-lost", "waiting for servers")
        measured = exec_iperf3(lab, "node-lost")
        with lab.halted_kubelet(node):
            lab.ended("node-lost", seconds=150)
    return measured


def test_a_run_that_may_not_wait_for_its_nodes_is_refused_and_names_who_holds_them(
    lab: Lab, waiting_runs: float
) -> None:
    execution = lab.execution("refused-while-busy")
    assert (execution["status"], execution["error"]) == ("FAILED", "NodesBusy")
    sentence = execution["cause"]
    assert sentence.startswith("stopped holds the nodes of treatment and baseline and should end")
    record = lab.record("refused-while-busy")
    assert (record["status"], record["error"]) == ("failed", "NodesBusy")
    assert "leased_at" not in record
    assert lab.objects("refused-while-busy") <= {
        *("plan.json", "schedule.json", "blocks_1.json", "counters.json"),
    }


def test_a_node_that_is_lost_while_servers_are_awaited_fails_the_run_as_nodes_unavailable(
    lab: Lab, waiting_runs: float
) -> None:
    execution = lab.execution("node-lost")
    assert (execution["status"], execution["error"]) == ("FAILED", "NodesUnavailable")
    node = lab.nodes(placement_group=False)[0]
    quoted = f"arm baseline: {node} not Ready; EKS reports no health issue of node group "
    assert execution["cause"].startswith(quoted)
    assert lab.left_in_cluster("node-lost") == []
    # A run that ends badly still reports, with what there is: nothing measured, nothing claimed.
    results = lab.document("node-lost", "results.json")
    assert results["run"]["status"] == "failed"
    assert results["run"]["error"] == "NodesUnavailable"
    assert results["trials"]["measured"] == 0
    assert all(verdict["verdict"] == "inconclusive" for verdict in results["verdicts"])


def test_an_execution_that_is_stopped_is_cleaned_up_with_its_recreated_owner(
    lab: Lab, waiting_runs: float
) -> None:
    assert lab.execution("stopped")["status"] == "ABORTED"
    eventually(lambda: lab.record("stopped")["status"] == "aborted", seconds=30)
    assert lab.left_in_cluster("stopped") == []


def test_kubectl_exec_reaches_the_tools_of_a_runs_servers(lab: Lab, waiting_runs: float) -> None:
    assert 0 < waiting_runs < 10e9 * lab.status["network_scale"]


@contextlib.contextmanager
def cut_off(lab: Lab, node: str, peer: str) -> Iterator[None]:
    """What pods of a node send to pods of its peer is dropped, as a security group would do."""
    addresses = lab.core.read_node(peer).status.addresses
    address = next(each.address for each in addresses if each.type == "InternalIP")
    ip = [*daemon.enter(node), "ip"]
    routes = json.loads(subprocess.check_output([*ip, "-json", "route"]))
    block = next(route["dst"] for route in routes if route.get("gateway") == address)
    rule = ["to", block, "priority", "100", "blackhole"]
    subprocess.run([*ip, "rule", "add", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run([*ip, "rule", "del", *rule], check=True)


def test_a_pair_that_cannot_talk_is_named_before_anything_is_measured(lab: Lab) -> None:
    one, other = lab.nodes(placement_group=True)
    with cut_off(lab, one, other):
        lab.start("cut-off", {**SHORT, "warm_up": True})
        execution = lab.ended("cut-off")
    assert (execution["status"], execution["error"]) == ("FAILED", "LinksDown")
    sentence = execution["cause"]
    assert sentence.startswith("1 of 2 pairs could not be measured in the warm-up:\n")
    assert f"arm treatment, {one} to {other}: " in sentence
    assert "unable to connect" in sentence, "the tool's own words"
    assert "arm baseline" not in sentence
    assert "security groups" in sentence
    trials = lab.items("cut-off", "trial#")
    assert {(int(trial["block"]), trial["warm_up"]) for trial in trials} == {(0, True)}
    assert {trial["arm"]: trial["status"] for trial in trials} == {
        "treatment": "failed",
        "baseline": "measured",
    }
    results = lab.document("cut-off", "results.json")
    assert (results["run"]["status"], results["run"]["error"]) == ("failed", "LinksDown")
    assert results["trials"]["measured"] == 0
    assert lab.left_in_cluster("cut-off") == []
