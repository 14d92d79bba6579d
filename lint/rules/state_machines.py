"""State machines of SAM: what the definition in its file needs, and what its role allows.

cfn-lint does not read DefinitionUri.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cfnlint.template import Template

from lint import definition as asl
from lint.rule import Rule
from lint.rules.policies import allowing_statements
from lint.template import Place, properties, referred, resources, walk

MACHINE = "AWS::Serverless::StateMachine"
STEP_FUNCTIONS = "https://docs.aws.amazon.com/step-functions/latest/dg"

#: The actions that logging needs (Step Functions, "Logging in CloudWatch Logs").
LOGGING = {
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
}
#: The actions that tracing needs (Step Functions, "X-Ray and Step Functions").
TRACING = {
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}
#: Actions that are also allowed. Data encrypted with a customer managed key needs the key. Stopping
#: a Distributed Map does the same to its executions.
BESIDE = {
    "s3:GetObject": {"kms:Decrypt"},
    "s3:PutObject": {"kms:Decrypt", "kms:GenerateDataKey"},
    "states:DescribeExecution": {"states:StopExecution"},
}


@dataclass(frozen=True)
class Machine:
    """A state machine of the template, and its definition.

    Attributes:
        logical_id: of the state machine.
        resource: the resource.
        path: the definition's file.
        text: its text, with placeholders.
        definition: its content.
    """

    logical_id: str
    resource: dict[str, Any]
    path: Path
    text: str
    definition: dict[str, Any]


def machines(cfn: Template) -> Iterator[Machine]:
    """All state machines whose definition is a local file."""
    if not cfn.filename:
        return
    for logical_id, resource in resources(cfn, MACHINE):
        uri = properties(resource).get("DefinitionUri")
        if isinstance(uri, str) and "://" not in uri:
            path = Path(cfn.filename).resolve().parent / uri
            yield Machine(logical_id, resource, path, path.read_text(), asl.read(path))


class DefinitionPermissions(Rule):
    id = "E9205"
    shortdesc = "The state machine's role allows what its definition does, and nothing else"
    description = (
        "Every service integration, item reader and Distributed Map of the definition needs an "
        "action, Logging and Tracing need theirs, and the role's inline policies allow exactly "
        "these; lambda:InvokeFunction names exactly the functions that the definition calls. Only "
        "roles of the same template are looked at."
    )
    source_url = f"{STEP_FUNCTIONS}/service-integration-iam-templates.html"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        roles = {name for name, _ in resources(cfn, "AWS::IAM::Role")}
        for machine in machines(cfn):
            for role in sorted(referred(properties(machine.resource).get("Role")) & roles):
                statements = [
                    statement
                    for place, statement in allowing_statements(cfn)
                    if place[:3] == ["Resources", role, "Properties"]
                    and "AssumeRolePolicyDocument" not in place
                ]
                place: Place = ["Resources", role, "Properties", "Policies"]
                for fault in self._faults(machine, role, statements):
                    yield place, fault

    def _faults(
        self, machine: Machine, role: str, statements: list[dict[str, Any]]
    ) -> Iterator[str]:
        calls = list(asl.calls(machine.definition))
        needed = {call.action: f"state {call.state!r} needs" for call in calls}
        if "Logging" in properties(machine.resource):
            needed |= dict.fromkeys(LOGGING, "Logging needs")
        if "Tracing" in properties(machine.resource):
            needed |= dict.fromkeys(TRACING, "Tracing needs")
        allowed = {action for statement in statements for action in _texts(statement, "Action")}
        beside = {extra for action in needed for extra in BESIDE.get(action, set())}
        for action in sorted(needed.keys() - allowed):
            yield f"{role} does not allow {action}, which {needed[action]}; add it"
        for action in sorted(allowed - needed.keys() - beside):
            yield f"{role} allows {action}, which nothing in {machine.path.name} needs; remove it"
        yield from self._functions(machine, role, calls, statements)

    @staticmethod
    def _functions(
        machine: Machine, role: str, calls: list[asl.Call], statements: list[dict[str, Any]]
    ) -> Iterator[str]:
        substitutions = _substitutions(machine)
        called = {
            _target(call.function, substitutions) for call in calls if call.function is not None
        }
        allowed = {
            _key(resource)
            for statement in statements
            if "lambda:InvokeFunction" in _texts(statement, "Action")
            for resource in _list(statement.get("Resource"))
        }
        for function in sorted(called - allowed):
            yield (
                f"{role} does not allow lambda:InvokeFunction on {function}, which "
                f"{machine.path.name} calls; add it to Resource"
            )
        for function in sorted(allowed - called):
            yield (
                f"{role} allows lambda:InvokeFunction on {function}, which {machine.path.name} "
                "does not call; remove it from Resource"
            )


def _substitutions(machine: Machine) -> dict[str, Any]:
    substitutions = properties(machine.resource).get("DefinitionSubstitutions")
    return substitutions if isinstance(substitutions, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _texts(statement: Mapping[str, Any], name: str) -> set[str]:
    return {value for _, value in walk(statement.get(name)) if isinstance(value, str)}


def _target(function: str, substitutions: Mapping[str, Any]) -> str:
    """The function that a FunctionName means, in the form that a policy uses."""
    placeholder = re.fullmatch(r"\$\{(\w+)\}", function)
    return _key(substitutions.get(placeholder[1], function) if placeholder else function)


def _key(value: Any) -> str:
    """A short text for a value, equal for equal values."""
    if isinstance(value, dict) and "Fn::GetAtt" in value:
        return ".".join(map(str, _list(value["Fn::GetAtt"])))
    return str(value)
