"""AWS::Lambda::*"""

from __future__ import annotations

import base64
import io
import zipfile
from typing import Any

from ..model import Created, ResourceContext, ResourceFailure, ResourceType

_CONFIGURATION = {
    "DeadLetterConfig",
    "Description",
    "Environment",
    "EphemeralStorage",
    "Handler",
    "KmsKeyArn",
    "Layers",
    "LoggingConfig",
    "MemorySize",
    "Role",
    "Runtime",
    "SnapStart",
    "Timeout",
    "TracingConfig",
    "VpcConfig",
}
_NUMBERS = ("MemorySize", "Timeout")


def _configuration(properties: dict[str, Any]) -> dict[str, Any]:
    found = {key: properties[key] for key in _CONFIGURATION & set(properties)}
    if "KmsKeyArn" in found:
        found["KMSKeyArn"] = found.pop("KmsKeyArn")
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


def _code(properties: dict[str, Any]) -> dict[str, Any]:
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
    properties = frozenset(
        {
            "Architectures",
            "Code",
            "DeadLetterConfig",
            "Description",
            "Environment",
            "EphemeralStorage",
            "FunctionName",
            "Handler",
            "KmsKeyArn",
            "LoggingConfig",
            "MemorySize",
            "PackageType",
            "ReservedConcurrentExecutions",
            "Role",
            "Runtime",
            "Tags",
            "Timeout",
            "TracingConfig",
            "VpcConfig",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        client = context.client("lambda")
        name = properties.get("FunctionName") or context.physical_name(64)
        function = client.create_function(
            FunctionName=name,
            Code=_code(properties),
            PackageType=properties.get("PackageType", "Zip"),
            Architectures=properties.get("Architectures", ["x86_64"]),
            Tags=context.tags(properties.get("Tags")),
            **_configuration(properties),
        )
        context.begin(name)
        if "ReservedConcurrentExecutions" in properties:
            client.put_function_concurrency(
                FunctionName=name,
                ReservedConcurrentExecutions=int(properties["ReservedConcurrentExecutions"]),
            )
        return Created(name, {"Arn": function["FunctionArn"]})

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if any(old.get(key) != new.get(key) for key in ("FunctionName", "PackageType")):
            return None
        client, name = context.client("lambda"), str(context.state.physical_id)
        if old["Code"] != new["Code"]:
            client.update_function_code(FunctionName=name, **_code(new))
        client.update_function_configuration(FunctionName=name, **_configuration(new))
        return Created(name, context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        context.client("lambda").delete_function(FunctionName=context.state.physical_id)


class Permission(ResourceType):
    """Who may invoke a function."""

    type = "AWS::Lambda::Permission"
    properties = frozenset(
        {
            "Action",
            "EventSourceToken",
            "FunctionName",
            "FunctionUrlAuthType",
            "Principal",
            "PrincipalOrgID",
            "SourceAccount",
            "SourceArn",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
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
    properties = frozenset(
        {
            "Description",
            "FunctionName",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
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


class Alias(ResourceType):
    """A name for a version."""

    type = "AWS::Lambda::Alias"
    properties = frozenset({"Description", "FunctionName", "FunctionVersion", "Name"})

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        arn = context.client("lambda").create_alias(**properties)["AliasArn"]
        return Created(arn, {"AliasArn": arn})

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if any(old[key] != new[key] for key in ("FunctionName", "Name")):
            return None
        context.client("lambda").update_alias(**new)
        return Created(str(context.state.physical_id), context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        properties = context.state.properties
        context.client("lambda").delete_alias(
            FunctionName=properties["FunctionName"], Name=properties["Name"]
        )


class LayerVersion(ResourceType):
    """A layer's version."""

    type = "AWS::Lambda::LayerVersion"
    properties = frozenset(
        {
            "CompatibleRuntimes",
            "Content",
            "LayerName",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        content = dict(properties["Content"])
        if "ZipFile" in content:
            content["ZipFile"] = base64.b64decode(content["ZipFile"])
        layer = context.client("lambda").publish_layer_version(
            LayerName=properties.get("LayerName") or context.physical_name(140),
            Content=content,
            CompatibleRuntimes=properties.get("CompatibleRuntimes", []),
        )
        return Created(layer["LayerVersionArn"], {"LayerVersionArn": layer["LayerVersionArn"]})

    def delete(self, context: ResourceContext) -> None:
        layer, _, version = str(context.state.physical_id).rpartition(":")
        context.client("lambda").delete_layer_version(LayerName=layer, VersionNumber=int(version))


class EventInvokeConfig(ResourceType):
    """How asynchronous invocations are retried."""

    type = "AWS::Lambda::EventInvokeConfig"
    properties = frozenset(
        {
            "DestinationConfig",
            "FunctionName",
            "MaximumEventAgeInSeconds",
            "MaximumRetryAttempts",
            "Qualifier",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        client = context.client("lambda")
        request = {key: value for key, value in properties.items() if key != "Qualifier"}
        for name in ("MaximumEventAgeInSeconds", "MaximumRetryAttempts"):
            if name in request:
                request[name] = int(request[name])
        client.put_function_event_invoke_config(**request)
        return Created(context.physical_name(100))

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if old["FunctionName"] != new["FunctionName"]:
            return None
        self.create(context, new)
        return Created(str(context.state.physical_id))

    def delete(self, context: ResourceContext) -> None:
        context.client("lambda").delete_function_event_invoke_config(
            FunctionName=context.state.properties["FunctionName"]
        )
