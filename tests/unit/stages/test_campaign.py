"""A campaign through its functions, as its state machine calls them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rackrate.changes import scaling
from rackrate.changes.nodes import NodeCount
from rackrate.errors import (
    CampaignEnded,
    InvalidCampaign,
    InvalidPlan,
    NodesBusy,
    NodesUnavailable,
    StepsLost,
)
from rackrate.executions.leases import Lease
from rackrate.results.build import RunFailure
from rackrate.stages.campaign.change import change
from rackrate.stages.campaign.finish_campaign import finish_campaign
from rackrate.stages.campaign.judge import judge
from rackrate.stages.campaign.plan_campaign import plan_campaign
from rackrate.stages.campaign.report_campaign import report_campaign
from rackrate.stages.campaign.restore import restore, restore_stopped, sweep_campaigns
from rackrate.stages.execution.rest_nodes import rest_unneeded
from rackrate.stages.execution.take_lease import keep_lease, take_campaign_lease, take_lease
from rackrate.stages.execution.wake_nodes import wake_nodes
from rackrate.stages.run.finish import finish
from rackrate.stages.run.plan import plan as plan_run
from rackrate.stages.run.teardown import stop_all
from rackrate.times import later, now
from rackrate_contract.campaign import CampaignResults
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit import builders
from tests.unit.stages.campaigns import (
    CAMPAIGN,
    CAMPAIGN_ARN,
    CAMPAIGNS,
    NO_CAPACITY,
    OWNED,
    Executions,
    NodeGroups,
    results_of_run,
    store_run,
)
from tests.unit.stages.runs import EXECUTIONS, PLAN

LOST = RunFailure("NodesUnavailable", json.dumps({"errorMessage": "no c5.large in this zone"}))


@pytest.fixture
def settings():
    return OWNED


@pytest.fixture
def eks(cluster):
    cluster.nodes = []
    return NodeGroups(cluster)


@pytest.fixture
def executions():
    return Executions()


@pytest.fixture
def resources(resources, eks, executions):
    return resources.but(eks=eks, step_functions=executions)


class Machine:
    """Calls the functions in the order of the state machine."""

    def __init__(self, resources, campaign_id=CAMPAIGN):
        self.resources, self.id = resources, campaign_id
        self.arn = CAMPAIGNS + campaign_id

    def plan(self, raw=None):
        given = {"plan": PLAN} if raw is None else raw
        return plan_campaign(given, self.resources, campaign_id=self.id, execution_arn=self.arn)

    def begin(self, raw=None):
        """Plan, and take the lease."""
        self.plan(raw)
        assert take_campaign_lease(self.id, self.resources).taken
        return self

    def judge(self, failure=None):
        """Judge as the state machine does, which names the step that failed."""
        failed = self.steps[-1].number if self.steps else None
        return judge(self.id, self.resources, failure=failure, failed=failed)

    def change(self, most=20):
        """Ask until the change is made."""
        for _ in range(most):
            if (changed := change(self.id, self.resources)).ready:
                return changed
        raise AssertionError(self.record.phase)

    def run(self, run_id, ratio=1.9, **more):
        """The run of a step, which finds a ratio."""
        store_run(self.resources.store, results_of_run(run_id, ratio), **more)

    def step(self, ratio=1.9):
        """Make one step, and judge it."""
        step = self.judge()
        self.change()
        self.run(step.run_id, ratio)
        return step

    def whole(self):
        """Make a campaign of one draw from its begin to its end."""
        self.begin(draws(1))
        self.step()
        self.judge()
        self.end()

    def restore(self, most=20):
        for _ in range(most):
            if restore(self.id, self.resources).done:
                return
        raise AssertionError(self.record.phase)

    def end(self, failure=None):
        """Report, put back, and record the end."""
        reported = report_campaign(self.id, self.resources, failure=failure)
        self.restore()
        return finish_campaign(
            self.id,
            self.resources,
            execution_arn=self.arn,
            failure=failure,
            report_key=reported.report_key,
        )

    @property
    def record(self):
        return self.resources.store.campaigns.get(self.id)

    @property
    def steps(self):
        return self.resources.store.campaigns.steps(self.id)

    @property
    def results(self):
        return self.resources.store.campaigns.find_document(
            self.id, "campaign.json", CampaignResults
        )


@pytest.fixture
def machine(resources):
    return Machine(resources)


def hold_treatment(store):
    """Let a run hold the nodes of the treatment for ten minutes."""
    end = later(now(), 600)
    lease = Lease(run_id="run-9", kind="run", taken_at=now(), expected_end=end, expires_at=end)
    assert store.leases.hold(("treatment",), lease) is None


def plan_own_run(resources, run_id="mine", plan=PLAN):
    """Plan a run as its execution does."""
    return plan_run(plan, resources, run_id=run_id, execution_arn=EXECUTIONS + run_id)


def draws(number, **more):
    return {"plan": PLAN, "draws": number, **more}


class TestPauses:
    def test_each_draw_but_the_first_waits_with_a_lease_that_outlasts_the_wait(
        self, machine, eks, store
    ):
        machine.begin(draws(2, pause_minutes=90)).step()
        machine.judge()
        before = list(eks.updates)
        changed = change(CAMPAIGN, machine.resources)
        assert (changed.ready, changed.wait_seconds) == (False, 3600)
        assert eks.updates == before
        assert machine.record.phase.startswith("draw 2 of 2: pausing until ")
        lease = store.leases.valid()["treatment"]
        assert lease.expires_at > later(now(), changed.wait_seconds + 1200)
        step = machine.steps[-1].model_copy(update={"begins_at": later(now(), -1)})
        machine.resources.store.campaigns.put_step(CAMPAIGN, step)
        machine.change()
        assert eks.updates != before

    def test_the_estimate_has_the_pauses_between_the_draws(self, machine):
        plain = machine.plan(draws(4, dry_run=True)).estimate
        paused = machine.plan(draws(4, dry_run=True, pause_minutes=60)).estimate
        assert paused.seconds.most - plain.seconds.most == pytest.approx(3 * 3600)
        assert paused.seconds.least - plain.seconds.least == pytest.approx(3 * 3600)

    def test_a_campaign_that_would_outlast_its_state_machine_is_refused(self, machine):
        with pytest.raises(InvalidCampaign, match="pause_minutes: makes the campaign longer"):
            machine.plan(draws(12, pause_minutes=1440))


class TestDraws:
    def test_all_node_groups_are_empty_before_any_grows_again(self, machine, eks):
        machine.begin(draws(1)).step()
        assert eks.updates == [("ng-1", 0), ("ng-2", 0), ("ng-1", 2), ("ng-2", 2)]

    def test_nothing_is_launched_while_a_node_is_left(self, machine, eks):
        machine.begin(draws(1)).judge()
        eks.held = True
        for _ in range(3):
            assert not change(CAMPAIGN, machine.resources).ready
        assert machine.record.phase == "draw 1 of 1: new nodes: 4 nodes are to leave"
        assert eks.updates == [("ng-1", 0), ("ng-2", 0)]
        eks.held = False
        eks.boot()
        machine.change()

    def test_a_run_starts_only_when_all_new_nodes_are_ready(self, machine, eks, cluster):
        machine.begin(draws(1)).judge()
        change(CAMPAIGN, machine.resources)
        eks.held = True
        change(CAMPAIGN, machine.resources)
        assert not change(CAMPAIGN, machine.resources).ready
        assert machine.record.phase == "draw 1 of 1: new nodes: 0 of 4 nodes are Ready"
        eks.boot()
        cluster.nodes[0]["status"]["conditions"][0]["status"] = "False"
        assert not change(CAMPAIGN, machine.resources).ready
        cluster.nodes[0]["status"]["conditions"][0]["status"] = "True"
        assert change(CAMPAIGN, machine.resources).ready

    def test_the_default_campaign_ends_with_an_answer_about_the_placement_group(self, machine):
        machine.begin({})
        for ratio in (1.90, 1.93, 1.88, 1.91):
            machine.step(ratio)
        judged = machine.judge()
        assert judged.enough, machine.record.phase
        output = machine.end().output
        (answer,) = machine.results.answers
        assert (answer.verdict, answer.scope) == ("better", "the placement group")
        assert machine.record.stopped.why == "settled"
        assert output.status == "succeeded"
        assert ": better, treatment against baseline; next deployment" in output.answers[0]
        assert output.report.startswith("https://")
        assert [step.run_id for step in machine.results.steps] == [
            f"{CAMPAIGN}-{number:02d}" for number in (1, 2, 3, 4)
        ]
        assert machine.results.steps[0].nodes["treatment"] == ("camp-01-a", "camp-01-b")

    def test_each_run_gets_the_plan_with_a_seed_of_its_own_and_the_campaigns_id(self, machine):
        raw = {"plan": {"tests": ["rtt"]}, "draws": 2, "seed": 7}
        machine.begin(raw).step()
        plan = machine.judge().plan
        assert plan["tests"] == ["rtt"]
        assert plan["campaign"] == CAMPAIGN
        assert plan["AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"] == CAMPAIGN_ARN
        Machine(machine.resources, "other").plan(raw)
        planned = machine.resources.store.campaigns.plan("other").campaign
        assert planned.plan_of_step("other", 2)["seed"] == plan["seed"]
        assert planned.plan_of_step("other", 1)["seed"] != plan["seed"]


class TestLosses:
    def test_a_run_that_failed_has_no_result_and_its_reason_is_kept(self, machine, store):
        step = machine.begin(draws(2)).judge()
        machine.change()
        store.runs.start(step.run_id, "running", now())
        store.runs.finish(step.run_id, "failed", error=LOST.error, cause=LOST.cause)
        second = machine.judge(RunFailure("States.TaskFailed", "{}"))
        assert second.number == 2
        lost = machine.steps[0]
        assert (lost.status, lost.has_result) == ("failed", False)
        assert lost.reason == "NodesUnavailable: no c5.large in this zone"
        machine.change()
        machine.run(second.run_id)
        assert machine.judge().enough
        assert machine.end().output.status == "degraded"

    def test_nodes_that_do_not_come_back_lose_the_step_in_the_node_groups_words(self, machine, eks):
        machine.begin(draws(2)).judge()
        change(CAMPAIGN, machine.resources)
        eks.held = True
        change(CAMPAIGN, machine.resources)
        eks.issues = [NO_CAPACITY]
        with pytest.raises(NodesUnavailable, match=r"ng-1: .*no c5\.large in this zone") as error:
            change(CAMPAIGN, machine.resources)
        cause = json.dumps({"errorMessage": str(error.value)})
        machine.judge(RunFailure("NodesUnavailable", cause))
        assert machine.steps[0].status == "unfilled"
        assert "no c5.large in this zone" in machine.steps[0].reason

    def test_nodes_that_cannot_be_launched_lose_the_step_in_auto_scalings_words(
        self, machine, eks, autoscaling, monkeypatch
    ):
        machine.begin(draws(2)).judge()
        change(CAMPAIGN, machine.resources)
        eks.held = True
        autoscaling.note("eks-ng-1", "Failed", "The type is not eligible for Free Tier.")
        assert not change(CAMPAIGN, machine.resources).ready, "Auto Scaling tries again"
        monkeypatch.setattr(scaling, "PATIENCE_SECONDS", -1)
        with pytest.raises(NodesUnavailable, match="ng-1: The type is not eligible for Free Tier"):
            change(CAMPAIGN, machine.resources)

    def test_two_lost_steps_in_a_row_end_the_campaign_with_their_reasons(self, machine):
        machine.begin(draws(6)).judge()
        machine.judge(LOST)
        with pytest.raises(StepsLost) as error:
            machine.judge(LOST)
        assert str(error.value) == (
            "steps 1 and 2 of this campaign have no result\n"
            "NodesUnavailable: no c5.large in this zone"
        )

    def test_a_lost_step_between_good_ones_does_not_end_it(self, machine):
        machine.begin(draws(6))
        for number in range(1, 6):
            step = machine.judge()
            machine.change()
            if number % 2:
                machine.run(step.run_id)
            else:
                assert machine.judge(LOST).number == number + 1
        assert [step.has_result for step in machine.steps] == [True, False, True, False, False]

    def test_a_campaign_without_any_result_has_failed(self, machine):
        machine.begin(draws(1)).judge()
        with pytest.raises(StepsLost, match="step 1 of this campaign has no result"):
            machine.judge(LOST)

    def test_a_failed_campaign_still_reports_its_answers_so_far(self, machine):
        machine.begin(draws(6)).step()
        machine.judge()
        machine.judge(LOST)
        failure = RunFailure("StepsLost", json.dumps({"errorMessage": "two"}))
        finished = machine.end(failure)
        assert finished.output is None
        assert finished.error == "StepsLost"
        assert "campaigns/camp/report.html" in finished.cause
        assert machine.record.status == "failed"
        assert machine.results.campaign.error == "StepsLost"
        assert len(machine.results.answers[0].draws) == 1


def refuse(machine):
    """Let a step's change fail for want of capacity, and judge it."""
    with pytest.raises(NodesUnavailable) as error:
        machine.change()
    cause = json.dumps({"errorMessage": str(error.value)})
    return machine.judge(RunFailure("NodesUnavailable", cause))


class TestCapacity:
    def test_each_launch_is_recorded_with_the_seconds_until_its_nodes_were_ready(
        self, machine, eks, cluster
    ):
        machine.begin(draws(1)).judge()
        change(CAMPAIGN, machine.resources)
        eks.held = True
        change(CAMPAIGN, machine.resources)
        began = machine.steps[0].progress["made"]["coming"]["since"]
        eks.boot()
        for number, each in enumerate(cluster.nodes):
            ready = later(began, 20.0 + 3 * number)
            each["status"]["conditions"][0]["lastTransitionTime"] = ready
        machine.change()
        first, second = machine.steps[0].launches
        assert (first.arm, first.placement, first.outcome) == ("treatment", "cluster", "filled")
        assert (first.asked, first.got, first.began_at) == (2, 2, began)
        assert (first.first_seconds, first.last_seconds) == (20.0, 23.0)
        assert (second.first_seconds, second.last_seconds) == (26.0, 29.0)
        assert (first.instance_type, first.zone, first.reasons) == ("c5.large", "us-east-1a", ())

    def test_a_draw_that_ec2_did_not_fill_is_an_outcome_and_the_campaign_goes_on(
        self, machine, eks
    ):
        machine.begin(draws(3)).step()
        machine.judge()
        eks.room = {"ng-1": 1}
        assert refuse(machine).number == 3
        unfilled = machine.steps[1]
        assert unfilled.status == "unfilled"
        got = {each.arm: (each.outcome, each.got, each.asked) for each in unfilled.launches}
        assert got == {"treatment": ("refused", 1, 2), "baseline": ("filled", 2, 2)}
        (refused, _) = unfilled.launches
        assert refused.last_seconds is None and refused.first_seconds is not None
        assert any("no c5.large in this zone" in reason for reason in refused.reasons)
        eks.room = {}
        machine.change()
        machine.run(machine.steps[2].run_id)
        assert machine.judge().enough
        assert machine.end().output.status == "succeeded"
        results = machine.results
        group, without = results.capacity
        assert (group.filled, group.launches, group.reasons[0]) == (2, 3, refused.reasons[0])
        assert (without.filled, without.launches) == (2, 2)
        assert "cluster group 2 of 3 draws filled (95 % CI 9 to 99 %)" in results.conclusion
        assert "no group 2 of 2 (16 to 100 %)" in results.conclusion

    def test_the_nodes_of_the_other_arm_serve_the_next_draw(self, machine, eks):
        machine.begin(draws(2)).judge()
        eks.room = {"ng-1": 1}
        refuse(machine)
        kept = {name for name in eks.node_names if name.startswith("ng-2")}
        del eks.updates[:]
        eks.room = {}
        machine.change()
        assert kept < eks.node_names
        assert eks.updates == [("ng-1", 0), ("ng-1", 2)]
        assert [each.arm for each in machine.steps[1].launches] == ["treatment"]

    def test_the_nodes_of_the_other_arm_are_waited_for_before_a_draw_is_given_up(
        self, machine, eks, cluster
    ):
        machine.begin(draws(2)).judge()
        eks.room = {"ng-1": 1}
        change(CAMPAIGN, machine.resources)
        eks.held = True
        change(CAMPAIGN, machine.resources)
        eks.boot()
        late = next(n for n in cluster.nodes if n["metadata"]["name"].startswith("ng-2"))
        late["status"]["conditions"][0]["status"] = "False"
        assert not change(CAMPAIGN, machine.resources).ready
        late["status"]["conditions"][0]["status"] = "True"
        refuse(machine)
        outcomes = {each.arm: each.outcome for each in machine.steps[0].launches}
        assert outcomes == {"treatment": "refused", "baseline": "filled"}

    def test_nodes_that_do_not_come_for_another_reason_say_nothing_about_capacity(
        self, machine, eks
    ):
        machine.begin(draws(2)).judge()
        change(CAMPAIGN, machine.resources)
        eks.held = True
        change(CAMPAIGN, machine.resources)
        eks.issues = [{"code": "NodeCreationFailure", "message": "they failed to join"}]
        refuse(machine)
        assert machine.steps[0].status == "lost"
        assert {each.outcome for each in machine.steps[0].launches} == {"failed"}
        report_campaign(CAMPAIGN, machine.resources, failure=LOST)
        assert machine.results.capacity == ()

    def test_a_group_that_never_fills_ends_the_campaign_with_a_sentence_on_what_to_do(
        self, machine, eks
    ):
        machine.begin(draws(12)).judge()
        eks.room = {"ng-1": 1}
        for _ in range(3):
            refuse(machine)
        with pytest.raises(StepsLost) as error:
            refuse(machine)
        assert str(error.value) == (
            "EC2 had no capacity for all nodes of cluster group in 4 launches in a row: at most 1"
            " of 2 came. Ask for fewer nodes, another instance type or another zone, or reserve"
            " capacity."
        )
        assert machine.record.phase.startswith("EC2 had no capacity")
        # EKS has no health issue for the first half hour, and the nodes still do not come.
        eks.room, eks.held = {}, True
        ended = machine.end(RunFailure("StepsLost", json.dumps({"errorMessage": str(error.value)})))
        assert "Ask for fewer nodes" in ended.cause
        assert machine.record.changed is None
        assert "0 of 4 draws filled (95 % CI 0 to 60 %)" in machine.results.conclusion
        assert machine.results.stopped.why == "unfilled"

    def test_a_continued_campaign_takes_over_the_draws_that_were_not_filled(self, machine, eks):
        machine.begin(draws(2)).step()
        machine.judge()
        eks.room = {"ng-1": 1}
        refuse(machine)
        machine.end()
        eks.room = {}
        following = Machine(machine.resources, "next")
        following.begin({"continue": CAMPAIGN, "draws": 3})
        assert [step.status for step in following.steps] == ["succeeded", "unfilled"]
        following.step()
        following.judge()
        following.end()
        assert [each.launches for each in following.results.capacity] == [3, 3]

    def test_a_continued_sweep_loses_no_result_to_steps_that_were_not_filled(
        self, machine, eks, monkeypatch
    ):
        monkeypatch.setattr(NodeCount, "faults", lambda *_: [])  # no quota is asked for here
        machine.begin({"plan": PLAN, "sweep": {"nodes": [2, 3]}, "runs_per_step": 1}).judge()
        eks.room = {"ng-1": 1}
        for _ in range(2):
            refuse(machine)
        eks.room = {}
        machine.change()
        machine.run(machine.steps[-1].run_id)
        assert machine.judge(None).number == 4, "the first value has its result"
        machine.end(LOST)
        following = Machine(machine.resources, "next")
        following.begin({"continue": CAMPAIGN})
        taken_over = [(step.status, step.value) for step in following.steps]
        assert taken_over == [("unfilled", 2), ("unfilled", 2), ("succeeded", 2)]
        following.judge()
        assert following.steps[-1].value == 3


class TestBudget:
    def test_no_step_is_made_that_would_exceed_the_budget(self, machine):
        machine.plan(draws(6))
        one = machine.resources.store.campaigns.plan(CAMPAIGN).estimate.step_estimates[0].most_usd
        machine.begin(draws(6, budget_dollars=one * 1.01)).step()
        # The run took next to no time here, so the first step cost little.
        step = machine.steps[0]
        machine.resources.store.campaigns.put_step(
            CAMPAIGN, step.model_copy(update={"change_seconds": 1200.0})
        )
        assert machine.judge().enough
        stopped = machine.record.stopped
        assert stopped.why == "budget"
        assert stopped.text.startswith("Stopped after 1 of at most 6 draws: the next would bring")

    def test_a_budget_below_one_draw_is_refused_with_its_cost(self, machine):
        with pytest.raises(InvalidCampaign, match=r"budget_dollars: \$0\.01 is less than one draw"):
            machine.plan(draws(6, budget_dollars=0.01))

    def test_a_budget_that_ends_it_early_is_warned_of(self, machine):
        machine.plan(draws(6))
        one = machine.resources.store.campaigns.plan(CAMPAIGN).estimate.step_estimates[0].most_usd
        planned = machine.plan(draws(12, budget_dollars=one * 1.5))
        assert "may end the campaign early" in planned.warnings[0]


class TestPlan:
    def test_a_dry_run_estimates_and_changes_nothing(self, machine, eks, store):
        planned = machine.plan({"dry_run": True})
        estimate = planned.estimate
        assert (estimate.steps.least, estimate.steps.most) == (4, 12)
        assert estimate.seconds.least < estimate.seconds.most
        assert 0 < estimate.usd.least < estimate.usd.most
        assert machine.record.status == "dry_run"
        assert eks.updates == [] and store.leases.valid() == {}

    def test_later_campaigns_are_estimated_from_the_changes_that_were_made(self, machine):
        before = machine.plan({"dry_run": True}).estimate
        for seconds in (11.0, 14.0):
            machine.resources.store.campaigns.note_change("draws", seconds)
        after = machine.plan({"dry_run": True}).estimate
        assert "as on AWS" in before.assumptions[0]
        change = after.step_estimates[0].change_seconds
        assert (change.least, change.most) == (11.0, 21.0)
        assert after.seconds.most < before.seconds.most

    def test_a_change_that_was_made_predicts_how_long_the_next_takes(self, machine):
        machine.begin(draws(2)).step()
        machine.judge()
        assert len(machine.resources.store.campaigns.change_seconds("draws")) == 1

    def test_a_dry_run_reports_how_many_draws_answer(self, machine):
        power = machine.plan({"dry_run": True}).estimate.power
        draws_needed = {(each.ratio, each.variability): each.draws for each in power}
        assert {ratio for ratio, _ in draws_needed} == {2.0, 1.3, 1.1, 1.0}
        assert {variability for _, variability in draws_needed} == {0.02, 0.05, 0.1}
        assert draws_needed[2.0, 0.02] == 4
        assert draws_needed[2.0, 0.02] <= draws_needed[1.1, 0.02] <= draws_needed[1.1, 0.05]

    def test_nodes_cost_while_they_are_replaced(self, machine):
        step = machine.plan({"dry_run": True}).estimate.step_estimates[0]
        hours = (step.change_seconds.most + step.run_seconds.most) / 3600
        # Four nodes of c5.large and the cluster (plan/prices.py).
        assert step.most_usd == pytest.approx((4 * 0.085 + 0.10) * hours + step.usd_of_run.most)

    def test_a_plan_that_no_step_can_run_is_refused_with_its_path(self, machine):
        with pytest.raises(InvalidCampaign) as error:
            machine.plan({"plan": {"blocks": 0, "tests": ["nope"]}, "budget_dollars": 0})
        assert {fault.path for fault in error.value.faults} == {
            "budget_dollars",
            "plan.blocks",
            "plan.tests[0]",
        }

    def test_a_stack_that_did_not_make_its_nodes_is_told_to_pool(self, resources):
        borrowed = Machine(resources.but(settings=replace(OWNED, owns_nodes=False)))
        with pytest.raises(InvalidCampaign, match=r"(?s)draws: .*pool.*rackrate pool"):
            borrowed.plan({})

    def test_draws_of_one_arm_are_refused_because_they_compare_arms(self, machine):
        with pytest.raises(InvalidCampaign, match=r"plan\.arms: draws compare arms"):
            machine.plan({"plan": {"arms": ["treatment"]}})

    def test_an_earlier_run_that_cannot_be_compared_with_is_a_fault_of_the_plan(self, machine):
        with pytest.raises(InvalidCampaign, match=r"plan\.compare_with: there is no run"):
            machine.plan({"plan": {"compare_with": "nope"}})


class TestLease:
    def test_the_campaign_holds_the_nodes_and_lends_them_to_its_run(
        self, machine, resources, store
    ):
        step = machine.begin(draws(2)).judge()
        machine.change()
        plan_own_run(resources, step.run_id, step.plan)
        assert take_lease(step.run_id, resources).taken
        assert {lease.run_id for lease in store.leases.valid().values()} == {CAMPAIGN}
        store.runs.finish(step.run_id, "succeeded")
        store.leases.give_back("run", step.run_id)
        assert {lease.run_id for lease in store.leases.valid().values()} == {CAMPAIGN}

    def test_another_run_waits_and_is_planned_although_no_node_may_be_there(
        self, machine, resources, cluster
    ):
        machine.begin(draws(1)).judge()
        change(CAMPAIGN, resources)
        cluster.nodes = []
        plan_own_run(resources)
        leased = take_lease("mine", resources)
        assert (leased.taken, leased.waited) == (False, True)
        assert resources.store.runs.find("mine").phase.startswith("waiting for camp, which holds")

    def test_nobody_else_may_say_that_a_campaign_started_his_run(self, machine, resources):
        machine.begin(draws(1)).judge()
        for campaign in (CAMPAIGN, "nope"):
            with pytest.raises(InvalidPlan, match=r"campaign: .* has not started this run"):
                plan_own_run(resources, plan={**PLAN, "campaign": campaign})

    def test_a_campaign_waits_for_a_run_that_holds_the_nodes(self, machine, store):
        hold_treatment(store)
        machine.plan(draws(1))
        leased = take_campaign_lease(CAMPAIGN, machine.resources)
        assert (leased.taken, leased.wait_seconds) == (False, 3)
        assert machine.record.phase.startswith("waiting for run-9, which holds the nodes of treat")

    def test_a_campaign_whose_plan_refuses_to_wait_names_the_holder(self, machine, store):
        hold_treatment(store)
        machine.plan({"plan": {**PLAN, "if_busy": "refuse"}, "draws": 1})
        with pytest.raises(NodesBusy, match=r"run-9 holds .*start this campaign again"):
            take_campaign_lease(CAMPAIGN, machine.resources)

    def test_a_run_of_the_same_id_neither_shares_nor_ends_its_lease(self, machine, resources):
        store = resources.store
        plan_own_run(resources, CAMPAIGN)
        store.runs.update(CAMPAIGN, status="invalid")  # as if the campaign had not seen it
        machine.begin(draws(1))
        store.runs.update(CAMPAIGN, status="running")
        assert not take_lease(CAMPAIGN, resources).taken
        store.runs.update(CAMPAIGN, leased_at=now())
        with pytest.raises(NodesBusy):
            keep_lease(store.runs.find(CAMPAIGN), store)
        finish(CAMPAIGN, resources, execution_arn=EXECUTIONS, failure=None, report_key=None)
        assert {lease.kind for lease in store.leases.valid().values()} == {"campaign"}
        machine.step()  # it renews its lease

    @pytest.mark.parametrize("dry_run", [False, True])
    @pytest.mark.parametrize("ended", [False, True])
    def test_no_run_can_have_its_id(self, machine, resources, eks, dry_run, ended):
        machine.begin(draws(1))
        if ended:
            machine.step()
            machine.judge()
            machine.end()
        before = list(eks.updates)
        start = {"run_id": CAMPAIGN, "execution_arn": EXECUTIONS + CAMPAIGN}
        for stage in (wake_nodes, plan_run):
            with pytest.raises(InvalidPlan, match=r"\$: .*id of a campaign.*another name"):
                stage({**PLAN, "dry_run": dry_run}, resources, **start)
        assert resources.store.runs.find(CAMPAIGN) is None
        assert eks.updates == before

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_no_campaign_can_have_the_id_of_a_run(self, machine, resources, dry_run):
        plan_own_run(resources, CAMPAIGN)
        with pytest.raises(InvalidCampaign, match=r"\$: .*id of a run.*another name"):
            machine.plan(draws(1, dry_run=dry_run))
        assert resources.store.campaigns.find(CAMPAIGN) is None

    def test_an_execution_that_was_refused_leaves_its_name_to_the_other(self, machine, resources):
        resources.store.runs.finish(CAMPAIGN, "invalid")
        machine.begin(draws(1))

    def test_a_step_is_made_though_another_campaign_has_the_id_of_its_run(self, machine, resources):
        step = machine.begin(draws(1)).judge()
        Machine(resources, step.run_id).plan(draws(1))
        machine.change()
        assert plan_own_run(resources, step.run_id, step.plan).run_id == step.run_id
        assert take_lease(step.run_id, resources).taken

    def test_a_lease_of_an_older_rackrate_is_kept_until_its_campaign_ends(
        self, machine, resources, store
    ):
        machine.begin(draws(1))
        forget_kinds(store)
        plan_own_run(resources)
        assert not take_lease("mine", resources).taken
        # A run of its name is refused, and its end gives nothing back.
        store.runs.start(CAMPAIGN, "running", now())
        finish(CAMPAIGN, resources, execution_arn=EXECUTIONS, failure=LOST, report_key=None)
        assert not take_lease("mine", resources).taken
        machine.step()
        assert {lease.kind for lease in store.leases.valid().values()} == {"campaign"}
        forget_kinds(store)
        machine.judge()
        machine.end()
        assert take_lease("mine", resources).taken

    def test_a_lease_of_an_older_rackrate_ends_when_all_who_may_hold_it_have_ended(
        self, machine, resources, store, executions
    ):
        machine.begin(draws(1))
        store.runs.start(CAMPAIGN, "succeeded", now(), execution_arn=EXECUTIONS + CAMPAIGN)
        executions.statuses[EXECUTIONS + CAMPAIGN] = "SUCCEEDED"
        forget_kinds(store)
        plan_own_run(resources)
        assert not take_lease("mine", resources).taken
        executions.statuses[CAMPAIGN_ARN] = "ABORTED"
        resources.store.campaigns.update(CAMPAIGN, status="aborted")
        assert take_lease("mine", resources).taken


def forget_kinds(store):
    """Store the leases as an older rackrate did."""
    leases = store.table.get("lease", "nodes")
    for lease in leases.values():
        if isinstance(lease, dict):
            del lease["kind"]
    store.table.put(leases)


def stopped(status="ABORTED", **more):
    return {"name": CAMPAIGN, "status": status, "executionArn": CAMPAIGN_ARN, **more}


class TestStopped:
    @pytest.fixture(autouse=True)
    def _impatient(self, monkeypatch):
        monkeypatch.setattr("rackrate.stages.campaign.restore._POLL_SECONDS", 0.0)

    def clean_up(self, resources, **more):
        return restore_stopped(stopped(**more), resources, patience_seconds=5)

    @pytest.mark.parametrize("phase", ["leased", "judged", "leaving", "coming", "running"])
    def test_an_abort_in_any_phase_leaves_the_nodes_as_they_were(
        self, machine, resources, eks, executions, store, phase
    ):
        before = dict(eks.sizes)
        machine.begin(draws(2))
        if phase != "leased":
            step = machine.judge()
        if phase in ("leaving", "coming", "running"):
            change(CAMPAIGN, resources)
        if phase in ("coming", "running"):
            change(CAMPAIGN, resources)
        if phase == "running":
            machine.change()
            store.runs.start(step.run_id, "running", now(), execution_arn="arn:child")
        executions.statuses[CAMPAIGN_ARN] = "ABORTED"
        swept = self.clean_up(resources)
        assert eks.sizes == before
        assert len(eks.node_names) == 4
        assert swept.restored == (CAMPAIGN,)
        assert machine.record.status == "aborted"
        assert machine.record.changed is None
        assert store.leases.valid() == {}
        assert executions.stopped == (["arn:child"] if phase == "running" else [])
        assert self.clean_up(resources).ended == (), "the end is recorded once"

    def test_a_late_call_of_a_stopped_campaign_changes_nothing(
        self, machine, resources, eks, executions
    ):
        machine.begin(draws(2)).judge()
        executions.statuses[CAMPAIGN_ARN] = "ABORTED"
        self.clean_up(resources)
        updates = len(eks.updates)
        with pytest.raises(CampaignEnded):
            change(CAMPAIGN, resources)
        with pytest.raises(CampaignEnded):
            machine.judge()
        assert len(eks.updates) == updates

    def test_a_stop_during_a_call_of_change_is_undone_by_the_sweep(
        self, machine, resources, eks, executions, monkeypatch
    ):
        machine.begin(draws(2)).judge()
        before = dict(eks.sizes)
        executions.statuses[CAMPAIGN_ARN] = "ABORTED"
        update = eks.update_nodegroup_config

        def stop_first(**arguments):
            monkeypatch.setattr(eks, "update_nodegroup_config", update)
            self.clean_up(resources)
            return update(**arguments)

        monkeypatch.setattr(eks, "update_nodegroup_config", stop_first)
        change(CAMPAIGN, resources)
        sweep_campaigns(resources, patience_seconds=5)
        assert eks.sizes == before
        assert machine.record.changed is None

    def test_what_cannot_be_put_back_in_time_is_reported_and_left_to_the_sweep(
        self, machine, resources, eks, executions, store
    ):
        machine.begin(draws(2)).judge()
        change(CAMPAIGN, resources)
        executions.statuses[CAMPAIGN_ARN] = "TIMED_OUT"
        eks.refusals = ["ResourceInUseException"] * 4
        swept = restore_stopped(stopped("TIMED_OUT"), resources, patience_seconds=-1)
        assert swept.unrestored == (CAMPAIGN,)
        assert machine.record.status == "timed_out"
        assert "not put back yet" in machine.record.warnings[-1]
        assert {lease.run_id for lease in store.leases.valid().values()} == {CAMPAIGN}
        eks.refusals = []
        assert sweep_campaigns(resources, patience_seconds=5).restored == (CAMPAIGN,)
        assert store.leases.valid() == {}
        assert len(eks.node_names) == 4

    def test_the_sweep_leaves_alone_what_another_run_holds_now(
        self, machine, resources, eks, executions, store
    ):
        machine.begin(draws(2)).judge()
        change(CAMPAIGN, resources)
        executions.statuses[CAMPAIGN_ARN] = "ABORTED"
        eks.refusals = ["ResourceInUseException"] * 4
        restore_stopped(stopped(), resources, patience_seconds=-1)
        store.leases.give_back("campaign", CAMPAIGN)
        hold_treatment(store)
        updates = len(eks.updates)
        assert sweep_campaigns(resources, patience_seconds=1).unrestored == (CAMPAIGN,)
        assert len(eks.updates) == updates

    def test_a_stack_that_is_deleted_stops_its_campaigns_and_says_why(
        self, machine, resources, executions, store
    ):
        machine.begin(draws(2))
        assert len(stop_all("campaign", resources)) == 1
        assert executions.stopped == [CAMPAIGN_ARN]
        assert (machine.record.status, machine.record.error) == ("aborted", "StackDeleted")
        assert store.leases.valid() == {}
        assert stop_all("campaign", resources) == ()

    def test_the_sweep_ends_a_campaign_whose_event_was_lost(
        self, machine, resources, eks, executions
    ):
        machine.begin(draws(2)).judge()
        change(CAMPAIGN, resources)
        assert sweep_campaigns(resources, patience_seconds=5).ended == (), "it still goes on"
        executions.statuses[CAMPAIGN_ARN] = "TIMED_OUT"
        (ended,) = sweep_campaigns(resources, patience_seconds=5).ended
        assert (ended.id, ended.status) == (CAMPAIGN, "timed_out")
        assert len(eks.node_names) == 4

    def test_a_refused_campaign_needs_no_clean_up(self, resources):
        assert self.clean_up(resources, status="FAILED").ended == ()

    def test_a_redriven_campaign_goes_on_with_new_nodes_and_its_finished_steps(
        self, machine, resources, eks, executions, store
    ):
        machine.begin(draws(2)).step()
        machine.judge()
        change(CAMPAIGN, resources)
        executions.statuses[CAMPAIGN_ARN] = "ABORTED"
        self.clean_up(resources)
        restored = eks.node_names
        executions.statuses[CAMPAIGN_ARN] = "RUNNING"
        machine.change()
        assert not restored & eks.node_names, "the nodes are drawn anew"
        assert {lease.run_id for lease in store.leases.valid().values()} == {CAMPAIGN}
        machine.run(f"{CAMPAIGN}-02")
        assert machine.judge().enough
        assert machine.end().output.status == "succeeded"


class TestContinue:
    def test_it_takes_over_the_input_and_the_finished_steps(self, machine, resources):
        machine.begin(draws(3)).step()
        machine.judge()
        machine.judge(LOST)
        with pytest.raises(StepsLost):
            machine.judge(LOST)
        machine.end(LOST)
        second = Machine(resources, "second").begin({"continue": CAMPAIGN})
        assert second.record.steps == 3
        (taken,) = second.steps
        assert (taken.number, taken.run_id, taken.source) == (1, "camp-01", "campaign camp")
        for number in (2, 3):
            step = second.step()
            assert step.run_id == f"second-{number:02d}"
        assert second.judge().enough
        second.end()
        assert len(second.results.answers[0].draws) == 3
        assert second.results.campaign.continues == CAMPAIGN

    def test_its_budget_is_for_its_own_steps(self, machine, resources):
        machine.begin(draws(3)).step()
        machine.judge()
        machine.end(LOST)
        second = Machine(resources, "second").begin({"continue": CAMPAIGN, "budget_dollars": 2})
        second.judge()
        assert second.record.usd == 0
        assert second.record.budget_dollars == 2

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"continue": "nope"}, "continue: there is no campaign 'nope'"),
            ({"continue": "n" * 3000}, f"continue: there is no campaign '{'n' * 80}';"),
            ({"continue": "../x"}, "continue: there is no campaign '../x'"),
            ({"continue": CAMPAIGN}, "continue: the campaign 'camp' is still going"),
        ],
    )
    def test_only_a_campaign_that_has_ended_can_be_continued(
        self, machine, resources, given, problem
    ):
        machine.begin(draws(3))
        with pytest.raises(InvalidCampaign, match=problem):
            Machine(resources, "second").plan(given)

    def test_what_it_takes_over_cannot_be_given_again(self, machine, resources):
        machine.begin(draws(3)).step()
        machine.judge()
        machine.end(LOST)
        with pytest.raises(InvalidCampaign, match="plan: is taken over"):
            Machine(resources, "second").plan({"continue": CAMPAIGN, "plan": {}})


class TestSeries:
    def test_the_draws_of_a_series_are_one_answer_and_the_newest_is_tested(self, resources):
        for number, ratio in enumerate((1.90, 1.91, 1.89, 1.90, 1.2), 1):
            night = Machine(resources, f"night-{number}").begin(draws(1, series="nightly"))
            night.step(ratio)
            assert night.judge().enough
            night.end()
        (answer,) = night.results.answers
        assert len(answer.draws) == 5
        assert answer.changed is True
        assert resources.store.campaigns.series("nightly") == tuple(
            f"night-{n}-01" for n in range(1, 6)
        )

    def test_a_draw_whose_results_another_version_wrote_counts(self, resources):
        results = results_of_run("before").to_json() | {"more": 1}
        del results["counters"]
        resources.store.objects.put_json("runs/before/results.json", results)
        resources.store.campaigns.add_to_series("nightly", "before")
        night = Machine(resources, "night").begin(draws(1, series="nightly"))
        night.step(1.9)
        assert night.judge().enough
        night.end()
        (answer,) = night.results.answers
        assert len(answer.draws) == 2


class TestSkipping:
    """The stack's schedule makes one campaign at a time."""

    @pytest.fixture
    def scheduled(self, resources):
        """Return a function that plans a campaign as the stack's template asks for it."""
        template = load(ROOT / "templates" / "schedule.yaml")
        raw = json.loads(template["Resources"]["Schedule"]["Properties"]["Target"]["Input"])
        return lambda campaign_id, **more: Machine(resources, campaign_id).plan({**raw, **more})

    def test_the_next_is_skipped_while_one_goes_on_or_waits_and_names_it(
        self, scheduled, resources, store
    ):
        hold_treatment(store)
        assert not scheduled("first").skipped
        assert not take_campaign_lease("first", resources).taken
        second = scheduled("second")
        assert second.skipped and "first" in second.warnings[0]
        record = resources.store.campaigns.get("second")
        assert (record.status, record.is_running) == ("skipped", False)
        assert "first" in record.conclusion
        assert resources.store.campaigns.get("first").is_running
        assert scheduled("third").warnings == second.warnings, "a skipped one is none that goes on"

    def test_when_it_has_ended_the_next_is_made(self, scheduled, resources):
        scheduled("first")
        resources.store.campaigns.finish("first", "failed")
        assert not scheduled("second").skipped

    def test_a_repeated_call_does_not_skip_what_it_planned(self, scheduled):
        scheduled("first")
        assert not scheduled("first").skipped

    def test_a_campaign_of_another_series_or_of_none_and_a_dry_run_are_not_skipped(
        self, scheduled, machine
    ):
        machine.plan(draws(1))
        assert not scheduled("first").skipped
        assert not scheduled("other", series="nightly").skipped
        assert not scheduled("dry", dry_run=True).skipped

    def test_a_person_who_continues_one_waits_for_the_nodes(self, scheduled, resources):
        scheduled("first")
        resources.store.campaigns.finish("first", "failed")
        scheduled("second")
        assert not Machine(resources, "third").plan({"continue": "first"}).skipped


class TestIdle:
    @pytest.fixture
    def settings(self):
        return replace(OWNED, idle_scale_to_zero=True)

    @pytest.fixture
    def eks(self, cluster):
        cluster.nodes = []
        return NodeGroups(cluster, at_rest=True)

    def test_its_nodes_are_put_to_rest_at_the_end(self, machine, eks):
        machine.begin(draws(1)).step()
        assert len(eks.node_names) == 4
        machine.judge()
        machine.end()
        assert eks.node_names == set()

    def test_a_run_of_the_campaign_leaves_the_nodes_alone(self, machine, resources, eks):
        step = machine.begin(draws(1)).judge()
        machine.change()
        updates = len(eks.updates)
        assert wake_nodes(step.plan, resources, run_id=step.run_id, execution_arn="arn").ready
        rested = rest_unneeded(resources, runs={step.run_id})
        assert rested.needed_by == (CAMPAIGN,)
        assert len(eks.updates) == updates

    def test_the_end_of_a_run_of_its_id_puts_none_of_its_nodes_to_rest(self, machine, resources):
        machine.begin(draws(1))
        assert rest_unneeded(resources, runs={CAMPAIGN}).needed_by == (CAMPAIGN,)
        assert rest_unneeded(resources, campaigns={CAMPAIGN}).needed_by == ()

    def test_another_run_wakes_no_node_until_the_campaign_has_ended(self, machine, resources, eks):
        machine.begin(draws(1)).judge()
        change(CAMPAIGN, resources)
        updates = len(eks.updates)

        def wake():
            return wake_nodes(PLAN, resources, run_id="mine", execution_arn="arn:mine")

        assert wake().ready
        assert len(eks.updates) == updates
        plan_own_run(resources)
        assert not take_lease("mine", resources).taken
        machine.change()
        machine.run(f"{CAMPAIGN}-01")
        machine.judge()
        machine.end()
        assert take_lease("mine", resources).waited
        while not wake().ready:
            pass
        assert len(eks.node_names) == 4
        plan_own_run(resources)


class TestPool:
    def pool(self, resources, entries, campaign_id="pool"):
        machine = Machine(resources, campaign_id)
        machine.plan({"pool": entries})
        return machine

    def test_runs_of_a_stack_without_nodes_of_its_own_are_the_draws_of_one_answer(
        self, resources, store
    ):
        for number, ratio in enumerate((1.90, 1.93, 1.88, 1.91), 1):
            store_run(store, results_of_run(f"run-{number}", ratio))
        borrowed = resources.but(settings=replace(OWNED, owns_nodes=False), eks=AssertionError())
        machine = self.pool(borrowed, [f"run-{number}" for number in range(1, 5)])
        output = machine.end().output
        (answer,) = machine.results.answers
        assert (answer.verdict, len(answer.draws)) == ("better", 4)
        assert answer.scope == "these stacks"
        assert machine.results.campaign.kind == "pool"
        assert output.status == "succeeded"
        assert store.leases.valid() == {}

    @pytest.mark.parametrize("of_a_later_version", [{}, {"more": 1}])
    def test_uploaded_results_of_another_stack_count_as_much(
        self, resources, store, of_a_later_version
    ):
        store_run(store, results_of_run("run-1"))
        uploaded = results_of_run("theirs").to_json() | of_a_later_version
        store.objects.put_json("pools/p/1.json", uploaded)
        machine = self.pool(resources, ["run-1", {"results": "pools/p/1.json"}])
        machine.end()
        assert [step.run_id for step in machine.results.steps] == ["run-1", "theirs"]
        assert machine.results.steps[0].source is None
        assert machine.results.steps[1].source == "rackrate in us-east-1, account 123456789012"

    def test_runs_on_the_same_nodes_are_one_draw(self, resources, store):
        for number in (1, 2):
            store_run(store, results_of_run(f"run-{number}", instance="same"))
        store_run(store, results_of_run("run-3"))
        machine = self.pool(resources, ["run-1", "run-2", "run-3"])
        machine.end()
        (answer,) = machine.results.answers
        assert len(answer.draws) == 2

    def test_a_baseline_stands_for_its_runs(self, resources, store):
        for number in (1, 2):
            store_run(store, results_of_run(f"run-{number}"))
        item = {"pk": "baseline#main", "sk": "baseline", "run_ids": ["run-1", "run-2"]}
        store.table.put(item)
        machine = self.pool(resources, ["main"])
        machine.end()
        assert len(machine.results.steps) == 2

    def test_what_differed_is_reported_first(self, resources, store):
        store_run(store, results_of_run("run-1"))
        store_run(store, results_of_run("run-2", threshold=0.1))
        machine = self.pool(resources, ["run-1", "run-2"])
        machine.end()
        differed = {each.what.split(" of ")[0] for each in machine.results.differences}
        assert differed == {"threshold", "nodes"}
        assert machine.results.conclusion.startswith("What differed between these runs: ")

    def test_labs_of_different_scales_are_not_mixed(self, resources, store):
        store_run(store, results_of_run("run-1", scale=0.1))
        store_run(store, results_of_run("run-2"))
        with pytest.raises(InvalidCampaign, match=r"pool: .*scaled differently.*0\.100"):
            self.pool(resources, ["run-1", "run-2"])

    def test_runs_with_nothing_in_common_are_refused(self, resources, store):
        store_run(store, results_of_run("run-1"))
        other = results_of_run("run-2", tests=builders.plan().tests[1:])
        store_run(store, other.model_copy(update={"verdicts": ()}))
        with pytest.raises(InvalidCampaign, match="pool: the runs run-1 and run-2 have nothing in"):
            self.pool(resources, ["run-1", "run-2"])

    @pytest.mark.parametrize(
        ("entry", "problem"),
        [
            ("nope", r"pool\[0\]: there is no run and no baseline 'nope'"),
            ("n" * 3000, rf"pool\[0\]: there is no run and no baseline '{'n' * 80}';"),
            ({"results": "pools/x/1.json"}, r"pool\[0\]: there is no such object in the bucket"),
            ({"results": "runs/x/plan.json"}, r"pool\[0\]\.results: .* is no uploaded result"),
            ({"result": 1}, r"pool\[0\]\.result"),
            (7, r"pool\[0\]: must be a run's id or an object"),
        ],
    )
    def test_what_is_no_run_is_refused(self, resources, entry, problem):
        with pytest.raises(InvalidCampaign, match=problem):
            self.pool(resources, [entry])

    @pytest.mark.parametrize(
        ("field", "value", "problem"),
        [
            ("plan", {"tests": []}, r"cannot be read: plan\."),
            ("verdicts", [{}], r"cannot be read: verdicts\.0\."),
            ("run", {}, r"cannot be read: run\."),
            ("warnings", 10**400, "cannot be read: a number"),
        ],
    )
    def test_an_upload_with_a_mistake_is_refused_with_its_field(
        self, resources, store, field, value, problem
    ):
        store.objects.put_json(
            "pools/p/1.json", results_of_run("theirs").to_json() | {field: value}
        )
        with pytest.raises(InvalidCampaign, match=problem):
            self.pool(resources, [{"results": "pools/p/1.json"}])

    @pytest.mark.parametrize("text", ["[]", "nonsense", '{"schema": "rackrate.comparison.v1"}'])
    def test_an_upload_that_is_no_result_is_refused(self, resources, store, text):
        store.objects.put("pools/p/1.json", text, "application/json")
        with pytest.raises(InvalidCampaign, match=r"is not of the schema 'rackrate\.result\.v1'"):
            self.pool(resources, [{"results": "pools/p/1.json"}])
