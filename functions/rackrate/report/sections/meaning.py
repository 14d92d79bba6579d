"""What a run means for a decision: what the group gives, what it costs, what is not known yet.

campaign_meaning.py has the same of a campaign.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rackrate.plan.campaign import USUAL_DRAWS
from rackrate.plan.campaign_estimate import usual_draws
from rackrate.report.material import Material
from rackrate.report.rendering import Part
from rackrate.verdict import wording
from rackrate_contract.estimates import Span
from rackrate_contract.verdicts import Verdict
from rackrate_text.units import change, dollars, duration, shift
from rackrate_text.words import counted, span

#: What each strategy costs and risks, by AWS's pages. All are without a fee.
_COSTS: Mapping[str, tuple[str, ...]] = {
    "cluster": (
        "Capacity is not promised. If the nodes do not fit into one network segment, the node"
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


def meaning_section(page: Material) -> Part | None:
    """The three sides of the decision; None for a comparison, and if nothing was measured."""
    verdicts = page.results.verdicts
    if page.comparison or not verdicts or not page.results.trials.measured:
        return None
    compared = {name for v in verdicts for name in (v.arm, v.baseline.name)}
    return decision(
        page.scale,
        gives=[_gives(verdict) for verdict in verdicts if verdict.is_decided]
        or ["No verdict of this run is settled."],
        strategies={arm.placement for arm in page.results.arms if arm.name in compared},
        unknown=unknown(page),
        measured=[page.results.how_nodes_came] if page.results.how_nodes_came else (),
    )


def unknown(page: Material) -> list[str]:
    """What is not known yet, with what would show it; the next thing to do first."""
    every = [*page.results.regressions, *page.results.verdicts]
    lines = [
        *wording.still_open(_lacks(page, verdict) for verdict in every),
        _of_ec2(page),
        _of_placements(page),
    ]
    return [line for line in lines if line]


def decision(
    scale: float | None,
    *,
    gives: Sequence[str],
    strategies: Collection[str] | None,
    unknown: Sequence[str],
    measured: Sequence[str] = (),
) -> Part:
    """The section with the three sides of a decision. Backticks enclose commands.

    Args:
        scale: the factor by which the lab scaled the network. The lab says nothing of EC2, so what
            it measured is not among the reasons.
        gives: what the group gives.
        strategies: the strategies of the compared arms' groups; None if they are not known.
        unknown: what is not known yet, with what would show it and what that takes.
        measured: what was measured of the costs, such as how often the nodes came.
    """
    compared = strategies or ()
    costs = [cost for name, costs in _COSTS.items() if name in compared for cost in costs]
    if costs:
        shown = ["No fee.", *costs]
    elif strategies is None:
        shown = ["Unknown: these results do not tell the arms' placement."]
    else:
        shown = ["Nothing: no arm has a placement group."]
    if scale is None:
        shown[1:1] = measured
    return Part(
        "meaning",
        "What this means",
        lab="" if scale is None else _LAB,
        sides=(
            ("What it gives", [] if scale is not None else gives),
            ("What it costs", shown),
            ("What is not known yet", [*unknown, _APPLICATION]),
        ),
        has_sources=bool(costs),
    )


def _gives(verdict: Verdict) -> str:
    """What a settled verdict says, and whether EC2 documents it."""
    subject = verdict.name
    limits = verdict.ceiling if verdict.ceiling is not None and verdict.ceiling.explains else None
    if verdict.verdict == "no meaningful difference":
        words = f"{subject}: no meaningful difference."
        if limits is not None:
            words += f" Both arms reach the {limits.name} limit, which an instance type sets."
        return words
    words = f"{subject}: {change(verdict.ratio)}, {verdict.verdict}."
    if limits is None:
        return f"{words} No documented limit explains it, so other nodes may differ."
    both = shift(limits.baseline, limits.arm, verdict.unit)
    return f"{words} EC2's documented {limits.name} limits explain it: {both}."


def _lacks(page: Material, verdict: Verdict) -> tuple[str, str | None]:
    """The subject of an open verdict, and what would settle it; None if it is settled."""
    if verdict.is_decided:
        return verdict.name, None
    lacks = wording.more_needed(verdict) or verdict.reason
    if lacks and verdict.more_blocks:
        seconds = page.results.estimates.block_seconds * verdict.more_blocks
        lacks += f", {duration(seconds)} more"
    return verdict.name, lacks


def _of_ec2(page: Material) -> str:
    if page.scale is None:
        return ""
    run = page.results.estimates
    least = run.at_least or run
    time = span(duration(least.seconds), duration(run.seconds))
    return f"Everything about EC2: `rackrate run` there takes {time}."


def _of_placements(page: Material) -> str:
    """What would show other placements, and what that takes."""
    nodes = counted(len({node for arm in page.results.arms for node in arm.node_names}), "node")
    lead = f"What another placement gets: this run has {nodes}."
    if not all(arm.node_groups for arm in page.results.arms):
        return f"{lead} `rackrate pool` answers from runs on other nodes of yours."
    return f"{lead} {usual_campaign(*usual_draws(page.results.estimates))}"


def usual_campaign(seconds: Span, usd: Span | None) -> str:
    """A sentence on the campaign with every default and what it takes."""
    takes = span(duration(seconds.least), duration(seconds.most))
    if usd is not None:
        takes += f", {span(dollars(usd.least), dollars(usd.most))}"
    return (
        f"`rackrate campaign run` measures {USUAL_DRAWS.least} to {USUAL_DRAWS.most} placements"
        f" with new nodes each: {takes}."
    )
