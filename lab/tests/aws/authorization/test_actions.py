"""The actions and resources that a request needs."""

from __future__ import annotations

from typing import Any

import pytest

from lab.aws.authorization.actions import Request, needs

PREFIX = "arn:aws:dynamodb:us-east-1:123456789012:table"


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
        (
            "eks",
            "DescribeUpdate",
            {"name": "c", "nodegroupName": "g", "updateId": "u"},
            [
                ("eks:DescribeUpdate", "arn:aws:eks:us-east-1:123456789012:cluster/c"),
                ("eks:DescribeUpdate", "arn:aws:eks:us-east-1:123456789012:nodegroup/c/g/id"),
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
