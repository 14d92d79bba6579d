"""The errors that end a command, each with one sentence and an exit code."""

from __future__ import annotations

import email.utils
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)

from rackrate_text.units import duration
from rackrate_text.words import shortened

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError),
    *(OverflowError, RecursionError),
)
"""What reading a JSON document raises that lacks a part, or has another kind of value there."""

CONNECTION_ERRORS = (ConnectionError, HTTPClientError)
"""botocore's errors of the network between this machine and AWS. They can be temporary."""

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
PERMISSION_CODES = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
"""The error codes of calls that the caller's policies do not allow."""


_MESSAGE_CHARACTERS = 8000  # a reason of CloudFormation has half as many


class Refusal(Exception):
    """An error that ends the command. Its message is one sentence: what is wrong and what to do.

    A message that quotes much loses its middle.

    `exit_code` is 2 when the caller can correct it (input, credentials, name), and 1 otherwise.
    `details` are further values for a program.
    """

    def __init__(self, message: str, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(shortened(message, _MESSAGE_CHARACTERS))
        self.exit_code = exit_code
        self.details: dict[str, Any] = {}


def error_code(error: ClientError) -> str:
    """The service's code of the error, for example `ValidationError`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def error_message(error: ClientError) -> str:
    """The service's message, without its final period."""
    message = str(error.response.get("Error", {}).get("Message", "") or error)
    return " ".join(message.split()).rstrip(".")


def explain(error: BotoCoreError | ClientError) -> Refusal:
    """Turn an AWS error into a Refusal. For errors that no caller has handled itself."""
    if isinstance(error, NoRegionError):
        return Refusal(
            "No AWS Region is set; set AWS_REGION or choose one with `aws configure set region`."
        )
    if isinstance(error, NoCredentialsError):
        return Refusal(
            "No AWS credentials were found; run `aws configure`, set AWS_PROFILE, or in the lab"
            " load the exports that `make lab-up` prints."
        )
    if isinstance(error, PartialCredentialsError | CredentialRetrievalError | ProfileNotFound):
        return Refusal(
            f"The AWS credentials cannot be used ({_plain(error)}); correct the profile or the"
            " AWS_* variables."
        )
    if isinstance(error, EndpointConnectionError):
        endpoint = error.kwargs.get("endpoint_url", "the AWS endpoint")
        return Refusal(
            f"No connection to {endpoint}; check the network and AWS_ENDPOINT_URL (is the lab up?)."
        )
    if isinstance(error, CONNECTION_ERRORS):
        return Refusal(
            f"The connection to AWS failed ({_plain(error)}); check the network and"
            " AWS_ENDPOINT_URL, then try again."
        )
    if isinstance(error, ClientError):
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
        return Refusal(
            f"AWS refused {operation} with {code} ({error_message(error)}); correct this and try"
            " again.",
            EXIT_FAILED,
        )
    return Refusal(
        f"The AWS configuration cannot be used ({_plain(error)}); correct the AWS_* variables or"
        " ~/.aws/config."
    )


def _wrong_by(error: ClientError) -> str:
    """How far this machine's clock is from that of the service that answered, in words."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        theirs = email.utils.parsedate_to_datetime(str(headers.get("date")))
    except ValueError:
        return "is wrong"
    if theirs.tzinfo is None:
        return "is wrong"
    seconds = (datetime.now(UTC) - theirs).total_seconds()
    return f"is {duration(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} AWS's"


def _plain(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")
