"""Why an Auto Scaling group starts no instance, by its activities. Pure.

EKS reports a failed launch of a node group as a health issue only when it gives up. Public logs
have 33 to 38 minutes without an issue. The Auto Scaling group tries again every few minutes and
notes the reason each time (Amazon EC2 Auto Scaling API reference, DescribeScalingActivities).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_ENDED = frozenset({"Successful", "Failed", "Cancelled"})
#: Activities are kept for six weeks. An older failure has nothing to do with today's nodes.
_RECENT = timedelta(hours=1)

#: How EC2 refuses a launch for want of capacity, here or in a capacity reservation. Its refusal for
#: a quota of vCPUs also has the word.
_NO_CAPACITY = re.compile(
    r"Insufficient\w*Capacity|sufficient .{0,80}capacity|not enough .{0,80}capacity"
    r"|no Spot capacity|ReservationCapacityExceeded",
    re.IGNORECASE,
)


def lacks_capacity(reason: str) -> bool:
    """Whether a launch failed because EC2 has no capacity, by its words."""
    return _NO_CAPACITY.search(reason) is not None


def failed_launch(activities: Iterable[Mapping[str, Any]], issues: str) -> str | None:
    """Why the latest activity failed, and when; None if it succeeded or is older than an hour.

    Args:
        activities: what boto3's DescribeScalingActivities returned for one group, in any order.
        issues: the health issues of the node group. What they say already is not repeated.
    """
    since = datetime.now(UTC) - _RECENT
    ended = [one for one in activities if one["StatusCode"] in _ENDED and one["StartTime"] > since]
    latest = max(ended, key=lambda one: one["StartTime"], default=None)
    if latest is None or latest["StatusCode"] == "Successful":
        return None
    message = latest.get("StatusMessage") or latest["Cause"]
    if message in issues:
        return None
    return f"{message} (Auto Scaling, {latest['StartTime'].astimezone(UTC):%FT%TZ})"
