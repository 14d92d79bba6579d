"""What a hunt found: each draw with its figure, and the present nodes among all placements."""

from __future__ import annotations

from rackrate.report.campaign_material import REST, CampaignMaterial
from rackrate.report.rendering import Part
from rackrate.report.tables import Table, head, number, without_unknown
from rackrate_contract.campaign import Hunt, HuntedDraw
from rackrate_text.words import host_name, listed, metric_of_test

#: The most nodes that a draw names; its run's page has all.
_MOST_NODES = 4


def hunt_section(page: CampaignMaterial) -> Part | None:
    """The draws of a hunt, and what is known of the last; None for other campaigns."""
    if (hunt := page.results.hunt) is None:
        return None
    rows = without_unknown(_columns(page, hunt, n, d) for n, d in enumerate(hunt.draws, start=1))
    stopped = page.results.stopped
    return Part(
        "hunt",
        "The hunt",
        draws=Table("Every placement that was measured", rows, rest=REST),
        sentences=[
            hunt.text,
            "" if stopped is None else stopped.text,
            hunt.kept_in_words(page.results.campaign.id, is_over=stopped is not None),
        ],
    )


def _columns(page: CampaignMaterial, hunt: Hunt, order: int, draw: HuntedDraw) -> dict[str, object]:
    value, ends = hunt.figures(draw)
    is_kept = order == len(hunt.draws) and hunt.is_present and page.results.stopped is not None
    return {
        "draw": head(order),
        metric_of_test(hunt.test, hunt.metric): number(value),
        "95 % CI": number(ends),
        "nodes": listed(map(host_name, draw.nodes), most=_MOST_NODES),
        "run": number(page.run_link(draw.run_id)),
        "kept": "kept" if is_kept else None,
    }
