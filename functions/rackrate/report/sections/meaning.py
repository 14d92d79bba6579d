"""What a run means for a decision: what the group gives, what it costs, what is not known yet.

campaign_meaning.py has the same of a campaign.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rackrate.plan.campaign import USUAL_DRAWS
from rackrate.plan.campaign_estimate import Span, usual_draws
from rackrate.report.markup import items, section, text
from rackrate.report.material import Material
from rackrate.verdict import wording
from rackrate.verdict.model import Verdict
from rackrate_text.units import change, dollars, duration, shift
from rackrate_text.words import counted, span

_GUIDE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/"
_GROUPS = f"{_GUIDE}placement-groups.html"
_STRATEGIES = f"{_GUIDE}placement-strategies.html"

#: What each strategy costs and risks, by AWS's pages. All are without a fee.
_COSTS: Mapping[str, tuple[str, ...]] = {
    "cluster": (
        "Capacity is all or nothing. If the nodes do not fit into one network segment, the node"
        " group fails with InsufficientInstanceCapacity.",
        "Nodes of one segment can fail together.",
        "All nodes are in one zone, and best of one instance type.",
    ),
    "partition": ("A zone has at most seven partitions. Nodes of one partition share racks.",),
    "spread": ("At most seven nodes of the group run in a zone.",),
    "precision-time": (
        "It is for precise clocks, not for the network. Few instance types have them, and the node"
        " group fails if EC2 has no such hardware left.",
    ),
}
_LAB = "Nothing about EC2: this network is a setting of the lab."
_APPLICATION = "What your application gains: it waits for more than the network."
_SOURCES = (
    f'Sources: <a href="{_GROUPS}">placement groups</a> and'
    f' <a href="{_STRATEGIES}">their strategies</a>, AWS.'
)


def meaning_section(page: Material) -> str:
    """The three sides of the decision; empty for a comparison, and if nothing was measured."""
    if page.comparison or not page.results.verdicts or not page.results.trials.measured:
        return ""
    verdicts = page.results.verdicts
    compared = {name for v in verdicts for name in (v.arm, v.baseline.name)}
    return decision(
        page.scale,
        gives=[line for verdict in verdicts if (line := _gives(verdict))]
        or ["No verdict of this run is settled."],
        costs=costs_of({arm.placement for arm in page.results.arms if arm.name in compared}),
        unknown=[_of_ec2(page), *_open(page), _of_placements(page)],
    )


def decision(
    scale: float | None, *, gives: Sequence[str], costs: Sequence[str], unknown: Sequence[str]
) -> str:
    """The section with the three sides of a decision.

    Args:
        scale: the factor by which the lab scaled the network. The lab says nothing of EC2, so what
            it measured is not among the reasons.
        gives: what the group gives, as markup.
        costs: what it costs and risks, as markup.
        unknown: what is not known yet, with what would tell it and what that takes, as markup.
    """
    parts = (
        ("What it gives", gives if scale is None else [_LAB]),
        ("What it costs", costs),
        ("What is not known yet", [*unknown, _APPLICATION]),
    )
    return section(
        "meaning",
        "What this means",
        '<div class="meaning">'
        + "".join(f"<div><h3>{head}</h3>{items(lines)}</div>" for head, lines in parts)
        + "</div>",
    )


def _gives(verdict: Verdict) -> str:
    """What a settled verdict says, and whether EC2 documents it."""
    if not verdict.is_decided:
        return ""
    subject = wording.subject(verdict)
    limits = verdict.ceiling if verdict.ceiling is not None and verdict.ceiling.explains else None
    if verdict.verdict == "no meaningful difference":
        said = f"{subject}: no meaningful difference."
        if limits is not None:
            said += f" Both arms reach the {limits.name} limit, which an instance type sets."
        return text(said)
    said = f"{subject}: {change(verdict.ratio)}, {verdict.verdict}."
    if limits is not None:
        both = shift(limits.baseline, limits.arm, verdict.unit)
        said += f" EC2's documented {limits.name} limits explain it: {both}."
    else:
        said += " No documented limit explains it, so other nodes may differ."
    return text(said)


def costs_of(strategies: Collection[str]) -> list[str]:
    """What groups of these strategies cost and risk, as markup."""
    found = [cost for strategy, costs in _COSTS.items() if strategy in strategies for cost in costs]
    if not found:
        return ["Nothing: no arm has a placement group."]
    return ["No fee.", *map(text, found), _SOURCES]


def _of_ec2(page: Material) -> str:
    if page.scale is None:
        return ""
    run = page.results.estimates
    least = run.seconds if run.at_least is None else run.at_least.seconds
    time = span(duration(least), duration(run.seconds))
    return f"Everything about EC2: <code>rackrate run</code> there takes {text(time)}."


def _open(page: Material) -> Iterable[str]:
    return map(text, wording.still_open(_lacks(page, v) for v in page.results.verdicts))


def _lacks(page: Material, verdict: Verdict) -> tuple[str, str | None]:
    """The subject of an open verdict, and what would settle it; None if it is settled."""
    if verdict.is_decided:
        return wording.subject(verdict), None
    lacks = wording.more_needed(verdict) or verdict.reason
    if lacks and verdict.more_blocks:
        seconds = page.results.estimates.block_seconds * verdict.more_blocks
        lacks += f", {duration(seconds)} more"
    return wording.subject(verdict), lacks


def _of_placements(page: Material) -> str:
    """What would tell of other placements, and what that takes."""
    nodes = counted(len({node for arm in page.results.arms for node in arm.node_names}), "node")
    lead = f"What another placement gets: this run has {text(nodes)}."
    if not all(arm.node_groups for arm in page.results.arms):
        return f"{lead} <code>rackrate pool</code> answers from runs on other nodes of yours."
    seconds, usd = usual_draws(page.results.estimates)
    return f"{lead} {usual_campaign(seconds, usd)}"


def usual_campaign(seconds: Span, usd: Span | None) -> str:
    """A sentence on the campaign with every default and what it takes, as markup."""
    takes = span(duration(seconds.least), duration(seconds.most))
    if usd is not None:
        takes += f", {span(dollars(usd.least), dollars(usd.most))}"
    return (
        f"<code>rackrate campaign run</code> measures {USUAL_DRAWS.least} to {USUAL_DRAWS.most}"
        f" placements with new nodes each: {text(takes)}."
    )
