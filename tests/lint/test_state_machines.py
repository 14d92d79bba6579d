"""Rules that read a state machine's definition beside its template."""

from __future__ import annotations

import re

import pytest

from lint.raised import raised_names
from lint.rules import state_machines as rules
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
    TimeoutSeconds: 60
    Retry:
      - {ErrorEquals: [Throttled, Lambda.ServiceException]}
      - {ErrorEquals: OTHERS}
    Catch:
      - {ErrorEquals: [TrialsLost], Next: Done}
      - {ErrorEquals: [States.ALL], Next: Failed}
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
    Catch: [{ErrorEquals: [States.ALL], Next: Failed}]
    Next: Done
  Done: {Type: Succeed}
  Failed: {Type: Fail}
"""
OTHERS = sorted(rules.RETRIED - {"Lambda.ServiceException"})
DEFINITION = DEFINITION.replace("OTHERS", f"[{', '.join(OTHERS)}]")
SOURCE = """
import errors

class Throttled(Exception): ...

def handler(event, context):
    if event:
        raise Throttled("slower")
    raise errors.TrialsLost
"""
EVERY_RULE = [
    rules.DefinitionCanBeRead,
    rules.DefinitionTasks,
    rules.DefinitionRetries,
    rules.DefinitionErrors,
    rules.DefinitionSubstitutions,
    rules.DefinitionPermissions,
]


@pytest.fixture
def findings(tmp_path):
    """A rule's findings in the template and the definition, after replacements in both."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "one.py").write_text(SOURCE)

    def find(rule, definition=(), template=()):
        texts = []
        for text, replacements in ((DEFINITION, definition), (TEMPLATE, template)):
            for old, new in replacements:
                assert old in text, old
                text = text.replace(old, new)
            texts.append(text)
        (tmp_path / "machine.asl.yaml").write_text(texts[0])
        return check(tmp_path / "template.yaml", rule, texts[1])

    return find


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_good_machine_breaks_none_of_the_rules(findings, rule):
    assert findings(rule) == []


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_template_from_no_file_is_left_alone(rule):
    from cfnlint.decode import decode_str
    from cfnlint.template import Template

    template, _ = decode_str(TEMPLATE)
    assert rule().match(Template(None, template, ["us-east-1"])) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("States:\n  Work", "Stages:\n  Work"), ("StartAt: Work", "StartAt: {")],
    ids=["no states", "no yaml"],
)
def test_a_file_that_is_no_definition_is_refused(findings, old, new):
    (found,) = findings(rules.DefinitionCanBeRead, [(old, new)])
    assert "Machine/Properties/DefinitionUri: DefinitionUri: machine.asl.yaml is no" in found


def test_a_file_that_is_not_there_is_refused(findings):
    (found,) = findings(
        rules.DefinitionCanBeRead, template=[("DefinitionUri: machine", "DefinitionUri: other")]
    )
    assert "correct it or the path" in found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    TimeoutSeconds: 60\n", "", "'Work' has no TimeoutSeconds; add one"),
        ("    Retry:\n", "    Retries:\n", "'Work' has no Retry"),
        (
            "      - {ErrorEquals: [States.ALL], Next: Failed}\n",
            "",
            "'Work' does not catch everything; add a last Catch",
        ),
        (
            "    Catch: [{ErrorEquals: [States.ALL], Next: Failed}]\n",
            "",
            "'Items' does not catch everything",
        ),
        (
            "{ErrorEquals: [Throttled, Lambda.ServiceException]}",
            "{ErrorEquals: [States.ALL, Throttled]}",
            "'Work' has States.ALL in Retry with or before others",
        ),
        ("          Default: Over\n", "", "'Choose' fails where no choice matches; add Default"),
    ],
)
def test_a_task_that_may_hang_or_fail_uncaught_is_refused(findings, old, new, said):
    found = findings(rules.DefinitionTasks, [(old, new)])
    assert len(found) == 1
    assert said in found[0]


def test_everything_caught_before_another_error_is_refused(findings):
    swapped = [
        ("[TrialsLost]", "[first]"),
        (
            "[States.ALL], Next: Failed}\n    Next: Items",
            "[TrialsLost], Next: Failed}\n    Next: Items",
        ),
        ("[first]", "[States.ALL]"),
    ]
    found = findings(rules.DefinitionTasks, swapped)
    assert any("does not catch everything" in each for each in found)
    assert any("States.ALL in Catch with or before others" in each for each in found)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Runtime.ExitError, ", "", "does not retry Runtime.ExitError; add it to Retry"),
        (
            "Lambda.ServiceException]}",
            "Lambda.ServiceException], MaxAttempts: 0}",
            "does not retry Lambda.ServiceException",
        ),
        (
            "[Throttled,",
            "[States.TaskFailed,",
            "retries States.TaskFailed, so mistakes of the user",
        ),
    ],
)
def test_an_invocation_that_retries_too_little_or_a_users_mistake_is_refused(
    findings, old, new, said
):
    (found,) = findings(rules.DefinitionRetries, [(old, new)])
    assert said in found


def test_invocations_that_retry_different_errors_are_refused(findings):
    second = re.search(r"  Work:\n.*?    Next: Items\n", DEFINITION, re.DOTALL)[0]
    other = second.replace("Work:", "Works:").replace("[Throttled, ", "[")
    found = findings(rules.DefinitionRetries, [("  Items:\n", f"{other}  Items:\n")])
    (only,) = found
    assert "'Works' retries otherwise than 'Work'" in only


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[Throttled,", "[Throtled,"),
        ("[TrialsLost]", "[Exception]"),
        ("Lambda.ServiceException", "Lambda.ServiceFault"),
    ],
)
def test_an_error_that_nothing_raises_is_refused(findings, old, new):
    (found,) = findings(rules.DefinitionErrors, [(old, new)])
    assert f"{new.strip('[],')} in " in found
    assert "which nothing raises; correct the name or remove it" in found


def test_errors_of_an_sdk_integration_are_those_of_its_service(findings):
    change = [
        ("lambda:invoke", "aws-sdk:dynamodb:getItem"),
        ("[TrialsLost]", "[DynamoDb.ItemLost]"),
    ]
    assert findings(rules.DefinitionErrors, change) == []
    change[1] = ("[TrialsLost]", "[Sqs.ItemLost]")
    assert len(findings(rules.DefinitionErrors, change)) == 1


def test_raised_names_are_those_in_raise_statements(tmp_path):
    (tmp_path / "code.py").write_text(
        f"{SOURCE}\nclass Unused(Exception): ...\n\ntry: ...\nexcept OSError: raise\n"
    )
    assert raised_names(tmp_path) == {"Throttled", "TrialsLost"}


def test_raised_names_are_found_in_the_syntax_of_a_later_python(tmp_path):
    later = "a statement that this Python does not know:\n    raise errors.Lost[0](each)\n"
    (tmp_path / "code.py").write_text(f"{later}    raise errors.Throttled('x')\n")
    assert raised_names(tmp_path) == {"Throttled"}


def test_a_placeholder_without_substitution_is_refused(findings):
    (found,) = findings(
        rules.DefinitionSubstitutions, template=[("        BucketName: !Ref Bucket\n", "")]
    )
    assert "machine.asl.yaml asks for ${BucketName}" in found
    assert "declare it" in found


def test_a_substitution_without_placeholder_is_refused(findings):
    (found,) = findings(
        rules.DefinitionSubstitutions,
        template=[
            ("        BucketName: !Ref Bucket\n", "        BucketName: a\n        More: b\n")
        ],
    )
    assert "DefinitionSubstitutions declare More" in found
    assert "remove it" in found


@pytest.mark.parametrize(
    ("definition", "template", "said"),
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
def test_a_role_that_allows_too_little_or_too_much_is_refused(findings, definition, template, said):
    found = findings(rules.DefinitionPermissions, definition, template)
    for words in said:
        assert any(words in each for each in found), found


#: A task that starts an execution of another state machine and waits for its end.
NESTED = [
    ("arn:aws:states:::lambda:invoke", "arn:aws:states:::states:startExecution.sync:2"),
    ('Parameters: {FunctionName: "${FunctionArn}"}', "Parameters: {StateMachineArn: arn}"),
    ("[Throttled, Lambda.ServiceException]", "[StepFunctions.SdkClientException]"),
]


def test_a_task_that_awaits_an_execution_needs_the_rule_by_which_step_functions_learns_of_it(
    findings,
):
    missing = {
        action
        for found in findings(rules.DefinitionPermissions, NESTED)
        for action in re.findall(r"does not allow (\S+), which state 'Work'", found)
    }
    assert missing == {
        "events:DescribeRule",
        "events:PutRule",
        "events:PutTargets",
        "states:StopExecution",
    }
    not_waiting = [("startExecution.sync:2", "startExecution")]
    found = findings(rules.DefinitionPermissions, [*NESTED, *not_waiting])
    assert not any("events:" in each for each in found)


def test_errors_of_the_nested_execution_have_their_services_own_name(findings):
    assert findings(rules.DefinitionErrors, NESTED) == []
    wrong = [("StepFunctions.Sdk", "Stepping.Sdk")]
    (found,) = findings(rules.DefinitionErrors, [*NESTED, *wrong])
    assert "Stepping.SdkClientException in Retry, which nothing raises" in found
