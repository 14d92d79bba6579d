"""Servers: the nodes that get them, and when they are ready or have failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackrate.errors import NodesUnavailable, ServersNotReady
from rackrate.selectors import Selector
from rackrate.stages import await_servers as awaiting
from rackrate.stages.await_servers import Readiness, await_servers
from rackrate.stages.deploy import deploy as deploy_servers
from tests.unit.samples import NODES, SETTINGS
from tests.unit.stages.runs import ARN, PODS, RUN, Eks


def test_each_arm_gets_servers_and_everything_has_an_owner(deploy, cluster):
    deploy()
    assert len(cluster.of_role("server")) == 4


def test_deploying_again_is_harmless(deploy, cluster, resources):
    deploy()
    before = dict(cluster.objects)
    deploy_servers(RUN, ARN, resources)
    assert cluster.objects == before


@pytest.fixture
def wait(resources):
    return lambda eks=None: await_servers(RUN, resources.but(eks=eks or Eks()))


def test_ready_when_every_node_has_a_server_that_listens(deploy, wait):
    deploy()
    assert wait() == Readiness(ready=True, wait_seconds=0)


def test_not_ready_while_one_is_missing(deploy, cluster, monkeypatch, wait):
    deploy()
    monkeypatch.setattr(awaiting, "_age_seconds", lambda owner: 10)
    del cluster.objects[f"{PODS}/server-node-d"]
    found = wait()
    assert (found.ready, found.wait_seconds > 0) == (False, True)


def test_servers_that_had_their_time_are_named_with_their_complaint(deploy, cluster, wait):
    cluster.servers_ready = False
    deploy()
    for pod in cluster.of_role("server"):
        waiting = {"reason": "ErrImagePull", "message": "no such image"}
        pod["status"]["containerStatuses"] = [{"name": "iperf3", "state": {"waiting": waiting}}]
        pod["status"].pop("podIP")
    owner = cluster.list("/api/v1/namespaces/rackrate/configmaps")[0]
    owner["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    with pytest.raises(ServersNotReady, match=r"node-a.*ErrImagePull: no such image"):
        wait()


def test_a_port_that_another_run_holds_is_told_by_the_scheduler(deploy, cluster, wait):
    deploy()
    for pod in cluster.of_role("server"):
        message = "0/4 nodes are available: 1 node(s) didn't have free ports"
        status = {"status": "False", "reason": "Unschedulable", "message": message}
        pod["status"] = {"conditions": [{"type": "PodScheduled", **status}]}
    owner = cluster.list("/api/v1/namespaces/rackrate/configmaps")[0]
    owner["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    with pytest.raises(ServersNotReady, match=r"Unschedulable: .*didn't have free ports"):
        wait()


def test_a_server_that_the_image_lacks_is_not_waited_for(deploy, cluster, wait):
    deploy()
    message = 'exec: "iperf3": executable file not found in $PATH: unknown'
    for pod in cluster.of_role("server"):
        waiting = {"reason": "RunContainerError", "message": message}
        pod["status"]["containerStatuses"] = [{"name": "iperf3", "state": {"waiting": waiting}}]
        pod["status"]["conditions"] = []
    with pytest.raises(ServersNotReady, match=r"no iperf3 in the image .*ToolImage=build"):
        wait()


def test_a_lost_node_that_no_node_group_manages_is_named_without_one(deploy, cluster, wait):
    for found in cluster.nodes:
        del found["metadata"]["labels"]["eks.amazonaws.com/nodegroup"]
        is_treatment = found["metadata"]["name"] in NODES["treatment"]
        found["metadata"]["labels"]["rack"] = "treatment" if is_treatment else "baseline"
    arms = tuple(
        replace(arm, node_groups=(), selector=Selector.parse(f"rack={arm.name}"))
        for arm in SETTINGS.arms
    )
    deploy(settings=replace(SETTINGS, arms=arms))
    cluster.nodes = cluster.nodes[1:]
    cluster.objects.pop(f"{PODS}/server-node-a")
    with pytest.raises(NodesUnavailable, match="node-a not Ready; EKS reports no health"):
        wait()


def test_a_node_that_was_lost_is_named_with_the_health_of_its_group(deploy, cluster, wait):
    deploy()
    cluster.nodes = cluster.nodes[1:]
    del cluster.objects[f"{PODS}/server-node-a"]
    with pytest.raises(NodesUnavailable, match=r"treatment: node-a.*Broken: gone"):
        wait(Eks(("Broken", "gone")))
