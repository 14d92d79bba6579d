"""The CloudFormation API, on moto's request parsing and response serialisation."""

from __future__ import annotations

import datetime
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from moto.core.responses import ActionResult, BaseResponse, EmptyResult

from ..errors import ApiError
from ..s3_urls import read_template_url
from .engine import StackBackend, StackError, new_stack_id
from .model import ResourceState, Stack, utcnow
from .template import BODY_BYTES, transforms_of


@dataclass
class ChangeSet:
    """A change set: what would be created or updated."""

    id: str
    name: str
    stack: Stack
    kind: str
    body: str
    parameters: dict[str, str]
    capabilities: list[str]
    tags: dict[str, str]
    description: str | None
    status: str
    execution_status: str
    reason: str | None = None
    changes: list[dict[str, Any]] = field(default_factory=list)
    created_at: datetime.datetime = field(default_factory=utcnow)


class CloudFormationResponse(BaseResponse):
    """One request. `stack_backend` is set when the server starts."""

    stack_backend: StackBackend
    change_sets: dict[str, ChangeSet]

    def __init__(self) -> None:
        super().__init__(service_name="cloudformation")
        self.automated_parameter_parsing = True

    # -- stacks

    def create_stack(self) -> ActionResult:
        stack = self._new_stack()
        on_failure = self._get_param("OnFailure")
        stack.on_failure = on_failure or "ROLLBACK"
        stack.disable_rollback = bool(self._get_param("DisableRollback", False))
        with _refusals():
            self.stack_backend.create(stack)
        return ActionResult({"StackId": stack.stack_id})

    def update_stack(self) -> ActionResult:
        with _refusals():
            stack = self.stack_backend.find(self._get_param("StackName"))
            body = stack.template_body if self._get_param("UsePreviousTemplate") else self._body()
            self.stack_backend.update(
                stack,
                body,
                self._parameters(stack),
                capabilities=self._get_param("Capabilities"),
                tags=self._tags() or None,
            )
        return ActionResult({"StackId": stack.stack_id})

    def delete_stack(self) -> EmptyResult:
        try:
            stack = self.stack_backend.find(self._get_param("StackName"))
        except StackError:
            return EmptyResult()  # as CloudFormation: deleting what is not there succeeds
        with _refusals():
            self.stack_backend.delete(stack)
        return EmptyResult()

    def update_termination_protection(self) -> ActionResult:
        with _refusals():
            stack = self.stack_backend.find(self._get_param("StackName"))
        stack.termination_protection = bool(self._get_param("EnableTerminationProtection"))
        return ActionResult({"StackId": stack.stack_id})

    def describe_stacks(self) -> ActionResult:
        name = self._get_param("StackName")
        with _refusals():
            stacks = [self.stack_backend.find(name)] if name else self.stack_backend.live()
        return ActionResult({"Stacks": [_describe(stack) for stack in stacks]})

    def list_stacks(self) -> ActionResult:
        wanted = self._get_param("StackStatusFilter", [])
        stacks = sorted(
            self.stack_backend.stacks.values(), key=lambda stack: stack.created_at, reverse=True
        )
        return ActionResult(
            {
                "StackSummaries": [
                    _describe(stack) for stack in stacks if not wanted or stack.status in wanted
                ]
            }
        )

    def describe_stack_events(self) -> ActionResult:
        with _refusals():
            stack = self.stack_backend.find(self._get_param("StackName"))
        with stack.lock:
            events = list(stack.events)
        return ActionResult(
            {
                "StackEvents": [
                    {
                        "StackId": event.stack_id,
                        "StackName": event.stack_name,
                        "EventId": event.event_id,
                        "LogicalResourceId": event.logical_id,
                        "PhysicalResourceId": event.physical_id,
                        "ResourceType": event.type,
                        "Timestamp": event.timestamp,
                        "ResourceStatus": event.status,
                        "ResourceStatusReason": event.reason,
                        "ResourceProperties": event.properties,
                    }
                    for event in reversed(events)
                ]
            }
        )

    def describe_stack_resource(self) -> ActionResult:
        stack, states = self._resources()
        return ActionResult({"StackResourceDetail": _resource(stack, states[0])})

    def describe_stack_resources(self) -> ActionResult:
        stack, states = self._resources()
        return ActionResult({"StackResources": [_resource(stack, state) for state in states]})

    def list_stack_resources(self) -> ActionResult:
        stack, states = self._resources()
        return ActionResult(
            {"StackResourceSummaries": [_resource(stack, state) for state in states]}
        )

    def get_template(self) -> ActionResult:
        with _refusals():
            stack = self.stack_backend.find(self._get_param("StackName"))
        processed = self._get_param("TemplateStage") == "Processed"
        body = json.dumps(stack.template) if processed else stack.template_body
        return ActionResult({"TemplateBody": body, "StagesAvailable": ["Original", "Processed"]})

    def get_template_summary(self) -> ActionResult:
        with _refusals():
            if self._get_param("StackName"):
                body = self.stack_backend.find(self._get_param("StackName")).template_body
            else:
                body = self._body()
            template = self.stack_backend.validate(body)
        return ActionResult(
            {
                **_declared(template),
                "ResourceTypes": sorted(
                    {resource["Type"] for resource in template["Resources"].values()}
                ),
                "Version": str(template.get("AWSTemplateFormatVersion", "2010-09-09")),
            }
        )

    def validate_template(self) -> ActionResult:
        with _refusals():
            template = self.stack_backend.validate(self._body())
        return ActionResult(_declared(template))

    def list_exports(self) -> ActionResult:
        return ActionResult(
            {
                "Exports": [
                    {"ExportingStackId": stack.stack_id, "Name": name, "Value": value}
                    for name, (stack, value) in sorted(self.stack_backend.exports().items())
                ]
            }
        )

    # -- change sets

    def create_change_set(self) -> ActionResult:
        kind = self._get_param("ChangeSetType", "UPDATE")
        with _refusals():
            if kind == "CREATE":
                stack = self._new_stack()
                if any(s.name == stack.name for s in self.stack_backend.live()):
                    stack = self.stack_backend.find(stack.name)
                    if stack.status != "REVIEW_IN_PROGRESS":
                        raise StackError("ValidationError", f"Stack [{stack.name}] already exists")
                body = self._body()
                stack.template_body = body
                self.stack_backend.stacks[stack.stack_id] = stack
            else:
                stack = self.stack_backend.find(self._get_param("StackName"))
                previous = self._get_param("UsePreviousTemplate")
                body = stack.template_body if previous else self._body()
            template = self.stack_backend.validate(body)
        parameters = self._parameters(stack)
        changes = _changes(stack, template)
        unchanged = (
            kind == "UPDATE"
            and body == stack.template_body
            and parameters == stack.given_parameters
        )
        change_set = ChangeSet(
            id=(
                f"arn:aws:cloudformation:{self.stack_backend.services.region}:"
                f"{self.stack_backend.services.account_id}:changeSet/"
                f"{self._get_param('ChangeSetName')}/{uuid.uuid4()}"
            ),
            name=self._get_param("ChangeSetName"),
            stack=stack,
            kind=kind,
            body=body,
            parameters=parameters,
            capabilities=self._get_param("Capabilities", []),
            tags=self._tags(),
            description=self._get_param("Description"),
            status="FAILED" if unchanged else "CREATE_COMPLETE",
            execution_status="UNAVAILABLE" if unchanged else "AVAILABLE",
            reason=(
                "The submitted information didn't contain changes. Submit different information"
                " to create a change set."
                if unchanged
                else None
            ),
            changes=changes,
        )
        self.change_sets[change_set.id] = change_set
        return ActionResult({"Id": change_set.id, "StackId": stack.stack_id})

    def describe_change_set(self) -> ActionResult:
        return ActionResult(_describe_change_set(self._change_set()))

    def list_change_sets(self) -> ActionResult:
        with _refusals():
            stack = self.stack_backend.find(self._get_param("StackName"))
        return ActionResult(
            {
                "Summaries": [
                    _describe_change_set(change_set)
                    for change_set in self.change_sets.values()
                    if change_set.stack is stack
                ]
            }
        )

    def delete_change_set(self) -> EmptyResult:
        del self.change_sets[self._change_set().id]
        return EmptyResult()

    def execute_change_set(self) -> EmptyResult:
        change_set = self._change_set()
        if change_set.execution_status != "AVAILABLE":
            raise ApiError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{change_set.id}] cannot be executed in its current status of"
                f" [{change_set.status}]",
            )
        stack = change_set.stack
        with _refusals():
            if change_set.kind == "CREATE":
                stack.template_body = change_set.body
                stack.given_parameters = change_set.parameters
                stack.capabilities = change_set.capabilities
                stack.tags = change_set.tags
                self.stack_backend.create(stack)
            else:
                self.stack_backend.update(
                    stack,
                    change_set.body,
                    change_set.parameters,
                    capabilities=change_set.capabilities,
                    tags=change_set.tags or None,
                )
        change_set.execution_status = "EXECUTE_COMPLETE"
        return EmptyResult()

    # -- reading requests

    def _new_stack(self) -> Stack:
        services = self.stack_backend.services
        name = self._get_param("StackName")
        stack_id = new_stack_id(name, services.region, services.account_id)
        return Stack(
            stack_id,
            name,
            self._body(),
            self._parameters(None),
            self._get_param("Capabilities", []),
            self._tags(),
            role_arn=self._get_param("RoleARN"),
            notification_arns=self._get_param("NotificationARNs", []),
            timeout_minutes=self._get_param("TimeoutInMinutes"),
            termination_protection=bool(self._get_param("EnableTerminationProtection", False)),
            root_id=None,
        )

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
        with _refusals():
            return read_template_url(self.stack_backend.services, url)

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

    def _resources(self) -> tuple[Stack, list[ResourceState]]:
        physical = self._get_param("PhysicalResourceId")
        logical = self._get_param("LogicalResourceId")
        with _refusals():
            if physical:
                for stack in self.stack_backend.live():
                    found = [s for s in stack.resources.values() if s.physical_id == physical]
                    if found:
                        return stack, found
                raise StackError("ValidationError", f"Stack for {physical} does not exist")
            stack = self.stack_backend.find(self._get_param("StackName"))
            with stack.lock:
                states = list(stack.resources.values())
            if logical:
                states = [state for state in states if state.logical_id == logical]
                if not states:
                    raise StackError(
                        "ValidationError",
                        f"Resource {logical} does not exist for stack {stack.name}",
                    )
            return stack, states

    def _change_set(self) -> ChangeSet:
        name, stack_name = self._get_param("ChangeSetName"), self._get_param("StackName")
        for change_set in reversed(list(self.change_sets.values())):
            if change_set.id == name or (
                change_set.name == name
                and stack_name in (change_set.stack.name, change_set.stack.stack_id)
            ):
                return change_set
        raise ApiError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist")


class _refusals:
    """Turns StackError into the API's error."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, StackError):
            raise _service_error(error) from error


def _service_error(error: StackError) -> ApiError:
    return ApiError(error.code, error.message)


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
                "ParameterValue": (
                    "****"
                    if name in no_echo
                    else ",".join(value)
                    if isinstance(value, list)
                    else str(value)
                ),
            }
            for name, value in stack.parameters.items()
        ],
        "CreationTime": stack.created_at,
        "LastUpdatedTime": stack.updated_at,
        "DeletionTime": stack.deleted_at,
        "StackStatus": stack.status,
        "StackStatusReason": stack.status_reason,
        "DisableRollback": stack.disable_rollback,
        "NotificationARNs": stack.notification_arns,
        "TimeoutInMinutes": stack.timeout_minutes,
        "Capabilities": stack.capabilities,
        "Outputs": list(stack.outputs.values()),
        "RoleARN": stack.role_arn,
        "Tags": [{"Key": key, "Value": value} for key, value in stack.tags.items()],
        "EnableTerminationProtection": stack.termination_protection,
        "ParentId": stack.parent_id,
        "RootId": stack.root_id,
    }


def _resource(stack: Stack, state: ResourceState) -> dict[str, Any]:
    return {
        "StackName": stack.name,
        "StackId": stack.stack_id,
        "LogicalResourceId": state.logical_id,
        "PhysicalResourceId": state.physical_id,
        "ResourceType": state.type,
        "Timestamp": state.timestamp,
        "LastUpdatedTimestamp": state.timestamp,
        "ResourceStatus": state.status,
        "ResourceStatusReason": state.reason,
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


def _changes(stack: Stack, template: dict[str, Any]) -> list[dict[str, Any]]:
    old = stack.template.get("Resources", {})
    new = template["Resources"]
    actions = [("Add", name) for name in new if name not in old]
    actions += [("Modify", name) for name in new if name in old and new[name] != old[name]]
    actions += [("Remove", name) for name in old if name not in new]
    return [
        {
            "Type": "Resource",
            "ResourceChange": {
                "Action": action,
                "LogicalResourceId": name,
                "ResourceType": (new if name in new else old)[name]["Type"],
            },
        }
        for action, name in actions
    ]


def _describe_change_set(change_set: ChangeSet) -> dict[str, Any]:
    return {
        "ChangeSetName": change_set.name,
        "ChangeSetId": change_set.id,
        "StackId": change_set.stack.stack_id,
        "StackName": change_set.stack.name,
        "Description": change_set.description,
        "Parameters": [
            {"ParameterKey": name, "ParameterValue": value}
            for name, value in change_set.parameters.items()
        ],
        "CreationTime": change_set.created_at,
        "ExecutionStatus": change_set.execution_status,
        "Status": change_set.status,
        "StatusReason": change_set.reason,
        "Capabilities": change_set.capabilities,
        "Tags": [{"Key": key, "Value": value} for key, value in change_set.tags.items()],
        "Changes": change_set.changes,
    }
