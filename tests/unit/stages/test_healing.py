"""What vanishes while a run measures: it is recreated, waited for, or replaced by another node."""

from __future__ import annotations

import csv
import io

import pytest

from rackrate.errors import AccessLost, ClusterUnreachable, ServersNotReady
from rackrate.measure import counters
from rackrate.measure.obstacles import PATIENCE_SECONDS, REPLACEMENT_SECONDS
from rackrate.stages.run import deploy as deploy_stage
from rackrate.stages.run.analyze import analyze
from rackrate.stages.run.await_servers import await_servers
from rackrate.stages.run.launch import launch
from rackrate.stages.run.report import report
from rackrate.stages.run.teardown import teardown_of_execution
from rackrate.stages.stack.bootstrap import MOST_HEALS
from tests.unit.samples import node
from tests.unit.stages.runs import (
    PODS,
    RUN,
    States,
    collect_pods,
    in_cluster,
    json_of,
    missed,
    trials,
    without_node_groups,
)


def of_kind(cluster, kind):
    return {path for path, thing in cluster.objects.items() if thing.get("kind") == kind}


def test_an_item_whose_owner_was_deleted_makes_it_again_and_measures(
    deploy, measure, cluster, store, resources
):
    items = deploy()
    before = set(cluster.objects)
    cluster.objects.clear()
    assert not launch(RUN, items[0], resources).ready
    assert set(cluster.objects) == before
    assert measure(items[0]).pods == 2
    assert {trial.status for trial in trials(store)} == {"measured"}
    assert store.runs.find(RUN).missing_since == {}


def test_an_owner_in_deletion_is_waited_for(deploy, cluster, resources):
    item = deploy()[0]
    (owner,) = of_kind(cluster, "ConfigMap")
    cluster.objects[owner]["metadata"]["deletionTimestamp"] = "2026-11-21T08:00:00Z"
    assert not launch(RUN, item, resources).ready
    cluster.objects.clear()
    assert not launch(RUN, item, resources).ready
    assert launch(RUN, item, resources).pods == 2


def test_a_server_that_was_deleted_is_waited_for(deploy, measure, cluster, resources):
    item = deploy()[0]
    path = f"{PODS}/server-{item.pairs[0].server}"
    pod = cluster.objects.pop(path)
    assert not launch(RUN, item, resources).ready
    assert not cluster.of_role("client"), "nothing was started"
    cluster.objects[path] = pod
    assert measure(item).pods == 2


def test_a_late_launch_makes_nothing_for_a_run_that_was_stopped(deploy, cluster, resources):
    item = deploy()[0]
    cluster.objects.clear()
    with pytest.raises(ServersNotReady, match="has ended"):
        launch(RUN, item, resources.but(step_functions=States("ABORTED")))
    assert cluster.objects == {}


LOST = ClusterUnreachable("the cluster refuses this function", access_lost=True)


@pytest.fixture
def refuse(monkeypatch, cluster):
    """Return a function that lets the cluster refuse everything, or nothing again."""

    def refusal(*_, **__):
        raise LOST

    def do(refused=True):
        monkeypatch.undo()
        if refused:
            for call in ("list", "get", "create", "delete", "delete_all", "watch", "log"):
                monkeypatch.setattr(cluster, call, refusal)

    return do


def test_a_run_that_lost_its_namespace_asks_for_it_and_then_measures(
    plan, measure, refuse, store, resources
):
    plan()
    items = store.runs.items(RUN)
    refuse()
    deploy_stage.deploy(RUN, resources)
    assert await_servers(RUN, resources).access_lost
    refuse(False)
    assert not await_servers(RUN, resources).ready, "what Deploy could not make is made now"
    assert await_servers(RUN, resources).ready
    refuse()
    launched = launch(RUN, items[0], resources)
    assert (launched.ready, launched.access_lost, launched.pods) == (False, True, 0)
    refuse(False)
    assert measure(items[0]).pods == 2
    assert store.runs.find(RUN).heals == 2


def test_trials_whose_pods_went_with_the_namespace_are_started_again_in_the_same_attempt(
    deploy, measure, refuse, cluster, store, resources
):
    item = deploy()[0]
    launched = launch(RUN, item, resources)
    refuse()
    collected = collect_pods(resources, item, launched, seconds=0)
    assert (collected.finished, collected.access_lost) == (False, True)
    assert trials(store) == []
    refuse(False)
    cluster.objects.clear()
    assert not launch(RUN, item, resources).ready
    assert measure(item).attempt == 1
    assert {trial.status for trial in trials(store)} == {"measured"}


def test_a_run_whose_namespace_is_deleted_again_and_again_ends_and_says_so(
    deploy, refuse, store, resources
):
    item = deploy()[0]
    refuse()
    for _ in range(MOST_HEALS):
        assert launch(RUN, item, resources).access_lost
    with pytest.raises(AccessLost, match="recreated 3 times"):
        launch(RUN, item, resources)
    assert store.runs.find(RUN).gave_up.error == "AccessLost"
    assert launch(RUN, item, resources).pods == 0, "and starts nothing any more"
    refuse(False)
    with pytest.raises(AccessLost, match="the cluster refuses this function"):
        analyze(RUN, resources, after_failure=False)


def test_a_teardown_without_rights_asks_for_them(deploy, refuse, cluster, resources):
    deploy()
    refuse()
    torn = teardown_of_execution(RUN, resources)
    assert (torn.gone, torn.access_lost) == (False, True)
    refuse(False)
    assert not teardown_of_execution(RUN, resources).access_lost
    assert cluster.objects == {}


def test_an_api_that_does_not_answer_is_no_lost_access(deploy, monkeypatch, cluster, resources):
    item = deploy()[0]

    def silent(*_, **__):
        raise ClusterUnreachable("the API does not answer")

    monkeypatch.setattr(cluster, "list", silent)
    with pytest.raises(ClusterUnreachable):
        launch(RUN, item, resources)


@pytest.fixture
def lose(cluster, ec2):
    """Return a function that deletes a node, and lets another one join its group.

    `node-x` and `node-y` are in the placement group of the treatment.
    """
    for name in ("node-a", "node-b", "node-x", "node-y"):
        ec2.place(name, "group-1", "cluster")
    ec2.place("node-c")
    ec2.place("node-d")

    def do(name, *new):
        lost = in_cluster(cluster, name)
        cluster.nodes.remove(lost)
        group = lost["metadata"]["labels"]["eks.amazonaws.com/nodegroup"]
        pod = cluster.objects.pop(f"{PODS}/server-{name}")
        for each in new:
            cluster.nodes.append(node(each, group))
            cluster.objects[f"{PODS}/server-{each}"] = {
                "metadata": {**pod["metadata"], "name": f"server-{each}"},
                "spec": {**pod["spec"], "nodeName": each},
                "status": {**pod["status"], "podIP": f"10.0.9.{len(cluster.nodes)}"},
            }

    return do


def test_another_node_takes_the_place_of_a_lost_one_and_the_trials_name_it(
    lose, deploy, measure, cluster, store, resources
):
    items = deploy()
    measure(items[0])
    lose("node-a", "node-x")
    assert not launch(RUN, items[1], resources).ready
    nodes = []
    cluster.on_client = lambda pod: (nodes.append(pod["spec"]["nodeName"]), cluster.succeed(pod))
    assert measure(items[1]).pods == 2
    clients = {pair.client for pair in items[1].pairs}
    assert ("node-x" in nodes) == ("node-a" in clients)
    assert "node-a" not in nodes
    first, second = (
        {t.key: t for t in trials(store) if t.block == block and t.arm == "treatment"}
        for block in (1, 2)
    )
    assert {(key.client, key.server) for key in [*first, *second]} <= {
        ("node-a", "node-b"),
        ("node-b", "node-a"),
    }, "places keep their names, so blocks stay paired"
    for of_block, names in ((first, {"node-a", "node-b"}), (second, {"node-x", "node-b"})):
        assert {n for t in of_block.values() for n in (t.client_name, t.server_name)} == names
    (replaced,) = store.runs.find(RUN).replacements
    assert (replaced.place, replaced.lost, replaced.node.name) == ("node-a", "node-a", "node-x")
    assert (replaced.block, replaced.why) == (2, "is gone")
    assert replaced.node.ec2_placement.group == "group-1"


@pytest.mark.parametrize(
    "placed",
    [
        {},
        {"group": "group-2", "strategy": "cluster"},
        {"group": "group-1", "strategy": "cluster", "PartitionNumber": 2},
    ],
)
def test_a_node_outside_the_arms_placement_group_takes_no_place_in_it(
    lose, ec2, deploy, store, resources, placed
):
    item = deploy()[0]
    ec2.place("node-x", **placed)
    lose("node-a", "node-x")
    launch(RUN, item, resources)
    assert store.runs.find(RUN).replacements == ()


def test_a_node_of_the_other_arm_or_of_another_type_takes_no_place(
    lose, deploy, cluster, store, resources
):
    item = deploy()[0]
    lose("node-a", "node-x")
    cluster.nodes[-1]["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "c5n.large"
    launch(RUN, item, resources)
    assert store.runs.find(RUN).replacements == ()


def test_a_node_that_is_only_not_ready_keeps_its_place_until_patience_ends(
    lose, deploy, cluster, store, resources
):
    item = deploy()[0]
    lose("node-a", "node-x")
    cluster.nodes.append(node("node-a", "ng-1", ready=False))
    assert not launch(RUN, item, resources).ready
    assert store.runs.find(RUN).replacements == ()
    missed(store, 61, "node-a")
    assert not launch(RUN, item, resources).ready
    (replaced,) = store.runs.find(RUN).replacements
    assert replaced.why == "was not Ready for 60 s"
    assert launch(RUN, item, resources).pods == 2


def test_a_replacement_that_is_lost_is_replaced_too(lose, deploy, measure, store, resources):
    items = deploy()
    lose("node-a", "node-x")
    launch(RUN, items[0], resources)
    measure(items[0])
    lose("node-x", "node-y")
    launch(RUN, items[1], resources)
    assert measure(items[1]).pods == 2
    replacements = [
        (each.place, each.lost, each.node.name) for each in store.runs.find(RUN).replacements
    ]
    assert replacements == [("node-a", "node-a", "node-x"), ("node-a", "node-x", "node-y")]


def test_two_calls_at_once_agree_on_a_replacement(lose, deploy, store, resources):
    item = deploy()[0]
    lose("node-a", "node-x")
    launch(RUN, item, resources)
    replacements = store.runs.find(RUN).replacements
    assert store.runs.replace_nodes(RUN, replacements, ()) is None, "the other call came first"
    assert store.runs.find(RUN).replacements == replacements


def test_results_say_which_node_was_replaced_and_from_which_block_on(
    lose, deploy, measure, store, resources
):
    items = deploy()
    measure(items[0])
    lose("node-a", "node-x")
    launch(RUN, items[1], resources)
    measure(*items[1:6])
    analyze(RUN, resources, after_failure=False)
    report(RUN, resources, failure=None)
    results = json_of(store, "results.json")
    (replacement,) = results["replacements"]
    facts = (replacement["lost"], replacement["node"]["name"], replacement["block"])
    assert facts == ("node-a", "node-x", 2)
    (warning,) = [each for each in results["warnings"] if "node-x" in each]
    assert warning.startswith("The node node-a of treatment was replaced by node-x in block 2")
    assert "node-x in block 2" in store.runs.find_text(RUN, "report.html").decode()


def test_a_node_that_is_gone_is_waited_for_as_long_as_its_group_needs_for_another(
    lose, deploy, store, resources
):
    item = deploy()[0]
    lose("node-a")
    missed(store, REPLACEMENT_SECONDS - 10, "node-a")
    assert not launch(RUN, item, resources).ready
    run = store.runs.find(RUN)
    assert (run.phase, run.gave_up) == ("waiting for another node in place of node-a", None)
    missed(store, REPLACEMENT_SECONDS + 1, "node-a")
    assert launch(RUN, item, resources).ready
    over = store.runs.find(RUN).gave_up
    assert over.error == "NodesUnavailable"
    assert over.message.endswith("node node-a is gone, and no other node has come in its place")


def test_the_server_of_a_node_that_is_gone_counts_as_missing_though_its_pod_is_there(
    lose, deploy, cluster, store, resources
):
    item = deploy()[0]
    pod = cluster.objects[f"{PODS}/server-node-a"]
    lose("node-a")
    cluster.objects[f"{PODS}/server-node-a"] = pod
    assert not launch(RUN, item, resources).ready
    assert store.runs.find(RUN).phase == "waiting for another node in place of node-a"


def test_a_node_whose_instance_was_terminated_gets_the_same_time(
    lose, ec2, deploy, cluster, store, resources
):
    item = deploy()[0]
    lose("node-a")
    cluster.nodes.append(node("node-a", "ng-1", ready=False))
    ec2.terminate("node-a")
    missed(store, REPLACEMENT_SECONDS - 10, "node-a")
    assert not launch(RUN, item, resources).ready
    lost = cluster.nodes.pop()
    lose_to = node("node-x", "ng-1")
    cluster.nodes += [lost, lose_to]
    assert not launch(RUN, item, resources).ready
    (replaced,) = store.runs.find(RUN).replacements
    assert replaced.why == "was terminated"


def test_a_node_of_no_group_is_not_waited_for_longer(lose, deploy, cluster, store, resources):
    labelled = without_node_groups(cluster)
    item = deploy(settings=labelled)[0]
    cluster.nodes = cluster.nodes[1:]
    cluster.objects.pop(f"{PODS}/server-node-a")
    missed(store, PATIENCE_SECONDS + 1, "node-a")
    assert launch(RUN, item, resources.but(settings=labelled)).ready


def test_marks_and_rows_name_the_node_that_measured_a_trial(
    lose, deploy, measure, store, resources
):
    items = deploy()
    measure(items[0])
    lose("node-a", "node-x")
    launch(RUN, items[1], resources)
    measure(*items[1:6])
    counted = {"eth0": {"bw_out_allowance_exceeded": 0}}
    risen = {"eth0": {"bw_out_allowance_exceeded": 7}}
    store.runs.put(
        RUN,
        counters.NAME,
        counters.Counters(
            before={"node-a": counted, "node-b": counted},
            after={"node-a": risen, "node-b": counted},
            note=None,
        ),
    )
    analyze(RUN, resources, after_failure=False)
    report(RUN, resources, failure=None)
    results = json_of(store, "results.json")
    marked = {mark["block"] for mark in results["marks"] if mark["mark"] == "ena_allowance"}
    assert marked == {1}, "only the trials that the first node measured"
    lines = list(csv.DictReader(io.StringIO(store.runs.find_text(RUN, "trials.csv").decode())))
    treatment = [each for each in lines if each["arm"] == "treatment"]
    assert {
        each["block"]: {each["client"], each["server"]} for each in treatment if each["block"] < "3"
    } == {"1": {"node-a", "node-b"}, "2": {"node-x", "node-b"}}
    assert (
        "node-x, in place of node-a, in block 2"
        in store.runs.find_text(RUN, "report.html").decode()
    )
