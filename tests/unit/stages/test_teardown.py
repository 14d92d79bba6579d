"""Clean-up: after a run, after a stopped execution, and by the hourly sweep."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from rackrate.measure import manifests
from rackrate.results.build import RunFailure
from rackrate.stages.finish import finish
from rackrate.stages.teardown import sweep, teardown, teardown_stopped
from tests.unit.given import Given
from tests.unit.stages.runs import ARN, RUN, States


@pytest.fixture
def sweep_when(resources):
    """Return a function that sweeps while all executions have this status."""
    return lambda status: sweep(resources.but(step_functions=States(status)))


def stopped(status, run=RUN):
    return {"name": run, "status": status, "executionArn": ARN, "error": None, "cause": None}


def test_everything_of_the_run_goes_and_nothing_else(deploy, cluster, resources):
    deploy()
    other = manifests.owner("other", ARN)
    cluster.create("/api/v1/namespaces/rackrate/configmaps", other)
    assert teardown(RUN, resources).gone
    assert [t["metadata"]["name"] for t in cluster.objects.values()] == [other["metadata"]["name"]]
    assert teardown(RUN, resources).gone, "again is harmless"


@pytest.mark.parametrize(
    ("status", "expected"),
    [("ABORTED", "aborted"), ("TIMED_OUT", "timed_out"), ("FAILED", "failed")],
)
def test_a_stopped_execution_is_cleaned_up_and_recorded(
    deploy, cluster, store, status, expected, resources
):
    deploy()
    done = teardown_stopped(stopped(status), resources)
    assert [end.status for end in done.ended] == [expected]
    assert cluster.objects == {}
    assert store.run(RUN).status == expected


@pytest.mark.parametrize("asked", [{"run": "a", "with": "b"}, None, "a"])
@pytest.mark.parametrize("status", ["ABORTED", "TIMED_OUT", "FAILED"])
def test_a_comparison_that_ended_badly_is_no_run(store, status, asked):
    detail = {**stopped(status), "input": json.dumps({"compare": asked})}
    done = teardown_stopped(detail, Given(store=store))  # without cluster and EKS
    assert (done.runs, done.ended) == ((), ())
    assert store.run(RUN) is None


@pytest.mark.parametrize("text", [None, "{}", "[]", "null", '"compare"'])
def test_any_other_input_is_a_runs(deploy, store, text, resources):
    deploy()
    teardown_stopped({**stopped("ABORTED"), "input": text}, resources)
    assert store.run(RUN).status == "aborted"


def test_what_the_machine_wrote_itself_stays(deploy, store, resources):
    deploy()
    failure = RunFailure("TrialsLost", "many")
    finish(RUN, resources, execution_arn=ARN, failure=failure, report_key=None)
    done = teardown_stopped(stopped("FAILED"), resources)
    assert [end.seconds for end in done.ended] == [None], "it must not count twice"
    assert store.run(RUN).error == "TrialsLost"


def test_the_sweep_leaves_running_executions_alone(deploy, cluster, sweep_when):
    deploy()
    before = dict(cluster.objects)
    found = sweep_when("RUNNING")
    assert (found.runs, found.ended, found.overdue) == ((), (), ())
    assert cluster.objects == before


def test_the_sweep_removes_and_records_what_was_stopped(deploy, cluster, store, sweep_when):
    deploy()
    found = sweep_when("ABORTED")
    assert found.runs == (RUN,)
    assert [end.status for end in found.ended] == ["aborted"]
    assert cluster.objects == {}
    assert store.run(RUN).status == "aborted"


def test_the_sweep_ends_records_that_have_no_owner_any_more(plan, store, sweep_when):
    plan()
    sweep_when("TIMED_OUT")
    assert store.run(RUN).status == "timed_out"


class Refusing:
    """Step Functions, which describes no execution."""

    def __init__(self, code):
        self.code = code

    def describe_execution(self, *, executionArn):
        raise ClientError({"Error": {"Code": self.code, "Message": "no"}}, "DescribeExecution")


def test_the_sweep_ends_a_run_whose_execution_is_forgotten(deploy, cluster, store, resources):
    """Step Functions keeps an execution for 90 days after its end."""
    deploy()
    sweep(resources.but(step_functions=Refusing("ExecutionDoesNotExist")))
    assert cluster.objects == {}
    assert (store.run(RUN).status, store.run(RUN).error) == ("failed", "ExecutionDoesNotExist")


def test_the_sweep_removes_nothing_while_step_functions_refuses(deploy, cluster, store, resources):
    deploy()
    before = dict(cluster.objects)
    with pytest.raises(ClientError, match="AccessDenied"):
        sweep(resources.but(step_functions=Refusing("AccessDenied")))
    assert cluster.objects == before
    assert store.run(RUN).is_running
