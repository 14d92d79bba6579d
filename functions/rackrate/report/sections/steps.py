"""The steps of a campaign, why it made no more, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rackrate.report.campaign_material import CampaignMaterial
from rackrate.report.markup import (
    cell,
    listed_cell,
    number,
    paragraph,
    row_head,
    section,
    table,
    text,
)
from rackrate.report.sections.answers import run_name
from rackrate.report.sections.opening import moment
from rackrate.results.campaign import Step
from rackrate_text.units import UNKNOWN, dollars, duration
from rackrate_text.words import listed

#: The most nodes of an arm that a step names; its run's page has all.
_MOST_NODES = 2
#: The columns that are not plain text: figures and names that no line breaks, and lists.
_CELLS: Mapping[str, Callable[[str], str]] = {
    **dict.fromkeys(
        ("run", "run id", "started", "change took", "run took", "nodes held", "cost"), number
    ),
    "why it has no result": listed_cell,
}


def steps_section(page: CampaignMaterial) -> str:
    """Every step with its run, its nodes, its time and its cost; then why there were no more."""
    steps = page.results.steps
    heading = "Runs" if page.is_pool else "Steps"
    if not steps:
        return section("steps", heading, f"<p>None.</p>{_ending(page)}")
    columns = [_columns(page, step) for step in steps]
    # Leave out columns without any value.
    heads = [head for head in columns[0] if any(row[head] != UNKNOWN for row in columns)]
    rows = (
        [
            row_head(text(step.number)),
            *(_CELLS.get(head, cell)(row[head]) for head in heads),
        ]
        for step, row in zip(steps, columns, strict=True)
    )
    caption = "Every run that was pooled" if page.is_pool else "Every step, in order"
    found = table(
        ("run" if page.is_pool else "step", *heads),
        rows,
        caption=caption,
        rest="campaign.json lists",
    )
    return section("steps", heading, found + _ending(page))


def _columns(page: CampaignMaterial, step: Step) -> dict[str, str]:
    """A step's facts by column, as markup; a dash for unknown ones."""
    return {
        "change": UNKNOWN if page.is_pool else text(step.change),
        "run id" if page.is_pool else "run": run_name(page, step.run_id),
        "from": text(step.source),
        "status": text(step.status),
        "started": UNKNOWN if step.started_at is None else moment(step.started_at),
        "change took": text(duration(step.change_seconds)),
        "run took" if page.is_pool else "nodes held": text(duration(step.run_seconds)),
        "cost": text(dollars(step.dollars)),
        "nodes": _nodes(step.nodes.items()),
        "why it has no result": text(step.reason),
    }


def _nodes(by_arm: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    """The nodes of each arm by their host names without the domain, which all of them share."""
    said = [
        f"{arm}: {listed((node.partition('.')[0] for node in nodes), most=_MOST_NODES)}"
        for arm, nodes in by_arm
        if nodes
    ]
    return "<br>".join(map(text, said)) or UNKNOWN


def _ending(page: CampaignMaterial) -> str:
    """Why there were no more steps, and what they cost of the budget."""
    facts, stopped = page.results.campaign, page.results.stopped
    told = "" if stopped is None else paragraph(text(stopped.text))
    if facts.budget_dollars is None:
        return told
    cost = (
        "no price is known for what it used"
        if facts.dollars is None
        else f"its steps cost about {dollars(facts.dollars)}, estimated from list prices"
    )
    return told + paragraph(text(f"Budget {dollars(facts.budget_dollars)}; {cost}."))
