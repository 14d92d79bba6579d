"""AWS::CloudWatch::*"""

from __future__ import annotations

from typing import Any

from ..model import Created, ResourceContext, ResourceType

_NUMBERS = {"EvaluationPeriods": int, "DatapointsToAlarm": int, "Period": int, "Threshold": float}


class Alarm(ResourceType):
    """An alarm on a metric."""

    type = "AWS::CloudWatch::Alarm"

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        name = properties.get("AlarmName") or context.physical_name(255)
        request = {
            key: _NUMBERS[key](value) if key in _NUMBERS else value
            for key, value in properties.items()
            if key not in ("AlarmName", "Tags")
        }
        cloudwatch = context.client("cloudwatch")
        cloudwatch.put_metric_alarm(AlarmName=name, **request)
        services = context.services
        return Created(
            name,
            {"Arn": f"arn:aws:cloudwatch:{services.region}:{services.account_id}:alarm:{name}"},
        )

    def delete(self, context: ResourceContext) -> None:
        context.client("cloudwatch").delete_alarms(AlarmNames=[context.state.physical_id])


class Dashboard(ResourceType):
    """A dashboard."""

    type = "AWS::CloudWatch::Dashboard"

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        name = properties.get("DashboardName") or context.physical_name(255)
        context.client("cloudwatch").put_dashboard(
            DashboardName=name, DashboardBody=properties["DashboardBody"]
        )
        return Created(name)

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if old.get("DashboardName") != new.get("DashboardName"):
            return None
        context.client("cloudwatch").put_dashboard(
            DashboardName=context.state.physical_id, DashboardBody=new["DashboardBody"]
        )
        return Created(str(context.state.physical_id))

    def delete(self, context: ResourceContext) -> None:
        context.client("cloudwatch").delete_dashboards(DashboardNames=[context.state.physical_id])
