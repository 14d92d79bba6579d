"""Executions that start executions: answers, failures, permissions, stops, as in Step Functions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.tests.aws.region import Lab, allow, eventually

SYNC = "arn:aws:states:::states:startExecution.sync"
RULE = (
    "arn:aws:events:us-east-1:123456789012:rule/StepFunctionsGetEventsForStepFunctionsExecutionRule"
)
LASTING = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": True}}}


def parent_of(child: str, resource: str = f"{SYNC}:2", **more: Any) -> dict[str, Any]:
    """A definition with one task: to run `child`, named as its parent's input says."""
    return {
        "StartAt": "Run",
        "States": {
            "Run": {
                "Type": "Task",
                "Resource": resource,
                "Parameters": {
                    "StateMachineArn": child,
                    "Name.$": "$.name",
                    "Input": {
                        "plan.$": "$.plan",
                        "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID.$": "$$.Execution.Id",
                    },
                },
                "End": True,
                **more,
            }
        },
    }


def execution_of(machine: str, name: str) -> str:
    return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"


def waiting_role(lab: Lab, child: str, *without: str) -> str:
    """A role with what AWS documents for waiting on executions of `child`."""
    statements = [
        ("states:StartExecution", child),
        ("states:DescribeExecution", execution_of(child, "*")),
        ("states:StopExecution", execution_of(child, "*")),
        ("events:PutTargets", RULE),
        ("events:PutRule", RULE),
        ("events:DescribeRule", RULE),
    ]
    return lab.role(
        "states.amazonaws.com",
        *(allow(action, resource) for action, resource in statements if action not in without),
    )


def start(lab: Lab, machine: str, name: str, **data: Any) -> str:
    started = lab.client("stepfunctions").start_execution(
        stateMachineArn=machine, input=json.dumps({"name": name, "plan": {}, **data})
    )
    return str(started["executionArn"])


def running(lab: Lab, execution_arn: str) -> None:
    """Wait until an execution that a parent starts is there and runs."""
    states = lab.client("stepfunctions")

    def status() -> str:
        try:
            return str(states.describe_execution(executionArn=execution_arn)["status"])
        except states.exceptions.ExecutionDoesNotExist:
            return "none"

    eventually(status, lambda state: state == "RUNNING")


@pytest.fixture
def echo(lab: Lab) -> str:
    """A state machine whose output is its input."""
    return lab.state_machine({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}})


@pytest.fixture
def lasting(lab: Lab) -> str:
    """A state machine whose executions last longer than any test."""
    return lab.state_machine(LASTING)


def test_output_of_a_child_is_parsed_and_its_times_are_milliseconds(lab: Lab, echo: str) -> None:
    parent = lab.state_machine(parent_of(echo), waiting_role(lab, echo))
    execution = lab.finished(start(lab, parent, "child-1", plan={"blocks": 4}))
    assert execution["status"] == "SUCCEEDED", execution
    child = json.loads(execution["output"])
    assert child["Status"] == "SUCCEEDED"
    assert child["ExecutionArn"] == execution_of(echo, "child-1")
    assert child["Output"] == child["Input"]
    assert child["Output"] == {
        "plan": {"blocks": 4},
        "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID": execution["executionArn"],
    }
    assert child["StopDate"] >= child["StartDate"] > 1_600_000_000_000


def test_output_stays_text_without_the_second_version(lab: Lab, echo: str) -> None:
    execution = lab.execute(parent_of(echo, SYNC), '{"name": "child-text", "plan": {}}')
    assert json.loads(json.loads(execution["output"])["Output"])["plan"] == {}


def test_failed_child_is_a_failed_task_whose_cause_describes_it(lab: Lab) -> None:
    failing = lab.state_machine(
        {"StartAt": "A", "States": {"A": {"Type": "Fail", "Error": "Lost", "Cause": "no nodes"}}}
    )
    caught = parent_of(
        failing,
        Catch=[{"ErrorEquals": ["States.TaskFailed"], "ResultPath": "$.error", "Next": "Told"}],
    )
    caught["States"]["Told"] = {"Type": "Succeed"}
    execution = lab.execute(caught, '{"name": "child-fails", "plan": {"a": 1}}')
    assert execution["status"] == "SUCCEEDED", execution
    error = json.loads(execution["output"])["error"]
    assert error["Error"] == "States.TaskFailed"
    child = json.loads(error["Cause"])
    assert (child["Status"], child["Error"], child["Cause"]) == ("FAILED", "Lost", "no nodes")
    assert child["Name"] == "child-fails"
    assert child["Input"]["plan"] == {"a": 1}


def test_name_of_an_ended_execution_is_refused_by_the_errors_name(lab: Lab, echo: str) -> None:
    parent = lab.state_machine(parent_of(echo))
    assert lab.finished(start(lab, parent, "taken"))["status"] == "SUCCEEDED"
    execution = lab.finished(start(lab, parent, "taken"))
    assert execution["status"] == "FAILED"
    assert execution["error"] == "StepFunctions.ExecutionAlreadyExistsException"
    assert f"Execution Already Exists: '{execution_of(echo, 'taken')}'" in execution["cause"]


def test_stopped_parent_stops_its_child(lab: Lab, lasting: str) -> None:
    parent = lab.state_machine(parent_of(lasting), waiting_role(lab, lasting))
    arn = start(lab, parent, "stopped")
    child = execution_of(lasting, "stopped")
    running(lab, child)
    states = lab.client("stepfunctions")
    states.stop_execution(executionArn=arn)
    assert lab.finished(child)["status"] == "ABORTED"
    assert states.describe_execution(executionArn=arn)["status"] == "ABORTED"
    history = eventually(
        lambda: states.get_execution_history(executionArn=arn)["events"],
        lambda events: events[-1]["type"] == "ExecutionAborted",
    )
    assert "TaskSucceeded" not in {event["type"] for event in history}


@pytest.mark.parametrize("of_the_task", [True, False])
def test_child_is_stopped_when_its_parents_time_is_over(
    lab: Lab, lasting: str, of_the_task: bool
) -> None:
    definition = parent_of(lasting)
    (definition["States"]["Run"] if of_the_task else definition)["TimeoutSeconds"] = 3
    name = f"overtime-{of_the_task}"
    execution = lab.execute(definition, json.dumps({"name": name, "plan": {}}))
    assert execution["status"] == ("FAILED" if of_the_task else "TIMED_OUT")
    assert lab.finished(execution_of(lasting, name))["status"] == "ABORTED"


def test_child_that_was_stopped_fails_its_parent(lab: Lab, lasting: str) -> None:
    arn = start(lab, lab.state_machine(parent_of(lasting)), "alone")
    child = execution_of(lasting, "alone")
    running(lab, child)
    lab.client("stepfunctions").stop_execution(executionArn=child, error="Tired", cause="of it")
    execution = lab.finished(arn)
    assert (execution["status"], execution["error"]) == ("FAILED", "States.TaskFailed")
    assert json.loads(execution["cause"])["Error"] == "Tired"


def test_role_needs_the_rule_for_the_ends_of_executions(lab: Lab, echo: str) -> None:
    for action in ("events:PutTargets", "events:PutRule", "events:DescribeRule"):
        role = waiting_role(lab, echo, action)
        with pytest.raises(ClientError, match="is not authorized to create managed-rule") as error:
            lab.state_machine(parent_of(echo), role)
        assert error.value.response["Error"]["Code"] == "AccessDeniedException"
        in_a_map = {
            "StartAt": "Each",
            "States": {"Each": {"Type": "Map", "ItemProcessor": parent_of(echo), "End": True}},
        }
        with pytest.raises(ClientError, match="managed-rule"):
            lab.state_machine(in_a_map, role)
    without_waiting = parent_of(echo, "arn:aws:states:::states:startExecution")
    assert lab.state_machine(without_waiting, role)


def test_update_to_a_role_without_the_rule_is_refused(lab: Lab, echo: str) -> None:
    machine = lab.state_machine(parent_of(echo), waiting_role(lab, echo))
    with pytest.raises(ClientError, match="managed-rule"):
        lab.client("stepfunctions").update_state_machine(
            stateMachineArn=machine, roleArn=waiting_role(lab, echo, "events:PutRule")
        )


@pytest.mark.parametrize("action", ["states:StartExecution", "states:DescribeExecution"])
def test_calls_for_a_child_need_the_roles_permission(lab: Lab, echo: str, action: str) -> None:
    parent = lab.state_machine(parent_of(echo), waiting_role(lab, echo, action))
    execution = lab.finished(start(lab, parent, f"no-{action.rpartition(':')[2]}"))
    assert execution["status"] == "FAILED"
    assert execution["error"] == "StepFunctions.AccessDeniedException"
    assert f"is not authorized to perform: {action}" in execution["cause"]


def test_child_stays_when_the_role_may_not_stop_it(lab: Lab, lasting: str) -> None:
    role = waiting_role(lab, lasting, "states:StopExecution")
    parent = lab.state_machine(parent_of(lasting), role)
    arn = start(lab, parent, "kept")
    child = execution_of(lasting, "kept")
    running(lab, child)
    states = lab.client("stepfunctions")
    states.stop_execution(executionArn=arn)
    eventually(
        lambda: [call.action for call in lab.calls(role) if not call.allowed],
        lambda actions: actions == ["states:StopExecution"],
    )
    assert states.describe_execution(executionArn=child)["status"] == "RUNNING"
    states.stop_execution(executionArn=child)


def test_record_has_every_call_of_a_nested_execution(lab: Lab, lasting: str) -> None:
    role = waiting_role(lab, lasting)
    arn = start(lab, lab.state_machine(parent_of(lasting), role), "recorded")
    child = execution_of(lasting, "recorded")

    def recorded() -> set[tuple[str, str]]:
        return {(call.action, call.resource) for call in lab.calls(role) if call.allowed}

    running(lab, child)
    described = ("states:DescribeExecution", child)
    eventually(recorded, lambda calls: described in calls)
    lab.client("stepfunctions").stop_execution(executionArn=arn)
    lab.finished(child)
    expected = {
        ("states:StartExecution", lasting),
        described,
        ("states:StopExecution", child),
        ("events:PutTargets", RULE),
        ("events:PutRule", RULE),
        ("events:DescribeRule", RULE),
    }
    eventually(recorded, lambda calls: calls >= expected)
    assert recorded() == expected


def test_end_of_a_child_reaches_event_bridge(lab: Lab, echo: str) -> None:
    name = lab.function("def handler(event, context): print(event['detail']['name'])\n")
    detail = {"status": ["SUCCEEDED"], "stateMachineArn": [echo]}
    lab.rule(name, EventPattern=json.dumps({"source": ["aws.states"], "detail": detail}))
    lab.execute(parent_of(echo), '{"name": "announced", "plan": {}}')
    eventually(lambda: lab.log(name), lambda text: "announced" in text)
