"""Lambda functions and the custom resources that call them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfnlint.template import Template

from lint.rule import Rule
from lint.rules.policies import LEAST_PRIVILEGE, names_own_role
from lint.template import (
    Place,
    largest,
    possible,
    properties,
    referred,
    resources,
)

FUNCTIONS = ("AWS::Serverless::Function", "AWS::Lambda::Function")
LAMBDA = "https://docs.aws.amazon.com/lambda/latest/dg"


class OwnRole(Rule):
    id = "W9121"
    shortdesc = "Every function has a role of its own"
    description = (
        "Functions that share a role hold each other's rights. A function's role is in its "
        "template, where its rights can be read beside it."
    )
    source_url = LEAST_PRIVILEGE

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        users: dict[str, list[str]] = {}
        for logical_id, function in resources(cfn, *FUNCTIONS):
            roles = names_own_role(cfn, function)
            if not roles:
                yield (
                    ["Resources", logical_id, "Properties"],
                    f"Role of {logical_id} is no role of this template; add an AWS::IAM::Role "
                    "and set Role to its Arn",
                )
            for role in roles:
                users.setdefault(role, []).append(logical_id)
        for role, functions in users.items():
            for logical_id in functions[1:]:
                yield (
                    ["Resources", logical_id, "Properties", "Role"],
                    f"Role {role} is shared by {' and '.join(functions)}; give each its own",
                )


class FunctionLogsAreKept(Rule):
    id = "W9123"
    shortdesc = "A function logs to a log group of its template"
    description = (
        "Lambda makes a log group for a function that names none: without retention or key, and "
        "it stays when the stack is deleted."
    )
    source_url = f"{LAMBDA}/monitoring-cloudwatchlogs-loggroups.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        groups = {name for name, _ in resources(cfn, "AWS::Logs::LogGroup")}
        for kind in FUNCTIONS:
            for logical_id, found, _ in possible(cfn, kind, "LoggingConfig"):
                config = found.get("LoggingConfig")
                group = config.get("LogGroup") if isinstance(config, dict) else None
                if not referred(group) & groups:
                    yield (
                        ["Resources", logical_id, "Properties"],
                        f"LoggingConfig of {logical_id} names no log group of this template; set "
                        "LogGroup to one with RetentionInDays",
                    )


class CustomResourceTimeOut(Rule):
    id = "W9124"
    shortdesc = "A custom resource waits somewhat longer than its function runs"
    description = (
        "A function that dies does not answer, and CloudFormation waits ServiceTimeout seconds "
        "for it: an hour unless told otherwise. A shorter time than the function's own would "
        "give up on one that still works."
    )
    source_url = (
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/"
        "aws-resource-cloudformation-customresource.html"
    )

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        functions = {name: properties(f) for name, f in resources(cfn, *FUNCTIONS)}
        for logical_id, resource in _custom_resources(cfn):
            found = properties(resource)
            place: Place = ["Resources", logical_id, "Properties"]
            if "ServiceTimeout" not in found:
                yield (
                    place,
                    f"ServiceTimeout of {logical_id} is not set, so a function that dies costs an "
                    "hour; set it somewhat above the function's Timeout",
                )
                continue
            for name in sorted(referred(found.get("ServiceToken")) & functions.keys()):
                runs = largest(cfn, functions[name].get("Timeout"))
                waits = largest(cfn, found["ServiceTimeout"])
                if runs is not None and waits is not None and waits <= runs:
                    yield (
                        [*place, "ServiceTimeout"],
                        f"ServiceTimeout {waits:.0f} is not above the Timeout {runs:.0f} of "
                        f"{name}; raise it",
                    )


def _custom_resources(cfn: Template) -> Iterator[tuple[str, dict[str, Any]]]:
    found = cfn.template.get("Resources")
    for name, resource in (found if isinstance(found, dict) else {}).items():
        kind = str(resource.get("Type")) if isinstance(resource, dict) else ""
        if kind.startswith("Custom::") or kind == "AWS::CloudFormation::CustomResource":
            yield name, resource
