"""The engine: creates, updates and deletes stacks' resources concurrently, rolls back, reports."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from lab.aws.api_errors import ApiError
from lab.aws.clients import ClientFactory
from lab.aws.clock import now
from lab.aws.cloudformation.coercion import text
from lab.aws.cloudformation.dependencies import (
    active_resources,
    dependencies,
    dependents,
    inverted,
    walk,
)
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.preparation import prepare, resolver_of
from lab.aws.cloudformation.resource_type import Created, ResourceContext, ResourceType
from lab.aws.cloudformation.stacks import STACK_TYPE, ResourceState, Stack, Stacks, Update
from lab.aws.cloudformation.template import TemplateError
from lab.waiting import until

LOG = logging.getLogger(__name__)


def _check_can_update(stack: Stack) -> None:
    """Raise ApiError for a stack whose status allows no update."""
    never = ("ROLLBACK_COMPLETE", "DELETE_COMPLETE")
    if not stack.status.endswith("_COMPLETE") or stack.status in never:
        raise ApiError(
            "ValidationError",
            f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.",
        )


class Engine:
    """Creates, updates and deletes stacks. `types` gets the engine and returns the resource types:
    the type of nested stacks creates stacks with it."""

    def __init__(
        self,
        stacks: Stacks,
        clients: ClientFactory,
        types: Callable[[Engine], Mapping[str, ResourceType]],
    ) -> None:
        self._stacks, self._clients = stacks, clients
        self._types = types(self)

    # -- requests

    def create(self, stack: Stack, *, wait_for: bool = False) -> Stack:
        """Register and create a stack; block only with `wait_for`. Raises ApiError if refused."""
        prepare(stack)
        self._stacks.add(stack)
        stack.set_status("CREATE_IN_PROGRESS", "User Initiated")
        self._run(lambda: self._create(stack), stack, wait_for)
        return stack

    def update(
        self,
        stack: Stack,
        body: str,
        parameters: dict[str, str],
        *,
        capabilities: list[str] | None = None,
        tags: dict[str, str] | None = None,
        wait_for: bool = False,
    ) -> None:
        """Update a stack in place. Raises ApiError if refused."""
        candidate = self.candidate(stack, body, parameters, capabilities=capabilities, tags=tags)
        if (
            candidate.template == stack.template
            and candidate.parameters == stack.parameters
            and candidate.tags == stack.tags
        ):
            raise ApiError("ValidationError", "No updates are to be performed.")
        stack.updated_at = now()
        stack.set_status("UPDATE_IN_PROGRESS", "User Initiated")
        self._run(lambda: self._update(stack, candidate), stack, wait_for)

    @staticmethod
    def candidate(
        stack: Stack,
        body: str,
        parameters: dict[str, str],
        *,
        capabilities: list[str] | None = None,
        tags: dict[str, str] | None = None,
    ) -> Stack:
        """What an update would make of a stack. Raises ApiError if refused."""
        _check_can_update(stack)
        candidate = Stack(
            stack.stack_id,
            stack.name,
            body,
            parameters,
            capabilities if capabilities is not None else stack.capabilities,
            stack.tags if tags is None else tags,
            parent_id=stack.parent_id,
            root_id=stack.root_id,
        )
        prepare(candidate)
        return candidate

    def delete(self, stack: Stack, *, wait_for: bool = False) -> None:
        """Delete a stack. First stop its creation if that still runs."""
        if stack.status in ("DELETE_COMPLETE", "DELETE_IN_PROGRESS"):
            return
        self._cancel(stack)
        if not _busy(stack):
            stack.set_status("DELETE_IN_PROGRESS", "User Initiated")
        self._run(lambda: self._delete(stack), stack, wait_for)

    def _cancel(self, stack: Stack) -> None:
        stack.cancelled.set()
        for child in self._stacks.live():
            if child.parent_id == stack.stack_id:
                self._cancel(child)

    # -- running

    def _run(self, work: Callable[[], None], stack: Stack, wait_for: bool) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:
                LOG.exception("stack %s", stack.name)
                action = stack.status.split("_", 1)[0]
                stack.set_status(f"{action}_FAILED", f"Internal Failure: {error}")

        if wait_for:
            guarded()
        else:
            threading.Thread(target=guarded, name=f"stack-{stack.name}", daemon=True).start()

    def _create(self, stack: Stack) -> None:
        failed = walk(
            dependencies(stack),
            lambda name: self._create_resource(stack, name),
            stop=stack.cancelled,
        )
        if not failed and not stack.cancelled.is_set():
            try:
                _set_outputs(stack)
            except TemplateError as error:
                stack.status_reason = str(error)
                failed = {"Outputs": error}
        if not failed and not stack.cancelled.is_set():
            stack.set_status("CREATE_COMPLETE")
            return
        if stack.cancelled.is_set():
            return  # the caller that cancelled it deletes the stack
        names = ", ".join(sorted(failed))
        detail = f" {failed['Outputs']}" if "Outputs" in failed else ""
        reason = f"The following resource(s) failed to create: [{names}].{detail}"
        if stack.disable_rollback:
            stack.set_status("CREATE_FAILED", reason)
            return
        stack.set_status("ROLLBACK_IN_PROGRESS", f"{reason} Rollback requested by user.")
        undone = self._delete_resources(stack, rollback=True)
        if undone:
            stack.set_status(
                "ROLLBACK_FAILED",
                f"The following resource(s) failed to delete: [{', '.join(sorted(undone))}].",
            )
        else:
            stack.set_status("ROLLBACK_COMPLETE")

    def _create_resource(self, stack: Stack, name: str) -> None:
        resource = stack.template["Resources"][name]
        state = ResourceState(
            name, resource["Type"], deletion_policy=resource.get("DeletionPolicy", "Delete")
        )
        with stack.lock:
            stack.resources[name] = state
        context = ResourceContext(self._clients, stack, state)
        try:
            if stack.cancelled.is_set():
                raise ResourceFailure("Resource creation cancelled")
            handler = self.handler(state.type)
            state.properties = resolver_of(stack).resolve(resource.get("Properties") or {})
            stack.set_resource_status(state, "CREATE_IN_PROGRESS")
            handler.check(state.properties)
            created = handler.create(context, state.properties)
        except Exception as error:
            stack.set_resource_status(state, "CREATE_FAILED", _reason(error))
            raise
        _apply(state, created)
        stack.set_resource_status(state, "CREATE_COMPLETE")

    def handler(self, kind: str) -> ResourceType:
        """The type of a resource. Raises ResourceFailure for one that is not supported."""
        if kind.startswith("Custom::"):
            kind = "AWS::CloudFormation::CustomResource"
        handler = self._types.get(kind)
        if handler is None:
            raise ResourceFailure(
                f"Resource type {kind} is not supported by this CloudFormation; it knows"
                f" {', '.join(sorted(self._types))}"
            )
        return handler

    # -- updating

    def _update(self, stack: Stack, candidate: Stack) -> None:
        stack.tags_changed = candidate.tags != stack.tags
        update = stack.update = Update(dependencies(stack))
        before = replace(stack)
        update.reverts.append(lambda: adopt(stack, before))
        adopt(stack, candidate)
        for name, needs in dependencies(stack).items():
            update.needs[name] = update.needs.get(name, set()) | needs
        failed = walk(
            dependencies(stack),
            lambda name: self._update_resource(stack, name, update),
            stop=stack.cancelled,
        )
        if not failed:
            try:
                _set_outputs(stack)
            except TemplateError as error:
                failed = {"Outputs": error}
        if failed:
            names = ", ".join(sorted(failed))
            self.take_back(stack, f"The following resource(s) failed to update: [{names}].")
        else:
            active = active_resources(stack)
            removed = [name for name in stack.resources if name not in active]
            update.retired |= {name: stack.resources.pop(name) for name in removed}
            stack.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        # A nested stack keeps what it has replaced until all stacks of the root are updated, so
        # that each can go back (https://repost.aws/knowledge-center/cloudformation-stack-cleanup-stuck).
        if stack.parent_id is None and stack.status.endswith("CLEANUP_IN_PROGRESS"):
            self._clean_up(stack)

    def take_back(self, stack: Stack, reason: str | None = None) -> None:
        """Give a stack back what it had before its update: all old resources still exist."""
        update = stack.update
        if update is None or update.is_taken_back:
            return
        stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", reason)
        update.is_taken_back = True
        for name, state in update.retired.items():
            stack.resources.setdefault(name, state)
        problems = []
        for step in update.reverts:
            try:
                step()
            except Exception as error:
                LOG.exception("rolling back %s", stack.name)
                problems.append(_reason(error))
        _set_outputs(stack)
        if problems:
            stack.set_status("UPDATE_ROLLBACK_FAILED", "; ".join(problems))
        else:
            stack.set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")

    def _clean_up(self, stack: Stack) -> None:
        """Delete what a stack's update leaves over, in it and in its nested stacks."""
        update, stack.update = stack.update, None
        if update is None:
            return
        left_over = update.added if update.is_taken_back else update.retired

        def clean(name: str) -> None:
            state = stack.resources.get(name)
            if state is not None and state.type == STACK_TYPE:
                self._clean_up(self._stacks.find(str(state.physical_id)))
            if name in left_over:
                self._try_to_delete(stack, left_over[name], rollback=update.is_taken_back)

        failed = walk(inverted(update.needs), clean, stop=None, keep_going=True)
        status = "UPDATE_ROLLBACK_COMPLETE" if update.is_taken_back else "UPDATE_COMPLETE"
        reason = "Update successful. One or more resources could not be deleted."
        stack.set_status(status, reason if failed else None)

    def _try_to_delete(self, stack: Stack, state: ResourceState, *, rollback: bool) -> None:
        """Delete what is left over, in three attempts as CloudFormation.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-updating-stacks-monitor-stack.html
        """
        for attempts_left in (2, 1, 0):
            try:
                self._delete_resource(stack, state, rollback=rollback)
            except Exception:
                LOG.exception("cleaning up %s of %s", state.logical_id, stack.name)
                if not attempts_left:
                    raise
            else:
                return

    def _update_resource(self, stack: Stack, name: str, update: Update) -> None:
        resource = stack.template["Resources"][name]
        state = stack.resources.get(name)
        if state is None:
            update.reverts.append(lambda: _forget(stack, name, None))
            self._make(stack, name, update)
            return
        state.deletion_policy = resource.get("DeletionPolicy", "Delete")
        new = resolver_of(stack).resolve(resource.get("Properties") or {})
        if new == state.properties and resource["Type"] == state.type:
            self._retag(stack, ResourceContext(self._clients, stack, state), update)
            return
        if resource["Type"] == state.type:
            if self._update_in_place(stack, state, new, update):
                return
            _refuse_fixed_name(self.handler(state.type), stack, state, new)
            stack.set_resource_status(
                state,
                "UPDATE_IN_PROGRESS",
                "Requested update requires the creation of a new physical resource; hence"
                " creating one.",
            )
        policy = resource.get("UpdateReplacePolicy", "Delete")
        update.reverts.append(lambda: _forget(stack, name, state))
        self._make(stack, name, update)
        update.retired[name] = replace(state, deletion_policy=policy)

    def _make(self, stack: Stack, name: str, update: Update) -> None:
        try:
            self._create_resource(stack, name)
        finally:
            update.added[name] = stack.resources[name]

    def _update_in_place(
        self, stack: Stack, state: ResourceState, new: dict[str, Any], update: Update
    ) -> bool:
        """Update a resource. Returns False when it has to be replaced."""
        handler, old = self.handler(state.type), state.properties
        context = ResourceContext(self._clients, stack, state)
        stack.set_resource_status(state, "UPDATE_IN_PROGRESS")
        try:
            handler.check(new)
            if handler.replaces(old, new):
                return False
            changed = handler.update(context, old, new) or Created(
                str(state.physical_id), state.attributes
            )
        except Exception as error:
            stack.set_resource_status(state, "UPDATE_FAILED", _reason(error))
            if handler.reverts_failed_update:
                update.reverts.append(lambda: self._revert(stack, state, new, old))
            raise
        if changed.physical_id != state.physical_id:
            # A custom resource that answers with another id has replaced what it stands for.
            policy = stack.template["Resources"][state.logical_id].get("UpdateReplacePolicy")
            update.retired[state.logical_id] = replace(state, deletion_policy=policy or "Delete")
        update.reverts.append(lambda: self._revert(stack, state, new, old))
        state.properties = new
        _apply(state, changed)
        self._retag(stack, context, update)
        stack.set_resource_status(state, "UPDATE_COMPLETE")
        return True

    def _retag(self, stack: Stack, context: ResourceContext, update: Update) -> None:
        if stack.tags_changed:
            handler = self.handler(context.state.type)
            update.reverts.append(lambda: handler.retag(context))
            handler.retag(context)

    def _revert(
        self, stack: Stack, state: ResourceState, new: dict[str, Any], old: dict[str, Any]
    ) -> None:
        context = ResourceContext(self._clients, stack, state)
        stack.set_resource_status(state, "UPDATE_IN_PROGRESS")
        try:
            created = self.handler(state.type).revert(context, new, old)
        except Exception as error:
            stack.set_resource_status(state, "UPDATE_FAILED", _reason(error))
            raise
        later = replace(state)
        state.properties = old
        if created is not None:
            _apply(state, created)
        stack.set_resource_status(state, "UPDATE_COMPLETE")
        if later.physical_id != state.physical_id and stack.update is not None:
            stack.update.added[state.logical_id] = later

    # -- deleting

    def _delete(self, stack: Stack) -> None:
        until(lambda: not _busy(stack), seconds=900, poll_seconds=0.05)
        if stack.status != "DELETE_IN_PROGRESS":
            stack.set_status("DELETE_IN_PROGRESS", "User Initiated")
        failed = self._delete_resources(stack, rollback=False)
        if failed:
            stack.set_status(
                "DELETE_FAILED",
                f"The following resource(s) failed to delete: [{', '.join(sorted(failed))}]. ",
            )
            return
        stack.outputs = {}
        stack.deleted_at = now()
        stack.set_status("DELETE_COMPLETE")

    def _delete_resources(self, stack: Stack, *, rollback: bool) -> dict[str, Exception]:
        """Delete the existing resources, dependents first. Returns those that failed, with why."""

        def remove(name: str) -> None:
            self._delete_resource(stack, stack.resources[name], rollback=rollback)

        return walk(dependents(stack), remove, stop=None, keep_going=True)

    def _delete_resource(
        self, stack: Stack, state: ResourceState, *, rollback: bool = False
    ) -> None:
        if state.status in ("DELETE_COMPLETE", "DELETE_SKIPPED"):
            return
        if state.physical_id is None:
            stack.set_resource_status(state, "DELETE_COMPLETE")
            return
        if state.deletion_policy == "Retain" or (
            state.deletion_policy == "RetainExceptOnCreate" and not rollback
        ):
            stack.set_resource_status(state, "DELETE_SKIPPED")
            return
        stack.set_resource_status(state, "DELETE_IN_PROGRESS")
        try:
            self.handler(state.type).delete(ResourceContext(self._clients, stack, state))
        except Exception as error:
            if not _is_gone(error):
                stack.set_resource_status(state, "DELETE_FAILED", _reason(error))
                raise
        stack.set_resource_status(state, "DELETE_COMPLETE")


def _set_outputs(stack: Stack) -> None:
    resolver = resolver_of(stack)
    outputs: dict[str, dict[str, Any]] = {}
    for name, output in (stack.template.get("Outputs") or {}).items():
        if "Condition" in output and not stack.conditions[output["Condition"]]:
            continue
        entry = {"OutputKey": name, "OutputValue": text(resolver.resolve(output["Value"]))}
        if "Description" in output:
            entry["Description"] = str(output["Description"])
        outputs[name] = entry
    stack.outputs = outputs


def _forget(stack: Stack, name: str, old: ResourceState | None) -> None:
    """Give a stack its old resource back, or none."""
    stack.resources.pop(name, None)
    if old is not None:
        stack.resources[name] = old


def adopt(stack: Stack, source: Stack) -> None:
    """Give a stack the template, parameters, capabilities and tags of another."""
    for field in (
        "template_body",
        "given_parameters",
        "capabilities",
        "tags",
        "template",
        "parameters",
        "conditions",
    ):
        setattr(stack, field, getattr(source, field))


def _refuse_fixed_name(
    handler: ResourceType, stack: Stack, state: ResourceState, new: Mapping[str, Any]
) -> None:
    """Refuse to replace a resource whose name the template sets and does not change.

    https://repost.aws/knowledge-center/cloudformation-custom-name
    """
    name = handler.name_property
    if name is None or name not in new or new[name] != state.properties.get(name):
        return
    failure = ResourceFailure(
        "CloudFormation cannot update a stack when a custom-named resource requires replacing."
        f" Rename {new[name]} and update the stack again."
    )
    stack.set_resource_status(state, "UPDATE_FAILED", str(failure))
    raise failure


def _busy(stack: Stack) -> bool:
    return any(
        state.status in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS")
        for state in list(stack.resources.values())
    )


def _apply(state: ResourceState, created: Created) -> None:
    state.physical_id = created.physical_id
    state.attributes = dict(created.attributes)


def _reason(error: BaseException) -> str:
    if isinstance(error, ClientError):
        details = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return (
            f'Resource handler returned message: "{details.get("Message", error)}"'
            f" ({error.operation_name}, Status Code: {status}, Error Code: {details.get('Code')})"
        )
    if isinstance(error, (ResourceFailure, TemplateError, ApiError)):
        return str(error)
    return f"{type(error).__name__}: {error}"


_GONE = ("NotFound", "NoSuch", "DoesNotExist")


def _is_gone(error: BaseException) -> bool:
    """Whether a deletion failed because there is nothing to delete."""
    if not isinstance(error, ClientError):
        return False
    code = str(error.response.get("Error", {}).get("Code", ""))
    return any(mark in code for mark in _GONE)
