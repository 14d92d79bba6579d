"""Arms whose clients reach the servers through Services."""

from __future__ import annotations

import pytest

from rackrate.plan.items import block_items
from rackrate.stages.run.await_servers import await_servers
from rackrate.stages.run.launch import launch
from rackrate.stages.run.teardown import teardown
from tests.unit.stages import runs
from tests.unit.stages.runs import PODS, RUN, Eks, trials

PLAN = {
    **runs.PLAN,
    "tests": runs.PLAN["tests"][:1],
    "arms": ["baseline", {"name": "served", "nodes": "baseline", "via": "service"}],
    "baseline": "baseline",
}


@pytest.fixture
def items(deploy):
    return block_items(deploy(PLAN))


@pytest.fixture
def wait(resources):
    return lambda: await_servers(RUN, resources.but(eks=Eks()))


@pytest.fixture
def clients(cluster):
    """The client pods as they are started, by arm: server's node, and address in the command."""
    seen = {}

    def note(pod):
        arm = pod["metadata"]["labels"]["rackrate.dev/arm"]
        command = pod["spec"]["containers"][0]["command"]
        server = pod["metadata"]["annotations"]["rackrate.dev/server-node"]
        seen[arm] = (server, command[command.index("--client") + 1])
        cluster.succeed(pod)

    cluster.on_client = note
    return seen


def of_kind(cluster, kind):
    return {path: each for path, each in cluster.objects.items() if each.get("kind") == kind}


def way_to(cluster, node):
    """The address of the Service of a node's server, and where it leads."""
    (service,) = [
        each
        for each in of_kind(cluster, "Service").values()
        if each["metadata"]["annotations"]["rackrate.dev/server-node"] == node
    ]
    (endpoints,) = [
        each
        for each in of_kind(cluster, "EndpointSlice").values()
        if each["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    ]
    ports = [(port["protocol"], port["port"]) for port in service["spec"]["ports"]]
    assert ports == [(port["protocol"], port["port"]) for port in endpoints["ports"]]
    (endpoint,) = endpoints["endpoints"]
    return service["spec"]["clusterIP"], endpoint["addresses"], ports


def test_clients_of_such_an_arm_alone_connect_to_the_service_of_their_server(
    items, measure, cluster, wait, clients, store
):
    assert not wait().ready, "kube-proxy has to hear of new Services first"
    assert wait().ready
    measure(*items[:2])
    server, address = clients["served"]
    own = cluster.objects[f"{PODS}/server-{server}"]["status"]["podIP"]
    assert way_to(cluster, server) == (address, [own], [("TCP", 5201), ("UDP", 5201)])
    server, address = clients["baseline"]
    assert address == cluster.objects[f"{PODS}/server-{server}"]["status"]["podIP"]
    assert {trial.arm: trial.via for trial in trials(store)} == {
        "baseline": "pod",
        "served": "service",
    }


def test_what_somebody_deletes_is_recreated_before_a_client_starts(
    items, cluster, wait, clients, resources
):
    wait()
    for path in [*of_kind(cluster, "Service"), *of_kind(cluster, "EndpointSlice")]:
        del cluster.objects[path]
    (item,) = [each for each in items[:2] if each.pairs[0].via == "service"]
    waiting = launch(RUN, item, resources)
    assert (waiting.ready, waiting.pods, clients) == (False, 0, {})
    assert launch(RUN, item, resources).pods == 1
    server, address = clients["served"]
    assert way_to(cluster, server)[0] == address


def test_the_way_follows_a_server_that_comes_back_with_another_address(items, cluster, wait):
    wait()
    before = way_to(cluster, "node-d")
    cluster.objects[f"{PODS}/server-node-d"]["status"]["podIP"] = "10.0.0.99"
    assert not wait().ready
    assert wait().ready
    address, endpoints, _ = way_to(cluster, "node-d")
    assert (address, endpoints) == (before[0], ["10.0.0.99"])


def test_nothing_of_it_is_left_and_other_runs_have_none(items, deploy, cluster, wait, resources):
    wait()
    assert of_kind(cluster, "Service")
    teardown(RUN, resources)
    assert not of_kind(cluster, "Service")
    assert not of_kind(cluster, "EndpointSlice")
    deploy()
    assert wait().ready
    assert not of_kind(cluster, "Service")
