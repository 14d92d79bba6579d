"""What a campaign changes between its runs: the nodes of all arms, and the VPC CNI on them."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lab import daemon
from lab.aws.eks import addons
from lab.fabric import caps
from lab.fabric.caps import Link
from lab.nodes import cni
from tests.lab.running import Lab
from tests.lab.waiting import BUSY, eventually

OLD = "v1.14.1-eksbuild.1"
ROLLOUT_SECONDS = 60


def scale(lab: Lab, size: int) -> None:
    """Bring all node groups to a size at the same time, and wait until they have it."""
    eks, cluster = lab.aws("eks"), lab.outputs["ClusterName"]
    updates = {
        group: eks.update_nodegroup_config(
            clusterName=cluster,
            nodegroupName=group,
            scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": size},
        )["update"]["id"]
        for group in eks.list_nodegroups(clusterName=cluster)["nodegroups"]
    }
    for group, update in updates.items():
        found = eventually(
            lambda group=group, update=update: outcome(lab, update, nodegroupName=group),
            seconds=60,
        )
        assert found["status"] == "Successful", found


def outcome(lab: Lab, update: str, **of: str) -> dict[str, Any] | None:
    """An update that has ended; None before."""
    found = lab.aws("eks").describe_update(name=lab.outputs["ClusterName"], updateId=update, **of)[
        "update"
    ]
    return None if found["status"] == "InProgress" else dict(found)


def arms() -> dict[str, list[Link]]:
    """The links of each arm's nodes, by the value of placementGroup."""
    found: dict[str, list[Link]] = {"true": [], "false": []}
    for link in caps.links():
        found[link.labels["placementGroup"]].append(link)
    return found


def test_nodes_of_both_arms_are_replaced_in_seconds_and_drawn_anew(lab: Lab) -> None:
    before = arms()
    began = time.monotonic()
    scale(lab, 0)
    assert lab.nodes(placement_group=True) == lab.nodes(placement_group=False) == []
    assert caps.links() == []
    scale(lab, 2)
    assert time.monotonic() - began < BUSY * 15
    after = arms()
    assert {name: len(links) for name, links in after.items()} == {"true": 2, "false": 2}
    for arm, links in after.items():
        assert {link.instance_id for link in links}.isdisjoint(
            link.instance_id for link in before[arm]
        )
        assert {link.limits for link in links}.isdisjoint(link.limits for link in before[arm])
    assert after["true"][0].place == after["true"][1].place != before["true"][0].place
    assert after["false"][0].rack != after["false"][1].rack
    everything = [link.instance_id for link in caps.all_places()]
    assert everything[-8:-4] != everything[-4:]
    assert {link.instance_id for links in after.values() for link in links} == set(everything[-4:])


def rate(line: str) -> float:
    """The rate that `tc` shows, in bits per second."""
    found = re.search(r"rate ([\d.]+)([KMG]?)bit", line)
    assert found is not None, line
    return float(found[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[found[2]]


@pytest.fixture
def restored_cni(lab: Lab) -> Iterator[None]:
    yield
    update(lab, addons.VERSIONS[addons.VPC_CNI][0])


def update(lab: Lab, version: str) -> None:
    asked = lab.aws("eks").update_addon(
        clusterName=lab.outputs["ClusterName"],
        addonName=addons.VPC_CNI,
        addonVersion=version,
        resolveConflicts="OVERWRITE",
    )["update"]["id"]
    found = eventually(
        lambda: outcome(lab, asked, addonName=addons.VPC_CNI), seconds=ROLLOUT_SECONDS
    )
    assert found["status"] == "Successful", found


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
    wanted = link.limits.instance * cni.OLD_SHARE
    assert [rate(line) for line in limited] == pytest.approx([wanted, wanted], rel=0.002)
