"""How a custom resource answers CloudFormation: always, and so that a person can read it.

Source: AWS CloudFormation user guide, "Custom resource request and response reference".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import urllib3
from aws_lambda_powertools import Logger

from rackrate.document import Json

logger = Logger(child=True)

#: The physical id of a resource whose creation failed; its deletion has nothing to do.
NOTHING = "nothing"
#: CloudFormation refuses longer answers.
_ANSWER_BYTES = 4096
_CUT = " [...]"
#: What is kept of a function's time for the answer that its time is up.
_RESERVE_SECONDS = 10.0


class Context(Protocol):
    """Lambda's context, as far as it is asked here."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the function."""


@dataclass(frozen=True)
class Answer:
    """What became of a request that was met.

    Attributes:
        physical_id: the resource's physical id; when an update gives another one, CloudFormation
            deletes the resource of the old one afterwards.
        data: the resource's attributes.
    """

    physical_id: str
    data: Mapping[str, str] = field(default_factory=dict)


def serve(
    event: Mapping[str, Any],
    context: Context,
    meet: Callable[[Mapping[str, Any]], Answer | None],
) -> None:
    """Meets a request and answers it, also when that fails or takes longer than the function has.

    Args:
        event: CloudFormation's request.
        context: Lambda's context.
        meet: does what is asked; None means that somebody else answers later. What it raises
            becomes the reason of the failure, word for word.

    Raises:
        RuntimeError: CloudFormation did not take the answer; Lambda then invokes the function anew.
    """
    answered = threading.Lock()

    def too_late() -> None:
        if answered.acquire(blocking=False):
            logger.error("the function's time is up")
            respond(event, error="the function ran out of time; its log says how far it came")

    seconds = context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
    timer = threading.Timer(max(seconds, 0), too_late)
    timer.daemon = True
    timer.start()
    answer: Answer | None = None
    error: str | None = None
    try:
        answer = meet(event)
    except Exception as failure:
        # Without an answer CloudFormation would wait for as long as ServiceTimeout says.
        logger.exception("the request could not be met")
        error = reason(failure)
    finally:
        timer.cancel()
    if (answer is not None or error is not None) and answered.acquire(blocking=False):
        respond(event, answer=answer, error=error)


def reason(failure: BaseException) -> str:
    """A failure as a person reads it in the stack's events."""
    text = sentences(str(failure))
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def sentences(text: str) -> str:
    """Lines as numbered sentences, since the console shows a reason as one paragraph."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    closed = [line if line.endswith((".", "!", "?", ":")) else f"{line}." for line in lines]
    if len(lines) < 2:
        return "".join(lines)
    return " ".join(f"({number}) {line}" for number, line in enumerate(closed, 1))


def respond(
    event: Mapping[str, Any], *, answer: Answer | None = None, error: str | None = None
) -> None:
    """Answers CloudFormation.

    Args:
        event: CloudFormation's request; of it `ResponseURL`, `StackId`, `RequestId`,
            `LogicalResourceId` and, if there is one, `PhysicalResourceId` are used.
        answer: of a request that was met.
        error: why the request was not met; cut to what CloudFormation takes.

    Raises:
        RuntimeError: CloudFormation did not take the answer.
        ValueError: the attributes are longer than CloudFormation takes.
    """
    old = event.get("PhysicalResourceId") or NOTHING
    body: Json = {
        "Status": "SUCCESS" if answer else "FAILED",
        "Reason": "",
        # A failure must not look like a replacement.
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
    response = urllib3.request(
        "PUT",
        event["ResponseURL"],
        body=json.dumps(body),
        headers={"Content-Type": ""},  # the URL is signed for an empty one
        timeout=10,
        retries=urllib3.Retry(4, backoff_factor=0.5, status_forcelist=(500, 502, 503, 504)),
    )
    if response.status >= 400:
        raise RuntimeError(f"CloudFormation's URL answered {response.status}")


def _fitting(text: str, room: int) -> str:
    """As much of a text as takes at most `room` bytes inside a JSON string."""

    def size(candidate: str) -> int:
        return len(json.dumps(candidate)) - len('""')

    if size(text) <= room:
        return text
    kept = text[: max(room - len(_CUT), 0)]
    while kept and size(kept + _CUT) > room:
        kept = kept[: -max((size(kept + _CUT) - room) // 6, 1)]
    return kept + _CUT
