"""How often the nodes of each arm came that a campaign asked for, and how long they took."""

from __future__ import annotations

from collections.abc import Mapping

from rackrate.report.campaign_material import REST, CampaignMaterial
from rackrate.report.rendering import Part
from rackrate.report.tables import Cell, Table, number, without_unknown
from rackrate_contract.capacity import Capacity
from rackrate_text.units import duration


def capacity_section(page: CampaignMaterial) -> Part | None:
    """A row for each arm, of a sweep for each value and arm; None if nothing was launched."""
    if not page.results.capacity:
        return None
    rows = without_unknown(_columns(page, each) for each in page.results.capacity)
    table = Table("How often all nodes of an arm came", rows, rest=REST)
    return Part("capacity", "Capacity", capacity=table)


def _columns(page: CampaignMaterial, each: Capacity) -> Mapping[str, object]:
    """What is known of an arm by column; None or a dash for unknown values."""
    return {
        "arm": Cell(each.arm_title, "head", arm=page.arm_number(each.arm)),
        "step": None if each.value is None else page.title_of(each.value),
        "filled": number(f"{each.filled} of {each.launches}"),
        "95 % CI": number(each.interval),
        "median time": number(duration(each.median_seconds)),
        "failed otherwise": number(each.failed or None),
        "why not": Cell("; ".join(each.reasons) or None, "listed"),
    }
