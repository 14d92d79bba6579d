"""Arms on the same nodes, between pods and between the nodes themselves."""

from __future__ import annotations

import pytest

from rackrate.errors import ServersNotReady
from rackrate.measure import manifests
from rackrate.plan.items import block_items, planned_trials
from rackrate.results.build import RunFailure
from rackrate.stages.run.await_servers import await_servers
from rackrate.stages.run.check_links import Links, check_links
from rackrate.stages.run.collect import give_up
from rackrate.stages.run.deploy import deploy as deploy_servers
from rackrate.stages.run.launch import launch
from rackrate.stages.run.teardown import sweep
from tests.unit.samples import HOST_SETTINGS, SETTINGS
from tests.unit.stages import runs
from tests.unit.stages.runs import PODS, RUN, Eks, States, failing, trials

PLAN = {
    **runs.PLAN,
    "arms": [
        "treatment",
        "baseline",
        {
            "name": "host",
            "nodes": "treatment",
            "client_network": "host",
            "server_network": "host",
        },
        {"name": "inwards", "nodes": "treatment", "client_network": "host"},
    ],
    "baseline": "treatment",
}
HOST_PODS = "/api/v1/namespaces/rackrate-host/pods"


@pytest.fixture
def settings():
    return HOST_SETTINGS


@pytest.fixture
def items(deploy):
    return block_items(deploy(PLAN))


def test_servers_run_once_for_each_nodes_and_network(items, cluster):
    sets = [path for path in cluster.objects if "/daemonsets/" in path]
    assert len(sets) == 3, "two sets of nodes between pods, and one on the nodes"
    hosts = cluster.of_role("server", "rackrate-host")
    assert [pod["spec"]["nodeName"] for pod in hosts] == ["node-a", "node-b"]
    owners = [p.split("/")[4] for p in cluster.objects if "/configmaps/" in p]
    assert sorted(owners) == ["rackrate", "rackrate-host"]


def test_what_a_run_owns_is_owned_by_the_owner_of_its_own_namespace(items, measure, cluster):
    clients = []
    cluster.on_client = lambda pod: (clients.append(pod), cluster.succeed(pod))
    measure(*items)
    sets = [thing for thing in cluster.objects.values() if thing.get("kind") == "DaemonSet"]
    for namespace in ("rackrate", "rackrate-host"):
        owned = [t for t in [*clients, *sets] if t["metadata"]["namespace"] == namespace]
        assert {thing["kind"] for thing in owned} == {"Pod", "DaemonSet"}
        (owner,) = cluster.list(f"/api/v1/namespaces/{namespace}/configmaps")
        uids = {t["metadata"]["ownerReferences"][0]["uid"] for t in owned}
        assert uids == {owner["metadata"]["uid"]}


def test_clients_are_where_their_network_puts_them_and_find_the_server_there(
    items, measure, cluster
):
    seen = {}

    def client(pod):
        arm = pod["metadata"]["labels"][manifests.ARM]
        address = next(
            word
            for container in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
            for word in container["command"]
            if word.count(".") == 3
        )
        host = bool(pod["spec"].get("hostNetwork"))
        seen.setdefault(arm, set()).add(
            (pod["metadata"]["namespace"], host, address.rpartition(".")[0])
        )
        cluster.succeed(pod)

    cluster.on_client = client
    measure(*items)
    assert seen == {
        "treatment": {("rackrate", False, "10.0.0")},
        "baseline": {("rackrate", False, "10.0.0")},
        "host": {("rackrate-host", True, "192.0.2")},
        "inwards": {("rackrate-host", True, "10.0.0")},
    }


def test_trials_of_arms_on_the_same_nodes_are_kept_apart_and_say_their_networks(
    items, measure, cluster, store
):
    measure(*items)
    stored = store.trials.of(RUN)
    assert set(stored) == set(planned_trials(items))
    assert {trial.status for trial in stored.values()} == {"measured"}
    networks = {
        key.arm: (trial.client_network, trial.server_network) for key, trial in stored.items()
    }
    assert networks == {
        "treatment": ("pod", "pod"),
        "baseline": ("pod", "pod"),
        "host": ("host", "host"),
        "inwards": ("host", "pod"),
    }
    assert cluster.of_role("client") == []


def test_arms_on_the_same_nodes_are_repeated_one_after_the_other_and_count_together(
    items, measure, cluster, store
):
    lost_test = items[0].tests[-1].name
    of_block_1 = [item for item in items if item.block == 1]
    assert len(of_block_1) == 3, "three arms take turns, and the fourth has nodes of its own"
    cluster.on_client = failing(cluster, "host", lost_test)
    measure(*of_block_1)
    cluster.on_client = cluster.succeed
    measure(*items[3:])
    makeup = store.runs.items(RUN)[-1]

    def repeated():
        return {t.arm: t.repeated_together for t in trials(store) if t.attempt == 2}

    launched = measure(makeup)
    assert (launched.attempt, launched.pods) == (2, 4)
    assert [item.round for item in launched.repeated] == [1, 2, 3]
    assert repeated() == dict.fromkeys(("treatment", "baseline", "host", "inwards"), True)
    assert {(t.block, t.test) for t in trials(store) if t.attempt == 2} == {(1, lost_test)}
    assert measure(makeup).pods == 0


def test_arms_on_the_same_nodes_keep_their_first_values_if_one_of_them_cannot_be_repeated(
    items, measure, cluster, store
):
    lost_test = items[0].tests[-1].name
    cluster.on_client = failing(cluster, "host", lost_test)
    measure(*items[:3])
    before = store.trials.of(RUN)
    cluster.on_client = cluster.succeed
    measure(*items[3:])
    makeup = store.runs.items(RUN)[-1]
    cluster.on_client = failing(cluster, "inwards", lost_test)
    while measure(makeup).pods:
        pass
    (again,) = (trial for trial in trials(store) if trial.attempt == 2)
    assert (again.arm, again.is_measured, again.repeated_together) == ("host", True, False)
    assert all(store.trials.of(RUN)[key] == t for key, t in before.items() if key != again.key)


def test_all_pairs_of_all_networks_are_warmed_up(items, measure, store, resources):
    measure(*store.runs.items(RUN, "warm_up.json"))
    assert check_links(RUN, resources) == Links(links=4, down=0)


def test_servers_of_both_networks_are_awaited(items, cluster, resources):
    def ready():
        return await_servers(RUN, resources.but(eks=Eks())).ready

    assert ready() is True
    for path in (f"{PODS}/server-node-c", f"{HOST_PODS}/server-node-b"):
        gone = cluster.objects.pop(path)
        assert ready() is False, path
        cluster.objects[path] = gone


def test_an_item_given_up_leaves_no_client_in_either_namespace(items, cluster, resources):
    cluster.on_client = lambda pod: None
    for item in items[:3]:
        launch(RUN, item, resources)
    assert cluster.of_role("client", "rackrate") and cluster.of_role("client", "rackrate-host")
    give_up(RUN, items[0], RunFailure("Throttled", "x"), resources)
    assert cluster.of_role("client") == []


@pytest.mark.parametrize("left", ["rackrate", "rackrate-host"])
def test_the_sweep_finds_an_owner_that_is_left_in_one_namespace(items, cluster, resources, left):
    for path in list(cluster.objects):
        if f"/namespaces/{left}/" not in path:
            del cluster.objects[path]
    swept = sweep(resources.but(step_functions=States("ABORTED")))
    assert swept.runs == (RUN,)
    assert cluster.objects == {}


def test_a_stack_that_no_longer_allows_it_says_how_to_allow_it(items, resources):
    with pytest.raises(ServersNotReady, match='HostNetwork "true"'):
        deploy_servers(RUN, resources.but(settings=SETTINGS))
