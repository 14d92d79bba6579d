"""The evaluation of policies, what a request needs, and the audit of policies against calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.aws.authorization_record import Audit, Call, audit, read_unobserved, rows
from lab.aws.iam_policies import Policies, UnknownOperator, statements
from lab.aws.request_actions import Request, needs

PREFIX = "arn:aws:dynamodb:us-east-1:123456789012:table"


def judged(
    statement: dict[str, Any],
    action: str = "s3:GetObject",
    resource: str = "arn:aws:s3:::b/runs/1",
    **context: list[str],
) -> bool:
    found = Policies(tuple(statements({"Statement": statement})))
    known = {key.replace("__", ":"): value for key, value in context.items()}
    return found.refusal(action, resource, known) is None


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ({"Action": "s3:GetObject", "Resource": "*"}, True),
        ({"Action": "S3:getobject", "Resource": "*"}, True),
        ({"Action": "s3:Get*", "Resource": "arn:aws:s3:::b/*"}, True),
        ({"Action": "s3:GetObjec?", "Resource": "arn:aws:s3:::b/runs/?"}, True),
        ({"Action": "s3:GetObject", "Resource": "arn:aws:s3:::b"}, False),
        ({"Action": "s3:GetObject", "Resource": "arn:aws:s3:::B/*"}, False),
        ({"Action": "s3:GetObject", "Resource": ["x", "arn:aws:s3:::b/runs/*"]}, True),
        ({"Action": "s3:GetObject.", "Resource": "*"}, False),
        ({"NotAction": "s3:Put*", "Resource": "*"}, True),
        ({"NotAction": "s3:Get*", "Resource": "*"}, False),
        ({"Action": "*", "NotResource": "arn:aws:s3:::b/*"}, False),
        ({"Action": "*", "NotResource": "arn:aws:s3:::c/*"}, True),
        ({"Action": "*", "Resource": "arn:aws:s3:::${aws:PrincipalTag/bucket}/*"}, False),
    ],
)
def test_actions_and_resources_match_as_iam_matches_them(
    statement: dict[str, Any], allowed: bool
) -> None:
    assert judged({"Effect": "Allow", **statement}) is allowed


@pytest.mark.parametrize(
    ("condition", "allowed"),
    [
        ({"StringEquals": {"aws:RequestedRegion": "eu-west-1"}}, True),
        ({"StringEquals": {"aws:RequestedRegion": ["us-east-1", "eu-west-1"]}}, True),
        ({"StringNotEquals": {"aws:RequestedRegion": ["us-east-1", "eu-west-1"]}}, False),
        ({"StringLike": {"aws:RequestedRegion": "eu-*"}}, True),
        ({"StringEquals": {"aws:Absent": "x"}}, False),
        ({"StringEqualsIfExists": {"aws:Absent": "x"}}, True),
        ({"StringNotEquals": {"aws:Absent": "x"}}, True),
        ({"Null": {"aws:Absent": True}}, True),
        ({"Null": {"aws:RequestedRegion": "true"}}, False),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}, True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a"]}}, False),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": ["a"]}}, True),
        ({"Bool": {"aws:SecureTransport": False}}, False),
        ({"StringLike": {"aws:RequestedRegion": "eu-*", "aws:Absent": "x"}}, False),
    ],
)
def test_conditions_hold_as_iam_has_it(condition: dict[str, Any], allowed: bool) -> None:
    statement = {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition}
    context = {
        "aws__requestedregion": ["eu-west-1"],
        "aws__tagkeys": ["a", "b"],
        "aws__securetransport": ["true"],
    }
    assert judged(statement, **context) is allowed


def test_a_condition_that_does_not_hold_is_no_denial() -> None:
    """moto's evaluator has it otherwise, which is why there is this one."""
    policies = Policies(
        tuple(
            statements(
                {
                    "Statement": [
                        {"Effect": "Allow", "Action": "*", "Resource": "*"},
                        {
                            "Effect": "Deny",
                            "Action": "*",
                            "Resource": "*",
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        },
                    ]
                }
            )
        )
    )
    assert policies.refusal("s3:GetObject", "*", {"aws:securetransport": ["true"]}) is None
    assert policies.refusal("s3:GetObject", "*", {"aws:securetransport": ["false"]})


def test_an_operator_that_is_not_known_is_not_taken_for_held() -> None:
    condition = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    with pytest.raises(UnknownOperator, match="IpAddress"):
        judged({"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition})


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "needed"),
    [
        ("dynamodb", "GetItem", {"TableName": "t"}, [("dynamodb:GetItem", f"{PREFIX}/t")]),
        (
            "dynamodb",
            "Query",
            {"TableName": f"{PREFIX}/t", "IndexName": "i"},
            [("dynamodb:Query", f"{PREFIX}/t/index/i")],
        ),
        (
            "dynamodb",
            "TransactWriteItems",
            {
                "TransactItems": [
                    {"Put": {"TableName": "t"}},
                    {"ConditionCheck": {"TableName": "u"}},
                ]
            },
            [
                ("dynamodb:PutItem", f"{PREFIX}/t"),
                ("dynamodb:ConditionCheckItem", f"{PREFIX}/u"),
            ],
        ),
        (
            "lambda",
            "Invoke",
            {"FunctionName": "f"},
            [("lambda:InvokeFunction", "arn:aws:lambda:us-east-1:123456789012:function:f")],
        ),
        ("stepfunctions", "StopExecution", {"executionArn": "e"}, [("states:StopExecution", "e")]),
        (
            "eks",
            "ListNodegroups",
            {"clusterName": "c"},
            [("eks:ListNodegroups", "arn:aws:eks:us-east-1:123456789012:cluster/c")],
        ),
        (
            "codebuild",
            "BatchGetBuilds",
            {"ids": ["p:1"]},
            [("codebuild:BatchGetBuilds", "arn:aws:codebuild:us-east-1:123456789012:project/p")],
        ),
        (
            "logs",
            "PutLogEvents",
            {"logGroupName": "/g", "logStreamName": "s"},
            [
                (
                    "logs:PutLogEvents",
                    "arn:aws:logs:us-east-1:123456789012:log-group:/g:log-stream:s",
                )
            ],
        ),
        ("sts", "GetCallerIdentity", {}, []),
        ("ec2", "DescribeSubnets", {}, [("ec2:DescribeSubnets", "*")]),
        ("unheard", "Of", {}, [("unheard:Of", "*")]),
    ],
)
def test_a_request_needs_its_actions_on_its_resources(
    service: str, operation: str, parameters: dict[str, Any], needed: list[tuple[str, str]]
) -> None:
    assert needs(Request(service, operation, parameters)) == needed


POLICIES: dict[str, list[dict[str, Any]]] = {
    "Benchmark/PlanRole": [
        {"Effect": "Allow", "Action": ["s3:GetObject", "xray:PutTraceSegments"], "Resource": "*"},
        {"Effect": "Allow", "Action": "dynamodb:Put*", "Resource": "*"},
        {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "*"},
    ]
}
READ = Call("s-PlanRole-1", "Benchmark/PlanRole", "s3:GetObject", "arn:aws:s3:::b/k", True)
WRITE = Call("s-PlanRole-1", "Benchmark/PlanRole", "dynamodb:PutItem", "t", True)
REFUSED = Call("s-PlanRole-1", "Benchmark/PlanRole", "s3:PutObject", "arn:aws:s3:::b/k", False)
TRACING = {"*": {"xray:PutTraceSegments": "the Lambda service sends traces"}}


def test_the_audit_is_empty_when_policies_and_calls_agree() -> None:
    assert audit(POLICIES, [READ, WRITE], TRACING) == Audit((), (), ())


def test_the_audit_finds_what_is_refused_unused_and_listed_in_vain() -> None:
    role = "Benchmark/PlanRole"
    found = audit(POLICIES, [READ, REFUSED], {})
    assert found.refused == (REFUSED,)
    assert found.unused == ((role, "dynamodb:Put*"), (role, "xray:PutTraceSegments"))
    listed = {"PlanRole": {"s3:GetObject": "used after all"}, "*": {"sqs:SendMessage": "gone"}}
    found = audit(POLICIES, [READ, WRITE], {**listed, role: TRACING["*"]})
    assert found.unused == ()
    assert found.stale == (("*", "sqs:SendMessage"), ("PlanRole", "s3:GetObject"))


def test_a_refused_call_does_not_count_as_use() -> None:
    policies = {"Role": [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": "x"}]}
    call = Call("r", "Role", "s3:PutObject", "y", allowed=False)
    assert audit(policies, [call], {}).unused == (("Role", "s3:PutObject"),)


def test_a_listed_action_needs_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "unused.yaml"
    file.write_text("PlanRole:\n  xray:PutTraceSegments: the Lambda service sends traces\n")
    assert read_unobserved(file) == {
        "PlanRole": {"xray:PutTraceSegments": "the Lambda service sends traces"}
    }
    file.write_text("PlanRole:\n  xray:PutTraceSegments:\n")
    with pytest.raises(ValueError, match="PlanRole: each action needs a reason"):
        read_unobserved(file)


def test_the_table_shows_each_allowed_action_and_each_refusal() -> None:
    second = Call("s-PlanRole-1", "Benchmark/PlanRole", "s3:GetObject", "arn:aws:s3:::b/l", True)
    assert rows(POLICIES, [READ, second, REFUSED]) == [
        ("Benchmark/PlanRole", "dynamodb:Put*", "not used", ""),
        ("Benchmark/PlanRole", "s3:GetObject", "used", "arn:aws:s3:::b/k and 1 more"),
        ("Benchmark/PlanRole", "s3:PutObject", "REFUSED", "arn:aws:s3:::b/k"),
        ("Benchmark/PlanRole", "xray:PutTraceSegments", "not used", ""),
    ]
