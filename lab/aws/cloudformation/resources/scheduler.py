"""AWS::Scheduler::*"""

from __future__ import annotations

from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType


class Schedule(ResourceType):
    """A schedule of EventBridge Scheduler and its target."""

    type = "AWS::Scheduler::Schedule"
    properties = frozenset(
        {
            "Description",
            "EndDate",
            "FlexibleTimeWindow",
            "GroupName",
            "KmsKeyArn",
            "Name",
            "ScheduleExpression",
            "ScheduleExpressionTimezone",
            "StartDate",
            "State",
            "Target",
        }
    )
    also_replacing = ("GroupName",)

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        name = properties.get("Name") or context.physical_name(64)
        made = context.call("scheduler", "CreateSchedule", {**properties, "Name": name})
        return Created(name, {"Arn": made["ScheduleArn"]})

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        name = str(context.state.physical_id)
        context.call("scheduler", "UpdateSchedule", {**new, "Name": name})

    def delete(self, context: ResourceContext) -> None:
        group = context.state.properties.get("GroupName")
        context.client("scheduler").delete_schedule(
            Name=context.state.physical_id, **({"GroupName": group} if group else {})
        )
