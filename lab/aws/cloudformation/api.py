"""The CloudFormation API, on moto's request parsing and response serialization."""

from __future__ import annotations

import json
import threading
from typing import Any

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import ActionResult, BaseResponse, EmptyResult

from lab.aws.api_errors import ApiError
from lab.aws.clients import ClientFactory
from lab.aws.cloudformation.change_sets import ChangeSet, ChangeSets
from lab.aws.cloudformation.coercion import text
from lab.aws.cloudformation.engine import Engine, adopt
from lab.aws.cloudformation.preparation import prepare, read_template
from lab.aws.cloudformation.stacks import STACK_TYPE, Stack, Stacks, new_stack_id
from lab.aws.cloudformation.template import BODY_BYTES, transforms_of
from lab.aws.cloudformation.template_urls import read_template_url


class CloudFormationResponse(BaseResponse):
    """Answers one request."""

    def __init__(
        self, *, engine: Engine, stacks: Stacks, change_sets: ChangeSets, clients: ClientFactory
    ) -> None:
        super().__init__(service_name="cloudformation")
        self.automated_parameter_parsing = True
        self._engine, self._stacks, self._change_sets = engine, stacks, change_sets
        self._clients = clients

    def call_action(self) -> TYPE_RESPONSE:
        """Answer a request that is repeated with its token as the first time, and do nothing."""
        token = self._get_param("ClientRequestToken") or self._get_param("ClientToken")
        result = self._stacks.answers.get(token) or super().call_action()
        if token and result[0] == 200:
            self._stacks.answers[token] = result
        return result

    # -- stacks

    def create_stack(self) -> ActionResult:
        name = self._get_param("StackName")
        stack = Stack(
            new_stack_id(name),
            name,
            self._body(),
            self._parameters(None),
            self._get_param("Capabilities", []),
            self._tags(),
            disable_rollback=bool(self._get_param("DisableRollback", False)),
        )
        self._engine.create(stack)
        return ActionResult({"StackId": stack.stack_id})

    def update_stack(self) -> ActionResult:
        stack = self._stacks.find(self._get_param("StackName"))
        body = stack.template_body if self._get_param("UsePreviousTemplate") else self._body()
        self._engine.update(
            stack,
            body,
            self._parameters(stack),
            capabilities=self._get_param("Capabilities"),
            tags=self._tags() or None,
        )
        return ActionResult({"StackId": stack.stack_id})

    def delete_stack(self) -> EmptyResult:
        try:
            stack = self._stacks.find(self._get_param("StackName"))
        except ApiError:
            return EmptyResult()  # as in CloudFormation, deleting a missing stack succeeds
        self._engine.delete(stack)
        return EmptyResult()

    def describe_stacks(self) -> ActionResult:
        name = self._get_param("StackName")
        stacks = [self._stacks.find(name)] if name else self._stacks.live()
        return ActionResult({"Stacks": [_describe(stack) for stack in stacks]})

    def list_stacks(self) -> ActionResult:
        statuses = self._get_param("StackStatusFilter", [])
        stacks = self._stacks.all()
        return ActionResult(
            {
                "StackSummaries": [
                    _describe(stack) for stack in stacks if not statuses or stack.status in statuses
                ]
            }
        )

    def describe_stack_events(self) -> ActionResult:
        stack = self._stacks.find(self._get_param("StackName"))
        with stack.lock:
            return ActionResult({"StackEvents": stack.events[::-1]})

    def list_stack_resources(self) -> ActionResult:
        stack = self._stacks.find(self._get_param("StackName"))
        with stack.lock:
            resources = [
                {**stack.described(state), "LastUpdatedTimestamp": state.timestamp}
                for state in stack.resources.values()
            ]
        return ActionResult({"StackResourceSummaries": resources})

    def get_template_summary(self) -> ActionResult:
        if self._get_param("StackName"):
            body = self._stacks.find(self._get_param("StackName")).template_body
        else:
            body = self._body()
        template = read_template(body)
        return ActionResult(
            {
                **_declared(template),
                "ResourceTypes": sorted(
                    {resource["Type"] for resource in template["Resources"].values()}
                ),
                "Version": str(template.get("AWSTemplateFormatVersion", "2010-09-09")),
                "Metadata": json.dumps(template["Metadata"]) if "Metadata" in template else None,
            }
        )

    # -- change sets

    def create_change_set(self) -> ActionResult:
        kind, name = self._get_param("ChangeSetType", "UPDATE"), self._get_param("StackName")
        capabilities = self._get_param("Capabilities", [])
        stack = self._under_review(name) if kind == "CREATE" else self._stacks.find(name)
        previous = self._get_param("UsePreviousTemplate")
        body = stack.template_body if previous else self._body()
        kinds = {resource["Type"] for resource in read_template(body)["Resources"].values()}
        if STACK_TYPE not in kinds:
            # Who reviews a change set has seen what its macros made (CreateChangeSet).
            capabilities = [*capabilities, "CAPABILITY_AUTO_EXPAND"]
        # Parameters and rules are checked before there is a change set, or a stack for it.
        parameters, tags = self._parameters(stack), self._tags()
        if kind == "CREATE":
            candidate = Stack(stack.stack_id, stack.name, body, parameters, capabilities, tags)
            prepare(candidate)
            self._stacks.add(stack)
            stack.set_status("REVIEW_IN_PROGRESS", "User Initiated")
        else:
            candidate = self._engine.candidate(
                stack, body, parameters, capabilities=capabilities, tags=tags or None
            )
        change_set = ChangeSet(
            self._get_param("ChangeSetName"),
            stack,
            candidate,
            kind,
            self._get_param("Description"),
            bool(self._get_param("IncludeNestedStacks", False)),
        )
        self._change_sets.add(change_set)
        work = threading.Thread(target=self._change_sets.fill, args=[change_set], daemon=True)
        work.start()
        if not change_set.includes_nested:
            work.join()
        return ActionResult({"Id": change_set.id, "StackId": stack.stack_id})

    def _under_review(self, name: str) -> Stack:
        """The stack for a change set that creates one; it has no template yet."""
        live = [stack for stack in self._stacks.live() if stack.name == name]
        if live and live[0].status != "REVIEW_IN_PROGRESS":
            raise ApiError("ValidationError", f"Stack [{name}] already exists")
        return live[0] if live else Stack(new_stack_id(name), name, "", {}, [], {})

    def describe_change_set(self) -> ActionResult:
        return ActionResult(self._change_set().describe())

    def list_change_sets(self) -> ActionResult:
        stack = self._stacks.find(self._get_param("StackName"))
        return ActionResult(
            {"Summaries": [change_set.describe() for change_set in self._change_sets.of(stack)]}
        )

    def delete_change_set(self) -> EmptyResult:
        change_set = self._found_change_set()
        if change_set is not None:  # as in CloudFormation, deleting a missing one succeeds
            self._change_sets.delete(change_set)
        return EmptyResult()

    def execute_change_set(self) -> EmptyResult:
        change_set = self._change_set()
        stack, candidate = change_set.stack, change_set.candidate
        if change_set.parent or change_set.execution_status != "AVAILABLE":
            raise ApiError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{change_set.id}] cannot be executed in its current execution status of"
                f" [{change_set.execution_status}]",
            )
        if change_set.kind == "CREATE":
            adopt(stack, candidate)
            self._engine.create(stack)
        else:
            self._engine.update(
                stack,
                candidate.template_body,
                candidate.given_parameters,
                capabilities=candidate.capabilities,
                tags=candidate.tags,
            )
        change_set.is_executed = True
        return EmptyResult()

    # -- reading requests

    def _body(self) -> str:
        body = self._get_param("TemplateBody")
        if body:
            if len(body.encode()) > BODY_BYTES:
                raise ApiError(
                    "ValidationError",
                    "1 validation error detected: Value at 'templateBody' failed to satisfy"
                    f" constraint: Member must have length less than or equal to {BODY_BYTES}",
                )
            return str(body)
        url = self._get_param("TemplateURL")
        if not url:
            raise ApiError(
                "ValidationError", "Either Template URL or Template Body must be specified."
            )
        return read_template_url(self._clients, url)

    def _parameters(self, stack: Stack | None) -> dict[str, str]:
        values = {}
        for parameter in self._get_param("Parameters", []):
            name = parameter["ParameterKey"]
            if parameter.get("UsePreviousValue"):
                if stack is not None and name in stack.given_parameters:
                    values[name] = stack.given_parameters[name]
            else:
                values[name] = parameter["ParameterValue"]
        return values

    def _tags(self) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in self._get_param("Tags", [])}

    def _found_change_set(self) -> ChangeSet | None:
        return self._change_sets.find(
            self._get_param("ChangeSetName"), self._get_param("StackName")
        )

    def _change_set(self) -> ChangeSet:
        change_set = self._found_change_set()
        if change_set is None:
            name = self._get_param("ChangeSetName")
            raise ApiError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist")
        return change_set


def _describe(stack: Stack) -> dict[str, Any]:
    no_echo = {
        name
        for name, spec in (stack.template.get("Parameters") or {}).items()
        if str(spec.get("NoEcho", "")).lower() == "true"
    }
    return {
        "StackId": stack.stack_id,
        "StackName": stack.name,
        "Description": stack.template.get("Description"),
        "Parameters": [
            {
                "ParameterKey": name,
                "ParameterValue": "****" if name in no_echo else text(value),
            }
            for name, value in stack.parameters.items()
        ],
        "CreationTime": stack.created_at,
        "LastUpdatedTime": stack.updated_at,
        "DeletionTime": stack.deleted_at,
        "StackStatus": stack.status,
        "StackStatusReason": stack.status_reason,
        "DisableRollback": stack.disable_rollback,
        "EnableTerminationProtection": False,
        "Capabilities": stack.capabilities,
        "Outputs": list(stack.outputs.values()),
        "Tags": [{"Key": key, "Value": value} for key, value in stack.tags.items()],
        "ParentId": stack.parent_id,
        "RootId": stack.root_id,
    }


def _declared(template: dict[str, Any]) -> dict[str, Any]:
    iam = any(r["Type"].startswith("AWS::IAM::") for r in template["Resources"].values())
    transforms = transforms_of(template)
    capabilities = ["CAPABILITY_IAM"] if iam else []
    if transforms:
        capabilities += ["CAPABILITY_AUTO_EXPAND"]
    return {
        "Description": template.get("Description"),
        "Parameters": [
            {
                "ParameterKey": name,
                "DefaultValue": (str(spec["Default"]) if "Default" in spec else None),
                "ParameterType": spec.get("Type", "String"),
                "NoEcho": bool(spec.get("NoEcho", False)),
                "Description": spec.get("Description"),
            }
            for name, spec in (template.get("Parameters") or {}).items()
        ],
        "Capabilities": capabilities,
        "DeclaredTransforms": transforms,
    }
