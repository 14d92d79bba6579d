"""Prepares a stack: checks and transforms its template and evaluates the conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.api_errors import ApiError
from lab.aws.cloudformation.dependencies import dependencies, depends_on, refuse_circles
from lab.aws.cloudformation.intrinsics import Resolver, referenced_names
from lab.aws.cloudformation.parameters import Rules, resolve_parameters
from lab.aws.cloudformation.stacks import Stack
from lab.aws.cloudformation.template import (
    TemplateError,
    apply_transforms,
    check_limits,
    parse_template,
    transforms_of,
)

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
_NAMES_OF_IAM_RESOURCES = {
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
}


def read_template(body: str) -> dict[str, Any]:
    """The parsed template. Raises ApiError."""
    try:
        return parse_template(body)
    except TemplateError as error:
        raise ApiError("ValidationError", str(error)) from error


def prepare(stack: Stack) -> None:
    """Fill in a stack's parameters, template and conditions from its body and given parameters.

    Raises ApiError for everything that CloudFormation refuses before it creates anything.
    """
    source = read_template(stack.template_body)
    try:
        declared = transforms_of(source)
        if declared and "CAPABILITY_AUTO_EXPAND" not in stack.capabilities:
            raise ApiError(
                "InsufficientCapabilitiesException",
                f"Requires capabilities : [CAPABILITY_AUTO_EXPAND] for {declared}",
            )
        check_limits(source)
        stack.parameters = resolve_parameters(source, stack.given_parameters)
        stack.template = apply_transforms(source, stack.parameters, REGION)
        check_limits(stack.template)
        _check_capabilities(stack)
        resolver = resolver_of(stack)
        Rules(source, stack.parameters).check(resolver)
        resolver.evaluate_conditions()
        stack.conditions = resolver.conditions
        _check_resources(stack)
    except TemplateError as error:
        raise ApiError("ValidationError", str(error)) from error


def resolver_of(stack: Stack) -> Resolver:
    """A resolver with the stack's parameters and the resources that it has."""
    pseudo = {
        "AWS::AccountId": ACCOUNT_ID,
        "AWS::Region": REGION,
        "AWS::Partition": "aws",
        "AWS::URLSuffix": "amazonaws.com",
        "AWS::StackName": stack.name,
        "AWS::StackId": stack.stack_id,
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
        value: Any = resource.attributes
        if attribute_name in value:
            return value[attribute_name]
        for part in attribute_name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise TemplateError(
                    f"Requested attribute {attribute_name} does not exist in schema for"
                    f" {resource.type} ({name})"
                )
            value = value[part]
        return value

    resolver = Resolver(stack.template, reference=reference, attribute=attribute)
    resolver.conditions = dict(stack.conditions)
    return resolver


def _check_capabilities(stack: Stack) -> None:
    granted = set(stack.capabilities)
    for resource in stack.template["Resources"].values():
        kind = resource["Type"]
        if not kind.startswith("AWS::IAM::"):
            continue
        if _NAMES_OF_IAM_RESOURCES.get(kind) in (resource.get("Properties") or {}):
            needed = {"CAPABILITY_NAMED_IAM"}
        else:
            needed = {"CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"}
        if not needed & granted:
            raise ApiError(
                "InsufficientCapabilitiesException",
                f"Requires capabilities : [{sorted(needed)[0]}]",
            )


def _check_resources(stack: Stack) -> None:
    """Refuse templates that refer to missing names, before anything is created."""
    resources = stack.template["Resources"]
    defined = set(resources) | set(stack.parameters)
    for logical_id, resource in resources.items():
        strange = set(resource) - _RESOURCE_ATTRIBUTES
        if strange:
            raise TemplateError(
                f"Template format error: [/Resources/{logical_id}] Encountered unsupported"
                f" property {sorted(strange)[0]}"
            )
        names = referenced_names(resource.get("Properties") or {}, stack.conditions)
        dangling = sorted(
            {name for name in depends_on(resource) if name not in resources}
            | {name for name in names - defined if not name.startswith("AWS::")}
        )
        if dangling:
            raise TemplateError(
                "Template format error: Unresolved resource dependencies"
                f" [{', '.join(dangling)}] in the Resources block of the template"
            )
    refuse_circles(dependencies(stack))
