"""Servers: the nodes that get them, and when they are ready or have failed."""

from __future__ import annotations

import pytest
from botocore.exceptions import ConnectTimeoutError

from rackrate.errors import ClusterUnreachable, NodesUnavailable, ServersNotReady
from rackrate.measure.obstacles import REPLACEMENT_SECONDS
from rackrate.stages.run.await_servers import Readiness, await_servers, servers_seconds
from rackrate.stages.run.deploy import deploy as deploy_servers
from tests.unit.samples import NODES, SETTINGS, node
from tests.unit.stages.runs import PODS, RUN, Eks, States, missed, without_node_groups


def test_each_arm_gets_servers_and_deploying_again_is_harmless(deploy, cluster, resources):
    deploy()
    assert len(cluster.of_role("server")) == 4
    before = dict(cluster.objects)
    deploy_servers(RUN, resources)
    assert cluster.objects == before


def test_a_deploy_that_meets_an_owner_in_deletion_is_to_be_repeated(deploy, cluster, resources):
    deploy()
    owner = next(each for path, each in cluster.objects.items() if "/configmaps/" in path)
    owner["metadata"]["deletionTimestamp"] = "2026-11-21T08:00:00Z"
    with pytest.raises(ClusterUnreachable, match="still there"):
        deploy_servers(RUN, resources)


def test_a_daemon_set_of_an_earlier_owner_is_not_taken_for_a_new_one(deploy, cluster, resources):
    deploy()
    owner = next(path for path in cluster.objects if "/configmaps/" in path)
    del cluster.objects[owner]
    with pytest.raises(ClusterUnreachable, match="still there"):
        deploy_servers(RUN, resources)


def test_a_late_deploy_leaves_nothing_of_a_run_that_was_stopped(deploy, cluster):
    with pytest.raises(ServersNotReady, match="has ended"):
        deploy(step_functions=States("ABORTED"))
    assert cluster.objects == {}


def complain(cluster, reason, message):
    """Let the servers' containers wait with a complaint of the kubelet."""
    for pod in cluster.of_role("server"):
        waiting = {"reason": reason, "message": message}
        pod["status"]["containerStatuses"] = [{"name": "iperf3", "state": {"waiting": waiting}}]
        pod["status"]["conditions"] = []


@pytest.fixture
def wait(resources):
    return lambda eks=None: await_servers(RUN, resources.but(eks=eks or Eks()))


def test_ready_when_every_node_has_a_server_that_listens(deploy, wait):
    deploy()
    assert wait() == Readiness(ready=True, wait_seconds=0)


def test_not_ready_while_one_is_missing(deploy, cluster, wait):
    deploy()
    del cluster.objects[f"{PODS}/server-node-d"]
    awaited = wait()
    assert (awaited.ready, awaited.wait_seconds > 0) == (False, True)


def test_servers_that_had_their_time_are_named_with_their_complaint(deploy, cluster, store, wait):
    cluster.servers_ready = False
    deploy()
    complain(cluster, "ErrImagePull", "no such image")
    missed(store, 301, *NODES["treatment"], *NODES["baseline"])
    with pytest.raises(ServersNotReady, match=r"node-a.*ErrImagePull: no such image"):
        wait()


def test_many_servers_may_take_longer_because_kubernetes_makes_them_one_by_one():
    # 1002 took 195 s in the lab of simulated nodes, whose images are there.
    assert servers_seconds(1002) > 2 * 195
    assert servers_seconds(2) == servers_seconds(60) == 300


def test_a_port_that_another_run_holds_is_reported_by_the_scheduler(deploy, cluster, store, wait):
    deploy()
    for pod in cluster.of_role("server"):
        message = "0/4 nodes are available: 1 node(s) didn't have free ports"
        status = {"status": "False", "reason": "Unschedulable", "message": message}
        pod["status"] = {"conditions": [{"type": "PodScheduled", **status}]}
    missed(store, 301, *NODES["treatment"], *NODES["baseline"])
    with pytest.raises(ServersNotReady, match=r"Unschedulable: .*didn't have free ports"):
        wait()


def test_a_server_that_the_image_lacks_is_not_waited_for(deploy, cluster, wait):
    deploy()
    message = 'exec: "iperf3": executable file not found in $PATH: unknown'
    complain(cluster, "RunContainerError", message)
    with pytest.raises(ServersNotReady, match=r"no iperf3 in the image .*ToolImage=build"):
        wait()


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_an_image_that_its_registry_lacks_is_not_waited_for(deploy, cluster, wait, reason):
    deploy()
    image = SETTINGS.tool_image
    complain(cluster, reason, f"failed to resolve reference {image!r}: {image}: not found")
    with pytest.raises(ServersNotReady, match=f"no image {image} in its registry.*ToolImage"):
        wait()


def test_a_registry_that_does_not_answer_is_waited_for(deploy, cluster, wait):
    deploy()
    complain(cluster, "ErrImagePull", "dial tcp: lookup registry: no such host")
    assert not wait().ready


def test_a_lost_node_that_no_node_group_manages_is_named_without_one(deploy, cluster, store, wait):
    deploy(settings=without_node_groups(cluster))
    cluster.nodes = cluster.nodes[1:]
    cluster.objects.pop(f"{PODS}/server-node-a")
    missed(store, 61, "node-a")
    with pytest.raises(NodesUnavailable, match="node-a not Ready; EKS reports no health"):
        wait()


def test_a_node_that_stays_away_is_named_with_the_health_of_its_group(deploy, cluster, store, wait):
    deploy()
    cluster.nodes[0] = node("node-a", "ng-1", ready=False)
    del cluster.objects[f"{PODS}/server-node-a"]
    assert not wait(Eks(("Broken", "gone"))).ready, "it may come back"
    missed(store, 61, "node-a")
    with pytest.raises(NodesUnavailable, match=r"treatment: node-a.*Broken: gone"):
        wait(Eks(("Broken", "gone")))


def test_a_node_that_stays_away_is_named_with_the_failed_launch_of_its_group(
    deploy, cluster, store, wait, autoscaling
):
    deploy()
    cluster.nodes[0] = node("node-a", "ng-1", ready=False)
    del cluster.objects[f"{PODS}/server-node-a"]
    missed(store, 61, "node-a")
    autoscaling.note("eks-ng-1", "Failed", "Insufficient capacity.")
    with pytest.raises(NodesUnavailable, match=r"not Ready; node group ng-1: Insufficient cap"):
        wait()
    autoscaling.fails = ConnectTimeoutError(endpoint_url="https://autoscaling")
    with pytest.raises(NodesUnavailable, match=r"EKS reports no .* ng-1; the activities .* not r"):
        wait()


def test_a_node_that_is_gone_is_awaited_as_long_as_its_group_needs_for_another(
    deploy, cluster, store, wait
):
    deploy()
    cluster.nodes = cluster.nodes[1:]
    del cluster.objects[f"{PODS}/server-node-a"]
    missed(store, REPLACEMENT_SECONDS - 10, "node-a")
    assert not wait().ready
    assert store.runs.find(RUN).phase == "waiting for another node in place of node-a"
    missed(store, REPLACEMENT_SECONDS + 1, "node-a")
    with pytest.raises(NodesUnavailable, match=r"treatment: node-a not Ready"):
        wait()


def test_another_node_is_awaited_in_place_of_one_that_is_gone(deploy, cluster, store, ec2, wait):
    for name in ("node-a", "node-b", "node-x"):
        ec2.place(name, "g", "cluster")
    for name in ("node-c", "node-d"):
        ec2.place(name)
    deploy()
    del cluster.objects[f"{PODS}/server-node-a"]
    cluster.nodes[0] = node("node-x", "ng-1")
    assert not wait().ready
    (replaced,) = store.runs.find(RUN).replacements
    assert (replaced.node.name, replaced.block) == ("node-x", 0)
    assert "replaced by node-x before block 1, because it is gone" in str(replaced)
    assert store.runs.find(RUN).phase == "waiting for servers"
    missed(store, 100, "node-a")
    assert not wait().ready, "the node is there, so its server may take its time"
    pod = cluster.objects[f"{PODS}/server-node-b"]
    cluster.objects[f"{PODS}/server-node-x"] = {
        **pod,
        "spec": {"nodeName": "node-x"},
        "metadata": {**pod["metadata"], "name": "server-node-x"},
    }
    assert wait().ready


def test_servers_whose_owner_was_deleted_are_recreated_while_they_are_awaited(
    deploy, cluster, wait
):
    deploy()
    before = dict(cluster.objects)
    cluster.objects.clear()
    assert not wait().ready
    assert wait() == Readiness(ready=True, wait_seconds=0)
    assert cluster.objects.keys() == before.keys()


def test_a_node_that_comes_back_in_time_costs_nothing(deploy, cluster, store, wait):
    deploy()
    (pod,) = [each for path, each in cluster.objects.items() if path.endswith("server-node-a")]
    pod["status"]["conditions"][0]["status"] = "False"
    cluster.nodes[0]["status"]["conditions"][0]["status"] = "Unknown"
    assert not wait().ready
    assert list(store.runs.find(RUN).missing_since) == ["node-a"]
    pod["status"]["conditions"][0]["status"] = "True"
    assert wait().ready
    assert store.runs.find(RUN).missing_since == {}
