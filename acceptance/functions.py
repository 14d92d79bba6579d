"""What the stack's functions did: their calls by CloudTrail, and what their logs warn of."""

from __future__ import annotations

import json
from typing import Any

import boto3

from acceptance.archive import Line
from acceptance.script import Script

#: CloudTrail answers two lookups a second, so a function with more calls than this is cut.
_PAGES = 20


def observed(script: Script) -> list[Line]:
    """Names, error codes and times (seconds since 1970), in the order of time.

    CloudTrail delivers events within about five minutes, so the last ones may be missing. It knows
    no calls of data: objects, items, invocations.
    """
    # Not recorded: the events would repeat what the calls of the functions have.
    session = boto3.Session()
    pages = session.client("lambda").get_paginator("list_functions").paginate()
    names = [f["FunctionName"] for page in pages for f in page["Functions"]]
    own = [name for name in names if name.startswith(f"{script.stack}-")]
    lines = [line for name in own for line in _calls(session, script, name)]
    lines += [line for name in own for line in _warnings(session, script, name)]
    return sorted(lines, key=lambda line: float(line["at"]))


def _calls(session: boto3.Session, script: Script, name: str) -> list[Line]:
    pages = (
        session.client("cloudtrail")
        .get_paginator("lookup_events")
        .paginate(
            LookupAttributes=[{"AttributeKey": "Username", "AttributeValue": name}],
            StartTime=script.began,
            PaginationConfig={"MaxItems": 50 * _PAGES},
        )
    )
    return [
        {
            "at": event["EventTime"].timestamp(),
            "function": name,
            "call": f"{event['EventSource'].partition('.')[0]}:{event['EventName']}",
            "error": json.loads(event["CloudTrailEvent"]).get("errorCode"),
        }
        for page in pages
        for event in page["Events"]
    ]


def _warnings(session: boto3.Session, script: Script, name: str) -> list[Line]:
    logs: Any = session.client("logs")
    group = session.client("lambda").get_function(FunctionName=name)["Configuration"]
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=group.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{name}"),
        startTime=int(script.began * 1000),
    )
    lines = []
    for event in (event for page in pages for event in page["events"]):
        try:
            record = json.loads(event["message"])
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("level") in ("WARNING", "ERROR", "CRITICAL"):
            lines.append(
                {
                    "at": event["timestamp"] / 1000,
                    "function": name,
                    "level": record["level"],
                    "error": record.get("exception_name"),
                }
            )
    return lines
