"""AWS::StepFunctions::*"""

from __future__ import annotations

import json
import re
from typing import Any

from lab.aws.cloudformation.coercion import is_true
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType
from lab.aws.cloudformation.template import load_yaml

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


def _settings(properties: Properties) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if "LoggingConfiguration" in properties:
        logging = properties["LoggingConfiguration"]
        settings["loggingConfiguration"] = {
            "level": logging.get("Level", "OFF"),
            "includeExecutionData": is_true(logging.get("IncludeExecutionData")),
            "destinations": [
                {
                    "cloudWatchLogsLogGroup": {
                        "logGroupArn": item["CloudWatchLogsLogGroup"]["LogGroupArn"]
                    }
                }
                for item in logging.get("Destinations", [])
            ],
        }
    if "TracingConfiguration" in properties:
        enabled = is_true(properties["TracingConfiguration"].get("Enabled"))
        settings["tracingConfiguration"] = {"enabled": enabled}
    return settings


class StateMachine(ResourceType):
    """A state machine."""

    type = "AWS::StepFunctions::StateMachine"
    deletion = ("stepfunctions", "DeleteStateMachine", "stateMachineArn")
    properties = frozenset(
        {
            "Definition",
            "DefinitionS3Location",
            "DefinitionSubstitutions",
            "LoggingConfiguration",
            "RoleArn",
            "StateMachineName",
            "StateMachineType",
            "Tags",
            "TracingConfiguration",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        name = properties.get("StateMachineName") or context.physical_name(80)
        arn = context.client("stepfunctions").create_state_machine(
            name=name,
            definition=_definition(context, properties),
            roleArn=properties["RoleArn"],
            type=properties.get("StateMachineType", "STANDARD"),
            tags=[
                {"key": key, "value": value}
                for key, value in context.tags(properties.get("Tags")).items()
            ],
            **_settings(properties),
        )["stateMachineArn"]
        return Created(arn, {"Arn": arn, "Name": name})

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        arn = str(context.state.physical_id)
        context.client("stepfunctions").update_state_machine(
            stateMachineArn=arn,
            definition=_definition(context, new),
            roleArn=new["RoleArn"],
            **_settings(new),
        )
