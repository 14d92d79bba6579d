"""A stack with a run at its creation: it waits for the run, and fails if the run fails."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from rackrate.stack.custom_resource import NOTHING
from rackrate.stages.stack import run_on_create
from rackrate.stages.stack.run_on_create import Runner, failure_text, parse_plan, run_id_of
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit.samples import SETTINGS
from tests.unit.stack.custom_resources import Context, listener, only
from tests.unit.stack.custom_resources import request as cloudformation_request

BUCKET = SETTINGS.bucket_name
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:rackrate-benchmark"
INVALID = json.dumps(
    {
        "errorType": "InvalidPlan",
        "errorMessage": "blocks: must be at least 1; give more\ntests: empty; name one",
        "requestId": "r",
        "stackTrace": ["  File ..."],
    }
)


class States:
    """Step Functions whose executions end as the test says."""

    def __init__(self):
        self.executions = {}

    def start_execution(self, *, stateMachineArn, name, input):
        arn = f"{stateMachineArn.replace(':stateMachine:', ':execution:')}:{name}"
        if arn in self.executions and self.executions[arn]["status"] != "RUNNING":
            raise self._error("ExecutionAlreadyExists")
        self.executions.setdefault(arn, {"status": "RUNNING", "input": input})
        return {"executionArn": arn}

    def describe_execution(self, *, executionArn):
        if executionArn not in self.executions:
            raise self._error("ExecutionDoesNotExist")
        return self.executions[executionArn]

    def stop_execution(self, *, executionArn, error, cause):
        self.executions[executionArn].update(status="ABORTED", error=error, cause=cause)

    def _error(self, code):
        return ClientError({"Error": {"Code": code, "Message": "x"}}, "Operation")


@pytest.fixture
def runner(store):
    return Runner(state_machine_arn=MACHINE, store=store, states=States())


def request(kind="Create", plan="{}", url="https://answer.test", **extra):
    return cloudformation_request(kind, {"Plan": plan}, ResponseURL=url, **extra)


def serve(runner, *arguments, **more):
    return run_on_create.serve_request(request(*arguments, **more), runner)


def start(runner, url, plan="{}", **extra):
    """Start a run as the stack does. Returns its id."""
    assert serve(runner, plan=plan, url=url, **extra) is None
    return run_id_of(json.loads(plan), "request")


def end(runner, run_id, status, **more):
    arn = runner.execution_arn(run_id)
    runner.states.executions[arn].update(status=status, **more)
    return run_on_create.answer_ended({"name": run_id, "executionArn": arn}, runner)


def objects(runner):
    contents = runner.store.objects._s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return [entry["Key"] for entry in contents]


def test_creation_starts_the_run_and_answers_nothing_yet(runner):
    with listener() as (url, responses):
        run_id = start(runner, url, plan='{"blocks": 2}')
        assert responses == []
    assert objects(runner) == ["on-create.json"]
    (arn,) = runner.states.executions
    assert arn == runner.execution_arn(run_id)
    (execution,) = runner.states.executions.values()
    assert json.loads(execution["input"]) == {"blocks": 2}


def test_the_request_is_kept_before_the_run_can_end(runner, monkeypatch):
    stored = []
    begin = runner.states.start_execution
    monkeypatch.setattr(
        runner.states,
        "start_execution",
        lambda **more: (stored.extend(objects(runner)), begin(**more)),
    )
    serve(runner)
    assert len(stored) == 1


def test_a_repeated_invocation_starts_no_second_run(runner):
    assert serve(runner) is None
    assert serve(runner) is None
    assert len(runner.states.executions) == 1


def test_an_invocation_repeated_after_the_end_answers_at_once(runner):
    with listener() as (url, responses):
        run_id = start(runner, url)
        runner.store.runs.finish(run_id, "succeeded", conclusion="All is well.")
        end(runner, run_id, "SUCCEEDED")
        answer = serve(runner, url=url)
    assert len(responses) == 1
    assert answer.data == {"RunId": run_id, "Conclusion": "All is well."}


def test_a_run_that_succeeded_creates_the_resource_with_its_conclusion(runner):
    with listener() as (url, responses):
        run_id = start(runner, url)
        runner.store.runs.finish(run_id, "succeeded", conclusion="treatment is better.")
        assert end(runner, run_id, "SUCCEEDED") == {"answered": True}
    response = only(responses)
    assert (response["Status"], response["PhysicalResourceId"]) == ("SUCCESS", run_id)
    assert response["Data"] == {"RunId": run_id, "Conclusion": "treatment is better."}
    assert objects(runner) == [], "the address that lets anybody answer is removed"


def test_a_run_that_failed_fails_the_stack_with_its_own_words(runner):
    with listener() as (url, responses):
        run_id = start(runner, url)
        end(runner, run_id, "FAILED", error="InvalidPlan", cause=INVALID)
    response = only(responses)
    assert (response["Status"], response["PhysicalResourceId"]) == ("FAILED", run_id)
    assert response["Reason"] == (
        f"The run {run_id} failed with InvalidPlan: (1) blocks: must be at least 1; give more."
        f" (2) tests: empty; name one. What it measured is in s3://{BUCKET}/runs/{run_id}/."
    )
    assert objects(runner) == []


def test_an_update_that_failed_is_no_replacement(runner):
    with listener() as (url, responses):
        assert serve(runner, "Update", url=url, PhysicalResourceId="stack-before") is None
        end(runner, run_id_of({}, "request"), "TIMED_OUT")
    assert only(responses)["PhysicalResourceId"] == "stack-before"
    assert "took too long" in only(responses)["Reason"]


def test_a_run_that_no_stack_asked_for_is_none_of_our_business(runner):
    arn = runner.execution_arn("stack-of-somebody")
    detail = {"name": "stack-of-somebody", "executionArn": arn}
    assert run_on_create.answer_ended(detail, runner) == {"answered": False}


def test_the_end_reported_twice_is_answered_once(runner):
    with listener() as (url, responses):
        run_id = start(runner, url)
        assert end(runner, run_id, "ABORTED") == {"answered": True}
        assert end(runner, run_id, "ABORTED") == {"answered": False}
    assert "was stopped" in only(responses)["Reason"]


def test_the_stack_is_answered_also_when_the_end_cannot_be_looked_up(runner, monkeypatch):
    def refuse(**_):
        raise runner.states._error("AccessDeniedException")

    with listener() as (url, responses):
        run_id = start(runner, url)
        monkeypatch.setattr(runner.states, "describe_execution", refuse)
        assert end(runner, run_id, "SUCCEEDED") == {"answered": True}
    assert only(responses)["Status"] == "FAILED"
    assert "AccessDeniedException" in only(responses)["Reason"]
    assert objects(runner) == []


def test_an_answer_that_was_not_taken_is_tried_again(runner):
    with listener(status=400) as (url, _):
        run_id = start(runner, url)
        with pytest.raises(RuntimeError):
            end(runner, run_id, "SUCCEEDED")
    assert objects(runner), "Lambda repeats the invocation, which needs the request"


def look(runner):
    return run_on_create.answer_unreported(runner)


def test_an_end_whose_event_was_lost_is_found_and_answered_once(runner):
    with listener() as (url, responses):
        assert look(runner) == {"answered": False}, "no stack waits"
        run_id = start(runner, url)
        assert look(runner) == {"answered": False}, "the run goes on"
        runner.states.executions[runner.execution_arn(run_id)]["status"] = "FAILED"
        assert look(runner) == {"answered": True}
        assert look(runner) == end(runner, run_id, "FAILED") == {"answered": False}
    assert (only(responses)["Status"], only(responses)["PhysicalResourceId"]) == ("FAILED", run_id)
    assert objects(runner) == []


def test_a_request_whose_run_is_about_to_start_waits(runner, monkeypatch):
    looks = []
    begin = runner.states.start_execution
    monkeypatch.setattr(
        runner.states, "start_execution", lambda **more: (looks.append(look(runner)), begin(**more))
    )
    serve(runner)
    assert looks == [{"answered": False}]
    assert objects(runner) != []


def test_a_request_that_cloudformation_gave_up_is_not_answered_for_ever(runner):
    with listener(status=403) as (url, _):
        run_id = start(runner, url)
        runner.states.executions[runner.execution_arn(run_id)]["status"] = "SUCCEEDED"
        with pytest.raises(RuntimeError):
            look(runner)
    assert look(runner) == {"answered": False}


def test_the_end_of_an_earlier_run_answers_no_later_request(runner):
    with listener() as (url, responses):
        earlier = start(runner, "https://gone.test")
        start(runner, url, plan='{"blocks": 3}')
        assert end(runner, earlier, "SUCCEEDED") == {"answered": False}
        serve(runner, "Delete", PhysicalResourceId=earlier)
    assert responses == []
    assert objects(runner) != [], "the later request still waits"


@pytest.mark.parametrize("plan", ["{", "[]", '"{}"', "null", ""])
def test_a_plan_that_is_no_json_object_is_refused_before_anything_starts(runner, plan):
    with pytest.raises(run_on_create.InvalidPlanParameter, match=r"RunOnCreate: .*give a plan"):
        serve(runner, plan=plan)
    assert runner.states.executions == {} and objects(runner) == []


def test_a_start_that_fails_leaves_no_request_behind(runner, monkeypatch):
    def refuse(**_):
        raise runner.states._error("ExecutionLimitExceeded")

    monkeypatch.setattr(runner.states, "start_execution", refuse)
    with pytest.raises(ClientError, match="ExecutionLimitExceeded"):
        serve(runner)
    assert objects(runner) == []


def test_an_update_runs_again_only_for_another_plan(runner):
    before = run_id_of({"blocks": 2}, "earlier")
    runner.store.runs.finish(before, "succeeded", conclusion="As before.")
    same = serve(runner, "Update", '{ "blocks":2 }', PhysicalResourceId=before)
    assert (same.physical_id, same.data["Conclusion"]) == (before, "As before.")
    assert runner.states.executions == {}
    assert serve(runner, "Update", '{"blocks": 3}', PhysicalResourceId=before) is None
    assert len(runner.states.executions) == 1


def test_deletion_stops_what_still_runs_and_informs_nobody_of_its_end(runner):
    with listener() as (url, responses):
        run_id = start(runner, url)
        answer = serve(runner, "Delete", url=url, PhysicalResourceId=run_id)
        assert answer.physical_id == run_id
        arn = runner.execution_arn(run_id)
        assert runner.states.executions[arn]["status"] == "ABORTED"
        assert end(runner, run_id, "ABORTED") == {"answered": False}
    assert responses == []


@pytest.mark.parametrize("id_", [NOTHING, "stack-that-is-forgotten"])
def test_deletion_of_what_is_not_there_succeeds(runner, id_):
    assert serve(runner, "Delete", PhysicalResourceId=id_).physical_id == id_


def test_deletion_leaves_a_run_that_has_ended_as_it_is(runner):
    with listener() as (url, _):
        run_id = start(runner, url)
        end(runner, run_id, "SUCCEEDED")
    serve(runner, "Delete", PhysicalResourceId=run_id)
    assert runner.states.executions[runner.execution_arn(run_id)]["status"] == "SUCCEEDED"


def test_the_handler_distinguishes_requests_from_ends(runner, monkeypatch):
    from handlers import run_on_create as handler

    monkeypatch.setattr(handler, "_runner", lambda: runner)
    with listener() as (url, responses):
        assert handler.handler(request(url=url), Context()) is None
        (arn,) = runner.states.executions
        runner.states.executions[arn]["status"] = "SUCCEEDED"
        detail = {"name": arn.rpartition(":")[2], "executionArn": arn, "status": "SUCCEEDED"}
        ended = {"source": "aws.states", "detail": detail}
        assert handler.handler(ended, Context()) == {"answered": True}
        scheduled = {"source": "aws.events", "detail-type": "Scheduled Event"}
        assert handler.handler(scheduled, Context()) == {"answered": False}
        handler.handler(request(plan="no plan", url=url), Context())
    assert [json.loads(body)["Status"] for body in responses] == ["SUCCESS", "FAILED"]
    assert "RunOnCreate: it is not JSON" in json.loads(responses[1])["Reason"]


@given(st.text(), st.dictionaries(st.text(), st.integers()))
def test_run_ids_are_names_step_functions_and_the_template_take(request_id, plan):
    run_id = run_id_of(plan, request_id)
    assert run_id.startswith("stack-") and len(run_id) <= 80
    assert all(c.isascii() and (c.isalnum() or c == "-") for c in run_id)
    assert run_id == run_id_of(parse_plan(json.dumps(plan)), request_id)


def test_the_template_listens_for_the_names_the_runs_have():
    resources = load(ROOT / "templates" / "run.yaml")["Resources"]
    events = resources["RunOnCreateFunction"]["Properties"]["Events"]
    detail = events["RunHasEnded"]["Properties"]["Pattern"]["detail"]
    assert detail["name"] == [{"prefix": run_on_create.PREFIX}]
    assert "${BucketArn}/on-create.json" in json.dumps(resources["RunOnCreateRole"])


@pytest.mark.parametrize(
    ("execution", "text"),
    [
        (
            {"status": "FAILED", "error": "ServersNotReady", "cause": "no pods"},
            "The run r failed with ServersNotReady: no pods.",
        ),
        ({"status": "FAILED"}, "The run r failed."),
        ({"status": "FAILED", "cause": '{"a": 1}'}, 'The run r failed with {"a": 1}.'),
        ({"status": "ABORTED", "error": None, "cause": None}, "The run r was stopped."),
    ],
)
def test_however_an_execution_ended_it_can_be_read(execution, text):
    assert failure_text("r", execution, "b").startswith(text)
