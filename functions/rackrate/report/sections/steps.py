"""The steps of a campaign, why it made no more, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from markupsafe import Markup

from rackrate.report.campaign_material import REST, CampaignMaterial
from rackrate.report.rendering import Part
from rackrate.report.sections.opening import moment
from rackrate.report.tables import Cell, Table, head, number, without_unknown
from rackrate_contract.campaign import Hunt, Step
from rackrate_text.units import dollars, duration
from rackrate_text.words import host_name, listed

#: The most nodes of an arm that a step names; its run's page has all.
_MOST_NODES = 2


def steps_section(page: CampaignMaterial) -> Part:
    """Every step with its run, its nodes, its time and its cost; then why there were no more."""
    return Part(
        "steps",
        "Runs" if page.is_pool else "Steps",
        steps=Table(
            "Every run that was pooled" if page.is_pool else "Every step, in order",
            without_unknown(_columns(page, step) for step in page.results.steps),
            rest=REST,
        ),
        stopped=page.results.stopped,
        spent=_spent(page),
    )


def _columns(page: CampaignMaterial, step: Step) -> Mapping[str, object]:
    """A step's facts by column; None or a dash for unknown ones."""
    started = step.started_at and moment(step.started_at)
    return {
        "run" if page.is_pool else "step": head(step.number),
        "change": None if page.is_pool else step.change,
        "run id" if page.is_pool else "run": number(page.run_link(step.run_id)),
        "from": step.source,
        "status": step.status,
        "started": number(started),
        "change took": number(duration(step.change_seconds)),
        "run took" if page.is_pool else "nodes held": number(duration(step.run_seconds)),
        "cost": number(dollars(step.dollars)),
        **_hunted(page.results.hunt, step.run_id),
        "nodes": _nodes(page, step.nodes.items()),
        "why it has no result": Cell(step.reason, "listed"),
    }


def _hunted(hunt: Hunt | None, run_id: str) -> dict[str, object]:
    """What a hunt measured on a placement; a dash where the same nodes were measured again."""
    if hunt is None:
        return {}
    figures = {draw.run_id: hunt.figures(draw) for draw in hunt.draws}
    value, ends = figures.get(run_id, (None, None))
    return {hunt.name: number(value), "95 % CI": number(ends)}


def _nodes(page: CampaignMaterial, by_arm: Iterable[tuple[str, tuple[str, ...]]]) -> str | None:
    """The nodes of each arm by their host names without the domain, which all of them share."""
    lines = [
        f"{page.arm_title(arm)}: {listed(map(host_name, nodes), most=_MOST_NODES)}"
        for arm, nodes in by_arm
        if nodes
    ]
    return Markup("<br>").join(lines) or None


def _spent(page: CampaignMaterial) -> str:
    """What the steps cost of the budget; empty without one."""
    facts = page.results.campaign
    if facts.budget_dollars is None:
        return ""
    cost = (
        "no price is known for what it used"
        if facts.dollars is None
        else f"its steps cost about {dollars(facts.dollars)}, estimated from list prices"
    )
    return f"Budget {dollars(facts.budget_dollars)}; {cost}."
