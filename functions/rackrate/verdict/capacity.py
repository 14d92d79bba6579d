"""How often the nodes of an arm came, over the launches of a campaign. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import mpmath

from rackrate.settings import LOAD
from rackrate.verdict.estimate import CONFIDENCE
from rackrate_contract.arms import stack_arm_titles
from rackrate_contract.campaign import Step
from rackrate_contract.capacity import Capacity, Launch
from rackrate_contract.verdicts import Ends
from rackrate_text.failures import grouped
from rackrate_text.launches import lacks_capacity
from rackrate_text.words import listed

#: So many draws in a row that are not filled end a campaign: more would take hours and tell little.
UNFILLED_IN_A_ROW = 4
#: What helps, by AWS's page "Placement strategies for your placement groups".
REMEDY = "Ask for fewer nodes, another instance type or another zone, or reserve capacity"


def interval_of_share(successes: int, number: int, confidence: float = CONFIDENCE) -> Ends:
    """Clopper and Pearson's interval of a probability: it covers in at least that share of cases.

    Args:
        successes: how often it happened.
        number: how often it could have happened, at least 1.
        confidence: the confidence of the interval.
    """
    tail = (1 - confidence) / 2

    def quantile(share: float, a: int, b: int) -> float:
        """The quantile of the beta distribution."""

        def excess(p: float) -> mpmath.mpf:
            return mpmath.betainc(a, b, 0, p, regularized=True) - share

        return float(mpmath.findroot(excess, (0, 1), solver="bisect"))

    failures = number - successes
    low = quantile(tail, successes, failures + 1) if successes else 0.0
    high = quantile(1 - tail, successes + 1, failures) if failures else 1.0
    return low, high


def launched_arms(steps: Sequence[Step]) -> dict[str, str]:
    """What people read for the arms that a campaign launched nodes for."""
    launches = (launch for step in steps for launch in step.launches)
    return stack_arm_titles({each.arm: each.placement for each in launches if each.arm != LOAD})


def capacities(steps: Sequence[Step], titles: Mapping[str, str]) -> tuple[Capacity, ...]:
    """How often the nodes of each arm came, value by value for a sweep.

    Args:
        steps: the campaign's steps.
        titles: what people read for the arms. Launches of others, such as the load nodes, are left
            out.
    """
    launches: dict[tuple[str | int | None, str], list[Launch]] = {}
    for step in steps:
        for launch in step.launches:
            if launch.arm in titles:
                launches.setdefault((step.value, launch.arm), []).append(launch)
    return tuple(
        _capacity(alike, value, titles[arm])
        for (value, arm), alike in launches.items()
        if any(launch.outcome != "failed" for launch in alike)
    )


def _capacity(launches: Sequence[Launch], value: str | int | None, title: str) -> Capacity:
    filled = [launch for launch in launches if launch.outcome == "filled"]
    refused = [launch for launch in launches if launch.outcome == "refused"]
    number = len(filled) + len(refused)
    seconds = [launch.last_seconds for launch in filled if launch.last_seconds is not None]
    return Capacity(
        arm=launches[0].arm,
        arm_title=title,
        placement=launches[0].placement,
        value=value,
        launches=number,
        filled=len(filled),
        share=len(filled) / number,
        ci95=interval_of_share(len(filled), number),
        median_seconds=median(seconds) if seconds else None,
        failed=len(launches) - number,
        reasons=tuple(
            loss.cause
            for loss in grouped(
                (why, "") for each in refused for why in each.reasons if lacks_capacity(why)
            )
        ),
    )


def never_fills(steps: Sequence[Step], most: int | None) -> str | None:
    """Why to make no more steps because EC2 lacks capacity, and what to do; None to go on.

    Args:
        steps: the campaign's own steps that have ended.
        most: the most draws that the campaign makes; None for a sweep, which repeats such steps.
    """
    number = min(UNFILLED_IN_A_ROW, most or UNFILLED_IN_A_ROW)
    last = steps[-number:]
    if len(last) < number or not all(step.is_unfilled for step in last):
        return None
    refused = [each for step in last for each in step.launches if each.outcome == "refused"]
    titles = launched_arms(steps)
    arms = listed(dict.fromkeys(titles.get(each.arm, each.arm) for each in refused))
    times = "the only draw" if number == 1 else f"{number} launches in a row"
    best = max(refused, key=lambda launch: launch.got)
    came = f"at most {best.got} of {best.asked} came"
    return f"EC2 had no capacity for all nodes of {arms} in {times}: {came}. {REMEDY}."
