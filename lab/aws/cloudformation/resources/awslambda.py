"""AWS::Lambda::*"""

from __future__ import annotations

import io
import zipfile
from typing import Any

from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType

_CONFIGURATION = {
    "Description",
    "Environment",
    "Handler",
    "LoggingConfig",
    "MemorySize",
    "Role",
    "Runtime",
    "Timeout",
    "TracingConfig",
    "VpcConfig",
}
_NUMBERS = ("MemorySize", "Timeout")


def _configuration(properties: Properties) -> dict[str, Any]:
    found = {key: properties[key] for key in _CONFIGURATION & set(properties)}
    for name in _NUMBERS:
        if name in found:
            found[name] = int(found[name])
    if "Environment" in found:
        variables = found["Environment"].get("Variables", {})
        found["Environment"] = {
            "Variables": {
                key: str(value).lower() if isinstance(value, bool) else str(value)
                for key, value in variables.items()
            }
        }
    return found


def _code(properties: Properties) -> dict[str, Any]:
    code = properties["Code"]
    if "ZipFile" in code:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            entry = zipfile.ZipInfo("index.py")
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, code["ZipFile"])
        return {"ZipFile": content.getvalue()}
    if "S3Bucket" not in code:
        raise ResourceFailure("Code must name an S3 object or hold a ZipFile")
    return {key: code[key] for key in ("S3Bucket", "S3Key", "S3ObjectVersion") if key in code}


class Function(ResourceType):
    """A function from a zip archive."""

    type = "AWS::Lambda::Function"
    deletion = ("lambda", "DeleteFunction", "FunctionName")
    properties = frozenset(
        {
            "Architectures",
            "Code",
            "Description",
            "Environment",
            "FunctionName",
            "Handler",
            "LoggingConfig",
            "MemorySize",
            "Role",
            "Runtime",
            "Tags",
            "Timeout",
            "TracingConfig",
            "VpcConfig",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        client = context.client("lambda")
        name = properties.get("FunctionName") or context.physical_name(64)
        function = client.create_function(
            FunctionName=name,
            Code=_code(properties),
            Architectures=properties.get("Architectures", ["x86_64"]),
            Tags=context.tags(properties.get("Tags")),
            **_configuration(properties),
        )
        context.begin(name)
        return Created(name, {"Arn": function["FunctionArn"]})

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        client, name = context.client("lambda"), str(context.state.physical_id)
        if old["Code"] != new["Code"]:
            client.update_function_code(FunctionName=name, **_code(new))
        client.update_function_configuration(FunctionName=name, **_configuration(new))


class Permission(ResourceType):
    """Who may invoke a function."""

    type = "AWS::Lambda::Permission"
    properties = frozenset({"Action", "FunctionName", "Principal", "SourceArn"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        identity = context.physical_name(100)
        context.client("lambda").add_permission(StatementId=identity, **properties)
        return Created(identity, {"Id": identity})

    def delete(self, context: ResourceContext) -> None:
        context.client("lambda").remove_permission(
            FunctionName=context.state.properties["FunctionName"],
            StatementId=context.state.physical_id,
        )


class Version(ResourceType):
    """A published version."""

    type = "AWS::Lambda::Version"
    properties = frozenset({"Description", "FunctionName"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        version = context.client("lambda").publish_version(
            FunctionName=properties["FunctionName"],
            Description=properties.get("Description", ""),
        )
        arn = version["FunctionArn"]
        return Created(arn, {"Version": version["Version"], "FunctionArn": arn})

    def delete(self, context: ResourceContext) -> None:
        context.client("lambda").delete_function(
            FunctionName=context.state.properties["FunctionName"],
            Qualifier=context.state.attributes["Version"],
        )


class LambdaAlias(ResourceType):
    """A name for a version."""

    type = "AWS::Lambda::Alias"
    properties = frozenset({"Description", "FunctionName", "FunctionVersion", "Name"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        arn = context.client("lambda").create_alias(**properties)["AliasArn"]
        return Created(arn, {"AliasArn": arn})

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        context.client("lambda").update_alias(**new)

    def delete(self, context: ResourceContext) -> None:
        properties = context.state.properties
        context.client("lambda").delete_alias(
            FunctionName=properties["FunctionName"], Name=properties["Name"]
        )
