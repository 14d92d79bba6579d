"""DescribeScalingActivities for moto's Auto Scaling, with the launches of EKS's node groups."""

from __future__ import annotations

from collections.abc import Callable

from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult

from lab.aws.eks.clusters import Clusters


def describing(clusters: Clusters) -> Callable[[AutoScalingResponse], ActionResult]:
    """DescribeScalingActivities of the clusters' node groups, newest first."""

    def describe_scaling_activities(self: AutoScalingResponse) -> ActionResult:
        name = self._get_param("AutoScalingGroupName")
        activities = [
            activity
            for cluster in clusters.all()
            for group in list(cluster.node_groups.values())
            for activity in group.activities
            if name in (None, activity["AutoScalingGroupName"])
        ]
        activities.sort(key=lambda activity: activity["StartTime"], reverse=True)
        return ActionResult({"Activities": activities})

    return describe_scaling_activities
