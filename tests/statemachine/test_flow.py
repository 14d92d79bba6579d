"""The definition, executed: which functions are called, in which order, whatever goes wrong.

The functions are scripted here; the engine is moto's. What the functions themselves do is tested in
tests/unit.
"""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile

import boto3
import pytest
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend

from tests.statemachine.definition import definition, placeholders

REGION = "us-east-1"
DEADLINE_SECONDS = 20
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})

PLANNED = {"run_id": "r", "dry_run": False, "schedule_key": "runs/r/schedule.json", "blocks": 2}


class Failure:
    """What a function answers when it raises."""

    def __init__(self, error, message="it went wrong"):
        self.error, self.message = error, message


class Functions:
    """Answers of the functions: a value, a Failure, a list of them in turn, or a callable."""

    def __init__(self):
        self.calls = []
        self.answers = {
            "Plan": PLANNED,
            "Deploy": {},
            "Ready": {"ready": True, "wait_seconds": 0},
            "Launch": lambda event: {
                "pods": 2,
                "item": event["item"],
                "attempt": 1,
                "wait_seconds": 0,
                "deadline": 0,
            },
            "Collect": {"finished": True, "wait_seconds": 0},
            "Analyze": {},
            "Report": {},
            "Teardown": {"gone": True},
            "Finish": {"status": "succeeded"},
        }

    def invoke(self, backend, function_name, qualifier, body, headers, response_headers):
        name = function_name.rpartition(":")[2].removesuffix("Function")
        event = json.loads(body)
        self.calls.append((name, event))
        answer = self.answers[name]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(event)
        if isinstance(answer, Failure):
            response_headers["x-amz-function-error"] = "Unhandled"
            answer = {"errorType": answer.error, "errorMessage": answer.message}
        return json.dumps(answer).encode()

    @property
    def names(self):
        return [name for name, _ in self.calls]

    def events(self, name):
        return [event for called, event in self.calls if called == name]


@pytest.fixture(scope="module")
def machine():
    """The state machine in an emulated Region that all tests here share."""
    config = {"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}}
    with pytest.MonkeyPatch.context() as patch, mock_aws(config=config):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        role = boto3.client("iam").create_role(RoleName="any", AssumeRolePolicyDocument=TRUST)
        arns = _create_functions(role["Role"]["Arn"])
        boto3.client("s3").create_bucket(Bucket="results")
        boto3.client("s3").put_object(
            Bucket="results",
            Key=PLANNED["schedule_key"],
            Body=json.dumps([{"kind": "block", "block": 1}, {"kind": "block", "block": 2}]),
        )
        filled = definition({**arns, "Partition": "aws", "BucketName": "results"})
        _retry_once(filled)
        yield boto3.client("stepfunctions").create_state_machine(
            name="benchmark", definition=json.dumps(filled), roleArn=role["Role"]["Arn"]
        )["stateMachineArn"]


@pytest.fixture
def functions(monkeypatch):
    scripted = Functions()
    monkeypatch.setattr(
        LambdaSimpleBackend, "invoke", lambda backend, *args: scripted.invoke(backend, *args)
    )
    return scripted


@pytest.fixture
def run(machine, functions):
    """Executes the definition with an input and returns the execution's description."""
    states = boto3.client("stepfunctions", region_name=REGION)

    def execute(plan):
        arn = states.start_execution(
            stateMachineArn=machine, name=f"run-{uuid.uuid4().hex}", input=json.dumps(plan)
        )["executionArn"]
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (found := states.describe_execution(executionArn=arn))["status"] == "RUNNING":
            assert time.monotonic() < deadline, f"still running: {functions.names}"
            time.sleep(0.05)
        return found

    return execute


def _create_functions(role):
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("empty.py", "")
    arns = {}
    for placeholder in placeholders():
        if placeholder.endswith("FunctionArn"):
            arns[placeholder] = boto3.client("lambda").create_function(
                FunctionName=placeholder.removesuffix("Arn"),
                Runtime="python3.13",
                Role=role,
                Handler="empty.handler",
                Code={"ZipFile": empty.getvalue()},
            )["FunctionArn"]
    return arns


def _retry_once(value):
    """One retry after a second at most: how long to go on is Step Functions' business."""
    if isinstance(value, dict):
        for retry in value.get("Retry", []):
            retry |= {"IntervalSeconds": 1, "MaxDelaySeconds": 2, "MaxAttempts": 1}
        for entry in value.values():
            _retry_once(entry)


ONCE = ["Launch", "Collect"]
ENDING = ["Report", "Teardown", "Finish"]


def test_a_good_run_visits_every_step_in_order(run, functions):
    execution = run({})
    assert execution["status"] == "SUCCEEDED"
    assert functions.names == ["Plan", "Deploy", "Ready", *ONCE, *ONCE, "Analyze", *ENDING]
    (plan,) = functions.events("Plan")
    assert plan["plan"] == {} and plan["run_id"] == execution["name"]
    assert plan["execution_arn"] == execution["executionArn"]
    assert [e["item"]["block"] for e in functions.events("Launch")] == [1, 2]
    assert "failure" not in functions.events("Finish")[0]["state"]


@pytest.mark.parametrize("plan", [[1, 2], None, {"failure": "mine", "dry_run": True}])
def test_any_json_reaches_the_plan_function_as_it_is(run, functions, plan):
    run(plan)
    assert functions.events("Plan")[0]["plan"] == plan


def test_an_invalid_plan_starts_nothing_and_fails_with_lambdas_own_cause(run, functions):
    functions.answers["Plan"] = Failure("InvalidPlan", "blocks: is wrong; correct it")
    execution = run({"blocks": "x"})
    assert execution["status"] == "FAILED"
    assert execution["error"] == "InvalidPlan"
    assert json.loads(execution["cause"])["errorMessage"] == "blocks: is wrong; correct it"
    assert functions.names == ["Plan", "Finish"]
    assert functions.events("Finish")[0]["state"]["failure"]["Error"] == "InvalidPlan"


def test_a_dry_run_stops_after_planning(run, functions):
    functions.answers["Plan"] = {**PLANNED, "dry_run": True, "expected_seconds": 90}
    execution = run({"dry_run": True})
    assert functions.names == ["Plan"]
    assert json.loads(execution["output"])["expected_seconds"] == 90


def test_it_waits_until_the_servers_are_ready(run, functions):
    functions.answers["Ready"] = [{"ready": False, "wait_seconds": 0}] * 2 + [
        {"ready": True, "wait_seconds": 0}
    ]
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names.count("Ready") == 3


@pytest.mark.parametrize(
    ("function", "error"),
    [("Deploy", "ServersNotReady"), ("Ready", "NodesUnavailable")],
)
def test_a_failure_before_the_blocks_still_reports_cleans_up_and_keeps_its_error(
    run, functions, function, error
):
    functions.answers[function] = Failure(error, "the reason")
    execution = run({})
    assert (execution["status"], execution["error"]) == ("FAILED", error)
    assert json.loads(execution["cause"])["errorMessage"] == "the reason"
    assert functions.names[-4:] == ["Analyze", *ENDING]
    assert functions.events("Analyze") == [{"run_id": execution["name"], "after_failure": True}]
    assert functions.events("Report")[0]["failure"]["Error"] == error
    assert functions.events("Finish")[0]["state"]["failure"]["Error"] == error


def test_more_trouble_after_a_failure_does_not_hide_the_first_error(run, functions):
    functions.answers["Ready"] = Failure("NodesUnavailable")
    functions.answers["Analyze"] = Failure("KeyError")
    functions.answers["Teardown"] = Failure("RuntimeError")
    execution = run({})
    assert execution["error"] == "NodesUnavailable"
    assert functions.names[-3:] == ["Analyze", "Teardown", "Finish"]


def test_lost_trials_are_reported_before_the_run_fails(run, functions):
    functions.answers["Analyze"] = Failure("TrialsLost", "30 of 36")
    execution = run({})
    assert execution["error"] == "TrialsLost"
    assert functions.names[-4:] == ["Analyze", *ENDING]
    assert functions.events("Report")[0]["failure"]["Error"] == "TrialsLost"


def test_an_item_that_cannot_be_launched_is_written_down_and_the_next_one_runs(run, functions):
    good = functions.answers["Launch"]
    functions.answers["Launch"] = lambda event: (
        Failure("ServersNotReady", "gone") if event["item"]["block"] == 1 else good(event)
    )
    assert run({})["status"] == "SUCCEEDED"
    given_up, collected = functions.events("Collect")
    assert given_up["failure"]["Error"] == "ServersNotReady"
    assert given_up["item"]["block"] == 1
    assert collected["item"]["block"] == 2


def test_collecting_goes_on_until_it_says_it_is_finished(run, functions):
    unfinished = {"finished": False, "wait_seconds": 0}
    functions.answers["Collect"] = [unfinished, unfinished, {"finished": True, "wait_seconds": 0}]
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names.count("Collect") == 4  # three for the first item, one for the second


def test_a_makeup_item_with_nothing_to_do_collects_nothing(run, functions):
    nothing = {"pods": 0, "item": {}, "attempt": 0, "wait_seconds": 0, "deadline": 0}
    functions.answers["Launch"] = nothing
    assert run({})["status"] == "SUCCEEDED"
    assert "Collect" not in functions.names


def test_an_unreachable_cluster_is_tried_again(run, functions):
    functions.answers["Deploy"] = [Failure("ClusterUnreachable"), {}]
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names.count("Deploy") == 2


def test_what_teardown_cannot_delete_does_not_spoil_a_good_run(run, functions):
    functions.answers["Teardown"] = Failure("ResourceInUse")
    assert run({})["status"] == "SUCCEEDED"
    assert functions.names[-1] == "Finish"


def test_an_end_that_cannot_be_written_down_fails_the_execution(run, functions):
    functions.answers["Finish"] = Failure("ResourceNotFoundException")
    execution = run({})
    assert (execution["status"], execution["error"]) == ("FAILED", "ResourceNotFoundException")
