"""What a run means for a decision: what the group gives, what it costs, what is not known yet.

campaign_meaning.py has the same of a campaign.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rackrate.plan.campaign import USUAL_DRAWS
from rackrate.plan.campaign_estimate import Span, usual_draws
from rackrate.report.material import Material
from rackrate.report.rendering import Part
from rackrate.verdict import wording
from rackrate.verdict.model import Verdict
from rackrate_text.units import change, dollars, duration, shift
from rackrate_text.words import counted, span

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


def meaning_section(page: Material) -> Part | None:
    """The three sides of the decision; None for a comparison, and if nothing was measured."""
    verdicts, arms, estimates = page.results.verdicts, page.results.arms, page.results.estimates
    if page.comparison or not verdicts or not page.results.trials.measured:
        return None
    compared = {name for v in verdicts for name in (v.arm, v.baseline.name)}
    least = estimates.seconds if estimates.at_least is None else estimates.at_least.seconds
    return decision(
        "run_meaning",
        page.scale,
        gives=[_gives(verdict) for verdict in verdicts if verdict.is_decided]
        or ["No verdict of this run is settled."],
        strategies={arm.placement for arm in arms if arm.name in compared},
        run_takes=span(duration(least), duration(estimates.seconds)),
        open=wording.still_open(_lacks(page, v) for v in verdicts),
        nodes=counted(len({node for arm in arms for node in arm.node_names}), "node"),
        # New nodes are drawn only in node groups of this stack.
        draws_take=takes(*usual_draws(estimates)) if all(arm.node_groups for arm in arms) else None,
    )


def decision(
    template: str,
    scale: float | None,
    *,
    gives: Sequence[str],
    strategies: Collection[str] | None,
    **unknown: Any,
) -> Part:
    """The section with the three sides of a decision.

    Args:
        template: the template, which tells what is not known yet.
        scale: the factor by which the lab scaled the network. The lab says nothing of EC2, so what
            it measured is not among the reasons.
        gives: what the group gives.
        strategies: the strategies of the compared arms' groups; None if they are not known.
        unknown: the variables of the template.
    """
    costs = None
    if strategies is not None:
        costs = [cost for name, costs in _COSTS.items() if name in strategies for cost in costs]
    return Part(
        "meaning",
        "What this means",
        template=template,
        lab=scale is not None,
        gives=gives,
        costs=costs,
        usual=USUAL_DRAWS,
        **unknown,
    )


def _gives(verdict: Verdict) -> str:
    """What a settled verdict says, and whether EC2 documents it."""
    subject = wording.subject(verdict)
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
        return wording.subject(verdict), None
    lacks = wording.more_needed(verdict) or verdict.reason
    if lacks and verdict.more_blocks:
        seconds = page.results.estimates.block_seconds * verdict.more_blocks
        lacks += f", {duration(seconds)} more"
    return wording.subject(verdict), lacks


def takes(seconds: Span, usd: Span | None) -> str:
    """How long a campaign takes and what it costs, from least to most."""
    words = span(duration(seconds.least), duration(seconds.most))
    if usd is not None:
        words += f", {span(dollars(usd.least), dollars(usd.most))}"
    return words
