"""Notify: tell the subscribers of the alarms' topic how a run or a campaign ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackrate.document import Document
from rackrate.errors import REFUSALS
from rackrate.executions.model import CampaignRecord, CampaignStep, RunRecord
from rackrate.executions.store import Store
from rackrate.results.build import RunFailure
from rackrate.stages.finish import sentence_of
from rackrate.stages.finish_campaign import campaign_sentence
from rackrate.stages.judge import losses
from rackrate.stages.teardown import STATUSES, compared
from rackrate.verdict import wording
from rackrate_text.failures import stack_option, way_on
from rackrate_text.printable import printable

#: The longest subject that SNS takes. It also wants ASCII characters only.
_MAX_SUBJECT = 100
#: A message has at most 256 KiB. One for people is much shorter.
_MAX_CHARACTERS = 32_768
#: This function has a log group of its own, which tells nothing of a failure.
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
    run, on a comparison, nor on a run of a campaign, whose own message tells of it.

    Args:
        detail: the detail of EventBridge's "Step Functions Execution Status Change".
        post: where to read and to send to.
    """
    if detail["stateMachineArn"] == post.campaigns_arn:
        message = _of_campaign(detail, post)
    else:
        message = None if compared(detail.get("input")) else _of_run(detail, post)
    if message is not None:
        post.sns.publish(
            TopicArn=post.topic_arn, Subject=message.subject, Message=message.text[:_MAX_CHARACTERS]
        )
    return message


def _of_run(detail: Mapping[str, Any], post: Post) -> Message | None:
    run_id = detail["name"]
    run = post.store.runs.find(run_id)
    if run is not None and run.campaign is not None:
        return None
    failure = _failure(detail)
    if failure is not None:
        status: str = STATUSES[detail["status"]]
        said = _recorded(run, failure) or sentence_of(failure, run, logs=_LOGS)
    elif run is not None and run.status in _GOOD:
        status, said = run.status, _found(detail, run.conclusion)
        if status == "degraded":
            said = f"{_losses(run, post.store)}\n{said}"
    else:
        return None
    error, planned = (failure.error, run.trials_planned) if failure and run else ("", 0)
    way = way_on(run_id, status, error=error, trials_planned=planned, stack=post.stack)
    return _message("run", run_id, status, said, way, post.stack)


def _of_campaign(detail: Mapping[str, Any], post: Post) -> Message | None:
    campaign_id = detail["name"]
    record = post.store.campaigns.find(campaign_id)
    steps = post.store.campaigns.steps(campaign_id)
    failure = _failure(detail)
    if failure is not None:
        status: str = STATUSES[detail["status"]]
        said = _recorded(record, failure) or campaign_sentence(failure, record, steps, logs=_LOGS)
    elif record is not None and record.status in _GOOD:
        status, said = record.status, _found(detail, record.conclusion)
        if status == "degraded":
            said = f"{_lost_steps(steps)}\n{said}"
    else:
        return None
    way = None
    if any(step.has_result for step in steps) and failure is not None:
        again = f"rackrate campaign run --continue {campaign_id}{stack_option(post.stack)}"
        way = f"`{again}` goes on with the steps that it has."
    return _message("campaign", campaign_id, status, said, way, post.stack)


def _failure(detail: Mapping[str, Any]) -> RunFailure | None:
    """Why an execution ended badly; None if it did not, or if its input was refused."""
    if detail["status"] not in STATUSES or detail.get("error") in REFUSALS:
        return None
    return RunFailure.of_execution(detail)


def _found(detail: Mapping[str, Any], conclusion: str | None) -> str:
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


def _recorded(record: RunRecord | CampaignRecord | None, failure: RunFailure) -> str | None:
    """The sentence that the end's record has, with the place of the report where it is known."""
    if record is None or record.is_running or not record.cause:
        return None  # the function that records the end got the event at the same time
    return failure.cause if failure.cause.startswith(record.cause) else record.cause


def _losses(run: RunRecord, store: Store) -> str:
    """The lost trials of a run that tolerated them."""
    states = store.trials.states(run.id)
    failed = [(key, each) for key, each in states.items() if key.block and not each.is_measured]
    causes = wording.losses(failed, never_ran=run.trials_failed - len(failed))
    told = wording.loss(causes, planned=run.trials_planned)
    return f"The run ended well, but {told}."


def _lost_steps(steps: Sequence[CampaignStep]) -> str:
    return f"The campaign ended well, but {losses(steps)}"


def _message(noun: str, name: str, status: str, said: str, way: str | None, stack: str) -> Message:
    show = "rackrate show" if noun == "run" else "rackrate campaign show"
    lines = [
        said,
        "",
        f"`{show} {name}{stack_option(stack)}` shows the {noun}.",
        *filter(None, [way]),
    ]
    subject = f"{stack}: {noun} {name} {_ENDS[status]}"
    return Message(subject=subject[:_MAX_SUBJECT], text=printable("\n".join(lines)))
