"""A version of the VPC CNI: it comes to every node, and pods feel an old one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from lab import daemon
from lab.aws.eks import addons
from lab.fabric import caps
from lab.nodes import cni
from tests.lab.running import Lab
from tests.lab.waiting import eventually

OLD = "v1.14.1-eksbuild.1"
ROLLOUT_SECONDS = 60


def outcome(lab: Lab, update: str, **of: str) -> dict[str, Any]:
    """An update that has ended; empty before."""
    state = lab.aws("eks").describe_update(name=lab.outputs["ClusterName"], updateId=update, **of)[
        "update"
    ]
    return {} if state["status"] == "InProgress" else dict(state)


def rate(line: str) -> float:
    """The rate that `tc` shows, in bits per second."""
    match = re.search(r"rate ([\d.]+)([KMG]?)bit", line)
    assert match is not None, line
    return float(match[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[match[2]]


@pytest.fixture
def restored_cni(lab: Lab) -> Iterator[None]:
    yield
    update(lab, addons.VERSIONS[addons.VPC_CNI][0])


def update(lab: Lab, version: str) -> None:
    begun = lab.aws("eks").update_addon(
        clusterName=lab.outputs["ClusterName"],
        addonName=addons.VPC_CNI,
        addonVersion=version,
        resolveConflicts="OVERWRITE",
    )["update"]["id"]
    ended = eventually(
        lambda: outcome(lab, begun, addonName=addons.VPC_CNI), seconds=ROLLOUT_SECONDS
    )
    assert ended["status"] == "Successful", ended


@pytest.mark.usefixtures("restored_cni")
def test_every_node_runs_the_version_of_an_update_that_is_over_and_pods_pay_for_an_old_one(
    lab: Lab,
) -> None:
    update(lab, OLD)
    pods = lab.core.list_namespaced_pod(cni.NAMESPACE, label_selector=f"k8s-app={cni.NAME}").items
    nodes = {*lab.nodes(placement_group=True), *lab.nodes(placement_group=False)}
    running = {p.spec.node_name: p.spec.containers[0].image for p in pods if p.spec.node_name}
    assert {node: running[node] for node in nodes} == dict.fromkeys(nodes, cni.image(OLD))
    (link, *_) = caps.links()
    pod = lab.core.create_namespaced_pod(
        "default",
        {
            "metadata": {"generateName": "pays-"},
            "spec": {
                "nodeName": link.node,
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "waits",
                        "image": lab.status["tools_image"],
                        "imagePullPolicy": "Never",
                        "command": ["sleep", "600"],
                    }
                ],
            },
        },
    ).metadata.name
    try:
        eventually(
            lambda: lab.core.read_namespaced_pod(pod, "default").status.phase == "Running",
            seconds=30,
        )
        shown = subprocess.run(
            [*daemon.enter(link.node), "tc", "qdisc", "show"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    finally:
        lab.core.delete_namespaced_pod(pod, "default", grace_period_seconds=0)
    limited = [line for line in shown.splitlines() if line.startswith("qdisc tbf")]
    assert len(limited) == 2, "one for each direction"
    expected = link.limits.instance * cni.OLD_SHARE
    assert [rate(line) for line in limited] == pytest.approx([expected, expected], rel=0.002)
