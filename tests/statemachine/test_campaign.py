"""Execute the campaign's definition: the functions it calls, its runs, and what a failure does.

moto's engine executes it, with scripted functions and with a machine of runs that the test scripts.
The lab corrects how moto starts one execution from another.
"""

from __future__ import annotations

import json
import time
import uuid

import boto3
import pytest
import yaml
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend

from lab.aws import moto_patches
from rackrate.plan.campaign_estimate import MOST_SECONDS
from rackrate.stages.execution.take_lease import PATIENCE_SECONDS
from tests.statemachine.definition import CAMPAIGN, definition, placeholders
from tests.statemachine.test_flow import (
    REGION,
    TRUST,
    Failure,
    ScriptedFunctions,
    create_functions,
    first_failure,
    retry_once,
)
from tests.waiting import HUNG_SECONDS

PLANNED = {
    "campaign_id": "c",
    "kind": "draws",
    "dry_run": False,
    "skipped": False,
    "estimate": {"steps": {"least": 2, "most": 2}},
    "warnings": [],
}
OUTPUT = {"status": "succeeded", "conclusion": "It is better.", "answers": ["it is better"]}
TAKEN = {"taken": True, "waited": False, "wait_seconds": 0}
#: A run that fails if its plan says so.
RUN = {
    "StartAt": "Measure",
    "States": {
        "Measure": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.fails", "IsPresent": True, "Next": "Failed"}],
            "Default": "Measured",
        },
        "Measured": {"Type": "Succeed"},
        "Failed": {"Type": "Fail", "Error": "TrialsLost", "Cause": "too many"},
    },
}


def named(run_id, **plan):
    """What Judge answers while there is another step."""
    return {"enough": False, "number": 1, "run_id": run_id, "plan": plan}


def finish(event):
    """What Finish campaign answers: the first error, if something failed."""
    failure = first_failure(event["state"]) or {"Error": None, "Cause": None}
    return {"output": OUTPUT, "error": failure["Error"], "cause": failure["Cause"]}


ENOUGH = {"enough": True, "number": 2, "run_id": "", "plan": {}}


class Functions(ScriptedFunctions):
    """Functions of a campaign of two draws."""

    def __init__(self):
        super().__init__()
        unique = uuid.uuid4().hex
        self.runs = [f"{unique}-{number:02d}" for number in (1, 2)]
        self.answers = {
            "PlanCampaign": PLANNED,
            "TakeLease": TAKEN,
            "Judge": [named(self.runs[0]), named(self.runs[1]), ENOUGH],
            "Change": {"ready": True, "wait_seconds": 0},
            "ReportCampaign": {"report_key": "campaigns/c/report.html"},
            "Restore": {"done": True, "wait_seconds": 0},
            "FinishCampaign": finish,
        }


@pytest.fixture(scope="module")
def machine():
    """The campaigns' state machine, beside one of runs."""
    moto_patches.apply(moto_patches.NESTED_EXECUTIONS)
    config = {"stepfunctions": {"execute_state_machine": True}, "lambda": {"use_docker": False}}
    with pytest.MonkeyPatch.context() as patch, mock_aws(config=config):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        iam = boto3.client("iam")
        role = iam.create_role(RoleName="campaign", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
        states = boto3.client("stepfunctions")
        runs = states.create_state_machine(
            name="runs-of-campaigns", definition=json.dumps(RUN), roleArn=role
        )
        arns = create_functions(role, placeholders(CAMPAIGN))
        filled = definition(
            {**arns, "Partition": "aws", "StateMachineArn": runs["stateMachineArn"]}, CAMPAIGN
        )
        retry_once(filled)
        created = states.create_state_machine(
            name="campaign", definition=json.dumps(filled), roleArn=role
        )
        yield {"campaign": created["stateMachineArn"], "runs": runs["stateMachineArn"]}


@pytest.fixture
def functions(monkeypatch):
    scripted = Functions()
    monkeypatch.setattr(
        LambdaSimpleBackend, "invoke", lambda backend, *args: scripted.invoke(backend, *args)
    )
    return scripted


@pytest.fixture
def states():
    return boto3.client("stepfunctions", region_name=REGION)


@pytest.fixture
def run(machine, functions, states):
    """Execute a campaign. Returns the execution's description."""

    def execute(raw=None):
        arn = states.start_execution(
            stateMachineArn=machine["campaign"],
            name=f"campaign-{uuid.uuid4().hex}",
            input=json.dumps({} if raw is None else raw),
        )["executionArn"]
        deadline = time.monotonic() + HUNG_SECONDS
        while (execution := states.describe_execution(executionArn=arn))["status"] == "RUNNING":
            assert time.monotonic() < deadline, f"still running: {functions.names}"
            time.sleep(0.05)
        return execution

    return execute


def runs_of(states, machine, functions):
    """The runs of this test's campaign, in order: their ids and inputs."""
    executions = states.list_executions(stateMachineArn=machine["runs"])["executions"]
    mine = sorted(
        (each for each in executions if each["name"] in functions.runs), key=lambda e: e["name"]
    )
    return [
        (
            each["name"],
            json.loads(states.describe_execution(executionArn=each["executionArn"])["input"]),
        )
        for each in mine
    ]


STEP = ["Change", "Judge"]
START = ["PlanCampaign", "TakeLease", "Judge"]
ENDING = ["ReportCampaign", "Restore", "FinishCampaign"]


def test_a_good_campaign_changes_runs_and_judges_until_it_is_enough(
    run, functions, states, machine
):
    functions.answers["Judge"][0]["plan"] = {"seed": 1}
    execution = run({"draws": 2})
    assert execution["status"] == "SUCCEEDED"
    assert json.loads(execution["output"]) == OUTPUT
    assert functions.names == [*START, *STEP, *STEP, *ENDING]
    (planned,) = functions.events("PlanCampaign")
    assert planned == {
        "campaign_id": execution["name"],
        "execution_arn": execution["executionArn"],
        "input": {"draws": 2},
    }
    assert functions.events("Change") == [{"campaign_id": execution["name"]}] * 2
    assert functions.events("TakeLease") == [{"campaign_id": execution["name"]}]
    assert runs_of(states, machine, functions) == [
        (functions.runs[0], {"seed": 1}),
        (functions.runs[1], {}),
    ]
    finished = functions.events("FinishCampaign")[0]["state"]
    assert finished["reported"] == {"report_key": "campaigns/c/report.html"}
    assert finished["failure"] is None


def test_a_sweep_waits_until_each_value_is_made_and_runs_with_it(run, functions, states, machine):
    first, second = functions.runs
    functions.answers |= {
        "PlanCampaign": {**PLANNED, "kind": "sweep"},
        "Judge": [named(first, seed=1), named(second, seed=2), ENOUGH],
        "Change": [
            {"ready": False, "wait_seconds": 0},
            {"ready": True, "wait_seconds": 0},
            Failure("ChangeFailed", "the update of the add-on vpc-cni is Failed"),
        ],
    }
    assert run({"sweep": {"vpc_cni": ["v1", "v2"]}})["status"] == "SUCCEEDED"
    assert functions.names == [*START, "Change", *STEP, *STEP, *ENDING]
    assert runs_of(states, machine, functions) == [(first, {"seed": 1})]
    step = functions.events("Judge")[2]["state"]["step"]
    assert (step["run_id"], step["failure"]["Error"]) == (second, "ChangeFailed")


def test_a_pause_before_a_draw_is_waited_for_and_the_draw_is_made(run, functions, states, machine):
    ready, pausing = {"ready": True, "wait_seconds": 0}, {"ready": False, "wait_seconds": 1}
    functions.answers["Change"] = [ready, pausing, ready]
    assert run({"draws": 2, "pause_minutes": 1})["status"] == "SUCCEEDED"
    assert functions.names == [*START, *STEP, "Change", *STEP, *ENDING]
    assert [name for name, _ in runs_of(states, machine, functions)] == functions.runs


def test_no_campaign_is_planned_that_outlasts_its_state_machine():
    filled = yaml.safe_load(CAMPAIGN.read_text())
    assert filled["TimeoutSeconds"] - PATIENCE_SECONDS == MOST_SECONDS


def test_a_campaign_that_is_skipped_ends_well_after_its_plan(run, functions):
    functions.answers["PlanCampaign"] = {**PLANNED, "skipped": True}
    execution = run()
    assert execution["status"] == "SUCCEEDED"
    assert json.loads(execution["output"])["skipped"] is True
    assert functions.names == ["PlanCampaign"]


def test_a_dry_run_stops_after_the_estimate(run, functions):
    functions.answers["PlanCampaign"] = {**PLANNED, "dry_run": True}
    execution = run({"dry_run": True})
    assert functions.names == ["PlanCampaign"]
    assert json.loads(execution["output"])["estimate"] == PLANNED["estimate"]


def test_a_pool_takes_no_nodes_and_changes_nothing(run, functions):
    functions.answers["PlanCampaign"] = {**PLANNED, "kind": "pool", "estimate": None}
    assert run({"pool": ["run-1"]})["status"] == "SUCCEEDED"
    assert functions.names == ["PlanCampaign", *ENDING]


def test_an_invalid_campaign_starts_nothing(run, functions):
    functions.answers["PlanCampaign"] = Failure("InvalidCampaign", "draws: is wrong; correct it")
    execution = run({"draws": "x"})
    assert (execution["status"], execution["error"]) == ("FAILED", "InvalidCampaign")
    assert json.loads(execution["cause"])["errorMessage"] == "draws: is wrong; correct it"
    assert functions.names == ["PlanCampaign", "FinishCampaign"]


def test_it_waits_for_its_nodes_for_its_changes_and_for_the_old_state(run, functions):
    again = {"wait_seconds": 0}
    functions.answers |= {
        "TakeLease": [{**TAKEN, "taken": False}, TAKEN],
        "Change": [{"ready": False, **again}, {"ready": True, **again}],
        "Restore": [{"done": False, **again}, {"done": True, **again}],
    }
    assert run()["status"] == "SUCCEEDED"
    assert functions.names.count("TakeLease") == 2
    assert functions.names.count("Change") == 3
    assert functions.names.count("Restore") == 2


def test_nodes_that_another_run_holds_end_it_before_it_changes_anything(run, functions):
    functions.answers["TakeLease"] = Failure("NodesBusy", "run-1 holds the nodes")
    execution = run()
    assert execution["error"] == "NodesBusy"
    assert functions.names == ["PlanCampaign", "TakeLease", "Restore", "FinishCampaign"]


def test_a_run_that_fails_is_told_to_the_judge_and_the_campaign_goes_on(run, functions):
    functions.answers["Judge"][0]["plan"] = {"fails": True}
    assert run()["status"] == "SUCCEEDED"
    assert functions.names == [*START, *STEP, *STEP, *ENDING]
    first, second, third = functions.events("Judge")
    assert "step" not in first["state"]
    failure = second["state"]["step"]["failure"]
    assert "TrialsLost" in json.dumps(failure)
    assert "failure" not in third["state"]["step"], "the next step has no failure of its own"


def test_a_change_that_fails_loses_its_step_and_starts_no_run(run, functions, states, machine):
    functions.answers["Change"] = [
        Failure("NodesUnavailable", "no capacity"),
        {"ready": True, "wait_seconds": 0},
    ]
    assert run()["status"] == "SUCCEEDED"
    failure = functions.events("Judge")[1]["state"]["step"]["failure"]
    assert failure["Error"] == "NodesUnavailable"
    assert [run_id for run_id, _ in runs_of(states, machine, functions)] == functions.runs[1:]


@pytest.mark.parametrize("error", ["StepsLost", "NodesBusy", "KeyError"])
def test_a_judge_that_fails_ends_it_with_its_error_after_report_and_restore(run, functions, error):
    functions.answers["Judge"] = [named(functions.runs[0]), Failure(error, "it was so")]
    execution = run()
    assert (execution["status"], execution["error"]) == ("FAILED", error)
    assert json.loads(execution["cause"])["errorMessage"] == "it was so"
    assert functions.names == [*START, *STEP, *ENDING]
    assert functions.events("ReportCampaign")[0]["failure"]["Error"] == error


def test_what_was_changed_is_put_back_also_if_the_report_fails(run, functions):
    functions.answers["ReportCampaign"] = Failure("MemoryError", "too large")
    execution = run()
    assert execution["error"] == "MemoryError"
    assert functions.names[-3:] == ENDING


def test_a_failing_report_does_not_replace_the_first_error(run, functions):
    functions.answers["Judge"] = Failure("StepsLost")
    functions.answers["ReportCampaign"] = Failure("MemoryError")
    assert run()["error"] == "StepsLost"
    assert functions.names[-2:] == ["Restore", "FinishCampaign"]


def test_its_end_is_recorded_also_if_not_everything_can_be_put_back(run, functions):
    functions.answers["Restore"] = Failure("NodesUnavailable", "ng-1 cannot be resized")
    assert run()["status"] == "SUCCEEDED"
    assert functions.names[-1] == "FinishCampaign"


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({"FinishCampaign": Failure("KeyError")}, "KeyError"),
        ({"Judge": Failure("StepsLost"), "FinishCampaign": Failure("KeyError")}, "StepsLost"),
    ],
)
def test_an_end_that_cannot_be_recorded_is_a_failure(run, functions, answers, error):
    functions.answers |= answers
    execution = run()
    assert (execution["status"], execution["error"]) == ("FAILED", error)


def test_throttling_is_waited_out(run, functions):
    functions.answers["Change"] = [Failure("Throttled"), {"ready": True, "wait_seconds": 0}]
    assert run()["status"] == "SUCCEEDED"
    assert functions.names == [*START, "Change", *STEP, *STEP, *ENDING]
