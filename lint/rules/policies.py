"""Permissions: who may do what, and for whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfnlint.template import Template

from lint.rule import Rule
from lint.template import Place, is_commented, line_of, properties, resources, source_lines, walk

LEAST_PRIVILEGE = (
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html#grant-least-privilege"
)


def allowing_statements(cfn: Template) -> Iterator[tuple[Place, dict[str, Any]]]:
    """All Allow statements of the policies in the resources, with their places."""
    for place, value in walk(cfn.template.get("Resources"), ["Resources"]):
        if (
            isinstance(value, dict)
            and value.get("Effect") == "Allow"
            and {"Action", "NotAction"} & value.keys()
        ):
            yield place, value


class StarsHaveReasons(Rule):
    id = "W9101"
    shortdesc = "A star in what a policy allows has a reason beside it"
    description = (
        "A `*` in Action, Resource or Principal of an Allow, and NotAction or NotResource, allow "
        "what nobody has listed. A comment in the statement or right above it says why. A trust "
        "policy's or resource policy's Principal counts too. In a key policy, Resource is always "
        "`*`, the key itself."
    )
    source_url = LEAST_PRIVILEGE

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        lines = source_lines(cfn)
        if lines is None:
            return
        for statement_place, statement in allowing_statements(cfn):
            for name in ("Action", "Resource", "Principal", "NotAction", "NotResource"):
                if name == "Resource" and "KeyPolicy" in statement_place:
                    continue
                for place, value in walk(statement.get(name), [*statement_place, name]):
                    is_wide = isinstance(value, str) and ("*" in value or name.startswith("Not"))
                    if is_wide and not self._has_reason(cfn, lines, statement_place, place):
                        yield (
                            place,
                            f"{name} allows {value} and nothing says why; list what is needed, "
                            "or put the reason in a comment beside it",
                        )

    @staticmethod
    def _has_reason(cfn: Template, lines: list[str], statement: Place, star: Place) -> bool:
        # A statement can be inside an Fn::If, with the comment above the Fn::If.
        item = statement[: statement.index("Statement") + 2] if "Statement" in statement else []
        first, last = line_of(cfn, item or statement), line_of(cfn, star)
        if first is None or last is None:
            return False
        return is_commented(lines, first, max(first, last))


#: Services that name the account for which they assume a role, and where they say so.
#: EC2 does not: it assumes a role for an instance profile of the same account.
_NAME_THE_ACCOUNT = frozenset(
    {
        # Step Functions developer guide, "Prevent cross-service confused deputy issue".
        "states.amazonaws.com",
        # EventBridge Scheduler user guide, "Confused deputy prevention".
        "scheduler.amazonaws.com",
        # CodeBuild user guide, "Allow CodeBuild to interact with other AWS services".
        "codebuild.amazonaws.com",
        # EKS user guide, "Cross-service confused deputy prevention".
        "eks.amazonaws.com",
        # AWS's agent toolkit, trust policy of the skill "deploying-custom-domain-rest-api".
        "lambda.amazonaws.com",
    }
)


class TrustNamesTheAccount(Rule):
    id = "W9103"
    shortdesc = "A service may take a role only for this account"
    description = (
        "A service that acts for many accounts can be asked by one to act for another. The "
        "condition aws:SourceAccount in the trust policy excludes it, with each service that sends "
        "this key."
    )
    source_url = "https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, role in resources(cfn, "AWS::IAM::Role"):
            place: Place = ["Resources", logical_id, "Properties", "AssumeRolePolicyDocument"]
            document = properties(role).get("AssumeRolePolicyDocument")
            for where, statement in walk(document, place):
                if not isinstance(statement, dict) or statement.get("Effect") != "Allow":
                    continue
                principal = statement.get("Principal")
                named = principal.get("Service") if isinstance(principal, dict) else None
                services = {name for name in _texts(named) if isinstance(name, str)}
                condition = statement.get("Condition") or {}
                keys = {key for each in condition.values() for key in each}
                if services & _NAME_THE_ACCOUNT and "aws:SourceAccount" not in keys:
                    yield (
                        where,
                        f"{logical_id} trusts {named} for any account; add Condition: "
                        '{ StringEquals: { "aws:SourceAccount": !Ref AWS::AccountId } }',
                    )


class OnlyLambdaMakesInterfaces(Rule):
    id = "W9104"
    shortdesc = "A function's code may not use what Lambda needs to reach a VPC"
    description = (
        "Lambda makes a function's network interfaces with the function's role. A Deny with the "
        "condition key lambda:SourceFunctionArn, which only calls of the code have, keeps the code "
        "from using the same rights. AWSLambdaVPCAccessExecutionRole has no such Deny."
    )
    source_url = "https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for place, value in walk(cfn.template.get("Resources"), ["Resources"]):
            if isinstance(value, str) and value.endswith("/AWSLambdaVPCAccessExecutionRole"):
                yield (
                    place,
                    "AWSLambdaVPCAccessExecutionRole lets the function's code make interfaces; "
                    "allow the actions in the role's own policy, and deny them to the code with "
                    "lambda:SourceFunctionArn",
                )
            if (
                isinstance(value, dict)
                and value.get("Effect") == "Allow"
                and "ec2:CreateNetworkInterface" in _texts(value.get("Action"))
                and not _is_denied(cfn, place)
            ):
                yield (
                    place,
                    "ec2:CreateNetworkInterface is allowed to the function's code too; deny it "
                    "with the condition key lambda:SourceFunctionArn in the same policy",
                )


def _texts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_denied(cfn: Template, statement: Place) -> bool:
    """Whether the policy of a statement denies the code to make interfaces."""
    policy = cfn.template
    for step in statement[: statement.index("Statement") + 1]:
        policy = policy[step]
    return any(
        isinstance(other, dict)
        and other.get("Effect") == "Deny"
        and "ec2:CreateNetworkInterface" in _texts(other.get("Action"))
        and "lambda:SourceFunctionArn" in (other.get("Condition") or {}).get("ArnLike", {})
        for _, other in walk(policy, [])
    )
