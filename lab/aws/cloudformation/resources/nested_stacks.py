"""AWS::CloudFormation::Stack"""

from __future__ import annotations

from typing import Any

from lab.aws.api_errors import ApiError
from lab.aws.clients import ClientFactory
from lab.aws.cloudformation.coercion import text
from lab.aws.cloudformation.engine import Engine
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType
from lab.aws.cloudformation.stacks import STACK_TYPE, Stack, Stacks, new_stack_id
from lab.aws.cloudformation.template_urls import read_template_url


def _parameters(properties: Properties) -> dict[str, str]:
    return {name: text(value) for name, value in (properties.get("Parameters") or {}).items()}


def _tags(parent: Stack, properties: Properties) -> dict[str, str]:
    """The parent's tags and the nested stack's own, which every resource in it gets."""
    return {**parent.tags, **{tag["Key"]: tag["Value"] for tag in properties.get("Tags", [])}}


def update_request(parent: Stack, properties: Properties, clients: ClientFactory) -> dict[str, Any]:
    """What an update of the parent asks of a nested stack, as the engine takes it."""
    return {
        "body": read_template_url(clients, properties["TemplateURL"]),
        "parameters": _parameters(properties),
        "capabilities": parent.capabilities,
        "tags": _tags(parent, properties),
    }


class NestedStack(ResourceType):
    """A stack in a stack, with its outputs as attributes."""

    type = STACK_TYPE
    properties = ("Parameters", "Tags", "TemplateURL")

    def __init__(self, engine: Engine, stacks: Stacks) -> None:
        self._engine, self._stacks = engine, stacks

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        parent = context.stack
        name = context.physical_name(128)
        stack_id = new_stack_id(name)
        stack = Stack(
            stack_id,
            name,
            read_template_url(context.clients, properties["TemplateURL"]),
            _parameters(properties),
            parent.capabilities,
            _tags(parent, properties),
            disable_rollback=parent.disable_rollback,
            parent_id=parent.stack_id,
            root_id=parent.root_id or parent.stack_id,
        )
        # Register the id now, so that functions that run during the creation belong to the stack.
        context.begin(stack_id)
        try:
            self._engine.create(stack, wait_for=True)
        except ApiError as error:
            context.state.physical_id = None  # CloudFormation refused it: nothing to delete
            raise ResourceFailure(error.message) from error
        if stack.status == "CREATE_IN_PROGRESS":
            raise ResourceFailure("Resource creation cancelled")
        if stack.status != "CREATE_COMPLETE":
            raise ResourceFailure(
                f"Embedded stack {stack_id} was not successfully created: {_failure(stack)}"
            )
        return self._created(stack)

    @staticmethod
    def _created(stack: Stack) -> Created:
        return Created(
            stack.stack_id,
            {f"Outputs.{name}": output["OutputValue"] for name, output in stack.outputs.items()},
        )

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> Created:
        stack = self._stacks.find(str(context.state.physical_id))
        request = update_request(context.stack, new, context.clients)
        try:
            self._engine.update(stack, **request, wait_for=True)
        except ApiError as error:
            if "No updates are to be performed" in error.message:
                return self._created(stack)
            raise ResourceFailure(error.message) from error
        if stack.status != "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS":
            raise ResourceFailure(
                f"Embedded stack {stack.stack_id} was not successfully updated: {_failure(stack)}"
            )
        return self._created(stack)

    def revert(self, context: ResourceContext, new: Properties, old: Properties) -> Created:
        stack = self._stacks.find(str(context.state.physical_id))
        self._engine.take_back(stack)
        if stack.status == "UPDATE_ROLLBACK_FAILED":
            raise ResourceFailure(f"Embedded stack {stack.stack_id}: {stack.status_reason}")
        return self._created(stack)

    def delete(self, context: ResourceContext) -> None:
        stack = self._stacks.find(str(context.state.physical_id))
        self._engine.delete(stack, wait_for=True)
        if stack.status != "DELETE_COMPLETE":
            raise ResourceFailure(
                f"Embedded stack {stack.stack_id} was not successfully deleted:"
                f" {stack.status_reason}"
            )


def _failure(stack: Stack) -> str:
    """Why the stack failed: the reason from before the rollback."""
    for event in stack.events:
        if event["LogicalResourceId"] == stack.name and event["ResourceStatus"] in (
            "ROLLBACK_IN_PROGRESS",
            "CREATE_FAILED",
            "UPDATE_ROLLBACK_IN_PROGRESS",
        ):
            return (event["ResourceStatusReason"] or "").removesuffix(
                " Rollback requested by user."
            )
    return stack.status_reason or stack.status
