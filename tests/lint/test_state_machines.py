"""Rules that read a state machine's definition beside its template."""

from __future__ import annotations

import re

import pytest

from lint.rules.state_machines import DefinitionPermissions
from tests.lint.checking import check

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Parameters: {Bucket: {Type: String}}
Resources:
  Function:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: code/, Handler: handlers.one.handler}
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Statement:
          - {Effect: Allow, Principal: {Service: states.amazonaws.com}, Action: "sts:AssumeRole"}
      Policies:
        - PolicyName: machine
          PolicyDocument:
            Statement:
              - {Effect: Allow, Action: "lambda:InvokeFunction", Resource: !GetAtt Function.Arn}
              - Effect: Allow
                Action: ["s3:GetObject", "kms:Decrypt"]
                Resource: !Ref Bucket
              - Effect: Allow
                Action: ["states:StartExecution", "states:DescribeExecution",
                         "states:RedriveExecution"]
                Resource: !Ref Bucket
  Machine:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: machine.asl.yaml
      DefinitionSubstitutions:
        FunctionArn: !GetAtt Function.Arn
        BucketName: !Ref Bucket
      Role: !GetAtt Role.Arn
"""
DEFINITION = """
StartAt: Work
States:
  Work:
    Type: Task
    Resource: arn:aws:states:::lambda:invoke
    Parameters: {FunctionName: "${FunctionArn}"}
    Next: Items
  Items:
    Type: Map
    ItemReader:
      Resource: arn:aws:states:::s3:getObject
      Parameters: {Bucket: "${BucketName}"}
    ItemProcessor:
      ProcessorConfig: {Mode: DISTRIBUTED}
      StartAt: Choose
      States:
        Choose:
          Type: Choice
          Choices: [{Variable: $.x, IsPresent: true, Next: Wait}]
          Default: Over
        Wait: {Type: Wait, Seconds: 1, Next: Over}
        Over: {Type: Pass, End: true}
    Next: Done
  Done: {Type: Succeed}
"""


@pytest.fixture
def findings(tmp_path):
    """The findings in the template and the definition, after replacements in both."""

    def find(definition=(), template=()):
        texts = []
        for text, replacements in ((DEFINITION, definition), (TEMPLATE, template)):
            for old, new in replacements:
                assert old in text, old
                text = text.replace(old, new)
            texts.append(text)
        (tmp_path / "machine.asl.yaml").write_text(texts[0])
        return check(tmp_path / "template.yaml", DefinitionPermissions, texts[1])

    return find


def test_a_role_that_allows_exactly_what_the_definition_does_is_taken(findings):
    assert findings() == []


@pytest.mark.parametrize(
    ("definition", "template", "messages"),
    [
        ([], [('"s3:GetObject", ', "")], ["Role does not allow s3:GetObject, which state 'Items'"]),
        ([], [('"states:StartExecution", ', "")], ["does not allow states:StartExecution"]),
        (
            [],
            [('Action: "lambda:InvokeFunction"', 'Action: "sns:Publish"')],
            [
                "does not allow lambda:InvokeFunction, which state 'Work' needs; add it",
                "allows sns:Publish, which nothing in machine.asl.yaml needs; remove it",
                "does not allow lambda:InvokeFunction on Function.Arn",
            ],
        ),
        (
            [],
            [("Resource: !GetAtt Function.Arn", "Resource: !GetAtt Other.Arn")],
            [
                "does not allow lambda:InvokeFunction on Function.Arn",
                "allows lambda:InvokeFunction on Other.Arn",
            ],
        ),
        (
            [("lambda:invoke", "aws-sdk:sfn:describeMapRun")],
            [],
            ["does not allow states:DescribeMapRun", "allows lambda:InvokeFunction, which nothing"],
        ),
        ([("Mode: DISTRIBUTED", "Mode: INLINE")], [], ["allows states:StartExecution"]),
        (
            [],
            [("      Role: !GetAtt Role.Arn", "      Role: !GetAtt Role.Arn\n      Logging: {}")],
            ["does not allow logs:CreateLogDelivery, which Logging needs"],
        ),
        (
            [],
            [
                (
                    "      Role: !GetAtt Role.Arn",
                    "      Role: !GetAtt Role.Arn\n      Tracing: {Enabled: true}",
                )
            ],
            ["does not allow xray:PutTraceSegments, which Tracing needs"],
        ),
    ],
)
def test_a_role_that_allows_too_little_or_too_much_is_refused(
    findings, definition, template, messages
):
    reported = findings(definition, template)
    for message in messages:
        assert any(message in finding for finding in reported), reported


#: A task that starts an execution of another state machine and waits for its end.
NESTED = [
    ("arn:aws:states:::lambda:invoke", "arn:aws:states:::states:startExecution.sync:2"),
    ('Parameters: {FunctionName: "${FunctionArn}"}', "Parameters: {StateMachineArn: arn}"),
]


def test_a_task_that_awaits_an_execution_needs_the_rule_by_which_step_functions_learns_of_it(
    findings,
):
    missing = {
        action
        for finding in findings(NESTED)
        for action in re.findall(r"does not allow (\S+), which state 'Work'", finding)
    }
    assert missing == {
        "events:DescribeRule",
        "events:PutRule",
        "events:PutTargets",
        "states:StopExecution",
    }
    not_waiting = [("startExecution.sync:2", "startExecution")]
    assert not any("events:" in finding for finding in findings([*NESTED, *not_waiting]))
