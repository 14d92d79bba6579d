"""Permissions: a wildcard needs a comment with a reason, a role needs a permissions boundary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfnlint.template import Template

from lint.rule import Rule
from lint.template import (
    Place,
    is_commented,
    line_of,
    parameters,
    pick,
    properties,
    referred,
    resolved,
    resources,
    scenarios,
    source_lines,
    walk,
)

LEAST_PRIVILEGE = (
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html#grant-least-privilege"
)
BOUNDARIES = "https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_boundaries.html"


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


class PermissionsBoundary(Rule):
    id = "W9102"
    shortdesc = "A role takes the permissions boundary of the parameter"
    description = (
        "Accounts that delegate IAM refuse roles without their boundary, so every role's "
        "PermissionsBoundary refers to a parameter. A function without Role gets one from SAM, "
        "which needs the boundary just so."
    )
    source_url = BOUNDARIES

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for kind, made in (
            ("AWS::IAM::Role", True),
            ("AWS::Serverless::Function", False),
            ("AWS::Serverless::StateMachine", False),
        ):
            for logical_id, resource in resources(cfn, kind):
                found = properties(resource)
                if not made and "Role" in found:
                    continue
                if not referred(found.get("PermissionsBoundary")) & parameters(cfn).keys():
                    yield (
                        ["Resources", logical_id, "Properties"],
                        f"PermissionsBoundary of {logical_id} refers to no parameter; add "
                        "PermissionsBoundary: !If [HasBoundary, !Ref PermissionsBoundaryArn, "
                        "!Ref AWS::NoValue]",
                    )


def names_own_role(cfn: Template, resource: dict[str, Any]) -> set[str]:
    """The roles of the same template that a resource uses, in any scenario."""
    part = pick(properties(resource), "Role")
    roles = {name for name, _ in resources(cfn, "AWS::IAM::Role")}
    return {
        name
        for scenario in scenarios(cfn, part, given=[resource])
        for name in referred(resolved(part, scenario)) & roles
    }
