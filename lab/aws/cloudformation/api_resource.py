"""Resource types that are rows: which operations of an API create, change and delete a resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.aws.cloudformation.coercion import camel_case
from lab.aws.cloudformation.resource_type import (
    Created,
    Properties,
    ResourceContext,
    ResourceType,
    Tagging,
)


class Call:
    """An operation, such as CreateVpc, and its parameters besides the resource's properties.

    A parameter is a template of the resource's properties and attributes and of its physical id,
    such as `{VpcId}` and `{id}`. One of a property that the resource does not have is left out.
    """

    def __init__(self, operation: str, **parameters: str) -> None:
        self.operation, self._parameters = operation, parameters

    def parameters(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The parameters for a resource of which `values` has properties, attributes and id."""
        filled = {}
        for name, template in self._parameters.items():
            try:
                filled[name] = template.format_map(values)
            except KeyError:
                continue
        return filled


def names(text: str) -> tuple[str, ...]:
    """The names in a text, which blanks separate."""
    return tuple(text.split())


Prepare = Callable[[ResourceContext, Properties], Properties]


def _unchanged(_: ResourceContext, properties: Properties) -> Properties:
    return properties


def renamed(**new_names: str) -> Prepare:
    """A preparation that gives properties the API's names for them."""

    def prepare(_: ResourceContext, properties: Properties) -> Properties:
        return {new_names.get(name, name): value for name, value in properties.items()}

    return prepare


@dataclass(frozen=True, kw_only=True)
class ApiResource(ResourceType):
    """A type whose resources an API's operations create, change and delete.

    Attributes:
        type: the type's name, of which the middle part is the service.
        properties: the supported properties.
        creation: creates a resource, with all properties but Tags and those in `later`.
        change: changes a resource, with the same properties; None if no call does.
        deletion: deletes a resource; None if `before_delete` has done it.
        result: the member of the creation's response with the resource; "" for the response itself.
        id: the physical id, as a template of the properties and of the result.
        attributes: the values of Fn::GetAtt by name, as templates of the same and of `id`.
        name: the property with the resource's name, and how long a generated one may be.
        lower_name: whether a generated name is in lower case.
        camel: whether the API's members have names in camelCase.
        verbatim: the properties whose keys are the user's own and keep their spelling.
        later: the properties that `configure` uses instead of the creation.
        prepare: makes the properties those of the API.
        settle: waits until a new resource is usable. It returns the API's description of it.
        configure: does what the calls do not do, with the old properties (none of a new resource)
            and the new ones.
        before_delete: takes away what keeps the resource from being deleted.
        after_delete: waits until the resource is deleted.
    """

    type: str
    properties: tuple[str, ...]
    creation: Call
    change: Call | None = None
    deletion: Call | None
    result: str = ""
    id: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    name: tuple[str, int] | None = None
    lower_name: bool = False
    camel: bool = False
    verbatim: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    prepare: Prepare = _unchanged
    settle: Callable[[ResourceContext], Mapping[str, Any]] | None = None
    configure: Callable[[ResourceContext, Properties, Properties], None] | None = None
    before_delete: Callable[[ResourceContext], None] | None = None
    after_delete: Callable[[ResourceContext], None] | None = None
    also_replacing: tuple[str, ...] = ()
    reverts_failed_update: bool = False
    tagging: Tagging | None = None

    @property
    def service(self) -> str:
        """boto3's name of the service."""
        return self.type.split("::")[1].lower()

    @property
    def name_property(self) -> str | None:  # type: ignore[override]
        return self.name[0] if self.name else None

    @property
    def can_update(self) -> bool:
        return self.change is not None or self.configure is not None

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        if self.name:
            key, longest = self.name
            named = properties.get(key) or context.physical_name(longest, lower=self.lower_name)
            properties = {**properties, key: named}
            context.state.attributes[key] = named
        tags = context.tags(properties.get("Tags"))
        request = {**self._request(context, properties), **self.creation.parameters(properties)}
        if self.tagging and self.tagging.at_creation:
            request |= self.tagging.of(tags)
        response = context.call(self.service, self.creation.operation, request)
        result = response[self.result] if self.result else response
        values = {**properties, **request, **result}
        values["id"] = self.id.format_map(values)
        context.begin(values["id"])
        if self.settle:
            values |= self.settle(context)
        attributes = context.state.attributes
        for name, template in self.attributes.items():
            attributes[name] = template.format_map(values)
        if self.tagging and not self.tagging.at_creation:
            self.tagging.put(context, tags)
        if self.configure:
            self.configure(context, {}, properties)
        return Created(values["id"], attributes)

    def _request(self, context: ResourceContext, properties: Properties) -> Properties:
        left_out = {"Tags", *self.later}
        chosen = {key: value for key, value in properties.items() if key not in left_out}
        prepared = self.prepare(context, chosen)
        return dict(camel_case(prepared, verbatim=self.verbatim)) if self.camel else prepared

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        if self.change:
            parameters = self.change.parameters(context.values())
            request = {**self._request(context, new), **parameters}
            context.call(self.service, self.change.operation, request)
        if self.configure:
            self.configure(context, old, new)

    def delete(self, context: ResourceContext) -> None:
        if self.before_delete:
            self.before_delete(context)
        if self.deletion:
            parameters = self.deletion.parameters(context.values())
            context.call(self.service, self.deletion.operation, parameters)
        if self.after_delete:
            self.after_delete(context)
