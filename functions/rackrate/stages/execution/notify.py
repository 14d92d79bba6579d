"""Notify: inform the subscribers of the alarms' topic how a run or a campaign ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rackrate.errors import REFUSALS
from rackrate.executions.store import Store
from rackrate.results.build import RunFailure
from rackrate.stages.campaign.judge import losses
from rackrate.stages.run.finish import sentence_of
from rackrate.stages.run.teardown import STATUSES
from rackrate.verdict import wording
from rackrate_contract.document import Document
from rackrate_contract.executions import ExecutionRecord, Kind, RunRecord
from rackrate_text.failures import stack_option, way_on
from rackrate_text.printable import printable

#: The longest subject that SNS takes. It also wants ASCII characters only.
_MAX_SUBJECT = 100
#: A message has at most 256 KiB. One for people is much shorter.
_MAX_CHARACTERS = 32_768
#: This function has a log group of its own, which says nothing of a failure.
_LOGS = "of the stack's functions"
#: What a status means, after the name of the run.
_ENDS = {
    "failed": "failed",
    "timed_out": "took too long",
    "aborted": "was stopped",
    "degraded": "lost a part",
    "succeeded": "succeeded",
}
#: The ends that send what was found.
_GOOD = frozenset({"succeeded", "degraded"})


@dataclass(frozen=True)
class Post:
    """Where Notify reads and what it sends to.

    Attributes:
        stack: the root stack's name.
        campaigns_arn: the campaigns' state machine.
        topic_arn: the topic.
        store: the table of runs. It needs no bucket.
        sns: a client of SNS.
    """

    stack: str
    campaigns_arn: str
    topic_arn: str
    store: Store
    sns: Any


class Message(Document):
    """What was sent."""

    subject: str
    text: str


def notify(detail: Mapping[str, Any], post: Post) -> Message | None:
    """Send one message on an execution that ended: what it found, or why it ended badly.

    Nothing is sent on an input that was refused, because who made it reads the refusal, on a dry
    run, nor on a run of a campaign, whose own message reports it.

    Args:
        detail: the detail of EventBridge's "Step Functions Execution Status Change".
        post: where to read and to send to.
    """
    kind: Kind = "campaign" if detail["stateMachineArn"] == post.campaigns_arn else "run"
    message = _message(kind, detail, post)
    if message is not None:
        post.sns.publish(
            TopicArn=post.topic_arn, Subject=message.subject, Message=message.text[:_MAX_CHARACTERS]
        )
    return message


def _message(kind: Kind, detail: Mapping[str, Any], post: Post) -> Message | None:
    name = detail["name"]
    record = post.store.of(kind).find(name)
    if isinstance(record, RunRecord) and record.campaign is not None:
        return None
    failure, way = _failure(detail), None
    if failure is not None:
        status: str = STATUSES[detail["status"]]
        text = _recorded(record, failure)
        text = text or sentence_of(failure, kind, record, post.store, logs=_LOGS)
        way = None if record is None else _way_on(record, status, failure, post)
    elif record is not None and record.status in _GOOD:
        status, text = record.status, _conclusion_of(detail, record.conclusion)
        if status == "degraded":
            text = f"The {kind} ended well, but {_losses(record, post.store)}\n{text}"
    else:
        return None
    show = "rackrate show" if kind == "run" else "rackrate campaign show"
    lines = [
        text,
        "",
        f"`{show} {name}{stack_option(post.stack)}` shows the {kind}.",
        *filter(None, [way]),
    ]
    subject = f"{post.stack}: {kind} {name} {_ENDS[status]}"
    return Message(subject=subject[:_MAX_SUBJECT], text=printable("\n".join(lines)))


def _way_on(record: ExecutionRecord, status: str, failure: RunFailure, post: Post) -> str | None:
    """How to go on after a failure, or None where nothing is gained."""
    if isinstance(record, RunRecord):
        planned = record.trials_planned
        return way_on(
            record.id, status, error=failure.error, trials_planned=planned, stack=post.stack
        )
    if not any(step.has_result for step in post.store.campaigns.steps(record.id)):
        return None
    again = f"rackrate campaign run --continue {record.id}{stack_option(post.stack)}"
    return f"`{again}` goes on with the steps that it has."


def _failure(detail: Mapping[str, Any]) -> RunFailure | None:
    """Why an execution ended badly; None if it did not, or if its input was refused."""
    if detail["status"] not in STATUSES or detail.get("error") in REFUSALS:
        return None
    return RunFailure.of_execution(detail)


def _conclusion_of(detail: Mapping[str, Any], conclusion: str | None) -> str:
    """The execution's output in lines: the sentence, a line for each comparison, the page's link.

    EventBridge leaves a large output out; then only the recorded conclusion is known.
    """
    output = json.loads(detail.get("output") or "{}")
    lines = [output.get("conclusion") or conclusion or ""]
    if comparisons := (*output.get("verdicts", ()), *output.get("answers", ())):
        lines += ["", *comparisons]
    if output.get("report"):
        lines += ["", f"The page: {output['report']}", *filter(None, [output.get("report_valid")])]
    return "\n".join(lines)


def _recorded(record: ExecutionRecord | None, failure: RunFailure) -> str | None:
    """The sentence that the end's record has, with the place of the report where it is known."""
    if record is None or record.is_running or not record.cause:
        return None  # the function that records the end got the event at the same time
    return failure.cause if failure.cause.startswith(record.cause) else record.cause


def _losses(record: ExecutionRecord, store: Store) -> str:
    """The trials or the steps that were lost and tolerated."""
    if not isinstance(record, RunRecord):
        return losses(store.campaigns.steps(record.id))
    states = store.trials.states(record.id)
    failed = [(key, each) for key, each in states.items() if key.block and not each.is_measured]
    causes = wording.losses(
        failed,
        store.runs.plan(record.id).arms if failed else (),
        never_ran=record.trials_failed - len(failed),
    )
    return f"{wording.loss(causes, planned=record.trials_planned)}."
