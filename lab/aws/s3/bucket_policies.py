"""Bucket policies with conditions; moto treats a condition that does not hold as a denial.

On AWS a statement whose condition does not hold does not apply at all. The lab knows two condition
keys. By `aws:SecureTransport`, requests on the machine's loopback count as secure, because there is
no network on which anybody could listen. `aws:SourceAccount` is in the requests of AWS's services
alone, none of which reads the lab's buckets.
"""

from __future__ import annotations

import json
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket

from lab.aws.iam.policies import as_list, holds

_CONTEXT = {"aws:securetransport": ["true"]}
_ABSENT = "aws:sourceaccount"


def get_permission(bucket: FakeBucket, action: str, resource: str) -> Any:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    policy = json.loads(bucket.policy.decode())
    policy["Statement"] = [
        {key: value for key, value in statement.items() if key != "Condition"}
        for statement in as_list(policy["Statement"])
        if _holds(statement.get("Condition", {}))
    ]
    return IAMPolicy(json.dumps(policy)).is_action_permitted(action, resource)


def _holds(condition: dict[str, dict[str, Any]]) -> bool:
    for operator, keys in condition.items():
        for key in keys:
            if key.lower() not in {_ABSENT, *_CONTEXT}:
                raise ValueError(
                    f"bucket policy condition {operator} on {key} is not evaluated by the lab"
                )
    return holds(condition, _CONTEXT)
