"""The protocol of custom resources. Every request gets an answer, with a readable reason.

Source: AWS CloudFormation user guide, "Custom resource request and response reference".
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import urllib3
from aws_lambda_powertools import Logger

from rackrate.errors import AwsUnavailable, ClusterUnreachable, Throttled, translated
from rackrate_contract.document import Json

logger = Logger(child=True)
# urllib3 warns of each retry with the whole URL, and CloudFormation's is signed.
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)

#: The physical id of a resource whose creation failed. Its deletion does nothing.
NOTHING = "nothing"
#: CloudFormation's limit for an answer.
_ANSWER_BYTES = 4096
_CUT = " [...]"
#: The part of the function's time that is reserved for the answer that its time is up.
_RESERVE_SECONDS = 10.0
#: How long before that the last try begins, so that its failure is the answer.
_MARGIN_SECONDS = 2.0
#: The first and the longest pause before a request is handled again.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 2.0, 15.0
_RETRIES = urllib3.Retry(4, backoff_factor=0.5, status_forcelist=(500, 502, 503, 504))


class Context(Protocol):
    """The part of Lambda's context that is used here."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the function."""


@dataclass(frozen=True)
class Answer:
    """The answer to a successful request.

    Attributes:
        physical_id: the resource's physical id. If an update returns another id, CloudFormation
            then deletes the resource with the old id.
        data: the resource's attributes.
    """

    physical_id: str
    data: Mapping[str, str] = field(default_factory=dict)


def serve(
    event: Mapping[str, Any],
    context: Context,
    meet: Callable[[Mapping[str, Any]], Answer | None],
    *,
    last_seconds: float = _RESERVE_SECONDS + _MARGIN_SECONDS,
) -> None:
    """Handle a request and answer it, even if it fails or the function's time runs out.

    What passes by itself is tried again while there is time. Any other failure is answered at once.

    Args:
        event: CloudFormation's request.
        context: Lambda's context.
        meet: handles the request, and may be called again. It returns None if the answer will be
            sent later. The message of its exception becomes the failure's reason.

    Raises:
        RuntimeError: CloudFormation did not accept the answer; Lambda then retries the invocation.
    """
    answered = threading.Lock()

    def too_late() -> None:
        if answered.acquire(blocking=False):
            logger.error("the function's time is up")
            respond(event, error="the function ran out of time; its log says how far it came")

    seconds = context.get_remaining_time_in_millis() / 1000
    timer = threading.Timer(max(seconds - _RESERVE_SECONDS, 0), too_late)
    timer.daemon = True
    timer.start()
    answer: Answer | None = None
    error: str | None = None
    try:
        answer = _met(event, meet, time.monotonic() + seconds - last_seconds)
    except Exception as failure:
        # Answer in any case; otherwise CloudFormation waits until ServiceTimeout.
        logger.exception("the request could not be met")
        error = reason(failure)
    finally:
        timer.cancel()
        # Lambda freezes the process when the handler returns: an answer that is on its way is lost.
        timer.join()
    if (answer is not None or error is not None) and answered.acquire(blocking=False):
        respond(event, answer=answer, error=error)


def _met(
    event: Mapping[str, Any],
    meet: Callable[[Mapping[str, Any]], Answer | None],
    deadline: float,
) -> Answer | None:
    """Handle a request, again while AWS or the cluster is out of order and there is time."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            with translated():
                return meet(event)
        except (AwsUnavailable, ClusterUnreachable, Throttled) as failure:
            if time.monotonic() + pause > deadline:
                raise
            logger.info("the request is handled again", error=str(failure))
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def reason(failure: BaseException) -> str:
    """The text of a failure for the stack's events."""
    text = sentences(str(failure))
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def sentences(text: str) -> str:
    """Lines as numbered sentences, because the console shows a reason as one paragraph."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    closed = [line if line.endswith((".", "!", "?", ":")) else f"{line}." for line in lines]
    if len(lines) < 2:
        return "".join(lines)
    return " ".join(f"({number}) {line}" for number, line in enumerate(closed, 1))


def respond(
    event: Mapping[str, Any], *, answer: Answer | None = None, error: str | None = None
) -> None:
    """Answer CloudFormation.

    Args:
        event: CloudFormation's request. Its fields `ResponseURL`, `StackId`, `RequestId`,
            `LogicalResourceId` and, if there is one, `PhysicalResourceId` are used.
        answer: the answer to a successful request.
        error: why the request failed; cut to CloudFormation's limit.

    Raises:
        RuntimeError: CloudFormation did not accept the answer.
        ValueError: the attributes exceed CloudFormation's limit.
    """
    old = event.get("PhysicalResourceId") or NOTHING
    body: Json = {
        "Status": "SUCCESS" if answer else "FAILED",
        "Reason": "",
        # A failure keeps the old id, because a new id would mean a replacement.
        "PhysicalResourceId": answer.physical_id if answer else old,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": dict(answer.data) if answer else {},
    }
    room = _ANSWER_BYTES - len(json.dumps(body))
    if room < 0:
        raise ValueError(f"the attributes are {-room} bytes longer than CloudFormation takes")
    body["Reason"] = _fitting("" if answer else error or "unknown", room)
    try:
        response = urllib3.request(
            "PUT",
            event["ResponseURL"],
            body=json.dumps(body),
            headers={"Content-Type": ""},  # the URL is signed for an empty one
            timeout=10,
            retries=_RETRIES,
        )
    except urllib3.exceptions.HTTPError as error:
        # Its text has the URL, with which anybody can answer.
        raise RuntimeError(f"CloudFormation's URL: {type(error).__name__}") from None
    if response.status >= 400:
        raise RuntimeError(f"CloudFormation's URL answered {response.status}")


def _fitting(text: str, room: int) -> str:
    """The text, cut so that it takes at most `room` bytes inside a JSON string."""

    def size(candidate: str) -> int:
        return len(json.dumps(candidate)) - len('""')

    if size(text) <= room:
        return text
    cut = text[: max(room - len(_CUT), 0)]
    while cut and size(cut + _CUT) > room:
        cut = cut[: -max((size(cut + _CUT) - room) // 6, 1)]
    return cut + _CUT
