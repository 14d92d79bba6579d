"""AWS::Lambda::*"""

from __future__ import annotations

import io
import zipfile
from typing import Any

from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging

_CODE = ("Architectures", "Code")


def _code(properties: Properties) -> dict[str, Any]:
    """The code as the API takes it, which wants text of a template as an archive."""
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
    return dict(code)


def _prepare(context: ResourceContext, properties: Properties) -> Properties:
    return {"Architectures": ["x86_64"], **properties, "Code": _code(properties)}


def _configure(context: ResourceContext, old: Properties, new: Properties) -> None:
    if not old:
        return
    function = {"FunctionName": context.state.physical_id}
    if old["Code"] != new["Code"]:
        context.call("lambda", "UpdateFunctionCode", {**function, **_code(new)})
    configuration = {key: value for key, value in new.items() if key not in ("Tags", *_CODE)}
    context.call("lambda", "UpdateFunctionConfiguration", {**configuration, **function})


RESOURCES = (
    ApiResource(
        type="AWS::Lambda::Function",
        properties=names(
            "Architectures Code Description Environment FunctionName Handler Layers LoggingConfig"
            " MemorySize Role Runtime Tags Timeout TracingConfig VpcConfig"
        ),
        name=("FunctionName", 64),
        prepare=_prepare,
        creation=Call("CreateFunction"),
        id="{FunctionName}",
        attributes={"Arn": "{FunctionArn}"},
        configure=_configure,
        deletion=Call("DeleteFunction", FunctionName="{id}"),
        tagging=Tagging("lambda", "TagResource", "Resource", pairs=None),
    ),
    ApiResource(
        type="AWS::Lambda::LayerVersion",
        properties=names(
            "CompatibleArchitectures CompatibleRuntimes Content Description LayerName"
        ),
        name=("LayerName", 140),
        creation=Call("PublishLayerVersion"),
        id="{LayerVersionArn}",
        attributes={"LayerVersionArn": "{LayerVersionArn}", "Version": "{Version}"},
        deletion=Call("DeleteLayerVersion", LayerName="{LayerName}", VersionNumber="{Version}"),
    ),
    ApiResource(
        type="AWS::Lambda::Permission",
        properties=names("Action FunctionName Principal SourceArn"),
        name=("StatementId", 100),
        creation=Call("AddPermission"),
        id="{StatementId}",
        deletion=Call("RemovePermission", FunctionName="{FunctionName}", StatementId="{id}"),
    ),
    ApiResource(
        type="AWS::Lambda::Version",
        properties=names("Description FunctionName"),
        creation=Call("PublishVersion"),
        id="{FunctionArn}",
        attributes={"Version": "{Version}"},
        deletion=Call("DeleteFunction", FunctionName="{FunctionName}", Qualifier="{Version}"),
    ),
    ApiResource(
        type="AWS::Lambda::Alias",
        properties=names("Description FunctionName FunctionVersion Name"),
        creation=Call("CreateAlias"),
        id="{AliasArn}",
        change=Call("UpdateAlias"),
        deletion=Call("DeleteAlias", FunctionName="{FunctionName}", Name="{Name}"),
    ),
)
