"""Report campaign: write campaign.json and the campaign's page."""

from __future__ import annotations

from rackrate.report.campaign_page import render_campaign
from rackrate.resources import Resources
from rackrate.results.build import RunFailure
from rackrate.results.build_campaign import build_campaign, pooled_step
from rackrate.stages.campaign.judge import facts_of, hunt_of, results_of
from rackrate.stages.campaign.plan_campaign import read_pool
from rackrate.stages.run.finish import sentence_of
from rackrate_contract.campaign import CampaignResults
from rackrate_contract.document import Document


class CampaignReported(Document):
    """The objects that were written."""

    report_key: str
    """The page's key."""
    results: CampaignResults


def report_campaign(
    campaign_id: str, resources: Resources, *, failure: RunFailure | None
) -> CampaignReported:
    """Write campaign.json and report.html.

    Raises:
        LookupError: there is no such campaign.
        InvalidCampaign: a run of a pool is missing since the campaign was planned.
    """
    campaigns = resources.store.campaigns
    if failure is None:
        campaigns.update(campaign_id, phase="reporting")
    record, planned = campaigns.get(campaign_id), campaigns.plan(campaign_id)
    steps = campaigns.steps(campaign_id)
    reported = [step.as_result() for step in steps if not step.is_open]
    if planned.campaign.pool is None:
        runs = results_of(record, steps, resources)
    else:
        pooled = read_pool(planned, resources)
        runs = [run.results for run in pooled]
        reported = [
            pooled_step(number, run.results, run.source)
            for number, run in enumerate(pooled, start=1)
        ]
    if failure is not None:
        failure = RunFailure(
            failure.error, sentence_of(failure, "campaign", record, resources.store)
        )
    lost = sum(step.is_lost for step in steps)
    results = build_campaign(
        facts_of(record, planned, failure=failure, lost=lost),
        plan=planned.campaign.plan,
        steps=reported,
        runs=runs,
        least=record.least,
        most=record.steps,
        stopped=record.stopped,
        hunt=hunt_of(planned, [step for step in steps if not step.is_open], runs),
        warnings=record.warnings,
    )
    campaigns.update(
        campaign_id,
        conclusion=results.conclusion,
        lab_scale=results.campaign.lab_scale,
        seconds=results.campaign.seconds,
    )
    campaigns.put(campaign_id, "campaign.json", results)
    page = campaigns.put_text(campaign_id, "report.html", render_campaign(results), "text/html")
    return CampaignReported(report_key=page, results=results)
