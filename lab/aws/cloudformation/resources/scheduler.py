"""AWS::Scheduler::*"""

from __future__ import annotations

from lab.aws.cloudformation.api_resource import ApiResource, Call, names

RESOURCES = (
    ApiResource(
        type="AWS::Scheduler::Schedule",
        properties=names(
            "Description EndDate FlexibleTimeWindow Name ScheduleExpression"
            " ScheduleExpressionTimezone StartDate State Target"
        ),
        name=("Name", 64),
        creation=Call("CreateSchedule"),
        id="{Name}",
        attributes={"Arn": "{ScheduleArn}"},
        change=Call("UpdateSchedule", Name="{id}"),
        deletion=Call("DeleteSchedule", Name="{id}"),
    ),
)
