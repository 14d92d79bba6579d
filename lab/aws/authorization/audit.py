"""Compares the record of calls with the policies: what was allowed, used and refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import yaml

from lab import stack
from lab.aws.iam.policies import as_list, pattern

# In the Region's state directory.
RECORD_FILE = "calls.jsonl"
# Roles' logical ids with their policies' statements, as CloudFormation rendered them.
DeployedPolicies = Mapping[str, Sequence[Mapping[str, Any]]]
# By a role's logical id, or * for every role: actions, with why their use cannot be observed.
Unobserved = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Call:
    """One call of a role. `logical_id` is its place in the root stack, as in Benchmark/PlanRole."""

    role: str
    logical_id: str
    action: str
    resource: str
    allowed: bool


@dataclass(frozen=True)
class Audit:
    """The differences between policies and calls; all fields are empty when there are none.

    `refused` has the calls that no policy allowed. `unused` has the allowed actions, as (role,
    action), that no call used and the list does not have. `stale` has the listed actions, as (role,
    action), that a call used after all or that no policy allows.
    """

    refused: tuple[Call, ...]
    unused: tuple[tuple[str, str], ...]
    stale: tuple[tuple[str, str], ...]


def write_call(file: TextIO, call: Call) -> None:
    """Append a call as a line of JSON."""
    file.write(json.dumps(asdict(call)) + "\n")


def read_calls(path: Path) -> list[Call]:
    """The calls in a record; none when there is no record yet."""
    if not path.exists():
        return []
    return [Call(**json.loads(line)) for line in path.read_text().splitlines() if line]


def read_unobserved(path: Path) -> Unobserved:
    """The list of actions whose use cannot be observed.

    YAML: a role's logical id, or "*" for every role that is allowed the action; below it actions
    as the policies write them, each with its reason. Raises ValueError for any other form.
    """
    document = yaml.safe_load(path.read_text()) or {}
    for role, actions in document.items():
        if not isinstance(actions, dict) or not all(
            isinstance(reason, str) and reason.strip() for reason in actions.values()
        ):
            raise ValueError(f"{path}: {role}: each action needs a reason")
    return dict(document)


def allowed_actions(policies: DeployedPolicies) -> dict[str, list[str]]:
    """Each role's allowed actions, as the policies write them, sorted."""
    return {
        role: sorted(
            {
                str(action)
                for statement in listed
                if statement["Effect"] == "Allow"
                for action in as_list(statement.get("Action"))
            }
        )
        for role, listed in policies.items()
    }


def audit(policies: DeployedPolicies, calls: Iterable[Call], listed: Unobserved) -> Audit:
    """Compare rendered policies, observed calls and the list of unobservable actions."""
    calls = list(calls)
    allowed = allowed_actions(policies)
    used = {
        (role, action)
        for role, actions in allowed.items()
        for action in actions
        if any(_same_role(role, call) and _covers(action, call.action) for call in calls)
    }
    granted = [(role, action) for role, actions in allowed.items() for action in actions]
    unused = [
        (role, action)
        for role, action in granted
        if (role, action) not in used and not _listed(listed, role, action)
    ]
    stale = [
        (role, action)
        for role, actions in listed.items()
        for action in actions
        if not any(
            grant == action and _is_role(role, name) and (name, grant) not in used
            for name, grant in granted
        )
    ]
    refused = [call for call in calls if not call.allowed]
    return Audit(tuple(refused), tuple(sorted(unused)), tuple(sorted(stale)))


def _is_role(listed: str, logical_id: str) -> bool:
    return listed in ("*", logical_id, logical_id.rsplit("/", 1)[-1])


def _listed(listed: Unobserved, logical_id: str, action: str) -> bool:
    return any(action in actions and _is_role(r, logical_id) for r, actions in listed.items())


def _same_role(logical_id: str, call: Call) -> bool:
    return call.allowed and logical_id in (call.logical_id, call.role)


def _covers(allowed: str, action: str) -> bool:
    return pattern(allowed, ignore_case=True).fullmatch(action) is not None


def deployed_policies(cloudformation: Any, iam: Any) -> dict[str, list[dict[str, Any]]]:
    """Every role of every live stack with its statements, read through boto3 clients.

    AWS managed policies are left out, because the template does not choose their actions.
    """
    statements = _statements_by_role(iam)
    policies: dict[str, list[dict[str, Any]]] = {}

    def walk(stack_id: str, path: str) -> None:
        resources = cloudformation.list_stack_resources(StackName=stack_id)
        for resource in resources["StackResourceSummaries"]:
            logical_id = f"{path}{resource['LogicalResourceId']}"
            physical_id = resource.get("PhysicalResourceId")
            if not physical_id or resource["ResourceStatus"] == "DELETE_COMPLETE":
                continue  # a stack that was rolled back still lists its deleted resources
            if resource["ResourceType"] == "AWS::CloudFormation::Stack":
                walk(physical_id, f"{logical_id}/")
            elif resource["ResourceType"] == "AWS::IAM::Role":
                policies[logical_id] = statements[physical_id]

    for root in cloudformation.describe_stacks()["Stacks"]:
        if not root.get("ParentId"):
            walk(root["StackId"], "")
    return policies


def table_of(status: Mapping[str, Any], record: Path) -> list[tuple[str, str, str, str]]:
    """The rows of the table for a running lab; `status` has its endpoint and keys."""
    policies = deployed_policies(
        stack.client(status, "cloudformation"), stack.client(status, "iam")
    )
    return rows(policies, read_calls(record))


def _statements_by_role(iam: Any) -> dict[str, list[dict[str, Any]]]:
    """The statements of each role of the account by the role's name."""
    pages = iam.get_paginator("get_account_authorization_details").paginate(
        Filter=["Role", "LocalManagedPolicy"]
    )
    account = pages.build_full_result()
    managed = {
        policy["Arn"]: version["Document"]
        for policy in account["Policies"]
        for version in policy["PolicyVersionList"]
        if version["IsDefaultVersion"]
    }
    by_role = {}
    for role in account["RoleDetailList"]:
        documents = [policy["PolicyDocument"] for policy in role["RolePolicyList"]]
        attached = [policy["PolicyArn"] for policy in role["AttachedManagedPolicies"]]
        documents += [managed[arn] for arn in attached if arn in managed]
        by_role[role["RoleName"]] = [
            item for document in documents for item in as_list(document["Statement"])
        ]
    return by_role


def rows(policies: DeployedPolicies, calls: Iterable[Call]) -> list[tuple[str, str, str, str]]:
    """The rows of the table, by role: action, whether it was used or refused, on which resources.

    Each allowed action has a row, whether it was used or not. So has each refused action.
    """
    calls = list(calls)
    table: list[tuple[str, str, str, str]] = []
    for role, actions in sorted(allowed_actions(policies).items()):
        for action in actions:
            matching = [c for c in calls if _same_role(role, c) and _covers(action, c.action)]
            state = "used" if matching else "not used"
            table.append((role, action, state, _resources(matching)))
    refused = sorted({(c.logical_id, c.action) for c in calls if not c.allowed})
    for role, action in refused:
        those = [c for c in calls if (c.logical_id, c.action, c.allowed) == (role, action, False)]
        table.append((role, action, "REFUSED", _resources(those)))
    return sorted(table)


def _resources(calls: Sequence[Call]) -> str:
    names = sorted({call.resource for call in calls})
    if not names:
        return ""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
