"""AWS::Events::*"""

from __future__ import annotations

from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging


def _remove_targets(context: ResourceContext, ids: set[str]) -> None:
    if ids:
        request = {"Rule": context.state.physical_id, "Ids": sorted(ids)}
        context.call("events", "RemoveTargets", request)


def _target_ids(properties: Properties) -> set[str]:
    return {target["Id"] for target in properties.get("Targets", [])}


def _configure(context: ResourceContext, old: Properties, new: Properties) -> None:
    _remove_targets(context, _target_ids(old) - _target_ids(new))
    if new.get("Targets"):
        request = {"Rule": context.state.physical_id, "Targets": new["Targets"]}
        response = context.call("events", "PutTargets", request)
        if response["FailedEntryCount"]:
            raise ResourceFailure(str(response["FailedEntries"]))


RESOURCES = (
    ApiResource(
        type="AWS::Events::Rule",
        properties=names("Description EventPattern Name ScheduleExpression Targets"),
        name=("Name", 64),
        later=("Targets",),
        creation=Call("PutRule"),
        id="{Name}",
        attributes={"Arn": "{RuleArn}"},
        change=Call("PutRule", Name="{id}"),
        configure=_configure,
        before_delete=lambda context: _remove_targets(
            context, _target_ids(context.state.properties)
        ),
        deletion=Call("DeleteRule", Name="{id}"),
        tagging=Tagging("events", "TagResource", "ResourceARN"),
    ),
)
