"""Clean-up: after a run, after a stopped execution, and by the hourly sweep."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from rackrate.errors import Throttled
from rackrate.measure import manifests
from rackrate.results.build import RunFailure
from rackrate.stages.run import teardown as teardown_stage
from rackrate.stages.run.finish import finish
from rackrate.stages.run.teardown import TornDown, stop_all, sweep, teardown, teardown_stopped
from rackrate.times import later, now
from tests.unit.given import Given
from tests.unit.stages.campaigns import Executions
from tests.unit.stages.runs import ARN, PODS, RUN, States, in_cluster


@pytest.fixture
def resources(resources):
    return resources.but(step_functions=States("ABORTED"))


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


def test_pods_of_a_silent_node_are_deleted_without_its_word(
    deploy, cluster, resources, monkeypatch
):
    deploy()
    key = f"{PODS}/server-node-a"
    left = cluster.objects[key]
    delete = cluster.delete

    def silent(path, **options):
        delete(path, **options)
        if options.get("foreground"):
            left["metadata"]["deletionTimestamp"] = "2026-11-23T12:00:00Z"
            cluster.objects[key] = left
        elif path == key:
            assert options == {"at_once": True}

    monkeypatch.setattr(cluster, "delete", silent)
    assert not teardown(RUN, resources).gone, "its kubelet will end the pod"
    assert key in cluster.objects
    unknown = {"type": "Ready", "status": "Unknown"}
    in_cluster(cluster, "node-a")["status"]["conditions"] = [unknown]
    assert teardown(RUN, resources).gone
    assert cluster.objects == {}


def test_one_request_deletes_all_pods_once_no_daemon_set_recreates_them(
    deploy, cluster, resources, monkeypatch
):
    deploy()
    kinds = []
    delete_all = cluster.delete_all

    def seen(path, labels):
        kinds.extend(thing["kind"] for thing in cluster.objects.values() if "kind" in thing)
        delete_all(path, labels)

    monkeypatch.setattr(cluster, "delete_all", seen)
    monkeypatch.setattr(cluster, "delete", lambda path, **_: cluster.objects.pop(path, None))
    teardown(RUN, resources)
    assert kinds == ["ConfigMap"], "its DaemonSets are gone, and its owner is not"
    assert cluster.objects == {}


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
    assert store.runs.find(RUN).status == expected


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (None, None, 'was stopped in the phase "starting servers"; 0 of'),
        ("StoppedByCaller", "stopped from the command line", ": stopped from the command line; 0"),
        ("Mine", "", 'servers": Mine; 0 of'),
    ],
)
def test_a_stop_is_reported_as_a_stop(deploy, store, resources, error, cause, words):
    deploy()
    teardown_stopped({**stopped("ABORTED"), "error": error, "cause": cause}, resources)
    message = store.runs.find(RUN).cause
    assert words in message
    assert "fail" not in message and "again" not in message and "log group" not in message


def test_an_event_of_an_end_before_a_redrive_ends_nothing(deploy, cluster, store, resources):
    deploy()
    before = dict(cluster.objects)
    done = teardown_stopped(stopped("ABORTED"), resources.but(step_functions=States("RUNNING")))
    assert (done.runs, done.ended) == ((), ())
    assert cluster.objects == before
    assert store.runs.find(RUN).is_running


def test_what_the_machine_wrote_itself_stays(deploy, store, resources):
    deploy()
    failure = RunFailure("TrialsLost", "many")
    finish(RUN, resources, execution_arn=ARN, failure=failure, report_key=None)
    done = teardown_stopped(stopped("FAILED"), resources)
    assert [end.seconds for end in done.ended] == [None], "it must not count twice"
    assert store.runs.find(RUN).error == "TrialsLost"


def test_the_sweep_leaves_running_executions_alone(deploy, cluster, sweep_when):
    deploy()
    before = dict(cluster.objects)
    swept = sweep_when("RUNNING")
    assert (swept.runs, swept.ended, swept.overdue) == ((), (), ())
    assert cluster.objects == before


def test_the_sweep_ends_records_that_have_no_owner_any_more(plan, store, sweep_when):
    plan()
    sweep_when("TIMED_OUT")
    assert store.runs.find(RUN).status == "timed_out"


@pytest.mark.parametrize("notes", [None, {}, {manifests.RUN_ID: "odd"}])
def test_an_owner_that_names_no_run_does_not_stop_the_sweep(deploy, cluster, sweep_when, notes):
    deploy()
    odd = {"kind": "ConfigMap", "metadata": {"name": "odd", "labels": {manifests.ROLE: "owner"}}}
    if notes is not None:
        odd["metadata"]["annotations"] = notes
    cluster.create("/api/v1/namespaces/rackrate/configmaps", odd)
    assert sweep_when("ABORTED").runs == (RUN,)
    assert [thing["metadata"]["name"] for thing in cluster.objects.values()] == ["odd"]


def test_an_owner_with_anything_as_execution_does_not_stop_the_sweep(deploy, cluster, resources):
    deploy()

    class Picky(States):
        def describe_execution(self, *, executionArn):
            if executionArn == "anything":
                raise ClientError({"Error": {"Code": "InvalidArn", "Message": "no"}}, "Describe")
            return super().describe_execution(executionArn=executionArn)

    cluster.create("/api/v1/namespaces/rackrate/configmaps", manifests.owner("a", "anything"))
    assert sweep(resources.but(step_functions=Picky("ABORTED"))).runs == (RUN,)


def test_an_owner_cannot_give_a_running_run_another_execution(deploy, cluster, store, resources):
    """Otherwise whoever may create an object could end a run by naming one that ended."""
    deploy()

    class Two(States):
        def describe_execution(self, *, executionArn):
            status = "ABORTED" if executionArn.endswith("ended") else "RUNNING"
            return {"status": status}

    forged = manifests.owner(RUN, f"{ARN}-ended")
    forged["metadata"]["name"] = "zz-forged"
    cluster.create("/api/v1/namespaces/rackrate/configmaps", forged)
    assert sweep(resources.but(step_functions=Two("RUNNING"))).runs == ()
    assert store.runs.find(RUN).is_running


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
    assert (store.runs.find(RUN).status, store.runs.find(RUN).error) == (
        "failed",
        "ExecutionDoesNotExist",
    )


def test_the_sweep_removes_nothing_while_step_functions_refuses_and_reports_what_is_overdue(
    deploy, cluster, store, resources, monkeypatch
):
    deploy()
    before = dict(cluster.objects)
    refusing = resources.but(step_functions=Refusing("AccessDenied"))
    assert sweep(refusing) == TornDown()
    day_later = later(now(), 86_400)
    monkeypatch.setattr(teardown_stage, "now", lambda: day_later)
    assert sweep(refusing) == TornDown(overdue=(RUN,))
    assert cluster.objects == before
    assert store.runs.find(RUN).is_running


def test_the_sweep_is_tried_again_when_step_functions_throttles(deploy, resources):
    deploy()
    with pytest.raises(Throttled):
        sweep(resources.but(step_functions=Refusing("ThrottlingException")))


def test_a_stack_that_is_deleted_stops_its_runs_and_says_why(plan, store):
    plan()
    executions = Executions()
    # Without cluster and EKS, which may be gone.
    for stopped_now in (1, 0):
        ended = stop_all("run", Given(store=store, step_functions=executions))
        assert len(ended) == stopped_now, "again is harmless"
    assert executions.stopped == [ARN]
    run = store.runs.find(RUN)
    assert (run.status, run.error) == ("aborted", "StackDeleted")
    assert "was stopped" in run.cause and "fails again" not in run.cause
    assert store.leases.valid() == {}


def test_a_stack_is_deleted_though_step_functions_has_forgotten_its_run(plan, store):
    plan()
    executions = Executions()
    executions.refusal = ClientError(
        {"Error": {"Code": "ExecutionDoesNotExist", "Message": "gone"}}, "StopExecution"
    )
    stop_all("run", Given(store=store, step_functions=executions))
    assert store.runs.find(RUN).status == "aborted"
