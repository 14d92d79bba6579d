"""How AWS says that we ask too often."""

from __future__ import annotations

from typing import Any

_CODES = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "TooManyRequestsException",
        "ProvisionedThroughputExceededException",
        "SlowDown",
    }
)


def is_throttling(error: Any) -> bool:
    """Is a botocore ClientError a request to slow down?"""
    return error.response.get("Error", {}).get("Code") in _CODES
