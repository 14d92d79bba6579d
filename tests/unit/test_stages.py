"""What the functions do, from the plan to the teardown, with the table and bucket emulated."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace

import pytest

from rackrate import manifests
from rackrate.errors import (
    ClusterUnreachable,
    InvalidPlan,
    NodesUnavailable,
    ServersNotReady,
    TrialsLost,
)
from rackrate.stages import cleaning, concluding, measuring, planning, serving
from tests.unit.samples import SETTINGS

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
def plan(store, cluster, ec2):
    def do(raw=PLAN, eks=None, settings=SETTINGS):
        return planning.plan_run(
            raw,
            run_id=RUN,
            execution_arn=ARN,
            settings=settings,
            cluster=cluster,
            store=store,
            eks=eks or Eks(),
            ec2=ec2,
        )

    return do


@pytest.fixture
def deploy(plan, store, cluster):
    def do(raw=PLAN, settings=SETTINGS):
        plan(raw, settings=settings)
        serving.deploy(RUN, ARN, settings=SETTINGS, cluster=cluster, store=store)
        return store.get_json(RUN, "schedule.json")

    return do


@pytest.fixture
def measure(store, cluster):
    """Runs an item as the state machine does, and returns what launch said."""

    def do(item):
        launched = measuring.launch(RUN, item, settings=SETTINGS, cluster=cluster, store=store)
        if launched["pods"]:
            collected = measuring.collect(
                RUN,
                launched["item"],
                attempt=launched["attempt"],
                deadline=launched["deadline"],
                watch_seconds=1,
                settings=SETTINGS,
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
        assert stored["estimates"]["bytes_per_node"]["node-a"] > 1e9

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
        # 2 s at 1 Gbit/s for each throughput test of the treatment arm, in six blocks.
        assert used["node-a"] == 6 * 2 * 2 * 1e9 / 8


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
            pod["status"]["containerStatuses"] = [{"state": {"waiting": waiting}}]
            pod["status"].pop("podIP")
        owner = cluster.list("/api/v1/namespaces/rackrate/configmaps")[0]
        owner["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
        with pytest.raises(ServersNotReady, match=r"node-a.*ErrImagePull: no such image"):
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
        assert trial["value"] == pytest.approx(45e-6)
        assert trial["client_node"]["instance_type"] == "c5.large"
        assert trial["server_node"]["instance_id"].startswith("i-node-")
        assert trial["started_at"] < trial["finished_at"]

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


@pytest.fixture
def whole_run(deploy, measure):
    for item in deploy():
        measure(item)


class TestConclusion:
    def test_a_whole_run_ends_in_verdicts_results_and_a_page(self, whole_run, store, s3):
        assert concluding.analyze(RUN, after_failure=False, store=store)["lost"] == 0
        concluding.report(RUN, failure=None, store=store)
        concluding.finish(RUN, execution_arn=ARN, failure=None, store=store)
        results = store.get_json(RUN, "results.json")
        assert results["schema"] == "rackrate.result.v1"
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
        assert {row["unit"] for row in rows} == {"bit/s", "s"}
        assert all(float(row["value"]) > 0 for row in rows)

        before = store.verdicts(RUN)
        concluding.analyze(RUN, after_failure=False, store=store)
        assert store.verdicts(RUN) == before, "an old run can be analysed again"

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
        concluding.report(RUN, failure=None, store=store)
        concluding.finish(RUN, execution_arn=ARN, failure=None, store=store)
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
        concluding.report(RUN, failure=failure, store=store)
        results = store.get_json(RUN, "results.json")
        assert (results["run"]["status"], results["run"]["error"]) == ("failed", "TrialsLost")

    def test_a_run_without_a_single_trial_is_still_reported(self, plan, store):
        plan()
        concluding.analyze(RUN, after_failure=True, store=store)
        concluding.report(RUN, failure={"Error": "NodesUnavailable", "Cause": "x"}, store=store)
        results = store.get_json(RUN, "results.json")
        assert results["trials"]["failed"] == 36
        assert {v["verdict"] for v in results["verdicts"]} == {"inconclusive"}

    def test_the_end_is_written_once(self, plan, store):
        plan()
        assert concluding.finish(RUN, execution_arn=ARN, failure=None, store=store)["written"]
        failure = {"Error": "Late", "Cause": "too late"}
        late = concluding.finish(RUN, execution_arn=ARN, failure=failure, store=store)
        assert late["written"] is False
        assert store.run(RUN)["status"] == "succeeded"

    def test_an_invalid_plan_is_recorded_although_nothing_was_planned(self, store):
        failure = {"Error": "InvalidPlan", "Cause": json.dumps({"errorMessage": "blocks: no"})}
        concluding.finish(RUN, execution_arn=ARN, failure=failure, store=store)
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

    def test_what_the_machine_wrote_itself_stays(self, deploy, cluster, store):
        deploy()
        failure = {"Error": "TrialsLost", "Cause": "many"}
        concluding.finish(RUN, execution_arn=ARN, failure=failure, store=store)
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
