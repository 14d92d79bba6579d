"""IAM's evaluation of policies and conditions."""

from __future__ import annotations

from typing import Any

import pytest

from lab.aws.iam.policies import Policies, UnknownOperator, statements


def judged(
    statement: dict[str, Any],
    action: str = "s3:GetObject",
    resource: str = "arn:aws:s3:::b/runs/1",
    **context: list[str],
) -> bool:
    policies = Policies(tuple(statements({"Statement": statement})))
    values = {key.replace("__", ":"): value for key, value in context.items()}
    return policies.refusal(action, resource, values) is None


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
        ({"ForAllValues:StringLike": {"aws:Absent": "x"}}, True),
        ({"ForAnyValue:StringNotLike": {"aws:Absent": "x"}}, False),
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
    """moto's evaluator denies here, which is why the lab has its own."""
    everything = {"Action": "*", "Resource": "*"}
    insecure = {"Bool": {"aws:SecureTransport": "false"}}
    allowed, denied = {"Effect": "Allow"}, {"Effect": "Deny", "Condition": insecure}
    document = {"Statement": [{**everything, **allowed}, {**everything, **denied}]}
    policies = Policies(tuple(statements(document)))
    assert policies.refusal("s3:GetObject", "*", {"aws:securetransport": ["true"]}) is None
    assert policies.refusal("s3:GetObject", "*", {"aws:securetransport": ["false"]})


def test_an_operator_that_is_not_known_is_not_taken_for_held() -> None:
    condition = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    with pytest.raises(UnknownOperator, match="IpAddress"):
        judged({"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition})
