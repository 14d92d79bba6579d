"""Events and schedules reach the targets that a rule may invoke."""

from __future__ import annotations

import json

import pytest

from lab.aws import event_bridge
from lab.tests.aws.region import Lab, eventually, function_arn


def test_end_of_an_execution_reaches_rules_with_a_permission(lab: Lab) -> None:
    name = lab.function(
        "import json\ndef handler(event, context): print('got', json.dumps(event))\n"
    )
    machine = lab.state_machine(
        {"StartAt": "Bad", "States": {"Bad": {"Type": "Fail", "Error": "E", "Cause": "C"}}}
    )
    pattern = {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {"status": ["FAILED", "ABORTED"], "stateMachineArn": [machine]},
    }
    lab.rule(name, EventPattern=json.dumps(pattern))
    states = lab.client("stepfunctions")
    states.start_execution(stateMachineArn=machine, name="ends-badly", input='{"a":1}')
    text = eventually(lambda: lab.log(name), lambda text: "END" in text)
    lines = [line for line in text.splitlines() if line.startswith("got ")]
    assert len(lines) == 1, "the start of the execution must not match"
    event = json.loads(lines[0].removeprefix("got "))
    detail = event["detail"]
    assert detail["name"] == "ends-badly"
    assert detail["status"] == "FAILED"
    assert detail["input"] == '{"a":1}'
    assert (detail["error"], detail["cause"]) == ("E", "C")
    assert detail["stopDate"] >= detail["startDate"] > 1_600_000_000_000


def test_schedule_invokes_its_target(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(event_bridge._UNIT_SECONDS, "minute", 1)
    name = lab.function("def handler(event, context): print(event['detail-type'])\n")
    events = lab.client("events")
    lab.rule(name, ScheduleExpression="rate(1 minute)")
    eventually(lambda: lab.log(name), lambda text: "Scheduled Event" in text)
    events.remove_targets(Rule=name, Ids=["a"])
    events.delete_rule(Name=name)


def test_one_rule_takes_every_end_of_an_execution(lab: Lab) -> None:
    name = lab.function("import json\ndef handler(event, context): print(json.dumps(event))\n")
    lab.stack(
        f"""
        Resources:
          Ended:
            Type: AWS::Events::Rule
            Properties:
              EventPattern:
                source: [aws.states]
                detail-type: [Step Functions Execution Status Change]
                detail: {{status: [SUCCEEDED, FAILED, ABORTED, TIMED_OUT]}}
              Targets: [{{Id: f, Arn: "{function_arn(name)}"}}]
          Permission:
            Type: AWS::Lambda::Permission
            Properties:
              FunctionName: {name}
              Action: lambda:InvokeFunction
              Principal: events.amazonaws.com
              SourceArn: !GetAtt Ended.Arn
        """
    )
    lab.execute({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}, json.dumps({"mark": name}))
    lab.execute({"StartAt": "A", "States": {"A": {"Type": "Fail"}}}, json.dumps({"mark": name}))
    eventually(
        lambda: lab.log(name),
        lambda text: '"status": "SUCCEEDED"' in text and '"status": "FAILED"' in text,
    )


def test_a_lost_event_reaches_no_target_and_the_next_one_does(lab: Lab) -> None:
    name = lab.function("def handler(event, context): print('got', event['detail']['name'])\n")
    machine = lab.state_machine(
        {"StartAt": "Bad", "States": {"Bad": {"Type": "Fail", "Error": "E", "Cause": "C"}}}
    )
    detail = {"stateMachineArn": [machine], "status": ["FAILED"]}
    lab.rule(name, EventPattern=json.dumps({"source": ["aws.states"], "detail": detail}))
    states = lab.client("stepfunctions")

    def end(execution: str) -> None:
        arn = states.start_execution(stateMachineArn=machine, name=execution)["executionArn"]
        assert lab.finished(arn)["status"] == "FAILED"

    with lab.fault("event-lost") as lost:
        end("lost")
        eventually(lambda: lost.hits, bool)
    end("told")
    text = eventually(lambda: lab.log(name), lambda text: "END" in text)
    assert [line for line in text.splitlines() if line.startswith("got ")] == ["got told"]
