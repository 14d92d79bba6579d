"""Finish campaign: record how a campaign ended, and summarize it in the execution's output."""

from __future__ import annotations

from rackrate.resources import Resources
from rackrate.results.build import RunFailure, campaign_status
from rackrate.stages.run.finish import Finished, finish_execution
from rackrate.verdict import campaign as verdict
from rackrate.verdict import sweeps, wording
from rackrate_contract.campaign import CampaignResults
from rackrate_contract.executions import CampaignOutput, Status


def finish_campaign(
    campaign_id: str,
    resources: Resources,
    *,
    execution_arn: str,
    failure: RunFailure | None,
    report_key: str | None,
) -> Finished:
    """Record once how the campaign ended, and build the execution's output or cause.

    Args:
        campaign_id: the campaign.
        resources: the stack's resources.
        execution_arn: its execution.
        failure: why it failed, or None.
        report_key: the page's key, or None where there is no page.
    """
    steps = resources.store.campaigns.steps(campaign_id)
    status = campaign_status(failure, lost=sum(step.is_lost for step in steps))
    return finish_execution(
        "campaign",
        campaign_id,
        status,
        lambda: _output(campaign_id, status, report_key, resources),
        execution_arn=execution_arn,
        failure=failure,
        report_key=report_key,
        resources=resources,
    )


def _output(
    campaign_id: str, status: Status, page: str | None, resources: Resources
) -> CampaignOutput:
    store, campaigns = resources.store, resources.store.campaigns
    results = campaigns.find_document(campaign_id, "campaign.json", CampaignResults)
    return CampaignOutput(
        status=status,
        conclusion=""
        if results is None
        else wording.in_brief(results.conclusion, results.campaign.lab_scale),
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
