"""Stacks without nodes between runs: when runs wake the nodes, and when the nodes rest."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError
from botocore.parsers import ResponseParserError

from rackrate import registry
from rackrate.changes.scaling import PATIENCE_SECONDS
from rackrate.errors import InvalidPlan, NodesUnavailable, Throttled
from rackrate.measure.manifests import ARM
from rackrate.settings import StackArm
from rackrate.stages.execution import rest_nodes as resting
from rackrate.stages.execution.rest_nodes import RUN_LIMIT_SECONDS, rest_nodes
from rackrate.stages.execution.wake_nodes import wake_nodes
from rackrate.stages.run.await_servers import Readiness
from rackrate.stages.run.finish import finish
from rackrate.stages.run.teardown import sweep, teardown, teardown_stopped
from rackrate.times import later, now
from rackrate_contract.selectors import Selector
from tests.unit.node_groups import FakeNodeGroups
from tests.unit.samples import LABEL, SETTINGS, node
from tests.unit.stages.campaigns import GROUPS, NO_CAPACITY
from tests.unit.stages.runs import ARN, EXECUTIONS, RUN, States

OTHER = "run-2"
IDLE = replace(SETTINGS, idle_scale_to_zero=True)
NOT_ELIGIBLE = "Could not launch On-Demand Instances. The type is not eligible for Free Tier."


def refused(code):
    return ClientError({"Error": {"Code": code, "Message": "because"}}, "UpdateNodegroupConfig")


@pytest.fixture
def settings():
    return IDLE


@pytest.fixture
def eks():
    return FakeNodeGroups(*GROUPS, nodes=0)


@pytest.fixture
def resources(resources, eks):
    return resources.but(eks=eks)


@pytest.fixture
def sleeping(cluster):
    """The cluster without nodes."""
    cluster.nodes = []
    return cluster


def boot(cluster, *groups):
    """Make two nodes of each group Ready."""
    cluster.nodes += [node(f"{group}-{n}", group) for group in groups for n in (1, 2)]


@pytest.fixture
def wake(sleeping, resources):
    def do(raw=None, run=RUN, settings=IDLE):
        return wake_nodes(
            raw if raw is not None else {},
            resources.but(settings=settings),
            run_id=run,
            execution_arn=EXECUTIONS + run,
        )

    return do


def let_pass(store, seconds, run=RUN):
    """Move the run's start, and that of its waking, `seconds` into the past."""
    began = later(now(), -seconds)
    waking = store.runs.find(run).waking
    store.runs.update(run, started_at=began, waking={**waking, "since": began} if waking else {})


LOAD_NODES = StackArm("load", "none", False, ("ng-3",), Selector.parse(f"{LABEL}=ng-3"))


class TestLoadNodes:
    """Only a plan with a workload uses them; here a tool stands in for one."""

    @pytest.fixture
    def eks(self, eks):
        eks.groups["ng-3"] = copy.deepcopy(eks.groups["ng-2"])
        return eks

    @pytest.fixture
    def loaded(self):
        return replace(IDLE, load=LOAD_NODES, load_node_count=1)

    @pytest.fixture
    def with_workload(self, monkeypatch):
        monkeypatch.setattr(registry.test_class("ping"), "uses_load_nodes", True)

    def test_a_plan_without_a_workload_leaves_them_at_rest(self, wake, eks, store, loaded):
        wake({"tests": ["rtt"]}, settings=loaded)
        wake({"tests": ["rtt"]}, settings=loaded)
        assert eks.updates == [("ng-1", 2), ("ng-2", 2)]
        assert "load" not in store.runs.find(RUN).stack_arms

    def test_a_workload_wakes_as_many_as_there_are_and_waits_for_them(
        self, wake, sleeping, eks, store, loaded, with_workload
    ):
        wake({"tests": ["rtt"]}, settings=loaded)
        assert eks.updates == [("ng-1", 2), ("ng-2", 2), ("ng-3", 1)]
        assert store.runs.find(RUN).stack_arms == ("treatment", "baseline", "load")
        boot(sleeping, *GROUPS)
        assert not wake({"tests": ["rtt"]}, settings=loaded).ready
        assert store.runs.find(RUN).phase == "waking nodes, 4 of 5 nodes are Ready"
        sleeping.nodes.append(node("load-1", "ng-3"))
        assert wake({"tests": ["rtt"]}, settings=loaded).ready

    def test_they_rest_with_the_others(self, wake, eks, resources, loaded, with_workload):
        wake({"tests": ["rtt"]}, settings=loaded)
        rest_nodes(RUN, resources.but(settings=loaded))
        assert eks.updates[-3:] == [("ng-1", 0), ("ng-2", 0), ("ng-3", 0)]

    def test_they_are_asked_for_on_demand_too(self, wake, cluster, with_workload):
        cluster.on_client = lambda pod: None
        wake({"tests": ["rtt"]}, settings=replace(ON_DEMAND, load=LOAD_NODES, load_node_count=2))
        holders = Counter(pod["metadata"]["labels"][ARM] for pod in cluster.of_role("holder"))
        assert holders == {"treatment": 3, "baseline": 3, "load": 2}


ON_DEMAND = replace(SETTINGS, nodes_on_demand=True, node_count=3)


class TestOnDemand:
    """Pods ask the autoscaler of an existing cluster for nodes."""

    @pytest.fixture
    def ask(self, wake, cluster):
        cluster.on_client = lambda pod: None
        return lambda raw=None: wake(raw, settings=ON_DEMAND)

    @staticmethod
    def holders(cluster):
        return {pod["metadata"]["name"]: pod for pod in cluster.of_role("holder")}

    def test_a_pod_asks_for_each_node_until_all_run(self, ask, cluster, store):
        assert ask() == Readiness(ready=False, wait_seconds=10)
        pods = self.holders(cluster)
        assert len(pods) == 6
        assert store.runs.find(RUN).phase == "asking for nodes, 0 of 6 nodes are Ready"
        for pod in list(pods.values())[:5]:
            pod["status"] = {"phase": "Running"}
        assert not ask().ready
        for pod in pods.values():
            pod["status"] = {"phase": "Running"}
        assert ask().ready
        assert self.holders(cluster).keys() == pods.keys()

    def test_only_the_arms_of_the_plan_are_asked_for(self, ask, wake, cluster):
        arms = ["baseline", {"name": "host", "nodes": "baseline", "client_network": "host"}]
        with pytest.raises(InvalidPlan):
            ask({"arms": ["nothing"]})
        assert self.holders(cluster) == {}
        wake({"arms": arms}, settings=replace(ON_DEMAND, host_namespace="rackrate-host"))
        assert {pod["metadata"]["labels"][ARM] for pod in self.holders(cluster).values()} == {
            "baseline"
        }

    def test_a_dry_run_asks_for_no_node(self, ask, cluster, store):
        assert ask({"dry_run": True}).ready
        assert (self.holders(cluster), store.runs.find(RUN)) == ({}, None)

    def test_when_none_come_the_scheduler_and_the_autoscaler_are_quoted(self, ask, cluster, store):
        ask()
        name, pod = next(iter(self.holders(cluster).items()))
        unschedulable = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/4 nodes are available",
        }
        pod["status"] = {"phase": "Pending", "conditions": [unschedulable]}
        for number, about in enumerate((name, "somebody-else")):
            cluster.objects[f"/api/v1/namespaces/rackrate/events/{number}"] = {
                "metadata": {"name": str(number), "labels": {}, "namespace": "rackrate"},
                "involvedObject": {"name": about},
                "type": "Warning",
                "reason": "FailedScheduling",
                "message": f"incompatible with nodepool fast, for {about}",
            }
        let_pass(store, PATIENCE_SECONDS + 1)
        with pytest.raises(NodesUnavailable) as failed:
            ask()
        assert "0 of 6 nodes are Ready after" in str(failed.value)
        assert "Unschedulable: 0/4 nodes are available" in str(failed.value)
        assert f"incompatible with nodepool fast, for {name}" in str(failed.value)
        assert "somebody-else" not in str(failed.value)

    def test_they_have_their_time_again_after_a_wait_for_the_lease(self, ask, store):
        ask()
        let_pass(store, PATIENCE_SECONDS + 1)
        store.runs.update(RUN, leased_at=now())
        assert ask().ready is False

    def test_the_nodes_are_let_go_with_the_runs_other_objects(self, ask, cluster, resources):
        ask()
        teardown(RUN, resources)
        assert cluster.objects == {}


class TestWake:
    @pytest.mark.parametrize("raw", [{"blocks": 0}, [], {"arms": []}])
    def test_an_invalid_plan_wakes_no_node_and_records_no_run(self, wake, store, eks, raw):
        with pytest.raises(InvalidPlan):
            wake(raw)
        assert eks.updates == []
        assert store.runs.find(RUN) is None

    def test_a_plan_too_large_for_the_nodes_the_stack_is_to_have_wakes_none(self, wake, eks):
        plan = {"pairing": "mesh", "blocks": 1000}
        with pytest.raises(InvalidPlan, match="more than"):
            wake(plan, settings=replace(IDLE, node_count=100))
        assert eks.updates == []

    def test_a_dry_run_wakes_no_node(self, wake, store, eks):
        assert wake({"dry_run": True}) == Readiness(ready=True, wait_seconds=0)
        assert eks.updates == []
        assert store.runs.find(RUN) is None

    def test_the_run_is_on_record_before_nodes_are_asked_for(self, wake, store, eks):
        eks.refusals = [RuntimeError("EKS is down")]
        with pytest.raises(RuntimeError):
            wake()
        run = store.runs.find(RUN)
        assert (run.status, run.phase) == ("running", "waking nodes")
        assert run.execution_arn == ARN

    def test_every_arm_is_asked_for_all_its_nodes_and_may_go_back_to_none(self, wake, eks):
        woken = wake()
        assert (woken.ready, woken.wait_seconds > 0) == (False, True)
        assert eks.updates == [("ng-1", 2), ("ng-2", 2)]
        sizes = eks.groups["ng-1"]["scalingConfig"]
        assert (sizes["minSize"], sizes["maxSize"]) == (0, 2)

    def test_ready_only_when_every_node_of_every_arm_is(self, wake, sleeping, store):
        wake()
        boot(sleeping, "ng-1")
        assert wake().ready is False
        assert store.runs.find(RUN).phase == "waking nodes, 2 of 4 nodes are Ready"
        boot(sleeping, "ng-2")
        sleeping.nodes[-1]["status"]["conditions"][0]["status"] = "False"
        assert wake().ready is False
        sleeping.nodes[-1]["status"]["conditions"][0]["status"] = "True"
        assert wake() == Readiness(ready=True, wait_seconds=0)

    def test_nodes_of_one_arm_do_not_stand_in_for_those_of_another(self, wake, sleeping, store):
        wake()
        boot(sleeping, "ng-1")
        sleeping.nodes += [node(f"more-{n}", "ng-1") for n in (1, 2)]
        assert wake().ready is False
        assert store.runs.find(RUN).phase == "waking nodes, 2 of 4 nodes are Ready"

    def test_a_node_group_that_is_being_updated_is_asked_again(self, wake, eks):
        eks.refusals = [refused("ResourceInUseException")]
        wake()
        assert eks.updates == [("ng-2", 2)]
        wake()
        assert eks.updates == [("ng-2", 2), ("ng-1", 2)]

    def test_nodes_that_another_run_puts_to_rest_meanwhile_are_asked_for_again(
        self, wake, sleeping, eks
    ):
        # The other run read the table before this one was in it.
        boot(sleeping, *GROUPS)
        for group in eks.groups.values():
            group["scalingConfig"]["desiredSize"] = 2
        assert wake().ready is False, "the first answer is never the last word"
        for group in eks.groups.values():
            group["scalingConfig"]["desiredSize"] = 0
        assert wake().ready is False
        assert eks.desired() == [2, 2]

    def test_nodes_are_not_ready_while_their_group_is_still_being_updated(
        self, wake, sleeping, eks
    ):
        wake()
        boot(sleeping, *GROUPS)
        eks.groups["ng-2"]["status"] = "UPDATING"
        assert wake().ready is False

    def test_a_new_health_issue_ends_the_wait_with_eks_own_words(self, wake, sleeping, eks):
        wake()
        eks.groups["ng-1"]["health"]["issues"] = [NO_CAPACITY]
        assert wake().ready is False, "the other arm shows how it is filled"
        boot(sleeping, "ng-2")
        with pytest.raises(NodesUnavailable, match=r"ng-1: .*no c5\.large in this zone"):
            wake()

    @pytest.mark.parametrize("status", ["DEGRADED", "DELETING"])
    def test_a_group_that_cannot_bring_nodes_any_more_ends_the_wait(
        self, wake, sleeping, eks, status
    ):
        wake()
        boot(sleeping, "ng-1")
        eks.groups["ng-2"]["status"] = status
        with pytest.raises(NodesUnavailable, match=f"node group ng-2 is {status}"):
            wake()

    def test_a_trouble_from_before_does_not_keep_a_group_from_being_woken(
        self, wake, sleeping, eks
    ):
        eks.groups["ng-1"] |= {"status": "DEGRADED", "health": {"issues": [NO_CAPACITY]}}
        wake()
        assert wake().ready is False
        boot(sleeping, *GROUPS)
        assert wake().ready is True

    def test_nodes_that_had_their_time_are_given_up_with_what_eks_says(self, wake, store, eks):
        eks.groups["ng-1"]["health"]["issues"] = [NO_CAPACITY]
        wake()
        let_pass(store, PATIENCE_SECONDS + 10)
        with pytest.raises(NodesUnavailable, match=r"(?s)0 of 4 nodes are Ready.*no c5\.large"):
            wake()

    def test_launches_that_fail_without_a_health_issue_are_quoted(
        self, wake, store, eks, autoscaling
    ):
        autoscaling.note("eks-ng-1", "Failed", NOT_ELIGIBLE, minutes_ago=2)
        wake()
        assert wake().ready is False, "Auto Scaling tries again"
        let_pass(store, PATIENCE_SECONDS + 10)
        with pytest.raises(NodesUnavailable) as failed:
            wake()
        assert f"node group ng-1: {NOT_ELIGIBLE} (Auto Scaling, 2" in str(failed.value)
        assert "no health issue" not in str(failed.value)

    @pytest.mark.parametrize(
        "fault",
        [
            ConnectTimeoutError(endpoint_url="https://autoscaling"),
            refused("AccessDenied"),
            ResponseParserError("invalid XML received"),
        ],
        ids=["no way to it", "no permission", "a proxy that answers instead"],
    )
    def test_auto_scaling_that_cannot_be_asked_hides_no_health_issue(
        self, wake, sleeping, eks, autoscaling, fault
    ):
        autoscaling.fails = fault
        wake()
        boot(sleeping, "ng-2")
        eks.groups["ng-1"]["health"]["issues"] = [NO_CAPACITY]
        with pytest.raises(NodesUnavailable) as failed:
            wake()
        assert "node group ng-1: InsufficientInstanceCapacity" in str(failed.value)
        assert f"Auto Scaling group were not read ({fault})" in str(failed.value)

    def test_a_size_that_eks_refuses_is_no_reason_to_wait(self, wake, eks):
        eks.refusals = [refused("InvalidRequestException")]
        with pytest.raises(NodesUnavailable, match="ng-1 cannot be resized: because"):
            wake()

    @pytest.mark.parametrize(
        ("names", "message"),
        [((), "knows no node group of it"), (("ng-1", "gone"), "there is no node group 'gone'")],
    )
    def test_a_group_that_is_not_there_cannot_be_woken(self, wake, eks, names, message):
        arms = (replace(IDLE.arms[0], node_groups=names), IDLE.arms[1])
        with pytest.raises(NodesUnavailable, match=f"arm treatment: .*{message}"):
            wake(settings=replace(IDLE, arms=arms))
        assert eks.updates == []

    def test_throttling_is_tried_again_by_the_machine(self, wake, eks):
        eks.refusals = [refused("ThrottlingException")]
        with pytest.raises(Throttled):
            wake()


class TestLaunches:
    """How the nodes came is recorded with the run that woke them."""

    def woken(self, sleeping, store, groups, *seconds):
        """Boot nodes that were Ready so many seconds after they were asked for."""
        began = store.runs.find(RUN).waking["since"]
        boot(sleeping, *groups)
        for each, after in zip(sleeping.nodes, seconds, strict=True):
            each["status"]["conditions"][0]["lastTransitionTime"] = later(began, after)
        return began

    def test_with_the_seconds_until_they_were_ready_and_once(self, wake, sleeping, store):
        wake()
        began = self.woken(sleeping, store, GROUPS, 20.0, 23.0, 29.0, 26.0)
        assert wake().ready
        assert wake().ready, "a function may run twice"
        first, second = store.runs.find(RUN).launches
        assert (first.arm, first.placement, first.outcome) == ("treatment", "cluster", "filled")
        assert (first.asked, first.got, first.began_at) == (2, 2, began)
        assert (first.first_seconds, first.last_seconds) == (20.0, 23.0)
        assert (second.arm, second.first_seconds, second.last_seconds) == ("baseline", 26.0, 29.0)

    def test_that_ec2_refused_with_its_words(self, wake, sleeping, store, eks):
        wake()
        eks.groups["ng-1"]["health"]["issues"] = [NO_CAPACITY]
        self.woken(sleeping, store, ["ng-2"], 20.0, 23.0)
        with pytest.raises(NodesUnavailable) as failed:
            wake()
        (refused, filled) = store.runs.find(RUN).launches
        assert (refused.outcome, refused.got, refused.first_seconds) == ("refused", 0, None)
        assert "no c5.large in this zone" in refused.reasons[0]
        assert (filled.outcome, filled.last_seconds) == ("filled", 23.0)
        assert str(failed.value).endswith(
            "Capacity: cluster group 0 of 2 nodes, refused; no group 2 of 2 nodes in 20 s to 23 s."
        )

    def test_not_if_they_were_awake(self, wake, sleeping, store, eks):
        for group in eks.groups.values():
            group["scalingConfig"]["desiredSize"] = 2
        boot(sleeping, *GROUPS)
        wake()
        assert wake().ready
        assert store.runs.find(RUN).launches == ()

    def test_though_nodes_of_the_run_before_are_still_leaving(self, wake, sleeping, store):
        leaving = node("old", "ng-1")
        sleeping.nodes = [leaving]
        wake()
        leaving["spec"]["unschedulable"] = True
        self.woken(sleeping, store, GROUPS, 0.0, 20.0, 23.0, 26.0, 29.0)
        assert wake().ready
        first, _ = store.runs.find(RUN).launches
        assert (first.asked, first.got, first.first_seconds) == (2, 2, 20.0)

    def test_again_after_a_wait_for_the_lease(self, wake, sleeping, store, eks):
        wake()
        self.woken(sleeping, store, GROUPS, 20.0, 23.0, 26.0, 29.0)
        assert wake().ready
        for group in eks.groups.values():  # another execution's end put them to rest
            group["scalingConfig"]["desiredSize"] = 0
        sleeping.nodes = []
        store.runs.update(RUN, leased_at=later(now(), 1))
        assert not wake().ready
        boot(sleeping, *GROUPS)
        store.runs.update(RUN, leased_at=later(now(), -1))
        assert wake().ready
        assert [each.asked for each in store.runs.find(RUN).launches] == [2, 2, 2, 2]


class TestRest:
    def test_after_the_last_run_no_node_is_left(self, wake, eks, resources):
        wake()
        assert rest_nodes(RUN, resources).rested == GROUPS
        assert eks.desired() == [0, 0]
        assert eks.groups["ng-1"]["scalingConfig"]["maxSize"] == 2

    def test_nodes_stay_while_another_run_needs_them(self, wake, eks, resources):
        wake(run=OTHER)
        wake()
        assert rest_nodes(RUN, resources).needed_by == (OTHER,)
        assert eks.desired() == [2, 2]

    def test_of_two_runs_that_end_together_the_later_one_turns_off_the_light(self, wake, resources):
        wake(run=OTHER)
        wake()
        rest_nodes(RUN, resources)  # neither run has recorded its end yet
        assert rest_nodes(OTHER, resources).rested == GROUPS

    @pytest.mark.parametrize(("over", "needed_by"), [(-3600, (OTHER,)), (60, ())])
    def test_a_run_keeps_its_nodes_as_long_as_the_machine_allows(
        self, over, needed_by, wake, store, resources
    ):
        wake(run=OTHER)
        wake()
        let_pass(store, RUN_LIMIT_SECONDS + over, run=OTHER)
        rested = rest_nodes(RUN, resources)
        assert (rested.needed_by, rested.rested) == (needed_by, () if needed_by else GROUPS)

    def test_groups_without_nodes_are_left_alone(self, eks, resources):
        assert rest_nodes(RUN, resources).rested == GROUPS
        assert eks.updates == []

    def test_a_stack_that_does_not_idle_keeps_its_nodes(self, wake, eks, resources):
        wake()
        assert rest_nodes(RUN, resources.but(settings=SETTINGS)).rested == ()
        assert eks.desired() == [2, 2]

    def test_a_group_in_the_middle_of_an_update_is_waited_for(
        self, wake, eks, monkeypatch, resources
    ):
        monkeypatch.setattr(resting, "_POLL_SECONDS", 0.01)
        wake()
        eks.refusals = [refused("ResourceInUseException")] * 2
        assert rest_nodes(RUN, resources).busy == ()
        assert eks.desired() == [0, 0]

    def test_a_group_that_stays_busy_is_left_to_the_sweep(self, wake, eks, monkeypatch, resources):
        monkeypatch.setattr(resting, "PATIENCE_SECONDS", 0)
        wake()
        eks.refusals = [refused("ResourceInUseException")]
        rested = rest_nodes(RUN, resources)
        assert (rested.busy, rested.rested) == (("ng-1",), ("ng-2",))


def stop(resources, status):
    """Clean up after the execution of the run was stopped, as EventBridge asks for."""
    detail = {"name": RUN, "status": status, "executionArn": ARN}
    return teardown_stopped(detail, resources.but(step_functions=States(status)))


class TestCleaning:
    def sweep(self, resources, status):
        return sweep(resources.but(step_functions=States(status)))

    def test_a_run_that_ends_badly_leaves_the_nodes_of_another(self, wake, eks, resources):
        wake(run=OTHER)
        wake()
        assert stop(resources, "FAILED").nodes.needed_by == (OTHER,)
        assert eks.desired() == [2, 2]

    def test_the_sweep_rests_nodes_that_nobody_needs(self, sleeping, eks, resources):
        for group in eks.groups.values():
            group["scalingConfig"]["desiredSize"] = 2
        self.sweep(resources, "SUCCEEDED")
        assert eks.desired() == [0, 0]

    @pytest.mark.parametrize("how", ["sweep", "event"])
    def test_a_run_that_was_stopped_keeps_no_node_awake_though_the_index_lags_behind(
        self, wake, store, eks, monkeypatch, how, resources
    ):
        wake()
        before = store.runs.running()
        monkeypatch.setattr(store.runs, "running", lambda: before)
        if how == "sweep":
            self.sweep(resources, "ABORTED")
        else:
            stop(resources, "ABORTED")
        assert store.runs.find(RUN).status == "aborted"
        assert eks.desired() == [0, 0]

    def test_the_sweep_leaves_the_nodes_of_a_run_that_lives(self, wake, eks, resources):
        wake()
        assert self.sweep(resources, "RUNNING").nodes.needed_by == (RUN,)
        assert eks.desired() == [2, 2]

    @pytest.mark.parametrize(
        ("expected", "age", "overdue"),
        [(None, 1700, ()), (None, 1900, (RUN,)), (600, 2900, ()), (600, 3100, (RUN,))],
    )
    def test_a_run_is_overdue_after_twice_its_time_and_half_an_hour(
        self, wake, store, expected, age, overdue, resources
    ):
        wake()
        if expected is not None:
            store.runs.update(RUN, expected_seconds=expected)
        let_pass(store, age)
        assert self.sweep(resources, "RUNNING").overdue == overdue
        assert self.sweep(resources, "SUCCEEDED").overdue == ()


class TestPlan:
    def test_a_dry_run_is_planned_on_placeholders_of_the_groups_instance_type(
        self, sleeping, store, eks, plan
    ):
        planned = plan({"dry_run": True, "blocks": 6})
        assert (planned.dry_run, planned.trials) == (True, 48)
        stored = store.runs.plan(RUN)
        assert stored.placeholder_nodes is True
        treatment = stored.arms[0]
        assert treatment.node_names == ("treatment-1", "treatment-2")
        assert {node.instance_type for node in treatment.nodes} == {"c5.large"}
        assert treatment.network.peak_bits_per_second == 10e9
        assert eks.updates == []

    def test_a_run_is_planned_on_the_nodes_that_woke_and_says_so(self, wake, sleeping, store, plan):
        wake()
        boot(sleeping, *GROUPS)
        plan({})
        stored = store.runs.plan(RUN)
        assert stored.placeholder_nodes is False
        assert stored.arms[0].node_names == ("ng-1-1", "ng-1-2")
        assert {node.node_group for node in stored.arms[0].nodes} == {"ng-1"}

    def test_the_time_it_took_to_wake_is_part_of_the_time_a_run_takes(
        self, wake, sleeping, store, resources, plan
    ):
        wake()
        boot(sleeping, *GROUPS)
        let_pass(store, 300)
        plan({})
        run = store.runs.find(RUN)
        estimated = store.runs.plan(RUN).estimates.seconds
        assert run.expected_seconds == pytest.approx(estimated + 300, abs=30)
        finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None)
        assert store.runs.find(RUN).seconds == pytest.approx(300, abs=30)
