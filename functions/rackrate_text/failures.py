"""Turns an error into the sentence that people read, and counts equal causes once. Pure.

Step Functions passes an error's name and its cause on. The cause of a function's error is a JSON
document with a stack trace, that of a child execution its description, and others are plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rackrate_text.printable import printable
from rackrate_text.words import counted, host_name

#: What an error means that neither we nor a function's code raised, and what to do about it.
_MEANINGS: dict[str, tuple[str, str]] = {
    "Runtime.ExitError": ("the function crashed", "Run again"),
    "Runtime.OutOfMemory": (
        "the function ran out of memory",
        "Run with fewer blocks",
    ),
    "Sandbox.Timedout": ("the function ran out of time", "Run again"),
    "States.Timeout": ("it took longer than it may", "Run again"),
    "States.HeartbeatTimeout": ("the function gave no sign of life", "Run again"),
    "States.ItemReaderFailed": (
        "the schedule could not be read from the bucket",
        "Look whether the bucket's policy or key denies it, then run again",
    ),
    "States.ExceedToleratedFailureThreshold": (
        "too many items of the schedule failed",
        "Run again",
    ),
    "States.DataLimitExceeded": (
        "an answer exceeded the limit of Step Functions",
        "Report it, with the plan",
    ),
    "States.Permissions": (
        "the state machine's role may not do it",
        "Deploy the stack again, which restores its roles",
    ),
    "Lambda.TooManyRequestsException": (
        "Lambda had no capacity for the function",
        "Run again later, or raise the account's concurrency",
    ),
    "ExecutionDoesNotExist": ("its execution is not known any more", "Run again"),
}
_LAMBDA = ("Lambda itself failed", "Run again")
_STATES = ("Step Functions could not go on", "Report it, with the plan")
_CRASHED = re.compile(r"signal: killed|out of memory", re.IGNORECASE)
_TIMED_OUT = re.compile(r"Task timed out after (\d+(?:\.\d+)?) seconds")
_AWS = re.compile(
    r"An error occurred \((?P<code>[\w.]+)\) when calling the (?P<operation>\w+) operation[^:]*: "
    r"(?P<message>.*)",
    re.DOTALL,
)
# Nothing is read beyond the next place where the expression could begin, and nothing twice, so that
# no text takes more than linear time.
_DENIED = re.compile(
    r"role/(?P<role>[\w+=,.@-]++)(?:(?!role/)\S)*+ is not authorized to perform:? "
    r"(?P<action>[\w-]+:\w+)"
)
_KEY = re.compile(r"KMS|kms:|\bkey\b(?:(?!\bkey\b).)*\b(?:disabled|pending deletion)\b")
_REQUEST = re.compile(r"RequestId: ([0-9a-f-]{36})")

#: How many places of a loss a line names.
_PLACES_SHOWN = 2

#: What differs between equal causes. The names of nodes stay, because they say where.
_IDS = tuple(
    (re.compile(pattern), shown)
    for pattern, shown in (
        (r"\(?\b[Rr]equest ?I[Dd]:? ?[\w-]+\)?:? ?", ""),
        (r"\barn:[\w-]+:[\w-]+:[^\s,;)\"']+", "…"),
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "…"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?", "…"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "…"),
        (r"\[[0-9a-fA-F]*+:[0-9a-fA-F:]++\](?::\d+)?", "…"),
        (r"\bport \d+\b", "port …"),
        (r"\brun-[0-9a-f]{10}(?:-[\w-]*)?(?![\w-])", "the pod"),
        (r"\b0x[0-9a-fA-F]+\b", "…"),
        (r"(?<![\w-])(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b(?![-.])", "…"),
    )
)


#: The ends after which a run can go on, and the error of one that cannot: its nodes are missing.
CONTINUABLE = frozenset({"failed", "aborted", "timed_out"})
NODES_CHANGED = "NodesChanged"
#: The stack that the command takes by default.
DEFAULT_STACK = "rackrate"


@dataclass(frozen=True)
class Explanation:
    """An error for people.

    Attributes:
        reason: why it failed: a phrase, or lines that the code of a function wrote.
        remedy: what to do, a sentence without its period; empty if the reason says it.
        step: the step that failed, if its stack trace names it.
        request: the id of the function's request, which finds its log; empty if unknown.
    """

    reason: str
    remedy: str = ""
    step: str = ""
    request: str = ""

    @property
    def text(self) -> str:
        """The reason, and what to do where the reason does not say it."""
        return f"{self.reason}. {self.remedy}" if self.remedy else self.reason


def explain(error: str, cause: str) -> Explanation:
    """What an error means, out of the documents of Lambda and of child executions."""
    document = _document(cause)
    if document is not None and "errorMessage" not in document:
        if document.get("Error") or document.get("Cause"):
            return explain(str(document.get("Error") or ""), str(document.get("Cause") or ""))
        if "Status" in document:
            return Explanation(f"the execution's status is {document['Status']}")
        document = None  # the JSON of somebody else is text
    message = cause if document is None else str(document.get("errorMessage") or "")
    message = printable(message).strip()
    trace = None if document is None else document.get("stackTrace")
    step, request = _step(trace), _request(document, message)
    known = _known(error, message)
    if known is not None:
        return Explanation(*known, step=step, request=request)
    return Explanation(message, step=step, request=request)


def error_in(cause: str) -> str:
    """The name of the error of a child execution, from its description; otherwise empty."""
    document = _document(cause)
    if document is None or "errorMessage" in document:
        return ""
    return error_in(str(document.get("Cause") or "")) or str(document.get("Error") or "")


def was_stopped(cause: str) -> bool:
    """Whether a cause is the description of a child execution that somebody stopped."""
    return (_document(cause) or {}).get("Status") == "ABORTED"


def lines_of(cause: str) -> list[str]:
    """The lines of a cause that are for people."""
    document = _document(cause)
    text = explain("", cause).reason if document is not None else printable(cause)
    return [line for line in text.splitlines() if line.strip()]


def way_on(
    run_id: str,
    status: str,
    *,
    error: str | None,
    trials_planned: int | None,
    stack: str,
    campaign: str | None = None,
) -> str | None:
    """How to go on with a run that ended badly, or None where it cannot or nothing is gained.

    Args:
        run_id: the run.
        status: how it ended.
        error: the name of the error that ended it.
        trials_planned: how many trials it planned; None or 0 before it had a plan.
        stack: the root stack's name.
        campaign: the campaign that it belongs to, which makes another run.
    """
    if status not in CONTINUABLE or campaign is not None:
        return None
    if not trials_planned or error == NODES_CHANGED:
        return None
    again = f"rackrate run --continue {run_id}{stack_option(stack)}"
    return f"`{again}` measures what is missing, on the same nodes."


def stack_option(stack: str) -> str:
    """What a command needs after it to mean this stack."""
    return "" if stack == DEFAULT_STACK else f" --stack {stack}"


def without_ids(text: str) -> str:
    """The text without what differs between equal causes: ids, addresses, times, names of pods."""
    for pattern, shown in _IDS:
        text = pattern.sub(shown, text)
    return " ".join(text.split())


@dataclass(frozen=True)
class Loss:
    """A cause of lost trials or steps.

    Attributes:
        count: how many it cost.
        cause: the reason, without ids.
        where: the places it struck, in the order in which it did; empty if none is known.
    """

    count: int
    cause: str
    where: tuple[str, ...] = ()

    @property
    def places(self) -> str:
        """The places, or how many if they are many; empty if none is known."""
        shown, more = self.where[:_PLACES_SHOWN], len(self.where) - _PLACES_SHOWN
        return "; ".join([*shown, *([f"{more} more"] if more > 0 else [])])

    @property
    def of_trials(self) -> str:
        """Such as `2 trials (treatment, node-a → node-b): the tool printed nothing`."""
        places = f" ({self.places})" if self.where else ""
        return f"{counted(self.count, 'trial')}{places}: {self.cause}"


def place(arm: str, client: str, server: str) -> str:
    """Where a trial was lost."""
    return f"{arm}, {host_name(client)} → {host_name(server)}"


def grouped(reasons: Iterable[tuple[str, str]]) -> list[Loss]:
    """The causes of losses, the most frequent first; their ids make no difference.

    Args:
        reasons: the reason and the place of each loss; the place is empty if it is not known.
    """
    where: dict[str, list[str]] = {}
    for reason, where_lost in reasons:
        where.setdefault(without_ids(reason), []).append(where_lost)
    losses = [
        Loss(len(places), cause, tuple(filter(None, dict.fromkeys(places))))
        for cause, places in where.items()
    ]
    return sorted(losses, key=lambda loss: -loss.count)


def _document(cause: str) -> dict[str, Any] | None:
    try:
        document = json.loads(cause)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _known(error: str, message: str) -> tuple[str, str] | None:
    """The reason and the remedy of an error that our code does not raise itself."""
    if timed := _TIMED_OUT.search(message):
        return f"the function took longer than its {float(timed[1]):g} s", "Run again"
    if error.startswith("Runtime.") and _CRASHED.search(message):
        return _MEANINGS["Runtime.OutOfMemory"]
    if match := _AWS.match(message):
        return _refused_by_aws(match["code"], match["operation"], match["message"])
    meaning = _MEANINGS.get(error)
    if meaning is None and error.startswith("Lambda."):
        meaning = _LAMBDA
    if meaning is None and error.startswith("States.") and error != "States.TaskFailed":
        meaning = _STATES
    if meaning is None:
        return None
    text = without_ids(message)
    quoted = bool(text) and not error.startswith(("Runtime.", "Sandbox."))
    return (f"{meaning[0]} ({text.rstrip('.')})" if quoted else meaning[0]), meaning[1]


def _refused_by_aws(code: str, operation: str, message: str) -> tuple[str, str]:
    if _KEY.search(f"{code} {message}"):
        text = without_ids(message).rstrip(".")
        return (
            f"the encryption key cannot be used in {operation} ({text})",
            "Enable the key, or let the stack's roles use it, then run again",
        )
    if denied := _DENIED.search(message):
        return (
            f"the role {denied['role']} may not {denied['action']}",
            "Look for a policy, boundary or service control policy that denies it, or deploy the"
            " stack again",
        )
    text = without_ids(message).rstrip(".")
    return f"AWS refused {operation} with {code} ({text})", "Remove the reason, then run again"


def _step(trace: object) -> str:
    """The step whose handler a stack trace names."""
    for line in map(str, trace) if isinstance(trace, list) else ():
        if match := re.search(r"/handlers/(\w+)\.py", line):
            return match[1].replace("_", " ")
    return ""


def _request(document: dict[str, Any] | None, message: str) -> str:
    named = "" if document is None else str(document.get("requestId") or "")
    match = _REQUEST.search(message)
    return named or (match[1] if match else "")
