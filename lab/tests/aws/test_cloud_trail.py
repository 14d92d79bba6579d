"""CloudTrail's event history tells the calls of a session with the codes of their errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.tests.aws.region import Lab, allow


def events(lab: Lab, name: str) -> list[dict[str, Any]]:
    cloudtrail: Any = lab.client("cloudtrail")
    pages = cloudtrail.get_paginator("lookup_events").paginate(
        LookupAttributes=[{"AttributeKey": "Username", "AttributeValue": name}],
        PaginationConfig={"PageSize": 2},
    )
    return [event for page in pages for event in page["Events"]]


def test_calls_of_a_session_are_listed_with_their_errors_and_without_those_of_data(
    lab: Lab,
) -> None:
    role = lab.role(
        "lambda.amazonaws.com", allow(["logs:DescribeLogGroups", "dynamodb:GetItem"], "*")
    )
    session = lab.as_role(role, "sts").get_caller_identity()["Arn"].rpartition("/")[2]
    lab.as_role(role, "logs").describe_log_groups()
    with pytest.raises(ClientError):
        lab.as_role(role, "eks").list_clusters()
    with pytest.raises(ClientError):
        lab.as_role(role, "dynamodb").get_item(TableName="none", Key={"a": {"S": "b"}})
    records = [json.loads(event["CloudTrailEvent"]) for event in events(lab, session)]
    own = [
        record
        for record in records
        if record["userIdentity"]["sessionContext"]["sessionIssuer"]["arn"] == role
    ]
    assert [(each["eventSource"], each["eventName"], each.get("errorCode")) for each in own] == [
        ("eks.amazonaws.com", "ListClusters", "AccessDeniedException"),
        ("logs.amazonaws.com", "DescribeLogGroups", None),
        ("sts.amazonaws.com", "GetCallerIdentity", None),
    ]
    assert events(lab, "nobody") == []
