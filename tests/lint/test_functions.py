"""Rules about Lambda functions and the custom resources that call them."""

from __future__ import annotations

import pytest

from lint.rules import functions as rules

GOOD = """
Transform: AWS::Serverless-2016-10-31
Parameters: {Choice: {Type: String}}
Conditions: {IsOne: !Equals [!Ref Choice, one]}
Resources:
  Role: {Type: AWS::IAM::Role, Properties: {}}
  OtherRole: {Type: AWS::IAM::Role, Properties: {}}
  Logs: {Type: AWS::Logs::LogGroup, Properties: {RetentionInDays: 3}}
  Function:
    Type: AWS::Serverless::Function
    Properties:
      Role: !GetAtt Role.Arn
      Timeout: 60
      LoggingConfig: {LogGroup: !Ref Logs}
  Other:
    Type: AWS::Serverless::Function
    Properties:
      Role: !GetAtt OtherRole.Arn
      Timeout: 60
      LoggingConfig: {LogGroup: !Ref Logs}
  Custom:
    Type: Custom::Thing
    Properties:
      ServiceToken: !GetAtt Function.Arn
      ServiceTimeout: 90
"""
BOTH_ROLES = GOOD.replace(
    "Role: !GetAtt OtherRole.Arn", "Role: !If [IsOne, !GetAtt OtherRole.Arn, !GetAtt Role.Arn]"
)


@pytest.mark.parametrize(
    "rule",
    [
        rules.OwnRole,
        rules.FunctionLogsAreKept,
        rules.CustomResourceTimeOut,
    ],
)
def test_a_good_template_breaks_none_of_the_rules(findings, rule):
    assert findings(rule, GOOD) == []


@pytest.mark.parametrize(
    "bad", [GOOD.replace("OtherRole.Arn", "Role.Arn"), BOTH_ROLES], ids=["always", "sometimes"]
)
def test_functions_that_share_a_role_are_refused(findings, bad):
    (found,) = findings(rules.OwnRole, bad)
    assert "Other/Properties/Role: Role Role is shared by Function and Other" in found
    assert "give each its own" in found


@pytest.mark.parametrize("role", ["arn:x:role/y", "!Ref Choice"])
def test_a_role_from_elsewhere_is_refused(findings, role):
    (found,) = findings(rules.OwnRole, GOOD.replace("!GetAtt OtherRole.Arn", role))
    assert "Role of Other is no role of this template; add an AWS::IAM::Role" in found


def test_a_function_that_logs_where_lambda_likes_is_refused(findings):
    bad = GOOD.replace("LogGroup: !Ref Logs", "LogFormat: JSON", 1)
    (found,) = findings(rules.FunctionLogsAreKept, bad)
    assert "LoggingConfig of Function names no log group of this template" in found
    assert "set LogGroup" in found


def test_a_custom_resource_that_would_wait_an_hour_is_refused(findings):
    (found,) = findings(rules.CustomResourceTimeOut, GOOD.replace("ServiceTimeout: 90", "A: b"))
    assert "ServiceTimeout of Custom is not set" in found


def test_a_custom_resource_that_gives_up_before_its_function_is_refused(findings):
    (found,) = findings(
        rules.CustomResourceTimeOut, GOOD.replace("ServiceTimeout: 90", "ServiceTimeout: 60")
    )
    assert "ServiceTimeout 60 is not above the Timeout 60 of Function; raise it" in found
