"""What a campaign means for a decision, in the form in which meaning.py says it of a run.

Minutes and dollars of what would show more are those that this campaign's own steps took.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean

from rackrate.plan.campaign import USUAL_DRAWS
from rackrate.plan.campaign_estimate import DRAW_SECONDS
from rackrate.plan.campaign_fields import MAX_DRAWS, MAX_RUNS_PER_STEP
from rackrate.report.campaign_material import CampaignMaterial, SweptMetric, judged
from rackrate.report.rendering import Part
from rackrate.report.sections.meaning import decision, usual_campaign
from rackrate.verdict import campaign as wording
from rackrate.verdict.headline import counts
from rackrate.verdict.wording import still_open
from rackrate_contract.campaign import Answer
from rackrate_contract.estimates import Span
from rackrate_text.units import change, changes, dollars, duration


def meaning_section(page: CampaignMaterial) -> Part | None:
    """The three sides of the decision; None for a hunt, and if no step has a result."""
    results, placements = page.results, page.results.placements
    if results.campaign.kind == "hunt":
        return None
    answered = results.sweep or any(answer.draws for answer in results.answers)
    if not (answered or results.capacity):
        return None
    several = len({wording.heading(answer) for answer in results.answers}) > 1
    gives = [_gives(answer, several) for answer in results.answers if answer.is_decided]
    gives += [line for metric in page.metrics if (line := _swept(metric))]
    return decision(
        page.scale,
        gives=gives or ["No answer of this campaign is settled."],
        strategies=[placements[arm] for arm in page.arms if arm in placements]
        if placements
        else {each.placement for each in results.capacity} or None,
        unknown=unknown(page),
        measured=page.capacity,
    )


def _gives(answer: Answer, several: bool) -> str:
    """What a settled answer says of the average and of the next deployment."""
    words = f"{answer.name}{f', {wording.heading(answer)}' if several else ''}:"
    if answer.verdict == "no meaningful difference":
        words += " no meaningful difference on average."
    else:
        words += f" {change(answer.ratio)} on average, {answer.verdict}."
    if answer.prediction95 is not None:
        words += f" The next deployment gets {changes(answer.prediction95)}."
    return words


def _swept(metric: SweptMetric) -> str:
    """How the values of a sweep compare with the first; empty without a settled comparison."""
    verdicts = judged(metric.cells)
    if all(verdict.verdict == "inconclusive" for verdict in verdicts):
        return ""
    first = metric.page.title_of(metric.values[0])
    return f"{metric.subject}: against {first}, {counts(verdicts)}."


def unknown(page: CampaignMaterial) -> list[str]:
    """What is not known yet, with what would show it; the next thing to do first."""
    is_sweep = page.results.campaign.kind == "sweep"
    if page.scale is not None:
        first = f"Everything about EC2: there {_usual(page)}"
    elif is_sweep:
        first = f"What the group gives: a sweep compares its values. {_usual(page)}"
    else:
        first = _elsewhere(page)
    if is_sweep:
        return [*(_open_cells(page) if page.metrics else ()), first]
    lacking = ((each.name, _lacks(page, each)) for each in page.results.answers)
    lines = [*still_open(lacking), _more_draws(page), first]
    return [line for line in lines if line]


def _lacks(page: CampaignMaterial, answer: Answer) -> str | None:
    """What would settle an open answer, and what that takes; None if it is settled."""
    if answer.is_decided:
        return None
    lacks = wording.more_needed(answer) or answer.reason
    if lacks and answer.more_draws and (time := _take(page, answer.more_draws)):
        lacks += f", {time} more"
    return lacks


def _more_draws(page: CampaignMaterial) -> str:
    """How to make the draws that open answers lack; empty if they lack none or too many."""
    lacking = [a for a in page.results.answers if not a.is_decided and a.more_draws]
    most = max((len(a.draws) + (a.more_draws or 0) for a in lacking), default=0)
    if page.is_pool and most:
        return "`rackrate pool` with runs on other nodes adds draws."
    # A campaign that goes on takes over the draws that were not filled, too.
    most += sum(step.is_unfilled for step in page.results.steps) if most else 0
    if 0 < most <= MAX_DRAWS:
        name = page.results.campaign.id
        return f"`rackrate campaign run --continue {name} --draws {most}` adds draws."
    return ""


def _open_cells(page: CampaignMaterial) -> Iterable[str]:
    """What is not settled of a sweep, and what one more run of each value takes."""
    unsettled = [
        (metric.subject, cell.reason)
        for metric in page.metrics
        for cell in metric.cells
        if cell.verdict == "inconclusive"
    ]
    yield from still_open(dict.fromkeys(unsettled))
    takes = _take(page, len(page.metrics[0].values))
    runs = max(cell.runs for cell in page.results.sweep)
    if unsettled and takes and runs < MAX_RUNS_PER_STEP:
        yield f"`--runs-per-step {runs + 1}` measures each value once more: {takes} more."


def _elsewhere(page: CampaignMaterial) -> str:
    """What would show other nodes than this stack makes."""
    lead = "What another zone, instance type or number of nodes gets:"
    if page.is_pool:
        return f"{lead} `rackrate pool` answers from runs there."
    takes = _take(page, len(page.useful_steps))
    tells = f"takes {takes}, as this one did" if takes else "tells"
    return f"{lead} a campaign on a stack with them {tells}."


def _usual(page: CampaignMaterial) -> str:
    """A campaign of draws with every default, whose runs take as long as these did."""
    run_seconds = [step.run_seconds for step in page.useful_steps if step.run_seconds is not None]
    if not run_seconds:
        return "`rackrate campaign run --dry-run` tells what a campaign takes."
    run = mean(run_seconds)
    least, most = (
        draws * (seconds + run)
        for draws, seconds in zip((USUAL_DRAWS.least, USUAL_DRAWS.most), DRAW_SECONDS, strict=True)
    )
    rate = _dollars_per_second(page)
    usd = None if rate is None else Span(least=rate * least, most=rate * most)
    return usual_campaign(Span(least=least, most=most), usd)


def _take(page: CampaignMaterial, steps: int) -> str:
    """What as many more steps take, as long and as dear as those that were made; may be empty."""
    durations = [
        step.change_seconds + step.run_seconds
        for step in page.useful_steps
        if step.change_seconds is not None and step.run_seconds is not None
    ]
    if not durations:
        return ""
    seconds, rate = steps * mean(durations), _dollars_per_second(page)
    return duration(seconds) + ("" if rate is None else f", {dollars(rate * seconds)}")


def _dollars_per_second(page: CampaignMaterial) -> float | None:
    """What a second of this campaign's steps cost; None if no price is known."""
    costs = [
        (step.dollars, (step.change_seconds or 0.0) + (step.run_seconds or 0.0))
        for step in page.useful_steps
        if step.dollars is not None
    ]
    seconds = sum(seconds for _, seconds in costs)
    return sum(usd for usd, _ in costs) / seconds if seconds else None
