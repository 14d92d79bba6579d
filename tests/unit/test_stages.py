"""What the functions do, from the plan to the teardown, with the table and bucket emulated."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
import time
from dataclasses import replace
from typing import ClassVar

import pytest
from arro3.io import read_parquet
from jsonschema import Draft202012Validator

from rackrate import manifests
from rackrate.errors import (
    ClusterUnreachable,
    InvalidPlan,
    LinksDown,
    NodesUnavailable,
    ServersNotReady,
    TrialsLost,
)
from rackrate.schedule import planned_trials
from rackrate.stages import (
    cleaning,
    concluding,
    linking,
    measuring,
    planning,
    reporting,
    serving,
)
from tests.templates.cloudformation import ROOT
from tests.unit.samples import HOST_SETTINGS, SETTINGS

PUBLISHED = json.loads((ROOT / "docs" / "results.schema.json").read_text())

RUN = "run-1"
ARN = "arn:aws:states:us-east-1:123456789012:execution:rackrate-benchmark:run-1"
#: Short enough for the output the fake cluster's pods print.
PLAN = {
    "tests": [
        {"name": "tcp-1", "seconds": 2},
        {"name": "tcp-8", "streams": 8, "seconds": 2},
        {"name": "rtt", "count": 10},
    ],
    "seed": 42,
}
PODS = "/api/v1/namespaces/rackrate/pods"


class Eks:
    """EKS, as far as node groups' health goes."""

    def __init__(self, *issues):
        self.issues = [{"code": code, "message": message} for code, message in issues]
        self.asked = []

    def describe_nodegroup(self, *, clusterName, nodegroupName):
        self.asked.append(nodegroupName)
        return {"nodegroup": {"status": "ACTIVE", "health": {"issues": self.issues}}}


@pytest.fixture
def settings():
    """The stack's settings; classes of tests may have others."""
    return SETTINGS


@pytest.fixture
def plan(store, cluster, ec2, settings):
    def do(raw=PLAN, eks=None, settings=settings):
        return planning.plan_run(
            raw,
            run_id=RUN,
            execution_arn=ARN,
            settings=settings,
            cluster=cluster,
            store=store,
            eks=eks or Eks(),
            ec2=ec2,
            pricing=None,
            region="us-east-1",
        )

    return do


@pytest.fixture
def deploy(plan, store, cluster, settings):
    def do(raw=PLAN, settings=settings):
        plan(raw, settings=settings)
        serving.deploy(RUN, ARN, settings=settings, cluster=cluster, store=store)
        return store.get_json(RUN, "schedule.json")

    return do


@pytest.fixture
def measure(store, cluster, settings):
    """Runs an item as the state machine does, and returns what launch said."""

    def do(item):
        launched = measuring.launch(RUN, item, settings=settings, cluster=cluster, store=store)
        if launched["pods"]:
            collected = measuring.collect(
                RUN,
                launched["item"],
                attempt=launched["attempt"],
                deadline=launched["deadline"],
                watch_seconds=1,
                settings=settings,
                cluster=cluster,
                store=store,
            )
            assert collected["finished"]
        return launched

    return do


def trials(store):
    return list(store.trials(RUN).values())


def raw_names(s3):
    listed = s3.list_objects_v2(Bucket="results", Prefix=f"runs/{RUN}/raw/")
    return [entry["Key"] for entry in listed.get("Contents", [])]


class TestPlan:
    def test_a_run_is_recorded_with_its_schedule_and_estimates(self, plan, store):
        found = plan()
        assert (found["blocks"], found["trials"], found["dry_run"]) == (6, 36, False)
        assert found["schedule_key"] == f"runs/{RUN}/schedule.json"
        run = store.run(RUN)
        assert (run["status"], run["trials_planned"], run["seed"]) == ("running", 36, 42)
        assert run["expected_seconds"] > 6 * run["expected_block_seconds"]
        stored = store.get_json(RUN, "plan.json")
        assert [arm["network"]["peak_bits_per_second"] for arm in stored["arms"]] == [10e9, 10e9]
        assert stored["estimates"]["bytes_per_node"]["node-a"]["sent"] > 1e9

    def test_planning_again_gives_the_same_schedule_and_keeps_the_start(self, plan, store):
        plan()
        before, started = store.get_json(RUN, "schedule.json"), store.run(RUN)["started_at"]
        plan()
        assert store.get_json(RUN, "schedule.json") == before
        assert store.run(RUN)["started_at"] == started

    def test_a_dry_run_is_recorded_as_such(self, plan, store):
        assert plan({**PLAN, "dry_run": True})["dry_run"] is True
        assert store.run(RUN)["status"] == "dry_run"

    def test_faults_of_the_plan_and_of_the_nodes_are_told_together(self, plan, cluster, store):
        cluster.nodes = cluster.nodes[1:]
        with pytest.raises(InvalidPlan) as caught:
            plan({"blocks": 0})
        assert {fault.path for fault in caught.value.faults} == {"blocks", "arms[0]"}
        assert store.run(RUN) is None

    def test_nodes_that_are_missing_for_a_reason_eks_knows_are_not_the_users_fault(
        self, plan, cluster
    ):
        cluster.nodes = cluster.nodes[1:]
        eks = Eks(("InsufficientInstanceCapacity", "no c5.large in this group"))
        with pytest.raises(NodesUnavailable, match=r"no c5\.large in this group"):
            plan(eks=eks)

    def test_the_node_group_that_is_to_blame_is_named_by_its_nodes_where_only_a_label_is_known(
        self, plan, cluster
    ):
        arms = tuple(replace(arm, node_group="") for arm in SETTINGS.arms)
        cluster.nodes[0]["status"]["conditions"][0]["status"] = "False"
        eks = Eks(("Ec2SubnetInvalidConfiguration", "no addresses left"))
        with pytest.raises(NodesUnavailable, match=r"node group ng-1: .*no addresses left"):
            plan(eks=eks, settings=replace(SETTINGS, arms=arms))
        assert eks.asked == ["ng-1"]

    def test_too_few_nodes_of_no_known_node_group_are_told_by_their_label(self, plan, cluster):
        arms = tuple(
            replace(arm, node_group="", selector={"rack": arm.name}) for arm in SETTINGS.arms
        )
        with pytest.raises(InvalidPlan, match="enlarge the nodes labelled rack=treatment"):
            plan(eks=NoEks(), settings=replace(SETTINGS, arms=arms))

    def test_ena_express_of_an_arm_is_stored(self, plan, store):
        arms = (replace(SETTINGS.arms[0], ena_express=True), SETTINGS.arms[1])
        plan(settings=replace(SETTINGS, arms=arms))
        stored = store.get_json(RUN, "plan.json")
        assert [arm["ena_express"] for arm in stored["arms"]] == [True, False]

    def test_a_network_scale_is_noted_and_lowers_the_ceilings(self, plan, cluster, store):
        for found in cluster.nodes:
            found["metadata"]["labels"]["rackrate.dev/network-scale"] = "0.1"
        plan()
        assert store.run(RUN)["lab_scale"] == 0.1
        used = store.get_json(RUN, "plan.json")["estimates"]["bytes_per_node"]
        # 2 s at 1 Gbit/s for each throughput test of the treatment arm, in three of six blocks; and
        # 1 s of warm-up, from the node whose name sorts first.
        assert used["node-a"] == {"sent": 1.625e9, "received": 1.5e9}


class TestServers:
    def test_each_arm_gets_servers_and_everything_has_an_owner(self, deploy, cluster):
        deploy()
        assert len(cluster.of_role("server")) == 4

    def test_deploying_again_is_harmless(self, deploy, cluster, store):
        deploy()
        before = dict(cluster.objects)
        serving.deploy(RUN, ARN, settings=SETTINGS, cluster=cluster, store=store)
        assert cluster.objects == before

    def wait(self, cluster, store, eks=None):
        return serving.await_servers(
            RUN, settings=SETTINGS, cluster=cluster, store=store, eks=eks or Eks()
        )

    def test_ready_when_every_node_has_a_server_that_listens(self, deploy, cluster, store):
        deploy()
        assert self.wait(cluster, store) == {"ready": True, "wait_seconds": 0}

    def test_not_ready_while_one_is_missing(self, deploy, cluster, store, monkeypatch):
        deploy()
        monkeypatch.setattr(serving, "_age_seconds", lambda owner: 10)
        del cluster.objects[f"{PODS}/server-node-d"]
        found = self.wait(cluster, store)
        assert (found["ready"], found["wait_seconds"] > 0) == (False, True)

    def test_servers_that_had_their_time_are_named_with_their_complaint(
        self, deploy, cluster, store
    ):
        cluster.servers_ready = False
        deploy()
        for pod in cluster.of_role("server"):
            waiting = {"reason": "ErrImagePull", "message": "no such image"}
            pod["status"]["containerStatuses"] = [{"name": "iperf3", "state": {"waiting": waiting}}]
            pod["status"].pop("podIP")
        owner = cluster.list("/api/v1/namespaces/rackrate/configmaps")[0]
        owner["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
        with pytest.raises(ServersNotReady, match=r"node-a.*ErrImagePull: no such image"):
            self.wait(cluster, store)

    def test_a_port_that_another_run_holds_is_told_by_the_scheduler(self, deploy, cluster, store):
        deploy()
        for pod in cluster.of_role("server"):
            message = "0/4 nodes are available: 1 node(s) didn't have free ports"
            status = {"status": "False", "reason": "Unschedulable", "message": message}
            pod["status"] = {"conditions": [{"type": "PodScheduled", **status}]}
        owner = cluster.list("/api/v1/namespaces/rackrate/configmaps")[0]
        owner["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
        with pytest.raises(ServersNotReady, match=r"Unschedulable: .*didn't have free ports"):
            self.wait(cluster, store)

    def test_a_server_that_the_image_lacks_is_not_waited_for(self, deploy, cluster, store):
        deploy()
        message = 'exec: "iperf3": executable file not found in $PATH: unknown'
        for pod in cluster.of_role("server"):
            waiting = {"reason": "RunContainerError", "message": message}
            pod["status"]["containerStatuses"] = [{"name": "iperf3", "state": {"waiting": waiting}}]
            pod["status"]["conditions"] = []
        with pytest.raises(ServersNotReady, match=r"no iperf3 in the image .*ToolImage=build"):
            self.wait(cluster, store)

    def test_a_lost_node_that_no_node_group_manages_is_named_without_one(
        self, deploy, cluster, store
    ):
        for found in cluster.nodes:
            del found["metadata"]["labels"]["eks.amazonaws.com/nodegroup"]
            found["metadata"]["labels"]["rack"] = "any"
        arms = tuple(replace(arm, node_group="", selector={"rack": "any"}) for arm in SETTINGS.arms)
        deploy(settings=replace(SETTINGS, arms=arms))
        cluster.nodes = cluster.nodes[1:]
        cluster.objects.pop(f"{PODS}/server-node-a")
        with pytest.raises(NodesUnavailable, match="node-a not Ready; EKS reports no health"):
            self.wait(cluster, store, NoEks())

    def test_a_node_that_was_lost_is_named_with_the_health_of_its_group(
        self, deploy, cluster, store
    ):
        deploy()
        cluster.nodes = cluster.nodes[1:]
        del cluster.objects[f"{PODS}/server-node-a"]
        with pytest.raises(NodesUnavailable, match=r"treatment: node-a.*Broken: gone"):
            self.wait(cluster, store, Eks(("Broken", "gone")))


class TestBlocks:
    def test_an_item_measures_each_arm_at_once_and_removes_its_pods(
        self, deploy, measure, cluster, store
    ):
        launched = measure(deploy()[0])
        assert launched["pods"] == 2
        assert 1 <= launched["wait_seconds"] <= 6
        found = trials(store)
        assert len(found) == 6 and {trial["status"] for trial in found} == {"measured"}
        assert {trial["arm"] for trial in found} == {"treatment", "baseline"}
        assert cluster.of_role("client") == []
        run = store.run(RUN)
        assert (run["trials_measured"], run["trials_failed"], run["block"]) == (6, 0, 1)
        assert run["phase"] == "block 1 of 6"

    def test_a_trial_carries_its_unit_its_nodes_and_its_times(self, deploy, measure, store):
        measure(deploy()[0])
        trial = next(t for t in trials(store) if t["test"] == "rtt" and t["arm"] == "treatment")
        assert (trial["metric"], trial["unit"], trial["placement"]) == ("rtt", "s", "cluster")
        assert trial["value"] == trial["values"]["rtt"] == pytest.approx(45e-6)
        assert (trial["client_network"], trial["server_network"]) == ("pod", "pod")
        assert "warm_up" not in trial
        assert trial["client_node"]["instance_type"] == "c5.large"
        assert trial["server_node"]["instance_id"].startswith("i-node-")
        assert trial["started_at"] < trial["finished_at"]

    def test_raw_values_and_series_of_all_trials_of_a_call_are_in_one_object(
        self, deploy, measure, store, s3
    ):
        measure(deploy()[0])
        (key,) = {trial["samples_key"] for trial in trials(store)}
        name = key.removeprefix(f"runs/{RUN}/")
        assert re.fullmatch(r"samples/0001-1\.1\.[0-9a-f]{8}\.json\.gz", name)
        found = store.samples([key])
        assert set(found) == {trial.id for trial in store.trials(RUN)}
        for trial_key, trial in store.trials(RUN).items():
            raw = found[trial_key.id]
            assert {kind: len(values) for kind, values in raw["samples"].items()} == trial[
                "samples"
            ]
            if trial["test"] == "rtt":
                assert trial["value"] == pytest.approx(statistics.median(raw["samples"]["rtt"]))
            else:
                assert [i["start_seconds"] for i in raw["series"]] == sorted(
                    i["start_seconds"] for i in raw["series"]
                )
                assert all(interval["bits_per_second"] > 0 for interval in raw["series"])

    def test_an_item_of_which_nothing_was_measured_leaves_no_raw_values(
        self, deploy, measure, cluster, store, s3
    ):
        cluster.on_client = lambda pod: cluster.finish(
            pod, {"rtt": 137, "tcp-1": 137, "tcp-8": 137}
        )
        measure(deploy()[0])
        listed = s3.list_objects_v2(Bucket="results", Prefix=f"runs/{RUN}/samples/")
        assert listed["KeyCount"] == 0
        assert not any("samples_key" in trial for trial in trials(store))

    def test_raw_output_is_stored_exactly_as_printed(self, deploy, measure, cluster, store, s3):
        measure(deploy()[0])
        trial = next(t for t in trials(store) if t["test"] == "tcp-1")
        body = s3.get_object(Bucket="results", Key=trial["raw_key"])["Body"]
        assert body.read().decode() in cluster.logs.values()
        assert trial["raw_key"].endswith(".1.txt")

    def test_a_pod_that_died_leaves_failed_trials_with_reasons_and_no_zeros(
        self, deploy, measure, cluster, store
    ):
        cluster.on_client = lambda pod: cluster.finish(
            pod, {"rtt": 137, "tcp-1": 137, "tcp-8": 137}
        )
        measure(deploy()[0])
        found = trials(store)
        assert {trial["status"] for trial in found} == {"failed"}
        assert all(trial["reason"] and "value" not in trial for trial in found)
        assert store.run(RUN)["trials_failed"] == 6

    def test_a_pod_that_vanished_is_a_failure_not_a_hang(self, deploy, measure, cluster, store):
        def vanish(pod):
            if pod["metadata"]["labels"][manifests.ARM] == "treatment":
                del cluster.objects[f"{PODS}/{pod['metadata']['name']}"]
            else:
                cluster.succeed(pod)

        cluster.on_client = vanish
        measure(deploy()[0])
        by_arm = {trial["arm"]: trial for trial in trials(store)}
        assert by_arm["baseline"]["status"] == "measured"
        assert "deleted" in by_arm["treatment"]["reason"]

    def test_output_that_does_not_parse_is_a_failure_with_its_text_kept(
        self, deploy, measure, cluster, store, s3
    ):
        def garble(pod):
            cluster.logs[pod["metadata"]["name"], "tcp-1"] = '{"error": "server is busy"}'
            cluster.succeed(pod)

        cluster.on_client = garble
        measure(deploy()[0])
        failed = [trial for trial in trials(store) if trial["status"] == "failed"]
        assert {trial["test"] for trial in failed} == {"tcp-1"}
        assert all("server is busy" in trial["reason"] for trial in failed)
        assert all(trial["raw_key"] in raw_names(s3) for trial in failed)

    def test_pods_that_are_not_finished_are_collected_later(self, deploy, cluster, store):
        item = deploy()[0]
        cluster.on_client = lambda pod: None
        launched = measuring.launch(RUN, item, settings=SETTINGS, cluster=cluster, store=store)

        def collect(deadline):
            return measuring.collect(
                RUN,
                item,
                attempt=1,
                deadline=deadline,
                watch_seconds=1,
                settings=SETTINGS,
                cluster=cluster,
                store=store,
            )

        assert collect(launched["deadline"])["finished"] is False
        assert trials(store) == []
        assert collect(time.time() - 1)["finished"] is True
        assert {trial["status"] for trial in trials(store)} == {"failed"}
        assert cluster.of_role("client") == []

    def test_doing_an_item_again_measures_nothing_again(self, deploy, measure, store):
        item = deploy()[0]
        measure(item)
        before = trials(store)
        assert measure(item)["pods"] == 0
        assert trials(store) == before

    def test_collecting_twice_counts_once(self, deploy, cluster, store):
        item = deploy()[0]
        measuring.launch(RUN, item, settings=SETTINGS, cluster=cluster, store=store)
        for _ in range(2):
            measuring.collect(
                RUN,
                item,
                attempt=1,
                deadline=time.time() + 60,
                watch_seconds=1,
                settings=SETTINGS,
                cluster=cluster,
                store=store,
            )
        assert store.run(RUN)["trials_measured"] == 6
        assert store.run(RUN)["trials_failed"] == 0

    def test_a_makeup_repeats_only_what_was_lost(self, deploy, measure, cluster, store, s3):
        items = deploy()
        cluster.on_client = lambda pod: cluster.finish(pod, {items[0]["tests"][-1]["name"]: 1})
        measure(items[0])
        cluster.on_client = cluster.succeed
        for item in items[1:6]:
            measure(item)
        assert store.run(RUN)["trials_failed"] == 2
        kept = {t["test"]: t for t in trials(store) if t["block"] == 1 and t["attempt"] == 1}
        launched = measure(items[6])
        assert (launched["pods"], launched["attempt"]) == (2, 2)
        repeated = [trial for trial in trials(store) if trial["attempt"] == 2]
        assert {trial["test"] for trial in repeated} == {items[0]["tests"][-1]["name"]}
        assert {trial["status"] for trial in repeated} == {"measured"}
        run = store.run(RUN)
        assert (run["trials_measured"], run["trials_failed"]) == (36, 0)
        assert any(name.endswith(".2.txt") for name in raw_names(s3))
        assert kept
        assert measure(items[7])["pods"] == 0

    def test_a_server_that_is_gone_fails_the_item_not_the_run(self, deploy, cluster, store):
        item = deploy()[0]
        for pod in cluster.of_role("server"):
            del cluster.objects[f"{PODS}/{pod['metadata']['name']}"]
        with pytest.raises(ServersNotReady, match="gone or not ready"):
            measuring.launch(RUN, item, settings=SETTINGS, cluster=cluster, store=store)
        measuring.give_up(
            RUN,
            item,
            {"Error": "ServersNotReady", "Cause": "gone"},
            settings=SETTINGS,
            connect=lambda: cluster,
            store=store,
        )
        assert {trial["reason"] for trial in trials(store)} == {"ServersNotReady: gone"}
        assert store.run(RUN)["trials_failed"] == 6

    def test_giving_up_works_without_a_cluster(self, deploy, store):
        def unreachable():
            raise ClusterUnreachable("no route")

        measuring.give_up(
            RUN,
            deploy()[0],
            {"Error": "ClusterUnreachable", "Cause": "no route"},
            settings=SETTINGS,
            connect=unreachable,
            store=store,
        )
        assert len(trials(store)) == 6


class TestWarmUp:
    def warm_up(self, store):
        return store.get_json(RUN, "warm_up.json")

    def test_every_pair_is_warmed_up_by_one_short_test_that_counts_for_nothing(
        self, deploy, measure, store
    ):
        deploy()
        for item in self.warm_up(store):
            measure(item)
        found = trials(store)
        assert [(t["block"], t["test"], t["warm_up"]) for t in found] == [(0, "tcp-1", True)] * 2
        assert {trial["status"] for trial in found} == {"measured"}
        run = store.run(RUN)
        assert (run["trials_measured"], run["trials_failed"], run["block"]) == (0, 0, 0)
        assert run["phase"] == "warm-up"

    def test_a_warm_up_that_failed_is_repeated_by_its_own_makeup(
        self, deploy, measure, cluster, store
    ):
        deploy()
        *items, makeup = self.warm_up(store)
        cluster.on_client = lambda pod: cluster.finish(pod, {"tcp-1": 1})
        for item in items:
            measure(item)
        assert store.run(RUN)["trials_failed"] == 0
        cluster.on_client = cluster.succeed
        assert measure(makeup)["attempt"] == 2
        assert {(t["block"], t["status"]) for t in trials(store)} == {(0, "measured")}

    def test_a_makeup_of_the_blocks_leaves_a_failed_warm_up_alone(
        self, deploy, measure, cluster, store
    ):
        items = deploy()
        cluster.on_client = lambda pod: cluster.finish(pod, {"tcp-1": 1})
        measure(self.warm_up(store)[0])
        cluster.on_client = cluster.succeed
        for item in items:
            measure(item)
        assert {t["status"] for t in trials(store) if t["block"] == 0} == {"failed"}

    def test_links_that_are_up_warn_of_nothing(self, deploy, measure, store):
        deploy()
        for item in self.warm_up(store):
            measure(item)
        assert linking.check_links(RUN, store=store) == {"links": 2, "down": 0}
        assert store.run(RUN)["warnings"] == []

    def break_one(self, cluster):
        """The baseline's clients find nobody."""

        def client(pod):
            if pod["metadata"]["labels"][manifests.ARM] == "baseline":
                cluster.logs[pod["metadata"]["name"], "tcp-1"] = '{"error": "no route to host"}'
            cluster.succeed(pod)

        cluster.on_client = client

    def test_a_pair_that_cannot_talk_is_named_with_its_arm_the_reason_and_a_remedy(
        self, deploy, measure, cluster, store
    ):
        deploy()
        self.break_one(cluster)
        for item in self.warm_up(store):
            measure(item)
        with pytest.raises(LinksDown) as caught:
            linking.check_links(RUN, store=store)
        told = str(caught.value)
        assert told.startswith("1 of 2 pairs could not talk")
        assert re.search(r"arm baseline, node-[cd] to node-[cd]: .*no route to host", told)
        assert "arm treatment" not in told
        assert all(word in told for word in ("security groups", "network policies", "ToolImage"))

    def test_links_that_the_plan_tolerates_to_be_down_are_noted(
        self, deploy, measure, cluster, store
    ):
        deploy({**PLAN, "tolerated_loss": 0.5})
        self.break_one(cluster)
        for item in self.warm_up(store):
            measure(item)
        assert linking.check_links(RUN, store=store) == {"links": 2, "down": 1}
        (warning,) = store.run(RUN)["warnings"]
        assert "arm baseline" in warning and "no route to host" in warning
        linking.check_links(RUN, store=store)
        assert len(store.run(RUN)["warnings"]) == 1, "once, though the function was called again"

    def test_a_link_that_nobody_tried_is_down(self, deploy, store):
        deploy()
        with pytest.raises(LinksDown, match=r"2 of 2 pairs.*\n.*was never tried"):
            linking.check_links(RUN, store=store)

    def test_a_warm_up_that_was_given_up_tells_why_and_counts_for_nothing(
        self, deploy, cluster, store
    ):
        deploy()
        failure = {"Error": "ServersNotReady", "Cause": "gone"}
        found = measuring.give_up(
            RUN,
            self.warm_up(store)[0],
            failure,
            settings=SETTINGS,
            connect=lambda: cluster,
            store=store,
        )
        assert found["warm_up"] is True
        assert store.run(RUN)["trials_failed"] == 0
        with pytest.raises(LinksDown, match="ServersNotReady: gone"):
            linking.check_links(RUN, store=store)

    def test_of_very_many_links_that_are_down_only_some_are_named(self):
        told = linking._message([f"arm a, {n} to {n + 1}: gone" for n in range(1000)], 1000)
        assert "1000 of 1000" in told and "and 960 more" in told
        assert len(told) < 32_768  # what Step Functions takes as a cause


class TestHostNetwork:
    """Arms on the same nodes, between pods and between the nodes themselves."""

    PLAN: ClassVar = {
        **PLAN,
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
    def settings(self):
        return HOST_SETTINGS

    @pytest.fixture
    def items(self, deploy):
        return [item for item in deploy(self.PLAN) if item["kind"] == "block"]

    def test_servers_run_once_for_each_nodes_and_network(self, items, cluster):
        sets = [path for path in cluster.objects if "/daemonsets/" in path]
        assert len(sets) == 3, "two sets of nodes between pods, and one on the nodes"
        hosts = cluster.of_role("server", "rackrate-host")
        assert [pod["spec"]["nodeName"] for pod in hosts] == ["node-a", "node-b"]
        owners = [p.split("/")[4] for p in cluster.objects if "/configmaps/" in p]
        assert sorted(owners) == ["rackrate", "rackrate-host"]

    def test_what_a_run_owns_is_owned_by_the_owner_of_its_own_namespace(
        self, items, measure, cluster
    ):
        clients = []
        cluster.on_client = lambda pod: (clients.append(pod), cluster.succeed(pod))
        for item in items:
            measure(item)
        sets = [thing for thing in cluster.objects.values() if thing.get("kind") == "DaemonSet"]
        for namespace in ("rackrate", "rackrate-host"):
            owned = [t for t in [*clients, *sets] if t["metadata"]["namespace"] == namespace]
            assert {thing["kind"] for thing in owned} == {"Pod", "DaemonSet"}
            (owner,) = cluster.list(f"/api/v1/namespaces/{namespace}/configmaps")
            uids = {t["metadata"]["ownerReferences"][0]["uid"] for t in owned}
            assert uids == {owner["metadata"]["uid"]}

    def test_clients_are_where_their_network_puts_them_and_find_the_server_there(
        self, items, measure, cluster
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
        for item in items:
            measure(item)
        assert seen == {
            "treatment": {("rackrate", False, "10.0.0")},
            "baseline": {("rackrate", False, "10.0.0")},
            "host": {("rackrate-host", True, "192.0.2")},
            "inwards": {("rackrate-host", True, "10.0.0")},
        }

    def test_trials_of_arms_on_the_same_nodes_are_kept_apart_and_say_their_networks(
        self, items, measure, cluster, store
    ):
        for item in items:
            measure(item)
        stored = store.trials(RUN)
        assert set(stored) == {trial.key for trial in planned_trials(items)}
        assert {trial["status"] for trial in stored.values()} == {"measured"}
        networks = {
            key.arm: (trial["client_network"], trial["server_network"])
            for key, trial in stored.items()
        }
        assert networks == {
            "treatment": ("pod", "pod"),
            "baseline": ("pod", "pod"),
            "host": ("host", "host"),
            "inwards": ("host", "pod"),
        }
        assert cluster.of_role("client") == []

    def test_all_pairs_of_all_networks_are_warmed_up(self, items, measure, store):
        for item in store.get_json(RUN, "warm_up.json"):
            measure(item)
        assert linking.check_links(RUN, store=store) == {"links": 4, "down": 0}

    def test_servers_of_both_networks_are_awaited(self, items, cluster, store, monkeypatch):
        def ready():
            return serving.await_servers(
                RUN, settings=HOST_SETTINGS, cluster=cluster, store=store, eks=Eks()
            )["ready"]

        assert ready() is True
        monkeypatch.setattr(serving, "_age_seconds", lambda owner: 10)
        for path in (f"{PODS}/server-node-c", f"{self.HOST_PODS}/server-node-b"):
            gone = cluster.objects.pop(path)
            assert ready() is False, path
            cluster.objects[path] = gone

    def test_an_item_given_up_leaves_no_client_in_either_namespace(self, items, cluster, store):
        cluster.on_client = lambda pod: None
        for item in items[:3]:
            measuring.launch(RUN, item, settings=HOST_SETTINGS, cluster=cluster, store=store)
        assert cluster.of_role("client", "rackrate") and cluster.of_role("client", "rackrate-host")
        measuring.give_up(
            RUN,
            items[0],
            {"Error": "Throttled", "Cause": "x"},
            settings=HOST_SETTINGS,
            connect=lambda: cluster,
            store=store,
        )
        assert cluster.of_role("client") == []

    def test_teardown_leaves_nothing_in_either_namespace(self, items, cluster, store):
        assert cleaning.tear_down(RUN, settings=HOST_SETTINGS, cluster=cluster)
        assert cluster.objects == {}

    @pytest.mark.parametrize("left", ["rackrate", "rackrate-host"])
    def test_the_sweep_finds_an_owner_that_is_left_in_one_namespace(
        self, items, cluster, store, left
    ):
        for path in list(cluster.objects):
            if f"/namespaces/{left}/" not in path:
                del cluster.objects[path]
        found = cleaning.sweep(
            settings=HOST_SETTINGS,
            cluster=cluster,
            store=store,
            states=States(run_1="ABORTED"),
            eks=NoEks(),
        )
        assert found["swept"] == [RUN]
        assert cluster.objects == {}

    def test_a_stack_that_no_longer_allows_it_says_how_to_allow_it(self, items, cluster, store):
        with pytest.raises(ServersNotReady, match='HostNetwork "true"'):
            serving.deploy(RUN, ARN, settings=SETTINGS, cluster=cluster, store=store)


@pytest.fixture
def whole_run(deploy, measure):
    for item in deploy():
        measure(item)


class TestConclusion:
    def test_a_whole_run_ends_in_verdicts_results_and_a_page(self, whole_run, store, s3):
        assert concluding.analyze(RUN, after_failure=False, store=store)["lost"] == 0
        reporting.report(RUN, failure=None, store=store)
        concluding.finish(RUN, execution_arn=ARN, state={}, store=store)
        results = store.get_json(RUN, "results.json")
        assert results["schema"] == "rackrate.result.v1"
        Draft202012Validator(PUBLISHED).validate(results)
        assert results["run"]["status"] == "succeeded" == store.run(RUN)["status"]
        assert results["trials"] == {"planned": 36, "measured": 36, "failed": 0, "failures": []}
        assert [v["test"] for v in results["verdicts"]] == ["tcp-1", "tcp-8", "rtt"]
        # Both arms printed the same, so there is no difference.
        assert {v["verdict"] for v in results["verdicts"]} == {"no meaningful difference"}
        ceilings = {v["test"]: v["ceiling"] for v in results["verdicts"]}
        assert (ceilings["tcp-1"]["arm"], ceilings["tcp-1"]["baseline"]) == (10e9, 5e9)
        assert ceilings["tcp-8"]["name"] == "instance peak"
        assert ceilings["rtt"] is None
        assert results["arms"][1]["nodes"] == ["node-c", "node-d"]
        assert [arm["ena_express"] for arm in results["arms"]] == [False, False]
        assert results["run"]["lab_scale"] is None

        body = s3.get_object(Bucket="results", Key=f"runs/{RUN}/trials.csv")["Body"].read()
        rows = list(csv.DictReader(io.StringIO(body.decode())))
        assert len(rows) == 36
        for row in rows:
            quantity = "rtt_seconds" if row["test"] == "rtt" else "throughput_bits_per_second"
            assert float(row[quantity]) > 0
        day = results["run"]["started_at"][:10]
        for table, expected in (("trials", 36), ("verdicts", 3)):
            key = f"{table}/day={day}/{RUN}.parquet"
            body = s3.get_object(Bucket="results", Key=key)["Body"].read()
            assert len(read_parquet(io.BytesIO(body)).read_all()) == expected

        before = store.verdicts(RUN)
        concluding.analyze(RUN, after_failure=False, store=store)
        assert store.verdicts(RUN) == before, "an old run can be analysed again"

    def test_results_that_break_their_schema_are_kept_and_say_so(self, whole_run, store):
        concluding.analyze(RUN, after_failure=False, store=store)
        store.put_json(RUN, "plan.json", store.get_json(RUN, "plan.json") | {"image": 7})
        (fault,) = reporting.report(RUN, failure=None, store=store)["faults"]
        assert fault == "versions.image: Input should be a valid string"
        results = store.get_json(RUN, "results.json")
        assert results["trials"]["measured"] == 36
        assert fault in results["warnings"][-1]

    def test_a_loss_within_tolerance_degrades_the_run(self, deploy, measure, cluster, store):
        items = deploy()
        last = items[0]["tests"][-1]["name"]
        for item in items:
            spoil = item.get("block") == 1 or item["kind"] == "makeup"
            cluster.on_client = (
                (lambda pod: cluster.finish(pod, {last: 1})) if spoil else cluster.succeed
            )
            measure(item)
        concluding.analyze(RUN, after_failure=False, store=store)
        reporting.report(RUN, failure=None, store=store)
        concluding.finish(RUN, execution_arn=ARN, state={}, store=store)
        assert store.run(RUN)["status"] == "degraded"
        results = store.get_json(RUN, "results.json")
        assert (results["trials"]["measured"], results["trials"]["failed"]) == (34, 2)
        assert all(failure["attempt"] == 3 for failure in results["trials"]["failures"])
        five = next(v for v in results["verdicts"] if v["test"] == last)
        assert (five["blocks"], five["verdict"]) == (5, "inconclusive")

    def test_too_many_losses_fail_the_run_with_its_verdicts_stored(self, deploy, measure, store):
        for item in deploy()[:2]:
            measure(item)
        with pytest.raises(TrialsLost, match="24 of 36 trials were lost: 24 x never ran"):
            concluding.analyze(RUN, after_failure=False, store=store)
        assert len(store.verdicts(RUN)) == 3
        failure = {"Error": "TrialsLost", "Cause": "24 of 36"}
        reporting.report(RUN, failure=failure, store=store)
        results = store.get_json(RUN, "results.json")
        assert (results["run"]["status"], results["run"]["error"]) == ("failed", "TrialsLost")

    def test_a_run_without_a_single_trial_is_still_reported(self, plan, store):
        plan()
        concluding.analyze(RUN, after_failure=True, store=store)
        reporting.report(RUN, failure={"Error": "NodesUnavailable", "Cause": "x"}, store=store)
        results = store.get_json(RUN, "results.json")
        assert results["trials"]["failed"] == 36
        assert {v["verdict"] for v in results["verdicts"]} == {"inconclusive"}

    def test_the_end_is_written_once(self, plan, store):
        plan()
        assert concluding.finish(RUN, execution_arn=ARN, state={}, store=store)["written"]
        failure = {"Error": "Late", "Cause": "too late"}
        late = concluding.finish(RUN, execution_arn=ARN, state={"failure": failure}, store=store)
        assert late["written"] is False
        assert store.run(RUN)["status"] == "succeeded"

    def test_an_invalid_plan_is_recorded_although_nothing_was_planned(self, store):
        failure = {"Error": "InvalidPlan", "Cause": json.dumps({"errorMessage": "blocks: no"})}
        concluding.finish(RUN, execution_arn=ARN, state={"failure": failure}, store=store)
        run = store.run(RUN)
        assert (run["status"], run["error"]) == ("invalid", "InvalidPlan")
        assert run["gsi1sk"] == run["started_at"]


def stopped(status, run=RUN):
    return {"name": run, "status": status, "executionArn": ARN, "error": None, "cause": None}


class States:
    """Step Functions, as far as the state of executions goes."""

    def __init__(self, **statuses):
        self.statuses = statuses

    def describe_execution(self, *, executionArn):
        return {"status": self.statuses[executionArn.rpartition(":")[2].replace("-", "_")]}


class NoEks:
    """A stack that does not idle asks EKS nothing when it cleans up."""


@pytest.fixture
def sweep(cluster, store):
    def do(status):
        return cleaning.sweep(
            settings=SETTINGS,
            cluster=cluster,
            store=store,
            states=States(run_1=status),
            eks=NoEks(),
        )

    return do


class TestTeardown:
    def test_everything_of_the_run_goes_and_nothing_else(self, deploy, cluster):
        deploy()
        other = manifests.owner("other", ARN)
        cluster.create("/api/v1/namespaces/rackrate/configmaps", other)
        assert cleaning.tear_down(RUN, settings=SETTINGS, cluster=cluster)
        assert [t["metadata"]["name"] for t in cluster.objects.values()] == [
            other["metadata"]["name"]
        ]
        assert cleaning.tear_down(RUN, settings=SETTINGS, cluster=cluster), "again is harmless"

    @pytest.mark.parametrize(
        ("status", "expected"),
        [("ABORTED", "aborted"), ("TIMED_OUT", "timed_out"), ("FAILED", "failed")],
    )
    def test_a_stopped_execution_is_cleaned_up_and_recorded(
        self, deploy, cluster, store, status, expected
    ):
        deploy()
        done = cleaning.tear_down_stopped(
            stopped(status), settings=SETTINGS, cluster=cluster, store=store, eks=NoEks()
        )
        assert [end["status"] for end in done["ended"]] == [expected]
        assert cluster.objects == {}
        assert store.run(RUN)["status"] == expected

    @pytest.mark.parametrize("asked", [{"run": "a", "with": "b"}, None, "a"])
    @pytest.mark.parametrize("status", ["ABORTED", "TIMED_OUT", "FAILED"])
    def test_a_comparison_that_ended_badly_is_no_run(self, store, status, asked):
        detail = {**stopped(status), "input": json.dumps({"compare": asked})}
        done = cleaning.tear_down_stopped(
            # It asks neither the cluster nor EKS anything.
            detail,
            settings=SETTINGS,
            cluster=None,
            store=store,
            eks=NoEks(),
        )
        assert (done["run_id"], done["ended"]) == (None, [])
        assert store.run(RUN) is None

    @pytest.mark.parametrize("text", [None, "{}", "[]", "null", '"compare"'])
    def test_any_other_input_is_a_runs(self, deploy, cluster, store, text):
        deploy()
        cleaning.tear_down_stopped(
            {**stopped("ABORTED"), "input": text},
            settings=SETTINGS,
            cluster=cluster,
            store=store,
            eks=NoEks(),
        )
        assert store.run(RUN)["status"] == "aborted"

    def test_what_the_machine_wrote_itself_stays(self, deploy, cluster, store):
        deploy()
        failure = {"Error": "TrialsLost", "Cause": "many"}
        concluding.finish(RUN, execution_arn=ARN, state={"failure": failure}, store=store)
        done = cleaning.tear_down_stopped(
            stopped("FAILED"), settings=SETTINGS, cluster=cluster, store=store, eks=NoEks()
        )
        assert [end["written"] for end in done["ended"]] == [False], "it must not count twice"
        assert store.run(RUN)["error"] == "TrialsLost"

    def test_the_sweep_leaves_running_executions_alone(self, deploy, cluster, sweep):
        deploy()
        before = dict(cluster.objects)
        found = sweep("RUNNING")
        assert (found["swept"], found["ended"], found["overdue"]) == ([], [], [])
        assert cluster.objects == before

    def test_the_sweep_removes_and_records_what_was_stopped(self, deploy, cluster, store, sweep):
        deploy()
        found = sweep("ABORTED")
        assert found["swept"] == [RUN]
        assert [end["status"] for end in found["ended"]] == ["aborted"]
        assert cluster.objects == {}
        assert store.run(RUN)["status"] == "aborted"

    def test_the_sweep_ends_records_that_have_no_owner_any_more(self, plan, store, sweep):
        plan()
        sweep("TIMED_OUT")
        assert store.run(RUN)["status"] == "timed_out"
