"""The lease on the nodes: runs on the same nodes take turns, and no lease outlives its run."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackrate.errors import NodesBusy
from rackrate.executions.leases import Lease
from rackrate.results.build import RunFailure
from rackrate.stages.execution import take_lease as leasing
from rackrate.stages.execution.take_lease import (
    GONE_SECONDS,
    LEASE_SECONDS,
    PATIENCE_SECONDS,
    Leased,
    take_lease,
)
from rackrate.stages.run.await_servers import await_servers
from rackrate.stages.run.finish import finish
from rackrate.stages.run.launch import launch
from rackrate.stages.run.teardown import is_overdue, sweep, teardown_stopped
from rackrate.times import later, now, seconds_between
from tests.unit.stages.runs import ARN, EXECUTIONS, PLAN, RUN, Eks, States

OTHER = "run-2"
REFUSING = {**PLAN, "if_busy": "refuse"}
TAKEN = Leased(taken=True, waited=False, wait_seconds=0)


@pytest.fixture
def take(resources):
    return lambda run=RUN: take_lease(run, resources)


@pytest.fixture
def two(plan, take):
    """Two planned runs on the same nodes, of which the first holds them."""
    plan()
    plan(run_id=OTHER)
    assert take() == TAKEN


def let_pass(monkeypatch, seconds):
    """Let the next calls run so many seconds later."""
    monkeypatch.setattr("rackrate.executions.leases.now", lambda: later(now(), seconds))
    monkeypatch.setattr(leasing, "now", lambda: later(now(), seconds))


def test_a_run_waits_and_says_for_which_run_until_that_one_has_ended(two, take, store, resources):
    first = take(OTHER)
    assert (first.taken, first.waited, first.wait_seconds) == (False, True, 3)
    assert store.runs.find(OTHER).phase == (
        "waiting for run-1, which holds the nodes of treatment and baseline"
    )
    finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None)
    assert take(OTHER) == Leased(taken=True, waited=True, wait_seconds=0)
    assert store.runs.find(OTHER).leased_at >= store.runs.find(RUN).finished_at


def test_taking_the_nodes_again_is_harmless(two, take, store):
    before = store.runs.find(RUN).leased_at
    assert take() == TAKEN
    assert store.runs.find(RUN).leased_at == before


def test_a_plan_may_refuse_to_wait_and_names_the_holder_its_end_and_the_remedy(plan, take, store):
    plan()
    plan(REFUSING, run_id=OTHER)
    take()
    with pytest.raises(NodesBusy) as caught:
        take(OTHER)
    message = str(caught.value)
    holder = store.runs.find(RUN)
    end = later(holder.started_at, holder.expected_seconds)
    assert message.startswith(
        f"run-1 holds the nodes of treatment and baseline and should end at {end[:19]}Z;"
    )
    assert '"if_busy": "wait"' in message


def test_a_run_does_not_wait_for_ever(two, take, store):
    take(OTHER)
    store.runs.update(OTHER, waiting_since=later(now(), -PATIENCE_SECONDS - 60))
    with pytest.raises(NodesBusy, match=r"run-1 holds .*this run has waited 12 h 01 min"):
        take(OTHER)


def test_the_longer_a_run_has_waited_the_more_rarely_it_asks(two, take, store):
    waits = []
    for waited in (0, 60, 300, 3600, PATIENCE_SECONDS - 60):
        store.runs.update(OTHER, waiting_since=later(now(), -waited))
        waits.append(take(OTHER).wait_seconds)
    assert waits == [3, 6, 30, 60, 60]


def test_a_run_that_waits_is_expected_to_end_after_its_holder_and_is_not_overdue(two, take, store):
    alone = store.runs.find(OTHER).expected_seconds
    take(OTHER)
    holder, waiting = store.runs.find(RUN), store.runs.find(OTHER)
    left = holder.expected_seconds - seconds_between(holder.started_at, now())
    assert waiting.expected_seconds == pytest.approx(left + alone, abs=2)
    store.runs.update(OTHER, started_at=later(now(), -PATIENCE_SECONDS))
    take(OTHER)
    assert not is_overdue(store.runs.find(OTHER))


def test_runs_on_different_nodes_go_on_at_the_same_time(plan, take, store, resources):
    held = lease_of("elsewhere")
    assert store.leases.hold(["third"], held) is None
    plan()
    assert take() == TAKEN
    finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None)
    assert store.leases.hold(["third"], held, renew=True) is None


def test_a_run_takes_all_its_nodes_or_none(plan, take, store):
    store.leases.hold(["baseline"], lease_of("elsewhere"))
    plan()
    assert not take().taken
    assert store.runs.find(RUN).phase == "waiting for elsewhere, which holds the nodes of baseline"
    assert store.leases.hold(["treatment"], lease_of("third")) is None
    take()
    assert store.runs.find(RUN).phase == (
        "waiting for elsewhere, which holds the nodes of baseline, and third, which holds the"
        " nodes of treatment"
    )


class TestGivingBack:
    """However a run ends, the next one gets its nodes."""

    @pytest.mark.parametrize("failure", [None, RunFailure("TrialsLost", "many")])
    def test_the_end_of_a_run_gives_its_nodes_back(self, two, take, resources, failure):
        finish(RUN, resources, execution_arn=ARN, failure=failure, report_key=None)
        assert take(OTHER).taken

    @pytest.mark.parametrize("status", ["ABORTED", "TIMED_OUT", "FAILED"])
    def test_an_execution_that_was_stopped_gives_its_nodes_back(self, two, take, resources, status):
        detail = {"name": RUN, "status": status, "executionArn": ARN}
        teardown_stopped(detail, resources.but(step_functions=States(status)))
        assert take(OTHER).taken

    def test_the_sweep_gives_back_the_nodes_of_a_run_it_finds_dead(
        self, two, plan, take, resources
    ):
        sweep(resources.but(step_functions=States("ABORTED")))
        plan(run_id="run-3")
        assert take("run-3") == TAKEN

    def test_a_run_that_is_gone_without_a_trace_loses_its_nodes_in_time(
        self, plan, take, monkeypatch, store
    ):
        plan()
        store.leases.hold(["baseline"], lease_of("nobody-knows"))
        let_pass(monkeypatch, 50)
        assert not take().taken
        let_pass(monkeypatch, 70)
        assert take().taken

    @pytest.mark.parametrize("status", ["ABORTED", "TIMED_OUT", "FAILED", "SUCCEEDED"])
    def test_a_run_whose_execution_has_ended_without_a_clean_up_loses_them_in_minutes(
        self, two, monkeypatch, resources, status
    ):
        ended = resources.but(step_functions=States(status))
        assert not take_lease(OTHER, ended).taken
        let_pass(monkeypatch, GONE_SECONDS + 60)
        assert take_lease(OTHER, ended).taken

    def test_a_run_whose_end_is_recorded_loses_them_at_once(self, two, store, resources):
        store.runs.finish(RUN, "aborted")
        assert take_lease(OTHER, resources.but(step_functions=States("ABORTED"))).taken

    @pytest.mark.parametrize("status", ["RUNNING", "PENDING_REDRIVE"])
    @pytest.mark.parametrize("ahead", [2 * 3600, -2 * 3600, 30 * 86400])
    def test_a_run_that_goes_on_keeps_them_whatever_another_functions_clock_says(
        self, two, take, monkeypatch, resources, status, ahead
    ):
        with monkeypatch.context() as patch:
            let_pass(patch, ahead)
            with contextlib.suppress(NodesBusy):
                going_on = resources.but(step_functions=States(status))
                assert not take_lease(OTHER, going_on).taken
        assert take().taken

    def test_a_run_that_was_redriven_keeps_them(self, two, take, store):
        store.runs.finish(RUN, "failed")
        assert not take(OTHER).taken

    def test_of_a_run_that_step_functions_does_not_describe_nothing_is_taken(self, two, resources):
        class Refusing:
            def describe_execution(self, *, executionArn):
                raise ClientError({"Error": {"Code": "AccessDenied"}}, "DescribeExecution")

        assert not take_lease(OTHER, resources.but(step_functions=Refusing())).taken

    def test_a_lease_that_was_renewed_meanwhile_is_not_ended(self, two, store):
        before = store.leases.valid()
        store.leases.hold(["baseline"], lease_of(RUN), renew=True)
        store.leases.end(before)
        assert store.leases.valid().keys() == before.keys()

    def test_a_run_that_is_stopped_while_it_waits_gives_nothing_back(
        self, two, plan, take, resources
    ):
        take(OTHER)
        teardown_stopped(
            {"name": OTHER, "status": "ABORTED", "executionArn": EXECUTIONS + OTHER}, resources
        )
        plan(run_id="run-3")
        assert not take("run-3").taken

    def test_a_run_that_lost_its_nodes_does_not_give_away_those_of_the_next(
        self, two, take, store, monkeypatch, resources
    ):
        with monkeypatch.context() as patch:
            let_pass(patch, LEASE_SECONDS + 60)
            assert take_lease(OTHER, resources.but(step_functions=States("ABORTED"))).taken
        finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None)
        take(OTHER)
        assert store.leases.hold(["baseline"], lease_of(RUN))["baseline"].run_id == OTHER

    def test_an_execution_that_is_stopped_while_it_takes_its_nodes_does_not_keep_them(
        self, plan, take, resources
    ):
        plan()
        plan(run_id=OTHER)
        detail = {"name": RUN, "status": "ABORTED", "executionArn": ARN}
        teardown_stopped(detail, resources.but(step_functions=States("ABORTED")))
        take()  # the call that the execution had begun
        assert take(OTHER) == TAKEN


def test_of_many_that_ask_at_once_for_a_dead_runs_nodes_one_takes_all_of_them(
    two, plan, store, monkeypatch, resources
):
    let_pass(monkeypatch, GONE_SECONDS + 60)
    ended, runs = EXECUTIONS + RUN, [f"run-{n}" for n in range(10, 18)]

    class OnlyFirstEnded:
        def describe_execution(self, *, executionArn):
            return {"status": "ABORTED" if executionArn == ended else "RUNNING"}

    for run in runs:
        plan(run_id=run)
    shared = resources.but(step_functions=OnlyFirstEnded())
    at_once = threading.Barrier(len(runs))

    def ask(run):
        at_once.wait()
        return take_lease(run, shared).taken

    with ThreadPoolExecutor(len(runs)) as pool:
        taken = [run for run, won in zip(runs, pool.map(ask, runs), strict=True) if won]
    assert len(taken) == 1
    assert {lease.run_id for lease in store.leases.valid().values()} == set(taken)


def lease_of(run_id):
    soon = later(now(), 60)
    return Lease(run_id=run_id, kind="run", taken_at=now(), expected_end=soon, expires_at=soon)


class TestRenewal:
    """The steps of a run that measures keep its lease alive."""

    @pytest.fixture
    def items(self, deploy, take):
        items = deploy()
        take()
        return items

    def expiry(self, store):
        return store.leases.hold(["baseline"], lease_of("nobody"))["baseline"].expires_at

    def test_waiting_for_servers_renews_it(self, items, store, monkeypatch, resources):
        before = self.expiry(store)
        let_pass(monkeypatch, 600)
        await_servers(RUN, resources.but(eks=Eks()))
        assert seconds_between(before, self.expiry(store)) == pytest.approx(600, abs=5)

    def test_an_item_renews_it_for_as_long_as_it_may_take(self, items, store, resources):
        deadline = launch(RUN, items[0], resources).deadline
        left = seconds_between(now(), self.expiry(store))
        assert left == pytest.approx(deadline - time.time() + LEASE_SECONDS, abs=5)

    def test_an_item_is_not_measured_on_nodes_that_another_run_has_taken(
        self, items, plan, cluster, monkeypatch, resources
    ):
        plan(run_id=OTHER)
        with monkeypatch.context() as patch:
            let_pass(patch, LEASE_SECONDS + 60)
            assert take_lease(OTHER, resources.but(step_functions=States("ABORTED"))).taken
        with pytest.raises(NodesBusy, match="does not hold its nodes any more: run-2 holds"):
            launch(RUN, items[0], resources)
        assert cluster.of_role("client") == []

    def test_a_late_call_of_a_stopped_run_does_not_take_the_nodes_again(
        self, items, plan, take, resources
    ):
        detail = {"name": RUN, "status": "ABORTED", "executionArn": ARN}
        teardown_stopped(detail, resources.but(step_functions=States("ABORTED")))
        with pytest.raises(NodesBusy, match=r"does not hold its nodes any more$"):
            launch(RUN, items[0], resources)
        plan(run_id=OTHER)
        assert take(OTHER) == TAKEN

    def test_a_run_that_goes_on_while_the_stack_learns_of_leases_has_none(self, deploy, resources):
        assert launch(RUN, deploy()[0], resources).pods == 2


def test_no_lease_is_among_the_runs_or_the_trials(two, store):
    assert {run.id for run in store.runs.running()} == {RUN, OTHER}
    assert store.runs.find("nodes") is None
    assert store.trials.of(RUN) == {}


RUNS = ("a", "b", "c")
ARMS = st.sets(st.sampled_from(["one", "two", "three"]), min_size=1)
STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "renew", "give back"]), st.sampled_from(RUNS), ARMS)
)


@given(steps=STEPS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_arm_has_at_most_one_holder_whatever_the_order_of_calls(store, steps):
    """Against a model: a dictionary of arms."""
    for run in RUNS:
        store.leases.give_back("run", run)
    model: dict[str, str] = {}
    for step, run, arms in steps:
        if step == "give back":
            store.leases.give_back("run", run)
            model = {arm: holder for arm, holder in model.items() if holder != run}
            continue
        renew = step == "renew"
        refused = store.leases.hold(sorted(arms), lease_of(run), renew=renew)
        others = {arm: model[arm] for arm in arms if model.get(arm, run) != run}
        held = all(arm in model for arm in arms)
        if others or (renew and not held):
            assert {arm: lease.run_id for arm, lease in refused.items()} == others
        else:
            assert refused is None
            model |= dict.fromkeys(arms, run)
