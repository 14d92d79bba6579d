"""Rules about permissions."""

from __future__ import annotations

import pytest

from lint.rules import policies as rules


def policy(statement: str, above: str = "", kind: str = "AWS::IAM::Role") -> str:
    return f"""\
Parameters: {{Choice: {{Type: String}}}}
Conditions: {{IsOne: !Equals [!Ref Choice, one]}}
Resources:
  # A comment somewhere else is no reason.
  Role:
    Type: {kind}
    Properties:
      Policies:
        - PolicyName: mine
          PolicyDocument:
            Statement:
              - Effect: Allow
                Action: s3:GetBucketLocation
                # A comment in another statement is no reason either.
                Resource: !Sub arn:${{AWS::Partition}}:s3:::mine
{above}              - Effect: Allow
{statement}
"""


INDENT = " " * 16
STARS = {
    "a resource": ("Action: s3:GetObject", 'Resource: "*"'),
    "a part of a resource": (
        "Action: s3:GetObject",
        "Resource: !Sub arn:${AWS::Partition}:s3:::mine/*",
    ),
    "one of several resources": ("Action: s3:GetObject", "Resource: [!Ref Choice, '*']"),
    "an action": ("Action: s3:*", "Resource: !Ref Choice"),
    "one branch": (
        "Action: s3:GetObject",
        'Resource: !If [IsOne, !Ref Choice, "*"]',
    ),
    "all but one action": ("NotAction: s3:GetObject", "Resource: !Ref Choice"),
    "all but one resource": ("Action: s3:GetObject", "NotResource: mine"),
}


@pytest.mark.parametrize("lines", STARS.values(), ids=STARS)
class TestStars:
    def test_a_star_without_a_reason_is_refused(self, findings, lines):
        (finding,) = findings(
            rules.StarsHaveReasons, policy("\n".join(INDENT + line for line in lines))
        )
        assert "and nothing says why; list what is needed" in finding
        assert "Resources/Role/Properties/Policies/0/PolicyDocument/Statement/1" in finding

    def test_a_reason_in_the_statement_will_do(self, findings, lines):
        first, second = lines
        star, other = (first, second) if "*" in first or "Not" in first else (second, first)
        text = f"{INDENT}{other}\n{INDENT}# This is why.\n{INDENT}{star}"
        assert findings(rules.StarsHaveReasons, policy(text)) == []

    def test_a_reason_above_the_statement_will_do(self, findings, lines):
        text = "\n".join(INDENT + line for line in lines)
        above = "              # This is why.\n"
        assert findings(rules.StarsHaveReasons, policy(text, above)) == []


def test_a_reason_above_a_conditional_statement_will_do(findings):
    text = f"{INDENT}Action: s3:GetObject\n{INDENT}Resource: !Ref Choice\n"
    for above, faults in (("              # This is why.\n", 0), ("", 1)):
        conditional = f"""{above}              - !If
                - IsOne
                - Effect: Allow
                  Action: s3:*
                  Resource: !Ref Choice
                - !Ref AWS::NoValue
"""
        assert len(findings(rules.StarsHaveReasons, policy(text + conditional))) == faults


def test_no_star_and_a_star_in_a_refusal_need_no_reason(findings):
    text = f"{INDENT}Action: s3:GetObject\n{INDENT}Resource: !Ref Choice"
    assert findings(rules.StarsHaveReasons, policy(text)) == []
    text = f'{INDENT}Action: s3:*\n{INDENT}Resource: "*"'
    refusal = policy(text).rpartition("Effect: Allow")
    assert findings(rules.StarsHaveReasons, f"{refusal[0]}Effect: Deny{refusal[2]}") == []


def test_in_a_key_policy_the_resource_is_the_key_but_actions_need_a_reason(findings):
    key = """
    Resources:
      Key:
        Type: AWS::KMS::Key
        Properties:
          KeyPolicy:
            Statement:
              - Effect: Allow
                Principal: {AWS: someone}
                Action: %s
                Resource: "*"
    """
    assert findings(rules.StarsHaveReasons, key % "kms:Decrypt") == []
    assert len(findings(rules.StarsHaveReasons, key % "kms:*")) == 1


def trusting(service: str, condition: str = "") -> str:
    return f"""
    Resources:
      Mine:
        Type: AWS::IAM::Role
        Properties:
          AssumeRolePolicyDocument:
            Statement:
              - {{Effect: Allow, Principal: {{Service: {service}}}{condition}}}
    """


NAMED = ", Condition: {StringEquals: {'aws:SourceAccount': !Ref AWS::AccountId}}"


@pytest.mark.parametrize("service", ["lambda", "states", "scheduler", "codebuild", "eks"])
def test_a_service_that_names_the_account_is_trusted_for_this_account_only(findings, service):
    trusted = f"{service}.amazonaws.com"
    (finding,) = findings(rules.TrustNamesTheAccount, trusting(trusted))
    assert f"Mine trusts {trusted} for any account; add Condition" in finding
    assert findings(rules.TrustNamesTheAccount, trusting(trusted, NAMED)) == []


def test_ec2_names_no_account_so_none_is_required(findings):
    assert findings(rules.TrustNamesTheAccount, trusting("ec2.amazonaws.com")) == []


def test_a_function_in_the_vpc_does_not_get_the_rights_that_lambda_needs(findings):
    managed = """
    Resources:
      Mine:
        Type: AWS::IAM::Role
        Properties:
          ManagedPolicyArns:
            - arn:aws:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole
    """
    (finding,) = findings(rules.OnlyLambdaMakesInterfaces, managed)
    assert "lets the function's code make interfaces" in finding
    allowed = INDENT + "Action: ec2:CreateNetworkInterface\n" + INDENT + "Resource: '*'"
    (finding,) = findings(rules.OnlyLambdaMakesInterfaces, policy(allowed))
    assert "deny it with the condition key" in finding
    denied = f"""{allowed}
              - Effect: Deny
                Action: ec2:CreateNetworkInterface
                Resource: "*"
                Condition: {{ArnLike: {{lambda:SourceFunctionArn: x}}}}"""
    assert findings(rules.OnlyLambdaMakesInterfaces, policy(denied)) == []
