"""Why an Auto Scaling group starts no instance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rackrate_text.launches import failed_launch

NOW = datetime.now(UTC)
REFUSED = (
    "Could not launch On-Demand Instances. InvalidParameterCombination - The specified instance"
    " type is not eligible for Free Tier. Launching EC2 instance failed."
)


def activity(status, minutes_ago, message=REFUSED):
    return {
        "StatusCode": status,
        "StartTime": NOW - timedelta(minutes=minutes_ago),
        "StatusMessage": message,
        "Cause": "growth",
    }


def test_the_latest_failed_launch_is_quoted_with_its_time():
    failure = failed_launch([activity("Failed", 9, "earlier"), activity("Failed", 2)], "")
    began = NOW - timedelta(minutes=2)
    assert failure == f"{REFUSED} (Auto Scaling, {began:%Y-%m-%dT%H:%M:%SZ})"


def test_an_attempt_that_goes_on_does_not_hide_the_one_that_failed():
    assert REFUSED in failed_launch([activity("InProgress", 0, ""), activity("Failed", 2)], "")


@pytest.mark.parametrize(
    "activities",
    [
        [],
        [activity("Successful", 1, ""), activity("Failed", 2)],
        [activity("Failed", 61)],
        [activity("InProgress", 0, "")],
    ],
    ids=["none", "launched since", "of an earlier hour", "the first goes on"],
)
def test_a_group_whose_latest_launch_did_not_fail_gives_no_reason(activities):
    assert failed_launch(activities, "") is None


def test_what_the_health_issue_says_is_not_repeated():
    issue = f"AsgInstanceLaunchFailures: {REFUSED}"
    assert failed_launch([activity("Failed", 2)], issue) is None


def test_a_failure_without_a_message_is_told_by_its_cause():
    assert failed_launch([activity("Cancelled", 2, None)], "").startswith("growth (")
