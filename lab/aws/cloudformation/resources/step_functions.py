"""AWS::StepFunctions::*"""

from __future__ import annotations

import json
import re
from typing import Any

from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging
from lab.aws.cloudformation.template import load_yaml

_DEFINITION = ("Definition", "DefinitionS3Location", "DefinitionSubstitutions")
_SUBSTITUTION = re.compile(r"\$\{([A-Za-z0-9_]+)\}")


def _definition(context: ResourceContext, properties: Properties) -> str:
    """The definition as JSON with its substitutions made, from the template or from S3."""
    if "Definition" in properties:
        text = json.dumps(properties["Definition"])
    elif "DefinitionS3Location" in properties:
        location = properties["DefinitionS3Location"]
        request = {"Bucket": location["Bucket"], "Key": location["Key"]}
        if "Version" in location:
            request["VersionId"] = location["Version"]
        text = context.client("s3").get_object(**request)["Body"].read().decode()
    else:
        raise ResourceFailure("Property validation failure: a definition is required")
    values = properties.get("DefinitionSubstitutions", {})
    missing = sorted(set(_SUBSTITUTION.findall(text)) - set(values))
    if missing and values:
        raise ResourceFailure(
            f"DefinitionSubstitutions lacks {', '.join(missing)}, which the definition uses"
        )
    document = load_yaml(text)

    def substitute(value: Any) -> Any:
        if isinstance(value, dict):
            return {substitute(key): substitute(item) for key, item in value.items()}
        if isinstance(value, list):
            return [substitute(item) for item in value]
        if not isinstance(value, str):
            return value
        whole = _SUBSTITUTION.fullmatch(value)
        if whole and whole[1] in values and not isinstance(values[whole[1]], str):
            return values[whole[1]]
        return _SUBSTITUTION.sub(lambda match: str(values.get(match[1], match[0])), value)

    return json.dumps(substitute(document))


def _prepare(context: ResourceContext, properties: Properties) -> Properties:
    settings = {key: value for key, value in properties.items() if key not in _DEFINITION}
    return {**settings, "Definition": _definition(context, properties)}


RESOURCES = (
    ApiResource(
        type="AWS::StepFunctions::StateMachine",
        properties=names(
            "Definition DefinitionS3Location DefinitionSubstitutions LoggingConfiguration RoleArn"
            " StateMachineName StateMachineType Tags TracingConfiguration"
        ),
        name=("StateMachineName", 80),
        camel=True,
        later=("StateMachineName", "StateMachineType"),
        prepare=_prepare,
        creation=Call("CreateStateMachine", name="{StateMachineName}", type="{StateMachineType}"),
        id="{stateMachineArn}",
        attributes={"Arn": "{id}", "Name": "{StateMachineName}"},
        change=Call("UpdateStateMachine", stateMachineArn="{id}"),
        deletion=Call("DeleteStateMachine", stateMachineArn="{id}"),
        tagging=Tagging("stepfunctions", "TagResource", "resourceArn", "tags", ("key", "value")),
    ),
)
