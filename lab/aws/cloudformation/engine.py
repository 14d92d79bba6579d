"""The engine: orders resources, makes and removes them concurrently, rolls back, reports."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from .intrinsics import Resolver, referenced_names
from .model import (
    Created,
    ResourceContext,
    ResourceFailure,
    ResourceState,
    ResourceType,
    Stack,
    utcnow,
)
from .parameters import Rules, resolve_parameters
from .tagging import retag
from .template import (
    TemplateError,
    apply_transforms,
    check_limits,
    parse_template,
    transforms_of,
)

if TYPE_CHECKING:
    from ..services import Services

LOG = logging.getLogger(__name__)

_CONCURRENCY = 12
_RESOURCE_ATTRIBUTES = {
    "Type",
    "Properties",
    "DependsOn",
    "Condition",
    "Metadata",
    "DeletionPolicy",
    "UpdateReplacePolicy",
    "UpdatePolicy",
    "CreationPolicy",
}


class StackError(Exception):
    """A refused request: code and message of the API error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class StackBackend:
    """All stacks of the Region."""

    def __init__(self, services: Services, types: Mapping[str, ResourceType]) -> None:
        self.services = services
        self.types = types
        self.stacks: dict[str, Stack] = {}
        self._lock = threading.RLock()

    # -- looking up

    def find(self, name_or_id: str) -> Stack:
        """The stack of this id, or the live stack of this name. Raises StackError."""
        with self._lock:
            if name_or_id in self.stacks:
                return self.stacks[name_or_id]
            for stack in self.stacks.values():
                if stack.name == name_or_id and stack.status != "DELETE_COMPLETE":
                    return stack
        raise StackError("ValidationError", f"Stack with id {name_or_id} does not exist")

    def live(self) -> list[Stack]:
        """Stacks that are not deleted, newest first."""
        with self._lock:
            found = [s for s in self.stacks.values() if s.status != "DELETE_COMPLETE"]
        return sorted(found, key=lambda stack: stack.created_at, reverse=True)

    def exports(self) -> dict[str, tuple[Stack, Any]]:
        """Exported values by name."""
        return {
            output["ExportName"]: (stack, output["OutputValue"])
            for stack in self.live()
            for output in stack.outputs.values()
            if "ExportName" in output
        }

    # -- requests

    def create(self, stack: Stack, *, wait_for: bool = False) -> Stack:
        """Register and create a stack; blocks only if asked. Raises StackError if refused."""
        with self._lock:
            if any(s.name == stack.name and s.stack_id != stack.stack_id for s in self.live()):
                raise StackError("AlreadyExistsException", f"Stack [{stack.name}] already exists")
            self._prepare(stack, stack.template_body, stack.given_parameters)
            self.stacks[stack.stack_id] = stack
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
        """Update a stack in place. Raises StackError if refused."""
        if not stack.status.endswith("_COMPLETE") or stack.status in (
            "ROLLBACK_COMPLETE",
            "DELETE_COMPLETE",
        ):
            raise StackError(
                "ValidationError",
                f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.",
            )
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
        self._prepare(candidate, body, parameters)
        if (
            candidate.template == stack.template
            and candidate.parameters == stack.parameters
            and candidate.tags == stack.tags
        ):
            raise StackError("ValidationError", "No updates are to be performed.")
        stack.updated_at = utcnow()
        stack.set_status("UPDATE_IN_PROGRESS", "User Initiated")
        self._run(lambda: self._update(stack, candidate), stack, wait_for)

    def delete(self, stack: Stack, *, wait_for: bool = False) -> None:
        """Delete a stack. A creation that is under way is told to stop first."""
        if stack.termination_protection:
            raise StackError(
                "ValidationError",
                f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled",
            )
        if stack.status in ("DELETE_COMPLETE", "DELETE_IN_PROGRESS"):
            return
        self._cancel(stack)
        self._run(lambda: self._delete(stack), stack, wait_for)

    def _cancel(self, stack: Stack) -> None:
        stack.cancelled.set()
        for child in list(self.stacks.values()):
            if child.parent_id == stack.stack_id:
                self._cancel(child)

    # -- preparing

    def validate(self, body: str) -> dict[str, Any]:
        """The parsed template. Raises StackError."""
        try:
            return parse_template(body)
        except TemplateError as error:
            raise StackError("ValidationError", str(error)) from error

    def _prepare(self, stack: Stack, body: str, given: Mapping[str, str]) -> None:
        try:
            source = parse_template(body)
            declared = transforms_of(source)
            if declared and "CAPABILITY_AUTO_EXPAND" not in stack.capabilities:
                raise StackError(
                    "InsufficientCapabilitiesException",
                    f"Requires capabilities : [CAPABILITY_AUTO_EXPAND] for {declared}",
                )
            check_limits(source)
            stack.parameters = resolve_parameters(source, given, self.services.read_ssm)
            stack.template = apply_transforms(source, stack.parameters, self.services.region)
            check_limits(stack.template)
            self._check_capabilities(stack)
            resolver = self._resolver(stack, stack.template)
            Rules(source, stack.parameters, self._attribute_of).check(resolver)
            resolver.evaluate_conditions()
            stack.conditions = resolver.conditions
            self._check_resources(stack)
        except TemplateError as error:
            raise StackError("ValidationError", str(error)) from error

    def _attribute_of(self, kind: str, value: str, attribute: str) -> Any:
        try:
            return self.services.parameter_attribute(kind, value, attribute)
        except (ClientError, ValueError) as error:
            raise TemplateError(f"Template validation error: {error}") from error

    def _check_capabilities(self, stack: Stack) -> None:
        granted = set(stack.capabilities)
        named = {"AWS::IAM::Role": "RoleName", "AWS::IAM::ManagedPolicy": "ManagedPolicyName"}
        for resource in stack.template["Resources"].values():
            kind = resource["Type"]
            if not kind.startswith("AWS::IAM::"):
                continue
            if named.get(kind) in (resource.get("Properties") or {}):
                needed = {"CAPABILITY_NAMED_IAM"}
            else:
                needed = {"CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"}
            if not needed & granted:
                raise StackError(
                    "InsufficientCapabilitiesException",
                    f"Requires capabilities : [{sorted(needed)[0]}]",
                )

    def _check_resources(self, stack: Stack) -> None:
        """Refuse templates whose references dangle, before anything is made."""
        resources = stack.template["Resources"]
        known = set(resources) | set(stack.parameters)
        for logical_id, resource in resources.items():
            strange = set(resource) - _RESOURCE_ATTRIBUTES
            if strange:
                raise TemplateError(
                    f"Template format error: [/Resources/{logical_id}] Encountered unsupported"
                    f" property {sorted(strange)[0]}"
                )
            for name in _depends_on(resource):
                if name not in resources:
                    raise TemplateError(
                        "Template format error: Unresolved resource dependencies"
                        f" [{name}] in the Resources block of the template"
                    )
            names = referenced_names(resource.get("Properties") or {}, stack.conditions)
            dangling = sorted(n for n in names - known if not n.startswith("AWS::"))
            if dangling:
                raise TemplateError(
                    "Template format error: Unresolved resource dependencies"
                    f" [{', '.join(dangling)}] in the Resources block of the template"
                )
        _order(self._active(stack), self._dependencies(stack))

    def _resolver(self, stack: Stack, template: Mapping[str, Any]) -> Resolver:
        pseudo = {
            "AWS::AccountId": self.services.account_id,
            "AWS::Region": self.services.region,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": stack.name,
            "AWS::StackId": stack.stack_id,
            "AWS::NotificationARNs": stack.notification_arns,
        }

        def reference(name: str) -> Any:
            if name in pseudo:
                return pseudo[name]
            if name in stack.parameters:
                return stack.parameters[name]
            resource = stack.resources.get(name)
            if resource is None or resource.physical_id is None:
                raise TemplateError(f"Template error: unresolved reference to {name}")
            return resource.physical_id

        def attribute(name: str, attribute_name: str) -> Any:
            resource = stack.resources.get(name)
            if resource is None:
                raise TemplateError(
                    f"Template error: instance of Fn::GetAtt references undefined resource {name}"
                )
            found: Any = resource.attributes
            if attribute_name in found:
                return found[attribute_name]
            for part in attribute_name.split("."):
                if not isinstance(found, Mapping) or part not in found:
                    raise TemplateError(
                        f"Requested attribute {attribute_name} does not exist in schema for"
                        f" {resource.type} ({name})"
                    )
                found = found[part]
            return found

        def import_value(name: str) -> Any:
            exports = self.exports()
            if name not in exports:
                raise TemplateError(f"No export named {name} found.")
            return exports[name][1]

        resolver = Resolver(
            template,
            reference=reference,
            attribute=attribute,
            import_value=import_value,
            zones=self.services.availability_zones,
        )
        resolver.conditions = dict(stack.conditions)
        return resolver

    def _active(self, stack: Stack) -> dict[str, dict[str, Any]]:
        """Resources of the template whose condition holds."""
        return {
            name: resource
            for name, resource in stack.template["Resources"].items()
            if "Condition" not in resource or stack.conditions[resource["Condition"]]
        }

    def _dependencies(self, stack: Stack) -> dict[str, set[str]]:
        active = self._active(stack)
        return {
            name: (
                set(_depends_on(resource))
                | referenced_names(resource.get("Properties") or {}, stack.conditions)
            )
            & set(active)
            for name, resource in active.items()
        }

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
        failed = self._walk(
            self._dependencies(stack),
            lambda name: self._create_resource(stack, name),
            stop=stack.cancelled,
        )
        if not failed and not stack.cancelled.is_set():
            try:
                self._set_outputs(stack)
            except TemplateError as error:
                stack.status_reason = str(error)
                failed = {"Outputs": error}
        if not failed and not stack.cancelled.is_set():
            stack.set_status("CREATE_COMPLETE")
            return
        if stack.cancelled.is_set():
            return  # whoever cancelled deletes
        names = ", ".join(sorted(failed))
        detail = f" {failed['Outputs']}" if "Outputs" in failed else ""
        reason = f"The following resource(s) failed to create: [{names}].{detail}"
        if stack.disable_rollback or stack.on_failure == "DO_NOTHING":
            stack.set_status("CREATE_FAILED", reason)
            return
        stack.set_status("ROLLBACK_IN_PROGRESS", f"{reason} Rollback requested by user.")
        undone = self._delete_resources(stack, rollback=True)
        if undone:
            stack.set_status(
                "ROLLBACK_FAILED",
                f"The following resource(s) failed to delete: [{', '.join(sorted(undone))}].",
            )
        elif stack.on_failure == "DELETE":
            self._finish_delete(stack)
        else:
            stack.set_status("ROLLBACK_COMPLETE")

    def _create_resource(self, stack: Stack, name: str) -> None:
        resource = stack.template["Resources"][name]
        state = ResourceState(
            name, resource["Type"], deletion_policy=resource.get("DeletionPolicy", "Delete")
        )
        with stack.lock:
            stack.resources[name] = state
        context = ResourceContext(self.services, self, stack, state)
        try:
            if stack.cancelled.is_set():
                raise ResourceFailure("Resource creation cancelled")
            handler = self._handler(state.type)
            state.properties = self._resolver(stack, stack.template).resolve(
                resource.get("Properties") or {}
            )
            stack.set_resource_status(state, "CREATE_IN_PROGRESS")
            handler.check(state.properties)
            made = handler.create(context, state.properties)
        except Exception as error:
            stack.set_resource_status(state, "CREATE_FAILED", _reason(error))
            raise
        _apply(state, made)
        stack.set_resource_status(state, "CREATE_COMPLETE")

    def _handler(self, kind: str) -> ResourceType:
        if kind.startswith("Custom::"):
            kind = "AWS::CloudFormation::CustomResource"
        handler = self.types.get(kind)
        if handler is None:
            raise ResourceFailure(
                f"Resource type {kind} is not supported by this CloudFormation; it knows"
                f" {', '.join(sorted(self.types))}"
            )
        return handler

    def _set_outputs(self, stack: Stack) -> None:
        resolver = self._resolver(stack, stack.template)
        outputs: dict[str, dict[str, Any]] = {}
        for name, output in (stack.template.get("Outputs") or {}).items():
            if "Condition" in output and not stack.conditions[output["Condition"]]:
                continue
            value = resolver.resolve(output["Value"])
            entry = {
                "OutputKey": name,
                "OutputValue": ",".join(value) if isinstance(value, list) else str(value),
            }
            if "Description" in output:
                entry["Description"] = str(output["Description"])
            if "Export" in output:
                export = str(resolver.resolve(output["Export"]["Name"]))
                owner = self.exports().get(export)
                if owner and owner[0].stack_id != stack.stack_id:
                    raise TemplateError(
                        f"Export with name {export} is already exported by stack {owner[0].name}."
                    )
                entry["ExportName"] = export
            outputs[name] = entry
        stack.outputs = outputs

    # -- updating

    def _update(self, stack: Stack, candidate: Stack) -> None:
        before = Stack(
            stack.stack_id,
            stack.name,
            stack.template_body,
            stack.given_parameters,
            stack.capabilities,
            stack.tags,
            template=stack.template,
            parameters=stack.parameters,
            conditions=stack.conditions,
        )
        stack.tags_changed = candidate.tags != stack.tags
        _adopt(stack, candidate)
        undo: list[Callable[[], None]] = []
        retired: list[ResourceState] = []
        failed = self._walk(
            self._dependencies(stack),
            lambda name: self._update_resource(stack, name, undo, retired),
            stop=stack.cancelled,
        )
        if not failed:
            try:
                self._set_outputs(stack)
            except TemplateError as error:
                failed = {"Outputs": error}
        if failed:
            names = ", ".join(sorted(failed))
            stack.set_status(
                "UPDATE_ROLLBACK_IN_PROGRESS",
                f"The following resource(s) failed to update: [{names}].",
            )
            _adopt(stack, before)
            problems = []
            for step in reversed(undo):
                try:
                    step()
                except Exception as error:
                    problems.append(_reason(error))
            self._set_outputs(stack)
            if problems:
                stack.set_status("UPDATE_ROLLBACK_FAILED", "; ".join(problems))
            else:
                stack.set_status("UPDATE_ROLLBACK_COMPLETE")
            return
        stack.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        active = self._active(stack)
        for name in reversed(list(stack.resources)):
            if name not in active:
                retired.append(stack.resources.pop(name))
        for state in retired:
            try:
                self._delete_resource(stack, state)
            except Exception:
                LOG.exception("cleaning up %s of %s", state.logical_id, stack.name)
        stack.set_status("UPDATE_COMPLETE")

    def _update_resource(
        self,
        stack: Stack,
        name: str,
        undo: list[Callable[[], None]],
        retired: list[ResourceState],
    ) -> None:
        resource = stack.template["Resources"][name]
        state = stack.resources.get(name)
        if state is None:
            undo.append(lambda: self._forget(stack, name))
            self._create_resource(stack, name)
            return
        state.deletion_policy = resource.get("DeletionPolicy", "Delete")
        old = state.properties
        new = self._resolver(stack, stack.template).resolve(resource.get("Properties") or {})
        context = ResourceContext(self.services, self, stack, state)
        if new == old and resource["Type"] == state.type:
            self._retag(stack, context, undo)
            return
        if resource["Type"] == state.type:
            stack.set_resource_status(state, "UPDATE_IN_PROGRESS")
            try:
                handler = self._handler(state.type)
                handler.check(new)
                changed = handler.update(context, old, new)
            except Exception as error:
                stack.set_resource_status(state, "UPDATE_FAILED", _reason(error))
                raise
            if changed is not None:
                undo.append(lambda: self._revert(stack, state, new, old))
                state.properties = new
                _apply(state, changed)
                self._retag(stack, context, undo)
                stack.set_resource_status(state, "UPDATE_COMPLETE")
                return
            stack.set_resource_status(
                state,
                "UPDATE_IN_PROGRESS",
                "Requested update requires the creation of a new physical resource; hence"
                " creating one.",
            )

        def restore() -> None:
            self._forget(stack, name)
            stack.resources[name] = state

        undo.append(restore)
        self._create_resource(stack, name)
        retired.append(state)

    def _retag(
        self, stack: Stack, context: ResourceContext, undo: list[Callable[[], None]]
    ) -> None:
        if stack.tags_changed:
            undo.append(lambda: self._tag(context))
            self._tag(context)

    @staticmethod
    def _tag(context: ResourceContext) -> None:
        retag(context, context.state.properties)

    def _revert(
        self, stack: Stack, state: ResourceState, new: dict[str, Any], old: dict[str, Any]
    ) -> None:
        context = ResourceContext(self.services, self, stack, state)
        made = self._handler(state.type).update(context, new, old)
        state.properties = old
        if made is not None:
            _apply(state, made)
        stack.set_resource_status(state, "UPDATE_COMPLETE")

    def _forget(self, stack: Stack, name: str) -> None:
        state = stack.resources.pop(name, None)
        if state is not None and state.physical_id is not None:
            self._delete_resource(stack, state)

    # -- deleting

    def _delete(self, stack: Stack) -> None:
        deadline = 900.0
        settled = threading.Event()
        while _busy(stack) and deadline > 0:
            settled.wait(0.05)
            deadline -= 0.05
        stack.set_status("DELETE_IN_PROGRESS", "User Initiated")
        failed = self._delete_resources(stack, rollback=False)
        if failed:
            stack.set_status(
                "DELETE_FAILED",
                f"The following resource(s) failed to delete: [{', '.join(sorted(failed))}]. ",
            )
            return
        self._finish_delete(stack)

    def _finish_delete(self, stack: Stack) -> None:
        stack.outputs = {}
        stack.deleted_at = utcnow()
        stack.set_status("DELETE_COMPLETE")

    def _delete_resources(self, stack: Stack, *, rollback: bool) -> dict[str, Exception]:
        """Delete what exists, dependents first. Returns what could not be deleted."""
        dependencies = self._dependencies(stack)
        dependents: dict[str, set[str]] = {name: set() for name in stack.resources}
        for name, needs in dependencies.items():
            for need in needs:
                if need in dependents and name in stack.resources:
                    dependents[need].add(name)

        def remove(name: str) -> None:
            self._delete_resource(stack, stack.resources[name], rollback=rollback)

        return self._walk(dependents, remove, stop=None, keep_going=True)

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
            self._handler(state.type).delete(ResourceContext(self.services, self, stack, state))
        except Exception as error:
            if not _is_gone(error):
                stack.set_resource_status(state, "DELETE_FAILED", _reason(error))
                raise
        stack.set_resource_status(state, "DELETE_COMPLETE")

    # -- walking the graph

    def _walk(
        self,
        needs: Mapping[str, set[str]],
        action: Callable[[str], None],
        *,
        stop: threading.Event | None,
        keep_going: bool = False,
    ) -> dict[str, Exception]:
        """Run `action` on every node after the nodes it needs. Returns the failures.

        After a failure nothing new is started, unless `keep_going`: then only nodes that need
        a failed one are left out.
        """
        waiting = {name: set(need) for name, need in needs.items()}
        failed: dict[str, Exception] = {}
        running: dict[Future[None], str] = {}
        with ThreadPoolExecutor(_CONCURRENCY, thread_name_prefix="stack") as pool:
            while True:
                halted = (failed and not keep_going) or (stop is not None and stop.is_set())
                if not halted:
                    for name in [n for n, need in waiting.items() if not need]:
                        del waiting[name]
                        running[pool.submit(action, name)] = name
                if not running:
                    break
                done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in done:
                    name = running.pop(future)
                    error = future.exception()
                    if error is None:
                        for need in waiting.values():
                            need.discard(name)
                    elif isinstance(error, Exception):
                        LOG.info("%s: %s", name, error)
                        failed[name] = error
                    else:
                        raise error
        return failed


def new_stack_id(name: str, region: str, account_id: str) -> str:
    """A stack's ARN."""
    return f"arn:aws:cloudformation:{region}:{account_id}:stack/{name}/{uuid.uuid4()}"


def _adopt(stack: Stack, source: Stack) -> None:
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


def _busy(stack: Stack) -> bool:
    return any(
        state.status in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS")
        for state in list(stack.resources.values())
    )


def _apply(state: ResourceState, made: Created) -> None:
    state.physical_id = made.physical_id
    state.attributes = dict(made.attributes)


def _depends_on(resource: Mapping[str, Any]) -> list[str]:
    names = resource.get("DependsOn", [])
    return [names] if isinstance(names, str) else list(names)


def _order(resources: Mapping[str, Any], needs: Mapping[str, set[str]]) -> list[str]:
    ordered: list[str] = []
    waiting = {name: set(needs[name]) for name in resources}
    while waiting:
        ready = [name for name, need in waiting.items() if not need - set(ordered)]
        if not ready:
            raise TemplateError(
                f"Circular dependency between resources: [{', '.join(sorted(waiting))}]"
            )
        for name in ready:
            ordered.append(name)
            del waiting[name]
    return ordered


def _reason(error: BaseException) -> str:
    if isinstance(error, ClientError):
        details = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return (
            f'Resource handler returned message: "{details.get("Message", error)}"'
            f" ({error.operation_name}, Status Code: {status}, Error Code: {details.get('Code')})"
        )
    if isinstance(error, (ResourceFailure, TemplateError, StackError)):
        return str(error)
    return f"{type(error).__name__}: {error}"


_GONE = (
    "NotFound",
    "NoSuch",
    "DoesNotExist",
    "NotFoundException",
)


def _is_gone(error: BaseException) -> bool:
    """Whether a deletion failed because there is nothing to delete."""
    if not isinstance(error, ClientError):
        return False
    code = str(error.response.get("Error", {}).get("Code", ""))
    return any(mark in code for mark in _GONE)
