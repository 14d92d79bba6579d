"""The estimate of a campaign's time and cost, made before it changes anything. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rackrate.plan.campaign import USUAL_DRAWS, Campaign
from rackrate.plan.faults import Faults
from rackrate_contract.estimates import (
    CampaignEstimate,
    Cost,
    Estimates,
    Power,
    Span,
    StepEstimate,
    Steps,
)
from rackrate_text.units import dollars, duration
from rackrate_text.words import span

#: State transitions of a step of a campaign in statemachine/campaign.asl.yaml: the judge, about
#: thirty questions whether the change is made, and the run's start.
STEP_TRANSITIONS = 100
#: How long new nodes take: two to four minutes until the old ones are gone, and as long until new
#: ones are Ready. Only second-hand sources have figures for AWS.
DRAW_SECONDS = (240.0, 480.0)


#: The state machine's time-out, less half a day of waiting for the nodes.
MOST_SECONDS = 604800 - 12 * 3600


def change_span(measured: Sequence[float]) -> tuple[float, float] | None:
    """How long a change takes by those that the stack has made; None if it has made fewer than two.

    The longest of a few is often surpassed, so the most is half as long again.
    """
    return (min(measured), 1.5 * max(measured)) if len(measured) > 1 else None


def step_estimate(
    value: str | int | None, nodes: int, change_seconds: tuple[float, float], run: Estimates
) -> StepEstimate:
    """The estimate of a step.

    Args:
        value: its value; None for a draw.
        nodes: the number of nodes of each arm.
        change_seconds: how long its change takes, at least and at most.
        run: the estimates of its run.
    """
    least_seconds = run.seconds if run.at_least is None else run.at_least.seconds
    per_hour = _usd_per_hour(run.cost, run.seconds)
    of_step = STEP_TRANSITIONS * _unit_price(run.cost, "Step Functions")
    least_usd = run.cost.usd_of_run
    if run.at_least is not None and run.at_least.usd is not None and per_hour is not None:
        least_usd = max(0.0, run.at_least.usd - per_hour * least_seconds / 3600)
    return StepEstimate(
        value=value,
        nodes=nodes,
        change_seconds=Span(least=change_seconds[0], most=change_seconds[1]),
        run_seconds=Span(least=least_seconds, most=run.seconds),
        usd_per_hour=per_hour,
        usd_of_run=Span(least=least_usd + of_step, most=run.cost.usd_of_run + of_step),
    )


def usual_draws(run: Estimates) -> tuple[Span, Span | None]:
    """The seconds and dollars of a campaign of draws with every default, from a run's estimate.

    The dollars are None if no price is known.
    """
    step = step_estimate(None, 0, DRAW_SECONDS, run)
    least, most = USUAL_DRAWS.least, USUAL_DRAWS.most
    seconds = Span(
        least=least * (step.change_seconds.least + step.run_seconds.least),
        most=most * step.most_seconds,
    )
    if step.least_usd is None or step.most_usd is None:
        return seconds, None
    return seconds, Span(least=least * step.least_usd, most=most * step.most_usd)


def _usd_per_hour(cost: Cost, seconds: float) -> float | None:
    """What nodes and cluster cost while they are up; None if no price of a node is known."""
    lines = [line for line in cost.lines if line.paid_anyway]
    if seconds <= 0 or any(line.usd is None for line in lines):
        return None
    return sum(line.usd or 0.0 for line in lines) / seconds * 3600


def _unit_price(cost: Cost, what: str) -> float:
    return next((line.usd_per_unit or 0.0 for line in cost.lines if line.what == what), 0.0)


def campaign_estimate(
    campaign: Campaign,
    steps: Sequence[StepEstimate],
    *,
    done: Sequence[str | int | None],
    power: Sequence[Power],
    guards: Sequence[str],
    changes: int = 0,
) -> CampaignEstimate:
    """The estimate of a campaign.

    Args:
        campaign: the campaign.
        steps: the estimate for each value, or the one for all draws.
        done: the values of finished steps that it takes over.
        power: how many draws may be needed.
        guards: what may go wrong in each run.
        changes: how many earlier changes of this stack their time is from; with fewer than two it
            is assumed.
    """
    most = _steps_left(campaign, steps, done, campaign.most)
    least = _steps_left(campaign, steps, done, campaign.least)
    pauses = [60 * campaign.pause_minutes * max(0, len(each) - 1) for each in (least, most)]
    usd = None
    if all(step.usd_per_hour is not None for step in steps):
        waits = [(steps[0].usd_per_hour or 0.0) * pause / 3600 for pause in pauses]
        usd = Span(
            least=round(sum(step.least_usd or 0.0 for step in least) + waits[0], 4),
            most=round(sum(step.most_usd or 0.0 for step in most) + waits[1], 4),
        )
    return CampaignEstimate(
        steps=Steps(least=len(least), most=len(most)),
        seconds=Span(
            least=sum(each.change_seconds.least + each.run_seconds.least for each in least)
            + pauses[0],
            most=sum(each.most_seconds for each in most) + pauses[1],
        ),
        usd=usd,
        step_estimates=tuple(steps),
        power=tuple(power),
        guards_that_would_trip=tuple(guards),
        assumptions=(_change_assumption(steps, changes), _COST_ASSUMPTION),
    )


_COST_ASSUMPTION = "nodes cost as long as they are up, from the first change to the last run's end"


def _change_assumption(steps: Sequence[StepEstimate], changes: int) -> str:
    least = min(step.change_seconds.least for step in steps)
    most = max(step.change_seconds.most for step in steps)
    takes = f"a change takes {span(duration(least), duration(most))}"
    if changes > 1:
        return f"{takes}, by the last {changes} on this stack"
    return f"{takes}, as on AWS; this stack has not measured its own yet"


def _steps_left(
    campaign: Campaign,
    steps: Sequence[StepEstimate],
    done: Sequence[str | int | None],
    number: int,
) -> list[StepEstimate]:
    by_value = {step.value: step for step in steps}
    values = list(done)
    left: list[StepEstimate] = []
    while len(values) < number:
        value = campaign.value_after(values)
        left.append(by_value[value])
        values.append(value)
    return left


def check_budget(campaign: Campaign, estimate: CampaignEstimate, faults: Faults) -> list[str]:
    """Check that the budget suffices for one step. Returns warnings about what it does not cover.

    Args:
        campaign: the campaign.
        estimate: its estimate.
        faults: where faults are added.
    """
    if campaign.pause_minutes and estimate.seconds.most > MOST_SECONDS:
        faults.add(
            "pause_minutes",
            f"makes the campaign longer than the {MOST_SECONDS / 86400:.1f} days it may take",
            "ask for shorter pauses, or for fewer draws and continue the campaign later",
        )
    budget = campaign.budget_dollars
    costs = [step.most_usd for step in estimate.step_estimates]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs) or estimate.usd is None:
        return ["the price of the nodes is not known, so the budget cannot be kept to"]
    step = "draw" if campaign.sweep is None else "step"
    if known and budget < max(known):
        faults.add(
            "budget_dollars",
            f"{dollars(budget)} is less than one {step} may cost, {dollars(max(known))}",
            "allow more, or ask for fewer or shorter tests, fewer blocks, or smaller nodes",
        )
    elif budget < estimate.usd.least:
        what = "least draws" if campaign.sweep is None else "whole sweep"
        return [
            f"the budget of {dollars(budget)} may end the campaign early: the {what} cost about"
            f" {dollars(estimate.usd.least)}"
        ]
    return []
