"""Workloads on real pods: each of them once, and what is told when one is lost."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes.client as kubernetes
import pytest

from lab import stack
from rackrate import registry
from rackrate.workloads.base import WorkloadTest
from tests.lab.running import Lab
from tests.lab.storage import storage_class
from tests.lab.toggles import Toggles
from tests.lab.waiting import eventually
from tests.taskcat.deploying import Deployment

WORKLOADS = [
    name for name in registry.names() if issubclass(registry.test_class(name), WorkloadTest)
]
PING = {"name": "rtt", "count": 5, "interval_seconds": 0.2}
#: A run takes two to four minutes on two cores.
DEADLINE_SECONDS = 500


@pytest.fixture(scope="module")
def lab(bare_lab: Lab) -> Lab:
    """The lab, in which nothing is deployed but what the test deploys."""
    return bare_lab


@pytest.fixture(scope="module")
def deployed(toggles: Toggles) -> Iterator[Deployment]:
    """A stack with three nodes in each arm and a load node."""
    with toggles.deployed("default", RunOnCreate="", NodeCount="3", LoadNodeCount="1") as deployed:
        yield deployed


def results(lab: Lab, deployed: Deployment, run_id: str) -> dict[str, Any]:
    """The results of a run, once it is over."""
    lab.ended_in(deployed, run_id, seconds=DEADLINE_SECONDS)
    return dict(lab.document(run_id, "results.json", deployed.outputs))


def trials(lab: Lab, deployed: Deployment, run_id: str) -> list[dict[str, str]]:
    """The rows of a run's table of trials, without the warm-up."""
    table = lab.read(f"runs/{run_id}/trials.csv", deployed.outputs).decode()
    rows = csv.DictReader(io.StringIO(table))
    return [row for row in rows if row["warm_up"] == "false"]


def left_over(lab: Lab, deployed: Deployment) -> list[str]:
    """What runs have left in the stack's namespace."""
    core, namespace = lab.core, deployed.outputs["Namespace"]
    lists = (
        core.list_namespaced_pod,
        core.list_namespaced_service,
        core.list_namespaced_persistent_volume_claim,
    )
    return [thing.metadata.name for each in lists for thing in each(namespace).items]


def test_etcd_comes_to_a_verdict_and_leaves_nothing(lab: Lab, deployed: Deployment) -> None:
    plan = json.loads((stack.REPOSITORY / "docs/plans/etcd.json").read_text("utf-8"))
    lab.start_in(deployed, "etcd", {**plan, "blocks": 6})
    document = results(lab, deployed, "etcd")
    assert document["run"]["status"] == "succeeded", document["trials"]["causes"]
    judged = {(verdict["test"], verdict["metric"]): verdict for verdict in document["verdicts"]}
    commit, ping = judged["etcd", "latency"], judged["rtt", "rtt"]
    # Both wait for a way between members, so a lab whose places differ shows it in both.
    assert commit["ratio"] < 1
    assert ping["ratio"] < 1
    assert commit["blocks"] == 6
    for of_arm in document["workloads"]:
        nodes = [member["node"] for member in of_arm["members"]]
        assert of_arm["load_from"] == "load nodes"
        assert len(set(nodes)) == 3
        assert not set(nodes) & set(of_arm["load_nodes"])
        assert of_arm["phases"]["ready"] >= 0
        assert of_arm["phases"]["measure"] > 0
    for row in trials(lab, deployed, "etcd"):
        if row["test"] == "etcd":
            mean, most = (
                float(row[name]) for name in ("members_cpu_percent", "busiest_member_cpu_percent")
            )
            assert 1 < mean < most < 200
    assert left_over(lab, deployed) == []


@pytest.mark.parametrize("name", [each for each in WORKLOADS if each != "etcd"])
def test_each_workload_measures_both_arms(lab: Lab, deployed: Deployment, name: str) -> None:
    plan: dict[str, Any] = {"tests": [{"name": name, "tool": name}]}
    if (path := stack.REPOSITORY / f"docs/plans/{name}.json").exists():
        plan = json.loads(path.read_text("utf-8"))
    lab.start_in(deployed, name, {**plan, "blocks": 1})
    document = results(lab, deployed, name)
    assert document["run"]["status"] == "succeeded", document["trials"]["causes"]
    assert left_over(lab, deployed) == []


def test_a_member_gets_a_volume_of_its_storage_class_which_goes_with_it(
    lab: Lab, deployed: Deployment, tmp_path: Path
) -> None:
    disk = {"storage_class": "local", "gib": 1}
    plan = {"tests": [{"name": "etcd", "storage": disk}], "blocks": 1, "warm_up": False}
    with storage_class(lab, "local", tmp_path):
        lab.start_in(deployed, "volumes", plan)
        used = eventually(lambda: sorted(tmp_path.rglob("member/wal")), seconds=120)
        assert len({path.relative_to(tmp_path).parts[0] for path in used}) >= 1
        document = results(lab, deployed, "volumes")
        assert document["run"]["status"] == "succeeded", document["trials"]["causes"]
        assert left_over(lab, deployed) == []
        # The provisioner removes a volume once its claim has gone.
        eventually(lambda: not list(tmp_path.iterdir()), seconds=120)
        eventually(lambda: not lab.core.list_persistent_volume().items, seconds=60)


def test_a_storage_class_that_makes_no_volume_is_named_with_the_member_that_waits(
    lab: Lab, deployed: Deployment
) -> None:
    kubernetes.StorageV1Api(lab.core.api_client).create_storage_class(
        kubernetes.V1StorageClass(
            metadata=kubernetes.V1ObjectMeta(name="nobody"),
            provisioner="example.com/nobody",
            volume_binding_mode="WaitForFirstConsumer",
        )
    )
    disk = {"storage_class": "nobody", "gib": 1}
    plan = {"tests": [PING, {"name": "etcd", "storage": disk}], "blocks": 1, "warm_up": False}
    lab.start_in(deployed, "unbound", plan)
    document = results(lab, deployed, "unbound")
    lost = document["trials"]["failures"]
    assert lost and all("volume" in each["reason"] for each in lost), lost
    assert document["trials"]["measured"] == 2, "pings"
    assert left_over(lab, deployed) == []


def test_a_workload_whose_disk_is_full_fails_alone_and_in_its_own_words(
    lab: Lab, deployed: Deployment
) -> None:
    plan = {"tests": [PING, {"name": "etcd", "memory_mib": 64}], "blocks": 1, "warm_up": False}
    lab.start_in(deployed, "full", plan)
    document = results(lab, deployed, "full")
    lost = document["trials"]["failures"]
    assert {(each["test"], each["arm"]) for each in lost} == {
        ("etcd", "treatment"),
        ("etcd", "baseline"),
    }
    assert document["trials"]["measured"] == 2, "pings"
    assert all("no space left on device" in each["reason"] for each in lost), lost
    assert left_over(lab, deployed) == []


def test_a_member_that_is_killed_while_measured_costs_its_arm_alone(
    lab: Lab, deployed: Deployment
) -> None:
    test = {"name": "etcd", "puts": 20_000}
    lab.start_in(deployed, "killed", {"tests": [PING, test], "blocks": 1, "warm_up": False})
    namespace = deployed.outputs["Namespace"]

    def loaded() -> str:
        """The arm that is under load now."""
        pods = lab.core.list_namespaced_pod(namespace, label_selector="rackrate.dev/role=client")
        running = [
            pod.metadata.labels["rackrate.dev/arm"]
            for pod in pods.items
            if pod.status.phase == "Running" and pod.spec.containers[-1].name == "etcd"
        ]
        return running[0] if running else ""

    arm = eventually(loaded, seconds=120)
    selector = f"rackrate.dev/role=member,rackrate.dev/arm={arm}"
    victim, *_ = lab.core.list_namespaced_pod(namespace, label_selector=selector).items
    lab.core.delete_namespaced_pod(victim.metadata.name, namespace, grace_period_seconds=0)
    document = results(lab, deployed, "killed")
    (lost,) = document["trials"]["failures"]
    assert (lost["test"], lost["arm"]) == ("etcd", arm)
    assert victim.spec.hostname in lost["reason"]
    assert document["trials"]["measured"] == 3
    assert left_over(lab, deployed) == []
