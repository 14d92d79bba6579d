"""CloudTrail's event history: the calls of roles to the emulated AWS, which LookupEvents returns.

https://docs.aws.amazon.com/awscloudtrail/latest/userguide/view-cloudtrail-events.html: the history
has management events, and not those of data, such as of objects, items and invocations.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from typing import Any

from moto.cloudtrail.responses import CloudTrailResponse
from moto.core.responses import BaseResponse
from moto.core.utils import get_service_model

_MOST_EVENTS = 20_000
_PAGE = 50
#: Operations on data: those that move a table's items, run a function or send something.
_DATA = re.compile(r"Item|^(Query|Scan|Invoke|Publish|PutLogEvents|PutMetricData|GetMetricData)")
_ERROR = re.compile(rb'"__type": ?"(?:[^"#]*#)?([\w.]+)"|<Code>([\w.]+)</Code>')

_events: deque[dict[str, Any]] = deque(maxlen=_MOST_EVENTS)
_lock = threading.Lock()


def note(response: BaseResponse, role_arn: str, caller: str, result: Any) -> None:
    """Remember a call of a role's session, with the code of its error if it had one."""
    operation = response._get_action()
    if not operation or _DATA.search(operation):
        return
    source = get_service_model(response.boto3_service_name).endpoint_prefix
    body = result[2] if isinstance(result, tuple) else result
    failed = _ERROR.search(body.encode() if isinstance(body, str) else bytes(body or b""))
    record = {"eventName": operation, "eventSource": f"{source}.amazonaws.com"}
    if failed:
        record["errorCode"] = (failed[1] or failed[2]).decode()
    issuer = {"type": "Role", "arn": role_arn}
    identity = {"type": "AssumedRole", "arn": caller, "sessionContext": {"sessionIssuer": issuer}}
    event = {
        "EventId": str(uuid.uuid4()),
        "EventName": operation,
        "EventTime": time.time(),
        "EventSource": record["eventSource"],
        "Username": caller.rpartition("/")[2],
        "Resources": [],
        "CloudTrailEvent": json.dumps({**record, "userIdentity": identity}),
    }
    with _lock:
        _events.append(event)


def lookup_events(response: CloudTrailResponse) -> str:
    """Events with all attributes, the newest first."""
    request: Mapping[str, Any] = json.loads(response.body or "{}")
    attributes = {
        each["AttributeKey"]: each["AttributeValue"] for each in request.get("LookupAttributes", [])
    }
    with _lock:
        events = list(reversed(_events))
    matching = [
        event
        for event in events
        if all(event.get(key) == value for key, value in attributes.items())
        and event["EventTime"] >= request.get("StartTime", 0)
    ]
    start, size = int(request.get("NextToken") or 0), int(request.get("MaxResults") or _PAGE)
    more = start + size < len(matching)
    page = {"Events": matching[start : start + size]}
    return json.dumps({**page, "NextToken": str(start + size)} if more else page)
