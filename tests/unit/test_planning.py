"""Planning: what is stored of a plan, and what earlier runs a run can be compared with."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from rackrate.errors import InvalidPlan
from rackrate.nodes import cni
from rackrate.schedule import planned_trials
from rackrate.stages.planning import plan_run, summary
from tests.unit.samples import SETTINGS

RUN = "run-1"
HOST = {
    "name": "host-to-pod",
    "nodes": "treatment",
    "client_network": "host",
    "server_network": "pod",
}
HOSTS = replace(SETTINGS, host_namespace="rackrate-host")


@pytest.fixture
def plan(store, cluster, ec2):
    def do(raw, run_id=RUN, settings=HOSTS):
        return plan_run(
            raw,
            run_id=run_id,
            execution_arn=f"arn:{run_id}",
            settings=settings,
            cluster=cluster,
            store=store,
            eks=None,
            ec2=ec2,
            pricing=None,
            region="us-east-1",
        )

    return do


@pytest.fixture
def earlier(plan, store):
    """A run that was planned and ended."""

    def do(raw, status="succeeded"):
        plan(raw, run_id="before")
        store.update_run("before", {"status": status})

    return do


def refusal(plan, raw):
    with pytest.raises(InvalidPlan) as caught:
        plan(raw)
    (fault,) = caught.value.faults
    assert fault.path == "compare_with"
    return str(fault)


def test_arms_are_stored_with_their_nodes_and_networks(plan, store):
    plan({"arms": ["treatment", HOST, "baseline"]})
    stored = store.get_json(RUN, "plan.json")
    assert [
        (a["name"], a["stack_arm"], a["client_network"], a["server_network"], a["placement"])
        for a in stored["arms"]
    ] == [
        ("treatment", "treatment", "pod", "pod", "cluster"),
        ("host-to-pod", "treatment", "host", "pod", "cluster"),
        ("baseline", "baseline", "pod", "pod", "none"),
    ]
    assert [n["name"] for n in stored["arms"][1]["nodes"]] == ["node-a", "node-b"]
    assert stored["plan"]["arms"] == ["treatment", HOST, "baseline"]
    items = store.get_json(RUN, "schedule.json")
    networks = {(t.arm, t.client_network, t.server_network) for t in planned_trials(items)}
    assert ("host-to-pod", "host", "pod") in networks


def test_the_plan_tells_what_will_be_compared_before_it_is(plan, store):
    plan({})
    metrics = store.get_json(RUN, "plan.json")["metrics"]
    assert [(each["test"], each["metric"], each["better"]) for each in metrics] == [
        ("tcp-1", "throughput", "higher"),
        ("tcp-8", "throughput", "higher"),
        ("rtt", "rtt", "lower"),
    ]


def test_a_stack_without_host_networking_refuses_it(plan, store):
    with pytest.raises(InvalidPlan, match=r"arms\[1\]\.client_network: .*HostNetwork=true"):
        plan({"arms": ["baseline", HOST]}, settings=SETTINGS)
    assert store.run(RUN) is None


def test_a_warm_up_has_a_schedule_of_its_own_and_is_none_of_the_trials(plan, store):
    found = plan({"blocks": 2})
    assert (found["warm_up"], found["warm_up_key"]) == (True, f"runs/{RUN}/warm_up.json")
    items = store.get_json(RUN, "warm_up.json")
    assert [item["kind"] for item in items] == ["block", "makeup"]
    assert items[0]["block"] == 0
    assert found["trials"] == store.run(RUN)["trials_planned"] == 2 * 3 * 2


def test_without_a_warm_up_none_is_stored(plan, store, s3):
    assert plan({"warm_up": False})["warm_up"] is False
    listed = s3.list_objects_v2(Bucket="results", Prefix=f"runs/{RUN}/")["Contents"]
    names = {entry["Key"].rpartition("/")[2] for entry in listed}
    assert names == {"plan.json", "schedule.json", "counters.json"}


def test_a_person_reads_the_estimate_in_the_executions_output(plan, store):
    found = plan({"dry_run": True})["estimate"]
    assert set(found) == {
        *("seconds", "trials", "usd", "most_bytes_per_node", "guards_that_would_trip"),
    }
    stored = store.get_json(RUN, "plan.json")["estimates"]
    assert found["seconds"] == stored["seconds"] > 6 * 25
    assert found["trials"] == 36
    assert found["usd"] == pytest.approx(stored["cost"]["usd"], abs=1e-4)
    assert found["usd"] > 0
    most = max(way for node in stored["bytes_per_node"].values() for way in node.values())
    assert found["most_bytes_per_node"] == most > 1e9
    assert all(isinstance(text, str) for text in found["guards_that_would_trip"])
    assert len(json.dumps(found)) < 4096


def test_only_guards_that_would_trip_are_told_each_with_its_remedy():
    guards = [
        {"guard": "a", "would_trip": True, "text": "too much", "remedy": "send less"},
        {"guard": "b", "would_trip": False, "text": "fine", "remedy": ""},
    ]
    cost = {"usd": 0.0, "lines": [{"usd": None}]}
    estimates = {"seconds": 1, "trials": 2, "bytes_per_node": {}, "cost": cost, "guards": guards}
    assert summary(estimates) == {
        "seconds": 1,
        "trials": 2,
        "usd": None,
        "most_bytes_per_node": 0,
        "guards_that_would_trip": ["too much; send less"],
    }


# -- comparing with an earlier run


@pytest.mark.parametrize("status", ["succeeded", "degraded"])
def test_a_run_can_be_compared_with_an_earlier_one_that_ended_well(plan, earlier, store, status):
    earlier({"blocks": 3}, status)
    plan({"compare_with": "before"})
    assert store.get_json(RUN, "plan.json")["plan"]["compare_with"] == "before"


def test_a_run_that_is_not_there_is_named(plan):
    said = refusal(plan, {"compare_with": "nowhere"})
    assert "there is no run and no baseline 'nowhere'" in said


@pytest.mark.parametrize("status", ["running", "failed", "aborted", "dry_run", "invalid"])
def test_a_run_that_did_not_end_well_is_nothing_to_compare_with(plan, earlier, status):
    earlier({}, status)
    assert f"is {status!r}" in refusal(plan, {"compare_with": "before"})


def test_runs_without_a_test_in_common_are_not_compared(plan, earlier):
    earlier({"tests": ["tcp-1"]})
    said = refusal(plan, {"tests": ["rtt"], "compare_with": "before"})
    assert "none of this plan's tests" in said
    assert "use one of tcp-1" in said


def test_tests_of_one_name_and_other_options_are_not_compared(plan, earlier):
    earlier({"tests": ["tcp-1", "rtt"]})
    tests = [{"name": "tcp-1", "seconds": 3, "streams": 2}, "rtt"]
    said = refusal(plan, {"tests": tests, "compare_with": "before"})
    assert re.search("'tcp-1' with other seconds, streams", said)
    assert plan({"tests": ["rtt", "tcp-8"], "compare_with": "before"}), "one in common will do"


def test_a_test_stored_before_its_tool_had_an_option_had_the_default(plan, earlier, store):
    earlier({"tests": ["rtt"]})
    stored = store.get_json("before", "plan.json")
    (test,) = stored["plan"]["tests"]
    removed = set(test) - {"name", "tool", "count", "interval_seconds"}
    assert removed
    for option in removed:
        del test[option]
    store.put_json("before", "plan.json", stored)
    assert plan({"tests": ["rtt"], "compare_with": "before"})
    tests = [{"name": "rtt", "size_bytes": 1400}]
    assert "other size_bytes" in refusal(plan, {"tests": tests, "compare_with": "before"})


def test_runs_without_an_arm_in_common_are_not_compared(plan, earlier):
    earlier({"arms": [HOST, "baseline"]})
    pods = {**HOST, "client_network": "pod", "server_network": "host"}
    raw = {"arms": [pods, "treatment"], "baseline": "treatment", "compare_with": "before"}
    assert "none of this plan's arms" in refusal(plan, raw)
    assert plan({"compare_with": "before"}), "the baseline is the same"


def named(store, name, run_id):
    """Sets a baseline as the command line does."""
    item = {"pk": f"baseline#{name}", "sk": "baseline", "name": name, "run_id": run_id}
    store._dynamodb.put_item(
        TableName="results", Item={key: {"S": value} for key, value in item.items()}
    )


def test_a_baseline_stands_for_its_run_and_the_stored_plan_has_both(plan, earlier, store):
    earlier({})
    named(store, "last-good", "before")
    plan({"compare_with": "last-good"})
    stored = store.get_json(RUN, "plan.json")
    assert stored["plan"]["compare_with"] == "before", "the name may be another run's tomorrow"
    assert stored["compare_with_baseline"] == "last-good"


def test_a_run_comes_before_a_baseline_of_the_same_name(plan, earlier, store):
    earlier({})
    named(store, "before", "nowhere")
    plan({"compare_with": "before"})
    stored = store.get_json(RUN, "plan.json")
    assert (stored["plan"]["compare_with"], stored["compare_with_baseline"]) == ("before", None)


def test_a_baseline_whose_run_is_gone_is_named(plan, store):
    named(store, "old", "forgotten")
    assert "the run of the baseline 'old' is gone" in refusal(plan, {"compare_with": "old"})


def test_a_baselines_run_is_checked_like_any_other(plan, earlier, store):
    earlier({}, status="failed")
    named(store, "bad", "before")
    assert "the run 'before' is 'failed'" in refusal(plan, {"compare_with": "bad"})


def aws_node(image="602401143452.dkr.ecr.us-east-1.amazonaws.com/amazon-k8s-cni:v1.20.4"):
    containers = [{"name": "other", "image": "x/y:1"}, {"name": "aws-node", "image": image}]
    return {
        "spec": {"template": {"spec": {"containers": containers}}},
        "status": {"desiredNumberScheduled": 4, "updatedNumberScheduled": 4},
    }


def cnis(store):
    arms = store.get_json(RUN, "plan.json")["arms"]
    return {node["cni"] for arm in arms for node in arm["nodes"]}


def test_the_cni_is_among_the_facts_of_every_node(plan, cluster, store):
    cluster.objects["/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node"] = aws_node()
    plan({})
    assert cnis(store) == {"amazon-k8s-cni:v1.20.4"}


def test_a_cluster_with_another_cni_says_nothing_of_it(plan, store):
    plan({})
    assert cnis(store) == {None}


def test_a_cni_that_is_just_being_updated_is_not_known():
    updating = aws_node()
    updating["status"]["updatedNumberScheduled"] = 3
    assert (cni(aws_node()), cni(updating)) == ("amazon-k8s-cni:v1.20.4", None)
