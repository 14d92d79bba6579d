"""An execution that ended badly is redriven from the state that it did not finish."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from lab.tests.aws.region import Lab, eventually, task

#: Fails until a file with the name of its argument is there; counts its calls beside it.
_FLAKY = """
    import os, pathlib
    class Broken(Exception): pass
    def handler(event, context):
        root = pathlib.Path(os.environ["LAMBDA_TASK_ROOT"])
        mark = root / f"{event['id']}-{event['item']}"
        count = int(mark.read_text()) + 1 if mark.exists() else 1
        mark.write_text(str(count))
        if event["item"] == event["bad"] and count == 1: raise Broken("not yet")
        return {"count": count, "item": event["item"], "redrives": event.get("redrives")}
"""


def test_a_redrive_begins_with_the_failed_task_and_counts_itself(lab: Lab) -> None:
    name = lab.function(_FLAKY)
    machine = {
        "StartAt": "First",
        "States": {
            "First": {"Type": "Pass", "Result": {"kept": 1}, "ResultPath": "$.first", "Next": "Do"},
            "Do": task(
                name,
                {"id": "a", "item": 1, "bad": 1, "redrives.$": "$$.Execution.RedriveCount"},
                End=True,
            ),
        },
    }
    execution = lab.execute(machine, "{}")
    assert (execution["status"], execution["redriveCount"]) == ("FAILED", 0)
    assert execution["redriveStatus"] == "REDRIVABLE"
    arn = execution["executionArn"]
    states = lab.client("stepfunctions")
    states.redrive_execution(executionArn=arn)
    assert lab.finished(arn)["status"] == "SUCCEEDED"
    again = states.describe_execution(executionArn=arn)
    assert json.loads(again["output"]) == {"count": 2, "item": 1, "redrives": 1}
    assert again["redriveCount"] == 1
    events = states.get_execution_history(executionArn=arn)["events"]
    entered = [
        event["stateEnteredEventDetails"]["name"]
        for event in events
        if "stateEnteredEventDetails" in event
    ]
    assert entered == ["First", "Do", "Do"]
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    with pytest.raises(ClientError, match="ExecutionNotRedrivable"):
        states.redrive_execution(executionArn=arn)


def test_a_redriven_map_runs_only_the_items_that_did_not_succeed(lab: Lab) -> None:
    name = lab.function(_FLAKY)
    machine = {
        "StartAt": "Items",
        "States": {
            "Items": {
                "Type": "Map",
                "MaxConcurrency": 1,
                "ItemsPath": "$.items",
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                    "StartAt": "Do",
                    "States": {"Do": task(name, {"id": "b", "item.$": "$", "bad": 2}, End=True)},
                },
                "Next": "Count",
            },
            "Count": task(name, {"id": "b", "item": 1, "bad": 0}, End=True),
        },
    }
    execution = lab.execute(machine, '{"items": [1, 2, 3]}')
    assert execution["status"] == "FAILED"
    arn = execution["executionArn"]
    states = lab.client("stepfunctions")
    states.redrive_execution(executionArn=arn)
    assert lab.finished(arn)["status"] == "SUCCEEDED"
    output = json.loads(states.describe_execution(executionArn=arn)["output"])
    assert output["count"] == 2, "the first item was not run again"


def test_an_execution_that_was_stopped_is_redriven_at_the_state_it_was_in(lab: Lab) -> None:
    machine = {
        "StartAt": "Once",
        "States": {
            "Once": {"Type": "Pass", "Next": "Rest"},
            "Rest": {"Type": "Wait", "Seconds": 2, "End": True},
        },
    }
    states = lab.client("stepfunctions")
    arn = states.start_execution(stateMachineArn=lab.state_machine(machine), input="{}")[
        "executionArn"
    ]
    eventually(
        lambda: states.get_execution_history(executionArn=arn)["events"],
        lambda events: events and events[-1]["type"] == "WaitStateEntered",
    )
    states.stop_execution(executionArn=arn)
    assert states.describe_execution(executionArn=arn)["status"] == "ABORTED"
    states.redrive_execution(executionArn=arn)
    assert lab.finished(arn)["status"] == "SUCCEEDED"
    events = states.get_execution_history(executionArn=arn)["events"]
    assert sum(event["type"] == "PassStateEntered" for event in events) == 1


def test_a_task_fails_with_the_error_and_the_cause_that_its_token_was_given(lab: Lab) -> None:
    name = lab.function(
        """
        import boto3
        def handler(event, context):
            boto3.client("stepfunctions").send_task_failure(
                taskToken=event["token"], error="LinksDown", cause="no link")
        """
    )
    execution = lab.execute(
        {
            "StartAt": "Failed",
            "States": {
                "Failed": {
                    "Type": "Task",
                    "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
                    "Parameters": {
                        "FunctionName": name,
                        "Payload": {"token.$": "$$.Task.Token"},
                    },
                    "TimeoutSeconds": 30,
                    "End": True,
                }
            },
        },
        "{}",
    )
    assert execution["status"] == "FAILED"
    assert (execution["error"], execution["cause"]) == ("LinksDown", "no link")
