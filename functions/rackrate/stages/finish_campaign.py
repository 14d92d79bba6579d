"""Finish campaign: record how a campaign ended, and summarize it in the execution's output."""

from __future__ import annotations

from collections.abc import Sequence

from rackrate.document import Document
from rackrate.executions.model import CampaignRecord, CampaignStep
from rackrate.resources import Resources
from rackrate.results.build import RunFailure, campaign_status
from rackrate.results.campaign import CampaignResults, CampaignStatus
from rackrate.stages.finish import cause_with_report, log_group
from rackrate.verdict import campaign as verdict
from rackrate.verdict import sweeps, wording
from rackrate_text.words import counted

#: The phase of a campaign that puts back what it changed.
PUTTING_BACK = "putting back what was changed"


class CampaignOutput(Document):
    """The execution's output, which people read in the console."""

    status: str
    conclusion: str
    answers: tuple[str, ...]
    """A line each."""
    report: str | None
    """A link to the page."""
    report_valid: str | None
    """How long the link holds, in words."""
    results: str
    """Where the campaign's objects are."""


class CampaignEnd(Document):
    """How a campaign's end was recorded."""

    campaign_id: str
    status: CampaignStatus
    seconds: float | None
    """How long it took; null when its end had been written before."""


class CampaignFinished(Document):
    """The end of a campaign's execution."""

    ended: CampaignEnd
    output: CampaignOutput | None
    """The execution's output; null for a campaign that failed."""
    error: str | None
    """The execution's error; null if it did not fail."""
    cause: str | None
    """The execution's cause, with the page's place in it; null if it did not fail."""


def finish_campaign(
    campaign_id: str,
    resources: Resources,
    *,
    execution_arn: str,
    failure: RunFailure | None,
    report_key: str | None,
) -> CampaignFinished:
    """Record once how the campaign ended, and build the execution's output or cause.

    Args:
        campaign_id: the campaign.
        resources: the stack's resources.
        execution_arn: its execution.
        failure: why it failed, or None.
        report_key: the page's key, or None where there is no page.
    """
    record = resources.store.campaigns.find(campaign_id)
    steps = resources.store.campaigns.steps(campaign_id)
    status = campaign_status(failure, lost=sum(not step.has_result for step in steps))
    ended = record_campaign_end(
        campaign_id, status, execution_arn=execution_arn, failure=failure, resources=resources
    )
    if failure is not None:
        said = campaign_sentence(failure, record, steps)
        cause = cause_with_report(said, report_key, resources.store)
        return CampaignFinished(ended=ended, output=None, error=failure.error, cause=cause)
    output = _output(campaign_id, status, report_key, resources)
    return CampaignFinished(ended=ended, output=output, error=None, cause=None)


def campaign_sentence(
    failure: RunFailure,
    record: CampaignRecord | None,
    steps: Sequence[CampaignStep],
    *,
    logs: str | None = None,
) -> str:
    """The sentence that people read on a campaign that failed or was stopped.

    Args:
        failure: why it ended.
        record: the campaign.
        steps: its steps.
        logs: the log group of the stack's functions; by default this function's own.
    """
    own = [step for step in steps if step.source is None]
    good = sum(step.has_result for step in own)
    verb = "has a result" if good == 1 else "have a result"
    return failure.sentence(
        subject="The campaign",
        during=_during(record),
        measured=f"{good} of {counted(len(own), 'step')} {verb}" if own else "",
        log_group=logs or log_group(),
    )


def _during(record: CampaignRecord | None) -> str | None:
    if record is None or not record.is_running or record.phase == PUTTING_BACK:
        return None
    return record.phase


def _output(
    campaign_id: str, status: CampaignStatus, page: str | None, resources: Resources
) -> CampaignOutput:
    store, campaigns = resources.store, resources.store.campaigns
    results = campaigns.find_document(campaign_id, "campaign.json", CampaignResults)
    return CampaignOutput(
        status=status,
        conclusion=""
        if results is None
        else wording.with_scale(results.conclusion, results.campaign.lab_scale),
        answers=() if results is None else _lines(results),
        report=None if page is None else store.objects.link(page),
        report_valid=None if page is None else store.objects.link_validity(page),
        results=f"s3://{store.objects.bucket_name}/{campaigns.key(campaign_id, '')}",
    )


def _lines(results: CampaignResults) -> tuple[str, ...]:
    return (
        *(verdict.line(answer) for answer in results.answers),
        *(sweeps.line(cell) for cell in results.sweep),
    )


def record_campaign_end(
    campaign_id: str,
    status: CampaignStatus,
    *,
    execution_arn: str,
    failure: RunFailure | None,
    resources: Resources,
) -> CampaignEnd:
    """Record a terminal status and the error, unless that is done already; give back the nodes.

    While something is still to be put back, the campaign keeps the nodes, until the hourly sweep
    has put it back.
    """
    campaigns = resources.store.campaigns
    record = campaigns.find(campaign_id)
    seconds = campaigns.finish(
        campaign_id,
        status,
        execution_arn=execution_arn,
        phase=status.replace("_", " "),
        error=None if failure is None else failure.error or status,
        cause=None
        if failure is None
        else campaign_sentence(failure, record, campaigns.steps(campaign_id)),
    )
    if record is not None and record.changed is not None:
        if seconds is not None:
            warning = "what it changed is not put back yet; the hourly clean-up tries again"
            campaigns.update(campaign_id, warnings=(*record.warnings, warning))
    elif record is not None and record.leased_at is not None:  # as in `finish.record_end`
        resources.store.leases.give_back("campaign", campaign_id)
    return CampaignEnd(campaign_id=campaign_id, status=status, seconds=seconds)
