"""DescribeScalingActivities for moto's Auto Scaling, with the launches of EKS's node groups."""

from __future__ import annotations

from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult

from lab.aws.eks.clusters import Clusters


def describe_scaling_activities(self: AutoScalingResponse, clusters: Clusters) -> ActionResult:
    """DescribeScalingActivities of the clusters' node groups, newest first."""
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
