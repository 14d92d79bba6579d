"""report.html of a campaign: one self-contained page, laid out like a run's. Pure."""

from __future__ import annotations

from rackrate.report import layout
from rackrate.report.campaign_material import CampaignMaterial, first_draw_figures
from rackrate.report.sections import answers, campaign, campaign_meaning, steps, sweep
from rackrate.results.campaign import CampaignResults


def render_campaign(document: CampaignResults) -> str:
    """Render the page of a campaign from campaign.json.

    A page of many answers has only the first `campaign_material.MOST_FIGURES` figures, and says so,
    so that it is as small as a run's.

    It links to the pages of its runs as they lie in the bucket: `../../runs/<run id>/report.html`
    from `campaigns/<id>/report.html`.
    """
    page = CampaignMaterial(document)
    meant = campaign_meaning.meaning_section(page)
    return layout.page(
        page,
        title=campaign.title(page),
        keys=len(page.arms),
        header=campaign.header(page),
        parts=_parts(page, has_meaning=bool(meant)),
        body=(
            campaign.opening(page),
            meant,
            campaign.differences(page),
            answers.answers_section(page),
            sweep.sweep_section(page),
            steps.steps_section(page),
            answers.one_run_section(page),
            campaign.method(page),
        ),
        files="the same for programs is in <code>campaign.json</code>.",
    )


def _parts(page: CampaignMaterial, *, has_meaning: bool) -> list[layout.Part]:
    """The page's sections, for its links."""
    found = page.results
    return [
        layout.Part("conclusion", "Conclusion"),
        *([layout.Part("meaning", "What this means")] if has_meaning else []),
        *([layout.Part("differences", "What differed")] if page.is_pool else []),
        *([layout.Part("answers", "Answers")] if found.answers else []),
        *([layout.Part("sweep", "The sweep")] if found.sweep else []),
        layout.Part("steps", "Runs" if page.is_pool else "Steps"),
        *([layout.Part("one-run", "One run")] if first_draw_figures(found.answers) else []),
        layout.Part("method", "How it was measured"),
    ]
