"""How good the present placement is among all, and whether to draw another. Pure.

New nodes replace the present ones, so a hunt is a problem of optimal stopping without recall.

- Without a goal it stops by relative ranks alone: with the least expected rank among all draws
  that it may make, by backward induction (Chow, Moriguti, Robbins and Samuels 1964, doi
  10.1007/BF02759948). That assumes nothing of the distribution of luck. The share of placements
  that are better is then Beta(r, n + 1 - r) for rank r among n draws.
- Two draws whose intervals allow either order may have any order, so that share's interval reaches
  from the best to the worst rank that the present draw may have.
- What going on would gain is the value of stopping in time (Cayley-Moser), as if placements were
  those that were drawn. Each is moved towards their mean by the share of its variance that is
  measurement, because the best of several draws has measured better than it is.

docs/statistics.md explains the method; benchmarks/hunt.py measures its regret and its error rates.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist

import numpy as np

from rackrate.verdict.capacity import interval_of_share
from rackrate.verdict.enough import LEAST_PROSPECT
from rackrate.verdict.estimate import CONFIDENCE, TINY, Estimate, ratios
from rackrate.verdict.layout import Floats
from rackrate_contract.arms import arm_titles, in_arm
from rackrate_contract.campaign import (
    CampaignStopped,
    Hunt,
    HuntedDraw,
    HuntGoal,
    SinceEarlierHunt,
    StopReason,
)
from rackrate_contract.document import Json
from rackrate_contract.results import Results
from rackrate_contract.student import outside
from rackrate_contract.verdicts import Ends
from rackrate_text.units import change_with_interval, dollars, percent, quantity
from rackrate_text.words import capitalized, counted, host_name, listed

#: With fewer draws nothing is known of the draws to come.
LEAST_DRAWS = 3
#: With fewer a hunt does not stop because going on costs more than it is worth.
LEAST_DRAWS_OF_WORTH = 4
_NODES_NAMED = 4
_NORMAL = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
METHOD = (
    "The present nodes are ranked among all draws. The interval of the share of placements than"
    " which they are better is from the beta distribution of ranks, and allows for the measurement"
    " error of each draw. What going on would gain assumes that placements are like those drawn."
)


# -- the statistics


@functools.lru_cache
def limits_of_rank(most: int) -> tuple[float, ...]:
    """The worst rank among the draws so far with which to stop, after 1, 2, ... `most` draws."""
    limits, going_on = [float(most)], (most + 1) / 2
    for draws in range(most - 1, 0, -1):
        limits.append(going_on * (draws + 1) / (most + 1))
        expected = [min(rank * (most + 1) / (draws + 1), going_on) for rank in range(1, draws + 1)]
        going_on = sum(expected) / draws
    return tuple(reversed(limits))


def share_of_better(rank: int, draws: int) -> float:
    """The median of the share of placements that are better than one of this rank."""
    return _interval(rank, draws, 0.0)[0]


_interval = functools.lru_cache(interval_of_share)


def interval_of_better(levels: Floats, halves: Floats) -> Ends:
    """The 95 % interval of the share of placements that are better than the last.

    Args:
        levels: the logarithms of the draws' figures, turned so that more is better.
        halves: half of the width of their 95 % intervals; infinite where it is not known.
    """
    apart = np.hypot(halves[:-1], halves[-1])
    ahead = levels[:-1] - levels[-1]
    least, most = 1 + int((ahead > apart).sum()), 1 + int((ahead >= -apart).sum())
    return _interval(least, levels.size)[0], _interval(most - 1, levels.size)[1]


def without_error(levels: Floats, halves: Floats) -> Floats:
    """Levels moved towards their mean by the share of their variance that is measurement."""
    variance = float(levels.var(ddof=1))
    measured = float(np.mean((halves / _NORMAL) ** 2))
    return levels.mean() + max(0.0, 1 - measured / max(variance, TINY**2)) * (
        levels - levels.mean()
    )


def value_of_going_on(levels: Floats, left: int, cost: float = 0.0) -> float:
    """The expected level at the end of a hunt that goes on and stops in time, less the costs.

    Args:
        levels: those of the placements that may be drawn.
        left: how many draws it has left, at least 1.
        cost: what a draw costs, as a level.
    """
    value = float(levels.mean()) - cost
    for _ in range(left - 1):
        value = float(np.maximum(levels, value).mean()) - cost
    return value


# -- what is known of the present nodes


def hunted(
    runs: Sequence[Results],
    goal: HuntGoal,
    *,
    earlier: Mapping[str, str],
    last_run_id: str,
    left: int,
    dollars_per_draw: float | None,
) -> Hunt | None:
    """What a hunt knows; None before its first figure.

    Args:
        runs: the results of its draws, in order.
        goal: what it hunts for.
        earlier: the hunt that a run is from, by its id, if that is one that this continues.
        last_run_id: the run of the nodes that are there now, which may have no results.
        left: how many draws it has left.
        dollars_per_draw: what another draw costs; None if no price is known.
    """
    measured = [draw for run in runs if (draw := _draw(run, goal)) is not None]
    if not measured:
        return None
    before = [draw for draw in measured if draw.run_id in earlier]
    since = None
    if before and len(before) < len(measured):
        since = _since(earlier[before[-1].run_id], before[-1], measured[len(before)])
    # The same nodes, measured again, are the same placement.
    by_nodes = itertools.groupby(measured, key=lambda draw: draw.nodes)
    draws = [[*again][-1] for _, again in by_nodes]
    known: Json = {}
    if draws[-1].run_id == last_run_id:
        levels = _sign(goal) * np.log([draw.value for draw in draws])
        halves = np.array([_half(draw.ci95) for draw in draws])
        known = of_present(levels, halves, goal, left, dollars_per_draw)
    return Hunt.from_fields(
        goal,
        arm_title=arm_titles(runs[-1].arms).get(goal.arm, goal.arm),
        draws=tuple(draws),
        dollars_per_draw=dollars_per_draw,
        since=since,
        **known,
    )


def of_present(
    levels: Floats, halves: Floats, goal: HuntGoal, left: int, dollars_per_draw: float | None
) -> Json:
    """The fields of `Hunt` about the present nodes; see `interval_of_better` and `hunted`."""
    sign, rank = _sign(goal), 1 + int((levels > levels[-1]).sum())
    better, ends = share_of_better(rank, levels.size), interval_of_better(levels, halves)
    gain = met = None
    if levels.size >= LEAST_DRAWS and np.isfinite(halves).all():
        likely, left = without_error(levels, halves), max(1, left)
        ahead = max(0.0, value_of_going_on(likely, left) - likely[-1])
        gain = math.exp(sign * levels[-1]) * abs(math.expm1(sign * ahead))
        if goal.dollars_per_percent is not None and dollars_per_draw is not None:
            cost = dollars_per_draw / goal.dollars_per_percent / 100
            is_worth = value_of_going_on(likely, left, cost) > likely[-1]
            met = None if is_worth or levels.size < LEAST_DRAWS_OF_WORTH else True
    if goal.target is not None:
        met = bool(levels[-1] >= sign * math.log(goal.target))
    elif goal.best_share is not None:
        met = better <= goal.best_share
    return {
        "met": met,
        "rank": rank,
        "better_than": 1 - better,
        "better_than_ci95": (1 - ends[1], 1 - ends[0]),
        "chance": _chance(levels, goal),
        "gain": gain,
    }


def _sign(goal: HuntGoal) -> int:
    return 1 if goal.better == "higher" else -1


def _draw(run: Results, goal: HuntGoal) -> HuntedDraw | None:
    """The figure of a run; None if it has none."""
    key = goal.arm, goal.test, goal.metric
    summary = next((s for s in run.summaries if (s.arm, s.test, s.metric) == key), None)
    if summary is None or summary.median is None or summary.median <= 0:
        return None
    ends, blocks = None, summary.blocks
    if (deviation := summary.spread_between_blocks) is not None and blocks > 1:
        level = Estimate(math.log(summary.median), deviation**2 / blocks, blocks - 1)
        ends = level.interval(CONFIDENCE)
    nodes = {n.name: n.instance_id for arm in run.arms if arm.name == goal.arm for n in arm.nodes}
    return HuntedDraw(run_id=run.run.id, nodes=nodes, value=summary.median, ci95=ends)


def _half(ends: Ends | None) -> float:
    """Half of an interval's width, as a logarithm; infinite where it is not known."""
    return math.inf if ends is None else math.log(ends[1] / ends[0]) / 2


def _since(campaign: str, then: HuntedDraw, now: HuntedDraw) -> SinceEarlierHunt:
    gone = tuple(name for name, node in then.nodes.items() if now.nodes.get(name, "") != node)
    level, half = math.log(now.value / then.value), math.hypot(_half(then.ci95), _half(now.ci95))
    ends = None if gone or math.isinf(half) else ratios((level - half, level + half))
    ratio = None if gone else math.exp(level)
    return SinceEarlierHunt(campaign=campaign, gone=gone, ratio=ratio, ci95=ends)


def _chance(levels: Floats, goal: HuntGoal) -> float | None:
    """The probability that a draw meets the goal; of a target by Student's prediction."""
    if goal.target is None:
        return goal.best_share
    if levels.size < LEAST_DRAWS:
        return None
    missing = _sign(goal) * math.log(goal.target) - float(levels.mean())
    deviation = float(levels.std(ddof=1)) * math.sqrt(1 + 1 / levels.size)
    beyond = outside(abs(missing) / max(deviation, TINY), levels.size - 1) / 2
    return beyond if missing > 0 else 1 - beyond


# -- in words


def sentences(hunt: Hunt) -> list[str]:
    """What is known. The first sentence is the headline."""
    place = capitalized(in_arm(hunt.arm_title))
    if hunt.better_than is None or hunt.better_than_ci95 is None:
        return [f"{place}, nothing is known of the present nodes: they were not measured."]
    figure, (value, within) = hunt.name, hunt.figures(hunt.draws[-1])
    if hunt.endpoint is not None:
        figure += f" towards {hunt.endpoint}"
    if hunt.draws[-1].ci95 is not None:
        value += f" (95 % CI {within})"
    low, high = map(percent, hunt.better_than_ci95)
    known = [
        f"{place}, {figure} is {value} on the present nodes: rank {hunt.rank} of"
        f" {counted(len(hunt.draws), 'draw')}, better than {percent(hunt.better_than)} of"
        f" placements ({low} to {high})."
    ]
    if hunt.met is not None:
        known.append(f"The goal is {'met' if hunt.met else 'not met'}: {_goal(hunt)}.")
    if hunt.chance is not None and not hunt.met:
        known.append(f"The next draw has a chance of {percent(hunt.chance)} to meet it.")
    cost = "" if hunt.dollars_per_draw is None else f", at {dollars(hunt.dollars_per_draw)} a draw"
    if hunt.gain is None:
        needs = f"{LEAST_DRAWS} draws"
        if hunt.draws[-1].ci95 is None:
            needs += " with an interval, which more blocks give"
        known.append(f"What going on would gain is not known without {needs}{cost}.")
    else:
        gain = quantity(hunt.gain, hunt.unit) if hunt.gain > 0 else "nothing"
        known.append(f"Going on would gain {gain} on average{cost}.")
    if (since := hunt.since) is not None and since.gone:
        gone = _named(since.gone)
        known.append(f"This is a new draw: {since.campaign} measured {gone} last, gone since then.")
    elif since is not None:
        these = f"These are the nodes that {since.campaign} measured last"
        moved = change_with_interval(since.ratio, since.ci95)
        known.append(f"{these}: {moved} since then.")
    return known


def kept_in_words(hunt: Hunt, campaign_id: str, stopped: CampaignStopped | None) -> str:
    """What has become of the present nodes. Those of a hunt that failed get no label."""
    if hunt.rank is None or stopped is None:
        return "No nodes were kept."
    return (
        f"Kept, with the label rackrate.dev/kept: {_named(hunt.draws[-1].nodes)}. Protect them from"
        " scale-in, and from consolidation by karpenter.sh/do-not-disrupt."
        f" `rackrate campaign hunt --continue {campaign_id}` measures them again."
    )


def _named(nodes: Iterable[str]) -> str:
    return listed(map(host_name, nodes), most=_NODES_NAMED)


def _goal(goal: HuntGoal) -> str:
    """What is good enough."""
    if goal.target is not None:
        side = "at least" if goal.better == "higher" else "at most"
        return f"{side} {quantity(goal.target, goal.unit)}"
    if goal.best_share is not None:
        return f"among the best {percent(goal.best_share)} of placements"
    return f"until 1 % better costs more than {dollars(goal.dollars_per_percent)}"


# -- when to stop


def stop_hunt(hunt: Hunt | None, *, after: int, most: int) -> CampaignStopped | None:
    """Why to stop after a step, or None to draw again.

    A goal that the draws that are left hardly meet is given up: then the hunt goes by ranks, so
    that it does not end with its last nodes, whatever they are.

    Args:
        hunt: what is known of the present nodes.
        after: the number of steps so far.
        most: the most steps of the hunt.
    """
    left = most - after
    reason: tuple[StopReason, str] | None = None
    if hunt is not None and hunt.met:
        reason = "found", f"the present nodes are good enough ({_goal(hunt)})"
    elif left <= 0:
        reason = "most", "it may draw no more"
    elif hunt is not None and _ranks_well(hunt, left):
        if hunt.chance is None and hunt.met is None:
            reason = "found", "going on would not improve the rank on average"
        elif hunt.chance and (chance := 1 - (1 - hunt.chance) ** left) <= LEAST_PROSPECT:
            more = f"{counted(left, 'more draw')} would have a chance of {percent(chance)}"
            reason = "no prospect", f"{more} to meet the goal ({_goal(hunt)})"
    return reason and CampaignStopped.because(*reason, after=after, most=most, noun="step")


def _ranks_well(hunt: Hunt, left: int) -> bool:
    """Whether going on would not improve the rank on average."""
    draws = len(hunt.draws)
    return hunt.rank is not None and hunt.rank <= limits_of_rank(draws + left)[draws - 1] + TINY
