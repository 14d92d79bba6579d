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
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np

from rackrate.plan.hunt import HuntFor
from rackrate.verdict.capacity import interval_of_share
from rackrate.verdict.enough import LEAST_PROSPECT
from rackrate.verdict.estimate import CONFIDENCE, TINY, ratios
from rackrate.verdict.layout import Floats
from rackrate_contract.arms import arm_titles, in_arm
from rackrate_contract.campaign import CampaignStopped, Hunt, HuntedDraw, SinceKept
from rackrate_contract.document import Json
from rackrate_contract.results import Results
from rackrate_contract.student import outside, student_t
from rackrate_contract.verdicts import Ends
from rackrate_text.units import change_with_interval, dollars, percent, quantity
from rackrate_text.words import capitalized, counted, host_name, listed, metric_of_test

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
    wanted: HuntFor,
    *,
    left: int,
    is_present: bool,
    dollars_per_draw: float | None,
    earlier: Sequence[str] = (),
) -> Hunt | None:
    """What a hunt knows; None before its first figure.

    Args:
        runs: the results of its draws, in order.
        wanted: what it hunts for.
        left: how many draws it has left.
        is_present: whether the last of these runs measured the nodes that are there now.
        dollars_per_draw: what another draw costs; None if no price is known.
        earlier: where the first of these runs are from, if they are of hunts that it continues.
    """
    measured = [draw for run in runs if (draw := _draw(run, wanted)) is not None]
    if not measured:
        return None
    is_present = is_present and measured[-1].run_id == runs[-1].run.id
    # The same nodes, measured again, are the same placement.
    draws = [
        each
        for each, following in zip(measured, [*measured[1:], None], strict=True)
        if following is None or following.nodes != each.nodes
    ]
    kept = len([run for run in runs[: len(earlier)] if _draw(run, wanted) is not None])
    since = None
    if 0 < kept < len(measured):
        since = _since(measured[kept - 1], measured[kept], earlier[-1])
    levels = _sign(wanted) * np.log([draw.value for draw in draws])
    halves = np.array([_half(draw.ci95) for draw in draws])
    hunt = Hunt.from_fields(
        wanted,
        arm_title=arm_titles(runs[-1].arms).get(wanted.arm, wanted.arm),
        goal=goal_of(wanted),
        draws=tuple(draws),
        is_present=is_present,
        chance=chance_of(levels, wanted),
        dollars_per_draw=dollars_per_draw,
        since=since,
        text="",
        **(of_present(levels, halves, wanted, left, dollars_per_draw) if is_present else {}),
    )
    return hunt.model_copy(update={"text": _text(hunt)})


def of_present(
    levels: Floats, halves: Floats, wanted: HuntFor, left: int, dollars_per_draw: float | None
) -> Json:
    """The fields of what is known of the present nodes."""
    rank = 1 + int((levels > levels[-1]).sum())
    better, ends = share_of_better(rank, levels.size), interval_of_better(levels, halves)
    gain = met = None
    if levels.size >= LEAST_DRAWS and np.isfinite(halves).all():
        likely, left = without_error(levels, halves), max(1, left)
        ahead = max(0.0, value_of_going_on(likely, left) - likely[-1])
        gain = math.exp(_sign(wanted) * levels[-1]) * abs(math.expm1(_sign(wanted) * ahead))
        if wanted.dollars_per_percent is not None and dollars_per_draw is not None:
            cost = dollars_per_draw / wanted.dollars_per_percent / 100
            is_worth = value_of_going_on(likely, left, cost) > likely[-1]
            met = None if is_worth or levels.size < LEAST_DRAWS_OF_WORTH else True
    if wanted.target is not None:
        met = bool(levels[-1] >= _sign(wanted) * math.log(wanted.target))
    elif wanted.best_share is not None:
        met = better <= wanted.best_share
    return {
        "met": met,
        "rank": rank,
        "better_than": 1 - better,
        "better_than_ci95": (1 - ends[1], 1 - ends[0]),
        "gain": gain,
    }


def _sign(wanted: HuntFor) -> int:
    return 1 if wanted.better == "higher" else -1


def _draw(run: Results, wanted: HuntFor) -> HuntedDraw | None:
    """The figure of a run; None if it has none."""
    key = wanted.arm, wanted.test, wanted.metric
    summary = next((s for s in run.summaries if (s.arm, s.test, s.metric) == key), None)
    if summary is None or summary.median is None or summary.median <= 0:
        return None
    ends = None
    if summary.blocks > 1 and summary.spread_between_blocks is not None:
        error = summary.spread_between_blocks / math.sqrt(summary.blocks)
        half, level = student_t(CONFIDENCE, summary.blocks - 1) * error, math.log(summary.median)
        ends = ratios((level - half, level + half))
    nodes = {n.name: n.instance_id for arm in run.arms if arm.name == wanted.arm for n in arm.nodes}
    return HuntedDraw(run_id=run.run.id, nodes=nodes, value=summary.median, ci95=ends)


def _half(ends: Ends | None) -> float:
    return math.inf if ends is None else math.log(ends[1] / ends[0]) / 2


def _since(then: HuntedDraw, now: HuntedDraw, campaign: str) -> SinceKept:
    gone = tuple(name for name, node in then.nodes.items() if now.nodes.get(name, "") != node)
    level, half = math.log(now.value / then.value), math.hypot(_half(then.ci95), _half(now.ci95))
    ends = None if gone or math.isinf(half) else ratios((level - half, level + half))
    ratio = None if gone else math.exp(level)
    return SinceKept(campaign=campaign, gone=gone, ratio=ratio, ci95=ends)


def chance_of(levels: Floats, wanted: HuntFor) -> float | None:
    """The probability that a draw meets the goal; of a target by Student's prediction."""
    if wanted.target is None:
        return wanted.best_share
    if levels.size < LEAST_DRAWS:
        return None
    missing = _sign(wanted) * math.log(wanted.target) - float(levels.mean())
    deviation = float(levels.std(ddof=1)) * math.sqrt(1 + 1 / levels.size)
    beyond = outside(abs(missing) / max(deviation, TINY), levels.size - 1) / 2
    return beyond if missing > 0 else 1 - beyond


# -- in words


def goal_of(wanted: HuntFor) -> str:
    """What is good enough."""
    if wanted.target is not None:
        side = "at least" if wanted.better == "higher" else "at most"
        return f"{side} {quantity(wanted.target, wanted.unit)}"
    if wanted.best_share is not None:
        return f"among the best {percent(wanted.best_share)} of placements"
    if wanted.dollars_per_percent is not None:
        return f"until 1 % better costs more than {dollars(wanted.dollars_per_percent)}"
    return "the best rank that draws can be expected to give"


def _text(hunt: Hunt) -> str:
    """What is known, in sentences."""
    place = capitalized(in_arm(hunt.arm_title))
    if hunt.better_than is None or hunt.better_than_ci95 is None:
        return f"{place}, nothing is known of the present nodes: they were not measured."
    value, within = hunt.figures(hunt.draws[-1])
    low, high = map(percent, hunt.better_than_ci95)
    sentences = [
        f"{place}, {metric_of_test(hunt.test, hunt.metric)} is {value}"
        f"{f' (95 % CI {within})' if hunt.draws[-1].ci95 else ''} on the present nodes: rank"
        f" {hunt.rank} of {counted(len(hunt.draws), 'draw')}, better than"
        f" {percent(hunt.better_than)} of placements ({low} to {high})."
    ]
    if hunt.met is not None:
        sentences.append(f"The goal is {'met' if hunt.met else 'not met'}: {hunt.goal}.")
    if hunt.chance is not None and not hunt.met:
        sentences.append(f"The next draw has a chance of {percent(hunt.chance)} to meet it.")
    cost = "" if hunt.dollars_per_draw is None else f", at {dollars(hunt.dollars_per_draw)} a draw"
    if hunt.gain is None:
        needs = f"{LEAST_DRAWS} draws of two blocks or more"
        sentences.append(f"What going on would gain is not known without {needs}{cost}.")
    else:
        gain = quantity(hunt.gain, hunt.unit) if hunt.gain > 0 else "nothing"
        sentences.append(f"Going on would gain {gain} on average{cost}.")
    return " ".join([*sentences, *_since_in_words(hunt)])


def _since_in_words(hunt: Hunt) -> list[str]:
    """What has become of the kept nodes."""
    if (since := hunt.since) is None:
        return []
    if since.gone:
        gone = listed(map(host_name, since.gone), most=_NODES_NAMED)
        return [f"This is a new draw: {since.campaign} kept {gone}, gone since then."]
    moved = change_with_interval(since.ratio, since.ci95)
    return [f"These are the nodes that {since.campaign} kept: {moved} since then."]


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
    why: Literal["found", "no prospect", "most"] = "most"
    if hunt is not None and hunt.met:
        why, because = "found", f"the present nodes are good enough ({hunt.goal})"
    elif left <= 0:
        because = "it may draw no more"
    elif hunt is None or not _ranks_well(hunt, left):
        return None
    elif hunt.chance is None and hunt.met is None:
        why, because = "found", "the next nodes would probably be worse"
    elif hunt.chance is not None and 1 - (1 - hunt.chance) ** left <= LEAST_PROSPECT:
        chance = percent(1 - (1 - hunt.chance) ** left)
        why = "no prospect"
        because = (
            f"{counted(left, 'more draw')} would have a chance of {chance} to meet the goal"
            f" ({hunt.goal})"
        )
    else:
        return None
    text = f"Stopped after {after} of at most {counted(most, 'step')}: {because}."
    return CampaignStopped(after=after, most=most, why=why, text=text)


def _ranks_well(hunt: Hunt, left: int) -> bool:
    """Whether going on would probably end with a worse rank."""
    draws = len(hunt.draws)
    return hunt.rank is not None and hunt.rank <= limits_of_rank(draws + left)[draws - 1] + TINY
