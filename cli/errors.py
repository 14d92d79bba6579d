"""The errors that end a command, each with one sentence and an exit code."""

from __future__ import annotations

import email.utils
import os
import re
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3
from boto3.exceptions import Boto3Error
from botocore import exceptions as aws
from botocore.retries import standard

from rackrate_text.units import duration
from rackrate_text.words import nearest, shortened

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3
"""The command does not know the answer, because AWS does not respond. What it started goes on."""
EXIT_INTERRUPTED = 130

UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError),
    *(OverflowError, RecursionError),
)
"""What reading a JSON document raises that lacks a part, or has another kind of value there."""

CONNECTION_ERRORS = (aws.ConnectionError, aws.HTTPClientError)
"""botocore's errors of the network between this machine and AWS. They can be temporary."""

#: botocore retries it as throttling. CloudFormation means a quota, which waiting does not raise.
_QUOTA_CODE = "LimitExceededException"
_RETRYABLE = standard.ThrottledRetryableChecker(), standard.TransientRetryableChecker()
_REGION = re.compile(r"\.([a-z]{2,}(?:-[a-z]+)+-\d+)\.amazonaws\.com")
_CREDENTIAL_CODES = {
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
#: How services say that a request was signed at another time than theirs. The codes are S3's; the
#: others say it in the message of a code that also stands for other faults.
_CLOCK_CODES = {"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"}
_CLOCK_MESSAGES = ("Signature expired", "Signature not yet current", "is not within the valid time")
_PROFILE_ERRORS = (aws.PartialCredentialsError, aws.CredentialRetrievalError, aws.ProfileNotFound)
PERMISSION_CODES = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
"""The error codes of calls that the caller's policies do not allow."""


_MESSAGE_CHARACTERS = 8000  # a reason of CloudFormation has half as many


class Refusal(Exception):
    """An error that ends the command. Its message is one sentence: what is wrong and what to do.

    A message that quotes much loses its middle.

    `exit_code` is 2 when the caller can correct it (input, credentials, name), 3 when AWS does not
    answer, and 1 otherwise.
    `details` are further values for a program.
    """

    def __init__(self, message: str, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(shortened(message, _MESSAGE_CHARACTERS))
        self.exit_code = exit_code
        self.details: dict[str, Any] = {}


def error_code(error: aws.ClientError) -> str:
    """The service's code of the error, for example `ValidationError`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def unless_missing[T](call: Callable[..., T], *codes: str, **request: Any) -> T | None:
    """The response to a call, or None if AWS answers with one of the codes for what is missing."""
    try:
        return call(**request)
    except aws.ClientError as error:
        if error_code(error) not in codes:
            raise
        return None


def error_message(error: aws.ClientError) -> str:
    """The service's message, without its final period."""
    message = str(error.response.get("Error", {}).get("Message", "") or error)
    return " ".join(message.split()).rstrip(".")


def is_temporary(error: Exception) -> bool:
    """Whether a call's error is one of the network, of throttling or of AWS itself (HTTP 5xx)."""
    if not isinstance(error, aws.ClientError):
        return isinstance(error, CONNECTION_ERRORS)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    response: Any = SimpleNamespace(status_code=status)
    context = standard.RetryContext(1, parsed_response=error.response, http_response=response)
    return error_code(error) != _QUOTA_CODE and any(c.is_retryable(context) for c in _RETRYABLE)


def explain(error: Exception) -> Refusal:
    """Turn an error that no caller has handled itself into a Refusal."""
    if isinstance(error, Boto3Error) and isinstance(error.__context__, Exception):
        error = error.__context__  # that of the call which an upload is made of
    if isinstance(error, Refusal):
        return error
    if isinstance(error, aws.ClientError):
        return _explain_response(error)
    if isinstance(error, aws.InvalidRegionError):
        return _wrong_region(str(error.kwargs["region_name"]))
    if isinstance(error, CONNECTION_ERRORS):
        return _explain_connection(error)
    if isinstance(error, aws.NoRegionError):
        return Refusal(
            "No AWS Region is set; set AWS_REGION or choose one with `aws configure set region`."
        )
    if isinstance(error, aws.NoCredentialsError):
        return Refusal(
            "No AWS credentials were found; run `aws configure`, set AWS_PROFILE, or in the lab"
            " run the line that `make lab-up` prints."
        )
    # botocore lets errors through that are not its own, such as those of a credential_process.
    where = {frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__)}
    profile = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    option = f" --profile {profile}" if profile else ""
    if isinstance(error, aws.LoginError):
        what, remedy = "session", f"run `aws login{option}`"
    elif isinstance(error, aws.SSOError | aws.TokenRetrievalError):
        what, remedy = "session", f"run `aws sso login{option}`"
    elif isinstance(error, _PROFILE_ERRORS) or "botocore.credentials" in where:
        what, remedy = "credentials", "correct the profile or the AWS_* variables"
    elif isinstance(error, aws.BotoCoreError) or "botocore.session" in where:
        what, remedy = "configuration", "correct AWS_ENDPOINT_URL, other AWS_* or ~/.aws/config"
    elif isinstance(error, OSError):
        place = error.filename or "The output"
        why = f"{place} cannot be read or written ({error.strerror})"
        return Refusal(f"{why}; correct this, and try again.", EXIT_FAILED)
    else:
        traceback.print_exception(error)
        return Refusal(
            f"rackrate has a fault ({type(error).__name__}: {_plain(error)}); report it to its"
            " developers with the lines above.",
            EXIT_UNKNOWN,
        )
    return Refusal(f"The AWS {what} cannot be used ({_plain(error)}); {remedy}, and try again.")


def _explain_connection(error: aws.BotoCoreError) -> Refusal:
    endpoint = str(error.kwargs.get("endpoint_url", ""))
    named = _REGION.search(endpoint)  # in AWS's own
    if named and named[1] not in _regions():
        return _wrong_region(named[1], f"No connection to {endpoint}: ")
    check = "the network" if named else "the network and AWS_ENDPOINT_URL (is the lab up?)"
    what = f"The connection to AWS failed ({_plain(error)})"
    if isinstance(error, aws.EndpointConnectionError):
        what = f"No connection to {endpoint}"
    return Refusal(f"{what}; check {check}, and try again.", EXIT_UNKNOWN)


def _regions() -> list[str]:
    session = boto3.Session()
    return [
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("ec2", partition)
    ]


def _wrong_region(region: str, why: str = "") -> Refusal:
    return Refusal(
        f'{why}"{region}" is no Region that boto3 knows{nearest(region, _regions())}; correct'
        " AWS_REGION or the profile's region."
    )


def _explain_response(error: aws.ClientError) -> Refusal:
    """Explain an error that a service has answered with."""
    code = error_code(error)
    operation = error.operation_name
    if code in _CLOCK_CODES or any(each in error_message(error) for each in _CLOCK_MESSAGES):
        return Refusal(
            f"This machine's clock {_wrong_by(error)}, and AWS accepts no requests that are"
            " signed at another time; set the clock, for example with `timedatectl set-ntp"
            " true`, and try again."
        )
    if code in _CREDENTIAL_CODES:
        return Refusal(
            f"AWS did not accept the credentials ({error_message(error)}); renew them, for"
            " example with `aws sso login`."
        )
    if code in PERMISSION_CODES:
        return Refusal(
            f"These credentials may not call {operation} ({error_message(error)}); use a role"
            " that may."
        )
    if is_temporary(error):
        return Refusal(
            f"AWS is busy or has a fault: it answers {operation} with {code}"
            f" ({error_message(error)}); try again in some minutes.",
            EXIT_UNKNOWN,
        )
    return Refusal(
        f"AWS refused {operation} with {code} ({error_message(error)}); correct this and try"
        " again.",
        EXIT_FAILED,
    )


def _wrong_by(error: aws.ClientError) -> str:
    """How far this machine's clock is from that of the service that answered, in words."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        theirs = email.utils.parsedate_to_datetime(str(headers.get("date")))
    except ValueError:
        return "is wrong"
    if theirs.tzinfo is None:
        return "is wrong"
    seconds = (datetime.now(UTC) - theirs).total_seconds()
    # AWS tolerates minutes, so the clock has been set since, or the request came late.
    if abs(seconds) < 60:
        return "was wrong"
    return f"is {duration(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} AWS's"


def _plain(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")
