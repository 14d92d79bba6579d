"""Planning: the stored plan, and the earlier runs that a run can be compared with."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from rackrate.errors import InvalidPlan, NodesUnavailable
from rackrate.measure.instance_types import instance_types
from rackrate.measure.node_groups import why_lacking
from rackrate.measure.nodes import NETWORK_SCALE_LABEL, cni
from rackrate.measure.placement import MOST_VALUES
from rackrate.plan.estimate import EstimateSummary
from rackrate.plan.items import block_items
from rackrate.times import later, now
from rackrate_contract.estimates import Traffic
from rackrate_contract.selectors import Selector, parse_tolerations
from tests.unit import builders
from tests.unit.conftest import AutoScaling
from tests.unit.node_groups import FakeNodeGroups
from tests.unit.report.campaigns import launch
from tests.unit.samples import HOST_SETTINGS, NODES, SETTINGS
from tests.unit.stages.runs import PLAN, RUN, Eks

HOST = {
    "name": "host-to-pod",
    "nodes": "treatment",
    "client_network": "host",
    "server_network": "pod",
    "via": "pod",
    "pairs": "any",
    "endpoint": None,
}


@pytest.fixture
def settings():
    return HOST_SETTINGS


@pytest.fixture
def earlier(plan, store):
    """Plan a run and end it."""

    def do(raw, status="succeeded", run_id="before"):
        plan(raw, run_id=run_id)
        store.runs.update(run_id, status=status)

    return do


def refusal(plan, raw):
    with pytest.raises(InvalidPlan) as caught:
        plan(raw)
    (fault,) = caught.value.faults
    assert fault.path == "compare_with"
    return str(fault)


def test_a_run_is_recorded_with_its_schedule_and_estimates(plan, store):
    planned = plan()
    assert (planned.blocks, planned.trials, planned.dry_run) == (6, 36, False)
    assert (planned.blocks_key, planned.looks) == (f"runs/{RUN}/blocks_1.json", 1)
    series, *makeups = store.runs.items(RUN, "blocks_1.json")
    assert [*series.items, *makeups] == store.runs.items(RUN)
    run = store.runs.find(RUN)
    assert (run.status, run.trials_planned, run.seed) == ("running", 36, 42)
    assert run.expected_seconds > 6 * run.expected_block_seconds
    stored = store.runs.plan(RUN)
    assert [arm.network.peak_bits_per_second for arm in stored.arms] == [10e9, 10e9]
    assert stored.estimates.bytes_per_node["node-a"].sent > 1e9


def test_a_run_that_may_stop_is_recorded_with_a_batch_for_each_look(plan, store):
    planned = plan({**PLAN, "blocks": {"least": 6, "most": 12}, "pause_seconds": 60})
    assert (planned.blocks, planned.trials, planned.looks) == (12, 72, 3)
    batches = [store.runs.items(RUN, f"blocks_{number}.json") for number in (1, 2, 3)]
    assert [item for batch in batches for item in batch] == store.runs.items(RUN)
    run = store.runs.find(RUN)
    assert (run.blocks, run.next_look, run.pause_seconds) == (12, 6, 60)
    assert run.trials_planned == 36, "a look plans the next ones"
    assert run.expected_seconds > 12 * run.expected_block_seconds + 11 * 60


def test_faults_of_the_plan_and_of_the_nodes_are_reported_together(plan, cluster, store):
    cluster.nodes = cluster.nodes[1:]
    with pytest.raises(InvalidPlan) as caught:
        plan({"blocks": 0})
    assert {fault.path for fault in caught.value.faults} == {"blocks", "arms[0]"}
    assert store.runs.find(RUN) is None


def test_nodes_that_are_missing_for_a_reason_eks_knows_are_not_the_users_fault(plan, cluster):
    cluster.nodes = cluster.nodes[1:]
    eks = Eks(("InsufficientInstanceCapacity", "no c5.large in this group"))
    with pytest.raises(NodesUnavailable, match=r"no c5\.large in this group"):
        plan(eks=eks)


def test_nodes_whose_launch_failed_are_not_the_users_fault_though_eks_has_no_issue(
    plan, cluster, autoscaling
):
    cluster.nodes = cluster.nodes[1:]
    autoscaling.note("eks-ng-1", "Failed", "The type is not eligible for Free Tier.")
    with pytest.raises(NodesUnavailable, match=r"node group ng-1: The type is not eligible"):
        plan(eks=Eks())


def test_auto_scaling_that_cannot_be_asked_makes_no_fault_of_the_plan_eks_fault(
    plan, cluster, autoscaling
):
    cluster.nodes = cluster.nodes[1:]
    autoscaling.fails = ConnectTimeoutError(endpoint_url="https://autoscaling")
    with pytest.raises(InvalidPlan, match="1 Ready node"):
        plan(eks=Eks())


def test_the_node_group_that_is_to_blame_is_named_by_its_nodes_where_only_a_label_is_known(
    plan, cluster
):
    arms = tuple(replace(arm, node_groups=()) for arm in SETTINGS.arms)
    cluster.nodes[0]["status"]["conditions"][0]["status"] = "False"
    eks = Eks(("Ec2SubnetInvalidConfiguration", "no addresses left"))
    with pytest.raises(NodesUnavailable, match=r"node group ng-1: .*no addresses left"):
        plan(eks=eks, settings=replace(SETTINGS, arms=arms))
    assert eks.described == ["ng-1"]


def test_too_few_nodes_of_no_known_node_group_are_reported_by_their_label(plan):
    arms = tuple(
        replace(arm, node_groups=(), selector=Selector.parse(f"rack={arm.name}"))
        for arm in SETTINGS.arms
    )
    with pytest.raises(InvalidPlan, match="enlarge the nodes with the labels rack=treatment"):
        plan(eks=Eks(), settings=replace(SETTINGS, arms=arms))


def tainted(cluster, effect="NoSchedule"):
    for node in cluster.nodes[:2]:
        node["spec"]["taints"] = [{"key": "dedicated", "value": "bench", "effect": effect}]


def test_nodes_with_a_taint_that_no_pod_tolerates_are_named_with_the_remedy(plan, cluster):
    tainted(cluster)
    with pytest.raises(InvalidPlan, match=r"dedicated=bench:NoSchedule.*Tolerations") as refused:
        plan(eks=Eks())
    assert any("0 Ready nodes" in fault.problem for fault in refused.value.faults)


def test_an_arm_whose_nodes_run_another_system_is_refused_with_its_name(plan, cluster):
    for node in cluster.nodes[:2]:
        node["metadata"]["labels"]["kubernetes.io/os"] = "windows"
    with pytest.raises(InvalidPlan, match=r"run windows.*kubernetes.io/os=linux") as refused:
        plan(eks=Eks())
    assert any("0 Ready nodes" in fault.problem for fault in refused.value.faults)


@pytest.mark.parametrize(
    "text", ["dedicated", "dedicated=bench:NoSchedule", "x,dedicated:NoSchedule"]
)
def test_nodes_whose_taints_the_pods_tolerate_are_used(plan, cluster, store, text):
    tainted(cluster)
    plan(settings=replace(SETTINGS, tolerations=parse_tolerations(text)))
    assert store.runs.plan(RUN).arms[0].node_names == ("node-a", "node-b")


def test_a_taint_that_only_asks_for_preference_keeps_no_node_out(plan, cluster):
    tainted(cluster, "PreferNoSchedule")
    plan()


def test_arms_that_share_a_node_are_refused(plan, cluster):
    arms = tuple(replace(a, selector=Selector.parse("rack=any")) for a in SETTINGS.arms)
    for node in cluster.nodes:
        node["metadata"]["labels"]["rack"] = "any"
    with pytest.raises(InvalidPlan, match=r"share 4 nodes, such as node-a.*TreatmentSelector"):
        plan(settings=replace(SETTINGS, arms=arms))


def test_a_dry_run_of_a_stack_whose_nodes_come_on_demand_needs_none(plan, cluster, store):
    cluster.nodes = []
    plan({"dry_run": True}, eks=Eks(), settings=replace(SETTINGS, nodes_on_demand=True))
    assert store.runs.plan(RUN).placeholder_nodes


def test_ena_express_of_an_arm_is_stored(plan, store):
    arms = (replace(SETTINGS.arms[0], ena_express=True), SETTINGS.arms[1])
    plan(settings=replace(SETTINGS, arms=arms))
    stored = store.runs.plan(RUN)
    assert [arm.ena_express for arm in stored.arms] == [True, False]


def test_what_ec2_says_of_the_nodes_is_stored_with_them(plan, store, ec2):
    for name in NODES["treatment"]:
        ec2.place(name, "together", "cluster", AvailabilityZone="us-east-1a")
    for name in NODES["baseline"]:
        ec2.place(name, AvailabilityZone="us-east-1b")
    plan()
    treatment, baseline = store.runs.plan(RUN).arms
    assert {node.ec2_placement.group for node in treatment.nodes} == {"together"}
    assert {node.ec2_placement.strategy for node in treatment.nodes} == {"cluster"}
    assert {node.ec2_placement.group for node in baseline.nodes} == {None}
    assert {node.zone for node in baseline.nodes} == {"us-east-1b"}
    guards = {guard.guard: guard for guard in store.runs.plan(RUN).estimates.guards}
    assert not guards["placements"].would_trip
    assert guards["zones"].would_trip


def test_arms_that_are_not_what_they_claim_are_refused_together(plan, store, ec2):
    for name in NODES["treatment"]:
        ec2.place(name)
    for name in NODES["baseline"]:
        ec2.place(name, "together", "cluster")
    with pytest.raises(InvalidPlan) as caught:
        plan()
    assert [fault.path for fault in caught.value.faults] == ["arms[0]", "arms[1]"]
    assert "node-a and node-b" in str(caught.value)
    assert "node group ng-1" in str(caught.value)
    assert store.runs.find(RUN) is None


def test_where_ec2_says_nothing_a_run_goes_on_and_a_guard_trips(plan, store):
    plan()
    guards = {guard.guard: guard for guard in store.runs.plan(RUN).estimates.guards}
    assert guards["placements"].would_trip
    assert guards["topology"].text == "EC2 did not answer for 4 nodes"


TYPE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize("position", [0, 1])
def test_a_type_that_ec2_does_not_know_leaves_its_arm_without_bandwidth_and_a_guard_names_it(
    plan, cluster, store, position
):
    cluster.nodes[position]["metadata"]["labels"][TYPE] = "c99.mega"
    plan()
    treatment, baseline = store.runs.plan(RUN).arms
    assert treatment.network.peak_bits_per_second is None
    assert baseline.network.peak_bits_per_second == 10e9
    guards = {guard.guard: guard for guard in store.runs.plan(RUN).estimates.guards}
    assert guards["unknown_types"].would_trip
    assert "c99.mega" in guards["unknown_types"].text
    assert "c5.large" not in guards["unknown_types"].text


class TestCreation:
    """How the nodes came with which the stack was created is recorded with its runs."""

    @pytest.fixture
    def settings(self):
        return replace(SETTINGS, owns_nodes=True)

    @pytest.fixture
    def eks(self, store):
        asked = later(store.table.created_at, -100)
        return FakeNodeGroups(createdAt=datetime.datetime.fromisoformat(asked))

    def come(self, cluster, created_at, *seconds):
        """Let nodes have been Ready so many seconds after the table was created."""
        for each, after in zip(cluster.nodes, seconds, strict=True):
            (condition,) = each["status"]["conditions"]
            condition["lastTransitionTime"] = later(created_at, after)

    def test_with_the_seconds_from_the_request_of_the_node_groups(self, plan, store, cluster, eks):
        self.come(cluster, store.table.created_at, -60, -55, -50, -45)
        plan(eks=eks)
        launches = store.runs.find(RUN).launches
        assert [each.outcome for each in launches] == ["filled", "filled"]
        assert [each.asked for each in launches] == [2, 2]
        seconds = {each.arm: (each.first_seconds, each.last_seconds) for each in launches}
        assert seconds == {"treatment": (40.0, 45.0), "baseline": (50.0, 55.0)}

    def test_not_of_an_arm_with_a_node_that_came_later(self, plan, store, cluster, eks):
        self.come(cluster, store.table.created_at, -60, 55, -50, -45)
        plan(eks=eks)
        assert [each.arm for each in store.runs.find(RUN).launches] == ["baseline"]

    def test_not_of_an_arm_that_lacks_a_node(self, plan, store, cluster, eks):
        self.come(cluster, store.table.created_at, -60, -55, -50, -45)
        eks.groups["ng-1"]["scalingConfig"] = {"minSize": 0, "desiredSize": 3, "maxSize": 3}
        plan(eks=eks)
        assert [each.arm for each in store.runs.find(RUN).launches] == ["baseline"]

    def test_not_in_place_of_what_the_run_woke(self, plan, store, cluster, eks):
        self.come(cluster, store.table.created_at, -60, -55, -50, -45)
        store.runs.start(RUN, "running", now(), launches=[launch().to_json()])
        plan(eks=eks)
        assert store.runs.find(RUN).launches == (launch(),)


def test_more_types_than_one_question_takes_are_asked_for_in_several(ec2):
    names = [f"c{number}.none" for number in range(MOST_VALUES)]
    assert [*instance_types(ec2, [*names, "c5.large"])] == ["c5.large"]


def test_a_node_group_that_a_label_invents_hides_no_reason_of_the_others():
    class Refusing(Eks):
        def describe_nodegroup(self, *, clusterName, nodegroupName):
            if nodegroupName == "of-somebody-else":
                raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "DescribeNodegroup")
            return super().describe_nodegroup(clusterName=clusterName, nodegroupName=nodegroupName)

    groups = ["of-somebody-else", "ng-1"]
    eks = Refusing(("InsufficientFreeAddresses", "no more"))
    reasons = why_lacking(eks, AutoScaling(), "cluster", groups)
    assert len(reasons.known) == 1 and "no more" in reasons.known[0]
    assert "of-somebody-else" in reasons.unread[0]


def test_pairs_across_zones_need_nodes_in_several(plan, store, ec2):
    far = {"name": "far", "nodes": "baseline", "pairs": "across-zones"}
    with pytest.raises(InvalidPlan, match=r"arms\[1\]\.pairs: .*make no pair across zones"):
        plan({**PLAN, "arms": ["treatment", far]})
    ec2.place("node-d", AvailabilityZone="us-east-1b")
    plan({**PLAN, "arms": ["treatment", far]})
    stored = store.runs.plan(RUN)
    assert [arm.pairs for arm in stored.arms] == ["any", "across-zones"]
    assert any("between zones" in line for line in stored.estimates.cost.summary)


def test_a_network_scale_is_noted_and_lowers_the_ceilings(plan, cluster, store):
    for node in cluster.nodes:
        node["metadata"]["labels"]["rackrate.dev/network-scale"] = "0.1"
    plan()
    assert store.runs.find(RUN).lab_scale == 0.1
    used = store.runs.plan(RUN).estimates.bytes_per_node
    # 2 s at 1 Gbit/s for each throughput test of the treatment arm, in three of six blocks. The
    # node whose name sorts first also sends 1 s of warm-up.
    assert used["node-a"] == Traffic(sent=1_625_000_000, received=1_500_000_000)


def test_arms_are_stored_with_their_nodes_and_networks(plan, store):
    plan({"arms": ["treatment", HOST, "baseline"]})
    stored = store.runs.plan(RUN)
    assert [
        (a.name, a.stack_arm, a.client_network, a.server_network, a.placement) for a in stored.arms
    ] == [
        ("treatment", "treatment", "pod", "pod", "cluster"),
        ("host-to-pod", "treatment", "host", "pod", "cluster"),
        ("baseline", "baseline", "pod", "pod", "none"),
    ]
    assert stored.arms[1].node_names == ("node-a", "node-b")
    assert stored.plan.to_json()["arms"] == ["treatment", HOST, "baseline"]
    pairs = [pair for item in block_items(store.runs.items(RUN)) for pair in item.pairs]
    networks = {(pair.arm, pair.client_network, pair.server_network) for pair in pairs}
    assert ("host-to-pod", "host", "pod") in networks


def test_the_plan_reports_what_will_be_compared_before_it_is(plan, store):
    plan({})
    metrics = store.runs.plan(RUN).metrics
    assert [(each.test, each.metric, each.better) for each in metrics] == [
        ("requests", "latency", "lower"),
        ("requests", "latency_p99", "lower"),
        ("requests-loaded", "latency", "lower"),
        ("requests-loaded", "latency_p99", "lower"),
        ("tcp-1", "throughput", "higher"),
        ("tcp-8", "throughput", "higher"),
    ]


def test_a_stack_without_host_networking_refuses_it(plan, store):
    with pytest.raises(InvalidPlan, match=r"arms\[1\]\.client_network: .*HostNetwork=true"):
        plan({"arms": ["baseline", HOST]}, settings=SETTINGS)
    assert store.runs.find(RUN) is None


def test_a_warm_up_has_a_schedule_of_its_own_and_is_none_of_the_trials(plan, store):
    planned = plan({"blocks": 2})
    assert (planned.warm_up, planned.warm_up_key) == (True, f"runs/{RUN}/warm_up.json")
    items = store.runs.items(RUN, "warm_up.json")
    assert [item.kind for item in items] == ["block", "makeup"]
    assert items[0].block == 0
    assert planned.trials == store.runs.find(RUN).trials_planned == 2 * 4 * 2


def test_without_a_warm_up_none_is_stored(plan, s3):
    assert plan({"warm_up": False}).warm_up is False
    listed = s3.list_objects_v2(Bucket="results", Prefix=f"runs/{RUN}/")["Contents"]
    names = {entry["Key"].rpartition("/")[2] for entry in listed}
    batches = {"blocks_1.json", "blocks_2.json", "blocks_3.json"}
    assert names == {"plan.json", "schedule.json", "counters.json"} | batches


def test_a_dry_run_is_recorded_as_such_and_a_person_reads_its_estimate_in_the_output(plan, store):
    planned = plan({"dry_run": True})
    assert planned.dry_run and store.runs.find(RUN).status == "dry_run"
    summary = planned.estimate
    stored = store.runs.plan(RUN).estimates
    assert summary.seconds == stored.seconds > 6 * 25
    assert (summary.trials, summary.at_least.trials) == (96, 48)
    assert 0 < summary.at_least.usd < summary.usd
    assert summary.usd == pytest.approx(stored.cost.usd, abs=1e-4)
    assert summary.usd > 0
    most = max(traffic.most for traffic in stored.bytes_per_node.values())
    assert summary.most_bytes_per_node == most > 1e9
    assert len(json.dumps(summary.to_json())) < 4096


def test_a_cost_of_which_no_price_is_known_is_none_and_not_nothing():
    assert EstimateSummary.of(builders.estimates()).usd is None


# -- comparing with an earlier run


@pytest.mark.parametrize("status", ["succeeded", "degraded"])
def test_a_run_can_be_compared_with_an_earlier_one_that_ended_well(plan, earlier, store, status):
    earlier({"blocks": 3}, status)
    plan({"compare_with": "before"})
    assert store.runs.plan(RUN).plan.compare_with == ("before",)


@pytest.mark.parametrize("status", ["running", "failed", "aborted", "dry_run", "invalid"])
def test_a_run_that_did_not_end_well_is_nothing_to_compare_with(plan, earlier, status):
    earlier({}, status)
    assert f"is {status!r}" in refusal(plan, {"compare_with": "before"})


def test_runs_without_a_test_in_common_are_not_compared(plan, earlier):
    earlier({"tests": ["tcp-1"]})
    message = refusal(plan, {"tests": ["rtt"], "compare_with": "before"})
    assert "none of this plan's tests" in message
    assert "use one of tcp-1" in message


def test_tests_of_one_name_and_other_options_are_not_compared(plan, earlier):
    earlier({"tests": ["tcp-1", "rtt"]})
    tests = [{"name": "tcp-1", "seconds": 4, "streams": 2}, "rtt"]
    message = refusal(plan, {"tests": tests, "compare_with": "before"})
    assert re.search("'tcp-1' with streams 1 instead of 2, seconds 3 instead of 4", message)
    assert plan({"tests": ["rtt", "tcp-8"], "compare_with": "before"}), "one in common will do"


def test_runs_without_an_arm_in_common_are_not_compared(plan, earlier):
    earlier({"arms": [HOST, "baseline"]})
    pods = {**HOST, "client_network": "pod", "server_network": "host"}
    raw = {"arms": [pods, "treatment"], "baseline": "treatment", "compare_with": "before"}
    assert "none of this plan's arms" in refusal(plan, raw)
    assert plan({"compare_with": "before"}), "the baseline is the same"


def named(store, name, *run_ids):
    """Set a named baseline as the command line does."""
    item = {key: {"S": text} for key, text in (("pk", f"baseline#{name}"), ("sk", "baseline"))}
    item["run_ids"] = {"L": [{"S": run_id} for run_id in run_ids]}
    store.table.client.put_item(TableName="results", Item=item)


def test_a_run_comes_before_a_baseline_of_the_same_name(plan, earlier, store):
    earlier({})
    named(store, "before", "nowhere")
    plan({"compare_with": "before"})
    stored = store.runs.plan(RUN)
    assert (stored.plan.compare_with, stored.compare_with_baseline) == (("before",), None)


def test_a_baseline_of_several_runs_stands_for_all_of_them(plan, earlier, store):
    runs = ("r1", "r2", "r3", "r4")
    for run_id in runs:
        earlier({}, run_id=run_id)
    named(store, "main", *runs)
    plan({"compare_with": "main"})
    stored = store.runs.plan(RUN)
    assert stored.plan.compare_with == runs, "the name may stand for others tomorrow"
    assert stored.compare_with_baseline == "main"


def test_a_baseline_of_an_earlier_version_stands_for_its_one_run(plan, earlier, store):
    earlier({})
    item = {"pk": "baseline#old", "sk": "baseline", "name": "old", "run_id": "before"}
    store.table.client.put_item(TableName="results", Item={k: {"S": v} for k, v in item.items()})
    plan({"compare_with": "old"})
    assert store.runs.plan(RUN).plan.compare_with == ("before",)


def test_runs_and_baselines_may_be_named_together(plan, earlier, store):
    for run_id in ("r1", "r2", "r3"):
        earlier({}, run_id=run_id)
    named(store, "two", "r1", "r2")
    plan({"compare_with": ["two", "r3"]})
    stored = store.runs.plan(RUN)
    assert stored.plan.compare_with == ("r1", "r2", "r3")
    assert stored.compare_with_baseline is None, "it stood for some of them only"


def test_every_name_that_cannot_be_compared_with_is_reported_with_its_path(plan, earlier, store):
    earlier({}, run_id="good")
    earlier({}, "failed", run_id="bad")
    earlier({"tests": ["tcp-8"]}, run_id="other")
    named(store, "main", "good")
    named(store, "many", "good", *(f"gone-{n}" for n in range(30)))
    raw = {"tests": ["tcp-1"], "compare_with": ["good", "bad", "nowhere", "other", "main", "many"]}
    with pytest.raises(InvalidPlan) as caught:
        plan(raw)
    assert [(fault.path, fault.problem) for fault in caught.value.faults] == [
        ("compare_with[1]", "the run 'bad' is 'failed'"),
        ("compare_with[2]", "there is no run and no baseline 'nowhere'"),
        ("compare_with[3]", "the run 'other' has none of this plan's tests"),
        ("compare_with[4]", "the run 'good' is named twice"),
        ("compare_with[5]", "the run 'gone-0' of the baseline 'many' is gone"),
    ]


def test_earlier_runs_that_have_no_test_in_common_with_each_other_are_refused(plan, earlier):
    earlier({"tests": ["tcp-1"]}, run_id="r1")
    earlier({"tests": ["tcp-8"]}, run_id="r2")
    message = refusal(plan, {"compare_with": ["r1", "r2"]})
    assert "the 2 runs have none of this plan's tests in common" in message
    assert plan({"compare_with": ["r1"]}), "each by itself is fine"


def test_a_run_is_compared_with_twenty_others_at_most(plan, earlier, store):
    runs = [f"r{number}" for number in range(21)]
    for run_id in runs:
        earlier({"dry_run": True}, run_id=run_id)
    named(store, "some", *runs[:11])
    named(store, "rest", *runs[11:])
    assert "stands for 21 runs, more than 20" in refusal(plan, {"compare_with": ["some", "rest"]})
    assert plan({"compare_with": runs[1:]})


def test_a_baselines_run_is_checked_like_any_other(plan, earlier, store):
    earlier({}, status="failed")
    named(store, "bad", "before")
    assert "the run 'before' is 'failed'" in refusal(plan, {"compare_with": "bad"})


def aws_node():
    image = "602401143452.dkr.ecr.us-east-1.amazonaws.com/amazon-k8s-cni:v1.20.4"
    containers = [{"name": "other", "image": "x/y:1"}, {"name": "aws-node", "image": image}]
    return {
        "spec": {"template": {"spec": {"containers": containers}}},
        "status": {"desiredNumberScheduled": 4, "updatedNumberScheduled": 4},
    }


def cnis(store):
    return {node.cni for arm in store.runs.plan(RUN).arms for node in arm.nodes}


def test_the_vpc_cni_is_among_the_facts_of_every_node_and_no_other_is(plan, cluster, store):
    plan({})
    assert cnis(store) == {None}
    cluster.objects["/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node"] = aws_node()
    plan({})
    assert cnis(store) == {"amazon-k8s-cni:v1.20.4"}


def test_a_plan_with_a_test_of_dns_reports_where_the_clusters_dns_answers(plan, cluster, store):
    addresses = [{"ip": f"10.0.0.{n}", "nodeName": f"node-{n}"} for n in (2, 1)]
    path = "/api/v1/namespaces/kube-system/endpoints/kube-dns"
    cluster.objects[path] = {"subsets": [{"addresses": addresses}]}
    plan({"tests": ["dns"]})
    assert store.runs.plan(RUN).dns_nodes == ("node-1", "node-2")
    plan({"tests": ["tcp-1"]})
    assert store.runs.plan(RUN).dns_nodes is None, "nobody asks it"


def test_a_cni_that_is_just_being_updated_is_not_known():
    updating = aws_node()
    updating["status"]["updatedNumberScheduled"] = 3
    assert (cni(aws_node()), cni(updating)) == ("amazon-k8s-cni:v1.20.4", None)


def test_a_tool_that_does_not_keep_its_rate_on_arm64_is_refused_there(plan, cluster):
    for node in cluster.nodes:
        node["metadata"]["labels"]["kubernetes.io/arch"] = "arm64"
    with pytest.raises(InvalidPlan) as caught:
        plan({**PLAN, "tests": ["rtt", "latency"]})
    (fault,) = caught.value.faults
    assert fault.path == "tests[1]"
    assert "arm64 nodes" in fault.problem and "--mps" in fault.problem
    assert "'requests'" in fault.remedy
    plan({**PLAN, "tests": ["rtt", "requests"]})


@pytest.mark.parametrize("scale", ["0.1", "1"])
def test_a_node_that_alone_claims_a_scaled_network_is_refused_by_name(plan, cluster, scale):
    labelled = cluster.nodes[0]["metadata"]
    labelled["labels"][NETWORK_SCALE_LABEL] = scale
    with pytest.raises(InvalidPlan, match=f"network-scale: {labelled['name']} have"):
        plan()


@pytest.mark.parametrize("scale", ["nan", "inf", "0", "-1", "2", "tenth"])
def test_a_scale_that_is_none_crashes_no_plan_and_scales_nothing(plan, cluster, store, scale):
    for node in cluster.nodes:
        node["metadata"]["labels"][NETWORK_SCALE_LABEL] = scale
    plan()
    assert store.runs.find(RUN).lab_scale is None


def on_volumes(name):
    return {
        **PLAN,
        "tests": [
            {"name": "etcd", "members": 1, "storage": {"storage_class": name, "gib": 1}},
        ],
    }


def storage_class(cluster, name):
    cluster.objects[f"/apis/storage.k8s.io/v1/storageclasses/{name}"] = {"metadata": {"name": name}}


def test_a_storage_class_that_the_cluster_lacks_is_reported_with_those_that_it_has(
    plan, cluster, store
):
    for name in ("gp3", "io2"):
        storage_class(cluster, name)
    with pytest.raises(InvalidPlan) as caught:
        plan(on_volumes("fast"))
    (fault,) = caught.value.faults
    assert fault.path == "tests[0].storage.storage_class"
    assert "gp3 or io2" in fault.remedy
    assert store.runs.find(RUN) is None
    assert plan(on_volumes("io2")).trials > 0


def test_a_cluster_without_any_storage_class_is_reported_as_that(plan):
    with pytest.raises(InvalidPlan, match="install a storage driver"):
        plan(on_volumes("gp3"))
