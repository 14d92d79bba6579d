"""Schedules of EventBridge Scheduler start state machines, with the role that they name."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.aws.scheduler import expressions
from lab.tests.aws.region import Lab, allow, eventually


@pytest.fixture
def machine(lab: Lab) -> str:
    return lab.state_machine({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}})


@pytest.fixture(autouse=True)
def short_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of one minute is one of a second."""
    monkeypatch.setitem(expressions.UNIT_SECONDS, "minute", 1)


def role_for(lab: Lab, machine: str, *actions: str) -> str:
    return lab.role("scheduler.amazonaws.com", allow(list(actions) or ["sns:Publish"], machine))


def create(lab: Lab, machine: str, role: str, **settings: Any) -> str:
    name = f"s-{uuid.uuid4().hex[:8]}"
    request: dict[str, Any] = {
        "ScheduleExpression": "rate(1 minute)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": machine, "RoleArn": role, "Input": '{"series": "nightly"}'},
        **settings,
    }
    lab.client("scheduler").create_schedule(Name=name, **request)
    return name


def executions(lab: Lab, machine: str) -> list[dict[str, Any]]:
    return list(lab.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"])


def test_rate_starts_the_machine_at_once_and_again_until_it_is_deleted(
    lab: Lab, machine: str
) -> None:
    name = create(lab, machine, role_for(lab, machine, "states:StartExecution"))
    started = eventually(lambda: executions(lab, machine), lambda started: len(started) >= 2)
    described = lab.client("stepfunctions").describe_execution(
        executionArn=started[0]["executionArn"]
    )
    assert json.loads(described["input"]) == {"series": "nightly"}
    lab.client("scheduler").delete_schedule(Name=name)
    with pytest.raises(lab.client("scheduler").exceptions.ResourceNotFoundException):
        lab.client("scheduler").get_schedule(Name=name)


def test_input_can_have_the_time_that_the_schedule_names(lab: Lab, machine: str) -> None:
    role = role_for(lab, machine, "states:StartExecution")
    target = {
        "Arn": machine,
        "RoleArn": role,
        "Input": '{"at": "<aws.scheduler.scheduled-time>", "by": "<aws.scheduler.schedule-arn>"}',
    }
    name = create(lab, machine, role, Target=target)
    (first, *_) = eventually(lambda: executions(lab, machine), bool)
    lab.client("scheduler").delete_schedule(Name=name)
    described = lab.client("stepfunctions").describe_execution(executionArn=first["executionArn"])
    data = json.loads(described["input"])
    assert data["by"].endswith(f":schedule/default/{name}")
    assert data["at"].startswith("20")
    assert data["at"].endswith("Z")


def test_role_without_permission_starts_nothing_and_the_refusal_is_on_record(
    lab: Lab, machine: str
) -> None:
    role = role_for(lab, machine)
    name = create(lab, machine, role)
    refused = eventually(lambda: lab.calls(role), bool)
    assert {(c.action, c.resource, c.allowed) for c in refused} == {
        ("states:StartExecution", machine, False)
    }
    assert executions(lab, machine) == []
    lab.client("scheduler").delete_schedule(Name=name)


def test_disabled_schedule_runs_once_it_is_enabled(lab: Lab, machine: str) -> None:
    role = role_for(lab, machine, "states:StartExecution")
    scheduler = lab.client("scheduler")
    disabled = create(lab, machine, role, State="DISABLED")
    beside = lab.state_machine({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}})
    name = create(lab, beside, role_for(lab, beside, "states:StartExecution"))
    eventually(lambda: executions(lab, beside), lambda started: len(started) >= 2)
    assert executions(lab, machine) == []
    schedule = scheduler.get_schedule(Name=disabled)
    scheduler.update_schedule(
        Name=disabled,
        **{k: schedule[k] for k in ("ScheduleExpression", "FlexibleTimeWindow", "Target")},
    )
    eventually(lambda: executions(lab, machine), bool)
    for each in (disabled, name):
        scheduler.delete_schedule(Name=each)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ScheduleExpression": "every night"}, "Invalid Schedule Expression every night."),
        ({"ScheduleExpression": "cron(0 2 * * * *)"}, "Invalid Schedule Expression"),
        ({"ScheduleExpressionTimezone": "Mars/Base"}, "Invalid ScheduleExpressionTimezone"),
        ({"FlexibleTimeWindow": {"Mode": "FLEXIBLE"}}, "MaximumWindowInMinutes is required"),
        ({"Target": {"Input": "{"}}, "Target Input must be valid JSON"),
        ({"Target": {"Arn": "arn:aws:sqs:us-east-1:123456789012:q"}}, "state machines only"),
        ({"Target": {"RoleArn": "arn:aws:iam::123456789012:role/none"}}, "to assume the role"),
    ],
)
def test_schedule_that_is_not_valid_is_refused_in_creation_and_update(
    lab: Lab, machine: str, settings: dict[str, Any], words: str
) -> None:
    role = role_for(lab, machine, "states:StartExecution")
    target = {"Arn": machine, "RoleArn": role} | settings.pop("Target", {})
    with pytest.raises(ClientError, match=words) as error:
        create(lab, machine, role, Target=target, **settings)
    assert error.value.response["Error"]["Code"] == "ValidationException"
    far = "cron(0 0 1 1 ? 2199)"
    name = create(lab, machine, role, ScheduleExpression=far)
    request = {"ScheduleExpression": far, "FlexibleTimeWindow": {"Mode": "OFF"}, **settings}
    with pytest.raises(ClientError, match=words):
        lab.client("scheduler").update_schedule(Name=name, Target=target, **request)
    lab.client("scheduler").delete_schedule(Name=name)


def test_role_that_only_another_service_may_assume_is_refused(lab: Lab, machine: str) -> None:
    role = lab.role("events.amazonaws.com", allow("states:StartExecution", machine))
    with pytest.raises(ClientError, match="must allow AWS EventBridge Scheduler to assume"):
        create(lab, machine, role)


def test_stack_creates_changes_and_deletes_its_schedule(lab: Lab, machine: str) -> None:
    template = """
        Parameters:
          Expression: {Type: String}
        Resources:
          Role:
            Type: AWS::IAM::Role
            Properties:
              AssumeRolePolicyDocument:
                Version: "2012-10-17"
                Statement:
                  - Effect: Allow
                    Action: sts:AssumeRole
                    Principal: {Service: scheduler.amazonaws.com}
                    Condition: {StringEquals: {"aws:SourceAccount": !Ref AWS::AccountId}}
              Policies:
                - PolicyName: start
                  PolicyDocument:
                    Version: "2012-10-17"
                    Statement: [{Effect: Allow, Action: states:StartExecution, Resource: %s}]
          Nightly:
            Type: AWS::Scheduler::Schedule
            Properties:
              ScheduleExpression: !Ref Expression
              FlexibleTimeWindow: {Mode: "OFF"}
              Target:
                Arn: %s
                RoleArn: !GetAtt Role.Arn
                Input: '{}'
                RetryPolicy: {MaximumRetryAttempts: "0"}
        Outputs:
          Name: {Value: !Ref Nightly}
          Arn: {Value: !GetAtt Nightly.Arn}
    """

    stack = lab.created(template % (machine, machine), {"Expression": "cron(0 0 1 1 ? 2199)"})
    assert stack["Arn"].endswith(f"schedule/default/{stack['Name']}")
    assert executions(lab, machine) == []
    often = {"Expression": "rate(1 minute)"}
    assert lab.update(stack["StackId"], parameters=often) == "UPDATE_COMPLETE"
    eventually(lambda: executions(lab, machine), bool)
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    assert stack["Name"] not in {
        each["Name"] for each in lab.client("scheduler").list_schedules()["Schedules"]
    }
