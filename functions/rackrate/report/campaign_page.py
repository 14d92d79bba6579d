"""report.html of a campaign: one self-contained page, laid out like a run's. Pure."""

from __future__ import annotations

from rackrate.report import rendering
from rackrate.report.campaign_material import CampaignMaterial
from rackrate.report.sections import (
    answers,
    campaign,
    campaign_meaning,
    capacity,
    steps,
    sweep,
)
from rackrate_contract.campaign import CampaignResults


def render_campaign(document: CampaignResults) -> str:
    """Render the page of a campaign from campaign.json.

    A page of many answers has only the first `campaign_material.MOST_FIGURES` figures, and says so,
    so that it is as small as a run's.

    It links to the pages of its runs as they lie in the bucket: `../../runs/<run id>/report.html`
    from `campaigns/<id>/report.html`.
    """
    page = CampaignMaterial(document)
    return rendering.page(
        arms=len(page.arms),
        facts=campaign.facts(page),
        parts=(
            campaign.opening(page),
            campaign_meaning.meaning_section(page),
            campaign.differences(page),
            answers.answers_section(page),
            sweep.sweep_section(page),
            capacity.capacity_section(page),
            steps.steps_section(page),
            answers.one_run_section(page),
            campaign.method(page),
        ),
        title=f"rackrate: {document.campaign.id}",
        scale=page.scale,
        document="campaign.json",
        trials_in=None,
    )
