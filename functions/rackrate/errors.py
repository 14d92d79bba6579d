"""The errors that can end a run. Retry and Catch in the state machine use the class names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

#: The AWS error codes for throttling.
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
    """Base class of the errors below; never raised itself."""


@dataclass(frozen=True, order=True)
class Fault:
    """One mistake in a plan.

    Attributes:
        path: the place in the input, such as `tests[0].count`; `$` is the whole input.
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

    The message has one line for each fault: `<path>: <what is wrong>; <remedy>`.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class InvalidComparison(RackrateError):
    """Two runs cannot be compared; the user has to name others. Nothing was written.

    The message is one sentence, or has a line for each fault: `<field>: <what is wrong>; <remedy>`.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class InvalidCampaign(RackrateError):
    """The campaign cannot be made; the user has to change its input. Nothing was started.

    The message has one line for each fault: `<path>: <what is wrong>; <remedy>`.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class StepsLost(RackrateError):
    """Too many steps of a campaign in a row have no result. The message quotes their reasons."""


class CampaignEnded(RackrateError):
    """A campaign's execution was stopped, so it changes and measures nothing any more."""


class ClusterUnreachable(RackrateError):
    """The Kubernetes API does not answer, or denies access (a new access entry takes time)."""


class Throttled(RackrateError):
    """AWS or Kubernetes asked us to slow down."""


class NodesUnavailable(RackrateError):
    """Nodes that a run needs are missing. The message quotes the node group's health issues."""


class ChangeFailed(RackrateError):
    """A campaign could not change the cluster for a step. The message quotes AWS."""


class NodesBusy(RackrateError):
    """Another run holds nodes that a run needs, and the run may not wait or has waited too long."""


class ServersNotReady(RackrateError):
    """Servers did not come up in time although their nodes are there."""


class LinksDown(RackrateError):
    """More pairs cannot talk to each other than the plan tolerates; nothing was measured."""


class TrialsLost(RackrateError):
    """More trials were lost than the plan tolerates."""


def is_throttling(error: Any) -> bool:
    """Whether a botocore ClientError means that AWS throttles us."""
    return error.response.get("Error", {}).get("Code") in _CODES


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn a ClientError for throttling into `Throttled`; let other errors pass."""
    try:
        yield
    except ClientError as error:
        if is_throttling(error):
            raise Throttled(str(error)) from error
        raise
