"""Custom resources that answer late or never."""

from __future__ import annotations

import json
import textwrap

import pytest

from lab.tests.aws.region import Lab, eventually, function_arn

LATER = """
import json, urllib.request

def handler(event, context):
    if "Answer" not in event:
        print("ASKED " + json.dumps(event))
        if event["RequestType"] == "Create":
            return  # somebody else answers
        event = {"Answer": "SUCCESS", "Request": event}
    request = event["Request"]
    body = {"Status": event["Answer"], "Reason": "first line\\nsecond line", "Data": {"Id": "r1"},
            "PhysicalResourceId": "run", "StackId": request["StackId"],
            "RequestId": request["RequestId"], "LogicalResourceId": request["LogicalResourceId"]}
    urllib.request.urlopen(urllib.request.Request(
        request["ResponseURL"], json.dumps(body).encode(), method="PUT",
        headers={"Content-Type": ""})).read()
"""


@pytest.mark.parametrize("status", ["SUCCESS", "FAILED"])
def test_a_custom_resource_may_be_answered_by_another_invocation(lab: Lab, status: str) -> None:
    name = lab.function(LATER)
    arn = function_arn(name)
    cloudformation = lab.client("cloudformation")
    stack_id = cloudformation.create_stack(
        StackName=f"later-{status.lower()}",
        TemplateBody=textwrap.dedent(
            f"""
            Resources:
              Run: {{Type: Custom::Run, Properties: {{ServiceToken: "{arn}", ServiceTimeout: 30}}}}
            Outputs: {{Id: {{Value: !GetAtt Run.Id}}}}
            """
        ),
    )["StackId"]
    text = eventually(lambda: lab.log(name), lambda lines: "REPORT" in lines and "ASKED" in lines)
    stack = cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0]
    assert stack["StackStatus"] == "CREATE_IN_PROGRESS", "the function's end is no answer"
    line = next(line for line in text.splitlines() if line.startswith("ASKED "))
    request = json.loads(line.removeprefix("ASKED "))
    lab.client("lambda").invoke(
        FunctionName=name, Payload=json.dumps({"Answer": status, "Request": request})
    )
    stack = lab.settled(stack_id)
    if status == "SUCCESS":
        assert stack["Outputs"][0]["OutputValue"] == "r1"
    else:
        assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
        assert "first line\nsecond line" in lab.reasons(stack_id, "CREATE_FAILED")["Run"]


def test_a_custom_resource_that_nobody_answers_fails_after_its_timeout(lab: Lab) -> None:
    arn = function_arn(lab.function(LATER))
    template = """
        Resources:
          Run:
            Type: Custom::Run
            Properties: {{ServiceToken: "{arn}", ServiceTimeout: {seconds}}}
    """
    stack = lab.stack(template.format(arn=arn, seconds=1))
    reason = lab.reasons(stack["StackId"], "CREATE_FAILED")["Run"]
    assert "did not receive a response from your Custom Resource" in reason
    stack = lab.stack(template.format(arn=arn, seconds=3601))
    assert "from 1 to 3600, not 3601" in lab.reasons(stack["StackId"], "CREATE_FAILED")["Run"]
