"""The errors a run can end with; the Retry and Catch of the state machine use their names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

#: How AWS says that we ask too often.
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


class RackrateError(Exception):
    """Base of the errors below; never raised itself."""


@dataclass(frozen=True, order=True)
class Fault:
    """One mistake in a plan.

    Attributes:
        path: where in the input, such as `tests[0].count`; `$` is the whole input.
        problem: what is wrong there.
        remedy: what to do about it.
    """

    path: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}; {self.remedy}"


class InvalidPlan(RackrateError):
    """The plan cannot be run; the user has to change it. Nothing was started.

    The message holds one line for each fault: `<path>: <what is wrong>; <remedy>`.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class InvalidComparison(RackrateError):
    """Two runs cannot be compared; the user has to name others. Nothing was written.

    The message is one sentence, or a line for each fault: `<field>: <what is wrong>; <remedy>`.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class ClusterUnreachable(RackrateError):
    """The Kubernetes API does not answer, or does not let us in (yet)."""


class Throttled(RackrateError):
    """AWS or Kubernetes asked us to slow down."""


class NodesUnavailable(RackrateError):
    """Nodes a run needs are missing; the message quotes the node group's health issues."""


class ServersNotReady(RackrateError):
    """Servers did not come up in time although their nodes are there."""


class LinksDown(RackrateError):
    """More pairs cannot talk to each other than the plan tolerates; nothing was measured."""


class TrialsLost(RackrateError):
    """More trials were lost than the plan tolerates."""


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
