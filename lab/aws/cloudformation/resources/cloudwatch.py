"""AWS::CloudWatch::*"""

from __future__ import annotations

from lab.aws.account import arn
from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.resource_type import Tagging

RESOURCES = (
    ApiResource(
        type="AWS::CloudWatch::Alarm",
        properties=names(
            "AlarmActions AlarmDescription AlarmName ComparisonOperator Dimensions"
            " EvaluationPeriods MetricName Namespace Period Statistic Tags Threshold"
            " TreatMissingData"
        ),
        name=("AlarmName", 255),
        creation=Call("PutMetricAlarm"),
        id="{AlarmName}",
        attributes={"Arn": arn("cloudwatch", "alarm:{id}")},
        change=Call("PutMetricAlarm", AlarmName="{id}"),
        deletion=Call("DeleteAlarms", AlarmNames="{id}"),
        tagging=Tagging("cloudwatch", "TagResource", "ResourceARN"),
    ),
    ApiResource(
        type="AWS::CloudWatch::Dashboard",
        properties=names("DashboardBody DashboardName"),
        name=("DashboardName", 255),
        creation=Call("PutDashboard"),
        id="{DashboardName}",
        change=Call("PutDashboard", DashboardName="{id}"),
        deletion=Call("DeleteDashboards", DashboardNames="{id}"),
    ),
)
