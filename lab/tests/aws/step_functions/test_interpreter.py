"""State machines behave as in Step Functions: errors, retries, maps, time-outs and stops."""

from __future__ import annotations

import json
import time

import pytest

from lab.tests.aws.region import Lab, eventually, task


def test_function_error_reaches_catch_by_class_name_with_lambdas_json(lab: Lab) -> None:
    name = lab.function(
        """
        class InvalidPlan(Exception): pass
        def handler(event, context):
            raise InvalidPlan("tests[0]: unknown; name one of the catalogue")
        """
    )
    execution = lab.execute(
        {
            "StartAt": "Plan",
            "States": {
                "Plan": task(
                    name,
                    Catch=[
                        {"ErrorEquals": ["InvalidPlan"], "ResultPath": "$.error", "Next": "Bad"}
                    ],
                    End=True,
                ),
                "Bad": {"Type": "Fail", "ErrorPath": "$.error.Error", "CausePath": "$.error.Cause"},
            },
        },
        '{"kept": true}',
    )
    assert execution["status"] == "FAILED"
    assert execution["error"] == "InvalidPlan"
    cause = json.loads(execution["cause"])
    assert cause["errorMessage"] == "tests[0]: unknown; name one of the catalogue"
    assert cause["errorType"] == "InvalidPlan"
    assert cause["stackTrace"]


def test_retry_repeats_until_success(lab: Lab) -> None:
    name = lab.function(
        """
        import os, pathlib
        class Throttled(Exception): pass
        def handler(event, context):
            mark = pathlib.Path(os.environ["LAMBDA_TASK_ROOT"]) / event["id"]
            count = int(mark.read_text()) + 1 if mark.exists() else 1
            mark.write_text(str(count))
            if count < 3: raise Throttled("slow down")
            return {"attempts": count}
        """
    )
    execution = lab.execute(
        {
            "StartAt": "Try",
            "States": {
                "Try": task(
                    name,
                    Retry=[
                        {
                            "ErrorEquals": ["Throttled"],
                            "IntervalSeconds": 1,
                            "MaxAttempts": 3,
                            "BackoffRate": 1,
                            "MaxDelaySeconds": 2,
                            "JitterStrategy": "FULL",
                        }
                    ],
                    End=True,
                )
            },
        },
        '{"id": "a"}',
    )
    assert execution["status"] == "SUCCEEDED", execution
    assert json.loads(execution["output"]) == {"attempts": 3}


def distributed_map(lab: Lab, items: list[object], body: dict[str, object], **more: object) -> dict:
    """A definition whose only state is a map over items in S3, one at a time."""
    bucket = lab.stored("items.json", json.dumps(items))
    return {
        "StartAt": "Blocks",
        "States": {
            "Blocks": {
                "Type": "Map",
                "ItemReader": {
                    "Resource": "arn:aws:states:::s3:getObject",
                    "ReaderConfig": {"InputType": "JSON"},
                    "Parameters": {"Bucket": bucket, "Key": "items.json"},
                },
                "ItemSelector": {"item.$": "$$.Map.Item.Value", "run.$": "$$.Execution.Name"},
                "MaxConcurrency": 1,
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                    **body,
                },
                "ResultPath": "$.blocks",
                "End": True,
                **more,
            }
        },
    }


def children(lab: Lab, arn: str, **options: str) -> list[dict[str, str]]:
    """The executions of the items of an execution's maps."""
    states = lab.client("stepfunctions")
    runs = states.list_map_runs(executionArn=arn)["mapRuns"]
    lists = [states.list_executions(mapRunArn=run["mapRunArn"], **options) for run in runs]
    return [child for listing in lists for child in listing["executions"]]


def test_distributed_map_reads_s3_and_loops_inside_items(lab: Lab) -> None:
    items = [{"block": n, "rounds": 1 + n % 3, "expected_seconds": 0} for n in range(4)]
    name = lab.function(
        """
        def handler(event, context):
            seen = event.get("seen", 0) + 1
            return {**event, "seen": seen, "finished": seen >= event["item"]["rounds"]}
        """
    )
    execution = lab.execute(
        distributed_map(
            lab,
            items,
            {
                "StartAt": "Collect",
                "States": {
                    "Collect": task(name, Next="Pause"),
                    "Pause": {
                        "Type": "Wait",
                        "SecondsPath": "$.item.expected_seconds",
                        "Next": "Finished?",
                    },
                    "Finished?": {
                        "Type": "Choice",
                        "Choices": [
                            {"Variable": "$.finished", "BooleanEquals": True, "Next": "Done"}
                        ],
                        "Default": "Collect",
                    },
                    "Done": {"Type": "Succeed"},
                },
            },
        )
    )
    assert execution["status"] == "SUCCEEDED", execution
    blocks = json.loads(execution["output"])["blocks"]
    assert [block["seen"] for block in blocks] == [1, 2, 3, 1]
    assert {block["run"] for block in blocks} == {execution["name"]}


def test_distributed_map_of_many_items_ends(lab: Lab) -> None:
    execution = lab.execute(
        distributed_map(
            lab,
            [1] * 1200,
            {"StartAt": "Pass", "States": {"Pass": {"Type": "Pass", "Result": 1, "End": True}}},
        )
    )
    assert execution["status"] == "SUCCEEDED", execution.get("cause")
    assert json.loads(execution["output"])["blocks"] == [1] * 1200


@pytest.mark.parametrize(("tolerated", "status"), [(100, "SUCCEEDED"), (0, "FAILED")])
def test_failed_items_fail_the_map_only_beyond_what_is_tolerated(
    lab: Lab, tolerated: int, status: str
) -> None:
    choice = {
        "StartAt": "Bad?",
        "States": {
            "Bad?": {
                "Type": "Choice",
                "Choices": [{"Variable": "$.item", "StringEquals": "bad", "Next": "Lost"}],
                "Default": "Fine",
            },
            "Lost": {"Type": "Fail", "Error": "Lost"},
            "Fine": {"Type": "Succeed"},
        },
    }
    execution = lab.execute(
        distributed_map(lab, ["bad", "good"], choice, ToleratedFailurePercentage=tolerated)
    )
    assert execution["status"] == status, execution
    if status == "FAILED":
        assert execution["error"] == "States.ExceedToleratedFailureThreshold"


def test_a_map_that_tolerates_no_more_failures_starts_no_more_items(lab: Lab) -> None:
    lost = {"StartAt": "Lost", "States": {"Lost": {"Type": "Fail", "Error": "Lost"}}}
    execution = lab.execute(distributed_map(lab, [1] * 9, lost, ToleratedFailurePercentage=20))
    assert execution["error"] == "States.ExceedToleratedFailureThreshold"
    assert len(children(lab, execution["executionArn"])) == 2, "of nine items"


def test_unnamed_executions_get_a_name_and_start_time_is_text(lab: Lab) -> None:
    execution = lab.execute(
        {
            "StartAt": "Note",
            "States": {
                "Note": {
                    "Type": "Pass",
                    "Parameters": {
                        "name.$": "$$.Execution.Name",
                        "started.$": "$$.Execution.StartTime",
                    },
                    "End": True,
                }
            },
        }
    )
    output = json.loads(execution["output"])
    assert len(execution["name"]) == 36
    assert output["name"] == execution["name"]
    assert execution["executionArn"].endswith(f":{execution['name']}")
    assert output["started"].endswith("Z")


def test_stop_aborts_at_once_and_begins_no_further_item(lab: Lab) -> None:
    go = lab.state_directory / "to-stop.go"
    name = lab.function(
        f"""
        import pathlib, time
        def handler(event, context):
            print("begun", flush=True)
            while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)
            return {{}}
        """,
        Timeout=120,
    )
    states = lab.client("stepfunctions")
    machine = lab.state_machine(
        distributed_map(
            lab, [1, 2, 3], {"StartAt": "Work", "States": {"Work": task(name, End=True)}}
        )
    )
    arn = states.start_execution(stateMachineArn=machine, name="to-stop")["executionArn"]
    eventually(lambda: lab.log(name), lambda text: "begun" in text)
    states.stop_execution(executionArn=arn, error="Tired", cause="of waiting")
    execution = states.describe_execution(executionArn=arn)
    assert execution["status"] == "ABORTED"
    assert (execution["error"], execution["cause"]) == ("Tired", "of waiting")
    assert execution["stopDate"] >= execution["startDate"]
    go.touch()
    eventually(lambda: lab.log(name), lambda text: "END" in text)
    time.sleep(0.5)  # long enough for a second item to start
    assert lab.log(name).count("begun") == 1
    listed = states.list_executions(stateMachineArn=machine, statusFilter="ABORTED")
    assert [item["name"] for item in listed["executions"]] == ["to-stop"]


def test_a_stopped_child_of_a_map_is_not_a_failure_and_the_next_item_begins(lab: Lab) -> None:
    states = lab.client("stepfunctions")
    wait = {"Wait": {"Type": "Wait", "SecondsPath": "$.item", "End": True}}
    machine = lab.state_machine(distributed_map(lab, [600, 0], {"StartAt": "Wait", "States": wait}))
    arn = states.start_execution(stateMachineArn=machine)["executionArn"]
    (running,) = eventually(lambda: children(lab, arn, statusFilter="RUNNING"), bool)
    states.stop_execution(executionArn=running["executionArn"])
    execution = lab.finished(arn)
    assert (execution["status"], len(json.loads(execution["output"])["blocks"])) == ("SUCCEEDED", 2)
    assert [child["status"] for child in children(lab, arn)] == ["SUCCEEDED", "ABORTED"]
    assert not children(lab, arn, statusFilter="RUNNING")


def test_history_lists_what_happened(lab: Lab) -> None:
    name = lab.function("def handler(event, context): return {'x': 1}\n")
    execution = lab.execute({"StartAt": "Do", "States": {"Do": task(name, End=True)}})
    events = lab.client("stepfunctions").get_execution_history(
        executionArn=execution["executionArn"]
    )
    types = [event["type"] for event in events["events"]]
    assert types[0] == "ExecutionStarted"
    assert {"TaskStateEntered", "TaskSucceeded", "TaskStateExited"} <= set(types)
    assert types[-1] == "ExecutionSucceeded"
    backwards = lab.client("stepfunctions").get_execution_history(
        executionArn=execution["executionArn"], reverseOrder=True, maxResults=1
    )
    assert backwards["events"][0]["type"] == "ExecutionSucceeded"


@pytest.mark.parametrize(
    ("state", "complaint"),
    [({"Type": "Nonsense"}, "Nonsense"), ({"Type": "Pass", "Next": "Nowhere"}, "Nowhere")],
)
def test_bad_definition_is_refused(lab: Lab, state: dict[str, str], complaint: str) -> None:
    states = lab.client("stepfunctions")
    with pytest.raises(states.exceptions.InvalidDefinition, match=complaint):
        lab.state_machine({"StartAt": "A", "States": {"A": state}})
