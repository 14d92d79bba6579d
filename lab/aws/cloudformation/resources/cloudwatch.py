"""AWS::CloudWatch::*"""

from __future__ import annotations

from lab.aws.account import arn
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType


class Alarm(ResourceType):
    """An alarm on a metric."""

    type = "AWS::CloudWatch::Alarm"
    deletion = ("cloudwatch", "DeleteAlarms", "AlarmNames")
    properties = frozenset(
        {
            "AlarmActions",
            "AlarmDescription",
            "AlarmName",
            "ComparisonOperator",
            "Dimensions",
            "EvaluationPeriods",
            "MetricName",
            "Namespace",
            "Period",
            "Statistic",
            "Tags",
            "Threshold",
            "TreatMissingData",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        name = properties.get("AlarmName") or context.physical_name(255)
        self._put(context, name, properties)
        return Created(name, {"Arn": arn("cloudwatch", f"alarm:{name}")})

    @staticmethod
    def _put(context: ResourceContext, name: str, properties: Properties) -> None:
        request = {
            **properties,
            "AlarmName": name,
            "Tags": context.tag_list(properties.get("Tags")),
        }
        context.call("cloudwatch", "PutMetricAlarm", request)

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        self._put(context, str(context.state.physical_id), new)


class Dashboard(ResourceType):
    """A dashboard. Its body in a template is text and not an object."""

    type = "AWS::CloudWatch::Dashboard"
    deletion = ("cloudwatch", "DeleteDashboards", "DashboardNames")
    properties = frozenset({"DashboardBody", "DashboardName"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        name = properties.get("DashboardName") or context.physical_name(255)
        self._put(context, name, properties)
        return Created(name)

    @staticmethod
    def _put(context: ResourceContext, name: str, properties: Properties) -> None:
        context.client("cloudwatch").put_dashboard(
            DashboardName=name, DashboardBody=properties["DashboardBody"]
        )

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        self._put(context, str(context.state.physical_id), new)
