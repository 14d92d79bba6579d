"""How AWS says that we ask too often."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from rackrate.errors import Throttled

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


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turns a ClientError that asks to slow down into `Throttled`; others pass."""
    try:
        yield
    except ClientError as error:
        if is_throttling(error):
            raise Throttled(str(error)) from error
        raise
