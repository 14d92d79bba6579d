"""The errors that can end a run. Retry and Catch in the state machine use the class names."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore import exceptions as botocore_errors
from botocore.exceptions import ClientError

from rackrate.foreign import plain
from rackrate_contract.capacity import Launch
from rackrate_text.words import counted

#: The AWS error codes for throttling. S3 and DynamoDB pass on that KMS throttles them.
_THROTTLED = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "KMS.ThrottlingException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
#: The AWS error codes that pass by themselves: AWS failed, or the credentials expired or are so new
#: that not every service knows them.
_UNAVAILABLE = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "UnrecognizedClientException",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "InternalServerException",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServerException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "Unavailable",
    }
)

#: How services that have no code for it say that a caller's clock differs from theirs. botocore's
#: next request is signed again, and a function's clock is set by Lambda.
_WRONG_CLOCK = ("Signature expired", "Signature not yet current")

#: botocore's errors for a request or a response that got lost.
_CONNECTION_LOST = (
    botocore_errors.ConnectionError,
    botocore_errors.HTTPClientError,
    botocore_errors.IncompleteReadError,
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


#: How many faults a refusal names, how many characters of each, and how many bytes its lines may
#: take as JSON. Step Functions keeps 32 KiB of an error's cause (API reference, TaskFailedEvent). A
#: function's cause is a document with the message and a stack trace.
_FAULTS, _FAULT_CHARACTERS, _LINES_BYTES = 20, 1000, 24 * 1024


def lines_of(faults: Sequence[Fault]) -> str:
    """The message of a refusal: a line for each of the first faults, and how many more there are.

    The lines have no control characters, and are short enough for an error's cause.
    """
    lines = [plain(str(fault), _FAULT_CHARACTERS) for fault in faults[:_FAULTS]]
    while len(json.dumps(lines)) > _LINES_BYTES:
        lines.pop()
    if more := len(faults) - len(lines):
        lines.append(f"and {counted(more, 'more fault')}")
    return "\n".join(lines)


class InvalidInput(RackrateError):
    """Base class of the refusals of an input, before anything is started; never raised itself.

    The message has one line for each of the first faults: `<path>: <what is wrong>; <remedy>`.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(lines_of(faults))


class InvalidPlan(InvalidInput):
    """The plan cannot be run; the user has to change it."""


class InvalidComparison(InvalidInput):
    """Two runs cannot be compared; the user has to name others."""


class InvalidCampaign(InvalidInput):
    """The campaign cannot be made; the user has to change its input."""


class StepsLost(RackrateError):
    """Too many steps of a campaign in a row have no result. The message quotes their reasons."""


class CampaignEnded(RackrateError):
    """A campaign's execution was stopped, so it changes and measures nothing any more."""


class ClusterUnreachable(RackrateError):
    """The Kubernetes API does not answer, or denies access (a new access entry takes time).

    Attributes:
        access_lost: whether the namespace or the rights in it are missing, which the bootstrap
            function can recreate.
    """

    def __init__(self, message: str, *, access_lost: bool = False) -> None:
        super().__init__(message)
        self.access_lost = access_lost


class AccessLost(RackrateError):
    """The namespace or the rights in it are missing, also after they were recreated."""


class Throttled(RackrateError):
    """AWS or Kubernetes asked us to slow down."""


class AwsUnavailable(RackrateError):
    """An API of AWS failed, did not answer, or refused credentials that expired."""


class NodesUnavailable(RackrateError):
    """Nodes that a run needs are missing. The message quotes EKS and Auto Scaling.

    Attributes:
        launches: how the nodes came that were asked for; empty if it did not get so far.
    """

    launches: tuple[Launch, ...] = ()


class NodesChanged(RackrateError):
    """A run cannot be continued, because its nodes are missing: other nodes are a new draw."""


class ChangeFailed(RackrateError):
    """A campaign could not change the cluster for a step. The message quotes AWS."""


class NodesBusy(RackrateError):
    """Another run holds nodes that a run needs, and the run may not wait or has waited too long."""


class ServersNotReady(RackrateError):
    """Servers did not come up in time although their nodes are there."""


class AdmissionRefused(RackrateError):
    """Kubernetes refuses an object: a quota, an admission webhook or policy, or its validation.

    The message quotes it.
    """


class LinksDown(RackrateError):
    """More pairs cannot talk to each other than the plan tolerates; nothing was measured."""


class TrialsLost(RackrateError):
    """More trials were lost than the plan tolerates."""


#: The errors with which a run ends before it has measured what it planned, by name.
GIVING_UP: Mapping[str, type[RackrateError]] = {
    kind.__name__: kind
    for kind in (AccessLost, NodesUnavailable, ServersNotReady, AdmissionRefused, TrialsLost)
}
#: The errors that refuse an input before anything is started, by name.
REFUSALS = frozenset(error.__name__ for error in InvalidInput.__subclasses__())
#: The names of all of these errors. Their messages are sentences for people.
NAMES = REFUSALS | {
    error.__name__ for error in RackrateError.__subclasses__() if error is not InvalidInput
}


def is_throttling(error: Any) -> bool:
    """Whether a botocore ClientError means that AWS throttles us."""
    return error.response.get("Error", {}).get("Code") in _THROTTLED


def is_unavailable(error: Any) -> bool:
    """Whether a botocore ClientError means that AWS failed, or that credentials expired.

    A signature of another time than AWS's counts as expired credentials.
    """
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0
    details = error.response.get("Error", {})
    wrong_clock = str(details.get("Message")).startswith(_WRONG_CLOCK)
    return details.get("Code") in _UNAVAILABLE or wrong_clock or status >= 500


# No function with `contextmanager`, which type checkers take never to suppress anything.
class suppress_codes:
    """Suppress AWS's errors with these codes, as `contextlib.suppress` does with classes."""

    def __init__(self, *codes: str) -> None:
        """Name the codes, such as NoSuchKey."""
        self._codes = codes

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: object, traceback: object) -> bool:
        """Say whether this is such an error."""
        return isinstance(error, ClientError) and error.response["Error"]["Code"] in self._codes


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn botocore's errors that pass by themselves into the names that the state machines retry.

    Other errors pass unchanged.

    Raises:
        Throttled: AWS throttles us.
        AwsUnavailable: AWS failed, the connection failed, or the credentials expired.
    """
    try:
        yield
    except ClientError as error:
        if is_throttling(error):
            raise Throttled(str(error)) from error
        if is_unavailable(error):
            raise AwsUnavailable(str(error)) from error
        raise
    except _CONNECTION_LOST as error:
        raise AwsUnavailable(str(error)) from error
