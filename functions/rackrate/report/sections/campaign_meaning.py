"""What a campaign means for a decision, in the form in which meaning.py tells it of a run.

Minutes and dollars of what would tell more are those that this campaign's own steps took.
"""

from __future__ import annotations

from statistics import mean

from rackrate.plan.campaign import USUAL_DRAWS
from rackrate.plan.campaign_estimate import DRAW_SECONDS, Span
from rackrate.plan.campaign_fields import MAX_DRAWS, MAX_RUNS_PER_STEP
from rackrate.report.campaign_material import CampaignMaterial, SweptMetric, judged, sides_of
from rackrate.report.rendering import Part
from rackrate.report.sections.meaning import decision, takes
from rackrate.verdict import campaign as wording
from rackrate.verdict.answers import Answer
from rackrate.verdict.headline import counts
from rackrate.verdict.wording import still_open
from rackrate_text.units import change, changes, dollars, duration


def meaning_section(page: CampaignMaterial) -> Part | None:
    """The three sides of the decision; None if no step has a result."""
    results, placements = page.results, page.results.placements
    if not (results.sweep or any(answer.draws for answer in results.answers)):
        return None
    several = len({sides_of(answer) for answer in results.answers}) > 1
    gives = [_gives(answer, several) for answer in results.answers if answer.is_decided]
    gives += [line for metric in page.metrics if (line := _swept(metric))]
    is_sweep = results.campaign.kind == "sweep"
    return decision(
        "campaign_meaning",
        page.scale,
        gives=gives or ["No answer of this campaign is settled."],
        strategies=[placements[arm] for arm in page.arms if arm in placements]
        if placements
        else None,
        campaign=results.campaign,
        draws_take=_draws_take(page),
        again_takes=_take(page, len(page.useful_steps)),
        open=_open_cells(page) if is_sweep else _open_answers(page),
        draws=0 if is_sweep else _more_draws(page),
        most_draws=MAX_DRAWS,
        runs_per_step=_more_runs(page) if is_sweep else 0,
        runs_take=_take(page, len(page.metrics[0].values)) if page.metrics else "",
    )


def _gives(answer: Answer, several: bool) -> str:
    """What a settled answer says of the average and of the next deployment."""
    words = f"{wording.subject(answer)}{f', {sides_of(answer)}' if several else ''}:"
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


def _open_answers(page: CampaignMaterial) -> list[str]:
    return still_open((wording.subject(each), _lacks(page, each)) for each in page.results.answers)


def _lacks(page: CampaignMaterial, answer: Answer) -> str | None:
    """What would settle an open answer, and what that takes; None if it is settled."""
    if answer.is_decided:
        return None
    lacks = wording.more_needed(answer) or answer.reason
    if lacks and answer.more_draws and (time := _take(page, answer.more_draws)):
        lacks += f", {time} more"
    return lacks


def _more_draws(page: CampaignMaterial) -> int:
    """The number of draws that would settle all open answers for which it is known, or 0."""
    lacking = [a for a in page.results.answers if not a.is_decided and a.more_draws]
    return max((len(a.draws) + (a.more_draws or 0) for a in lacking), default=0)


def _open_cells(page: CampaignMaterial) -> list[str]:
    return still_open(dict.fromkeys(_inconclusive(page)))


def _inconclusive(page: CampaignMaterial) -> list[tuple[str, str | None]]:
    """The metrics of the cells of a sweep that are not settled, and why."""
    return [
        (metric.subject, cell.reason)
        for metric in page.metrics
        for cell in metric.cells
        if cell.verdict == "inconclusive"
    ]


def _more_runs(page: CampaignMaterial) -> int:
    """The runs for each value with which a sweep is more precise; 0 if that needs or helps none."""
    runs = max((cell.runs for cell in page.results.sweep), default=0)
    return runs + 1 if _inconclusive(page) and runs < MAX_RUNS_PER_STEP else 0


def _draws_take(page: CampaignMaterial) -> str:
    """What a campaign of draws with every default takes, whose runs take as long as these did.

    Returns:
        Empty if no run's time is known.
    """
    known = [step.run_seconds for step in page.useful_steps if step.run_seconds is not None]
    if not known:
        return ""
    run = mean(known)
    least, most = (
        draws * (seconds + run)
        for draws, seconds in zip((USUAL_DRAWS.least, USUAL_DRAWS.most), DRAW_SECONDS, strict=True)
    )
    rate = _dollars_per_second(page)
    usd = None if rate is None else Span(least=rate * least, most=rate * most)
    return takes(Span(least=least, most=most), usd)


def _take(page: CampaignMaterial, steps: int) -> str:
    """What as many more steps take, as long and as dear as those that were made; may be empty."""
    known = [
        step.change_seconds + step.run_seconds
        for step in page.useful_steps
        if step.change_seconds is not None and step.run_seconds is not None
    ]
    if not known:
        return ""
    seconds, rate = steps * mean(known), _dollars_per_second(page)
    return duration(seconds) + ("" if rate is None else f", {dollars(rate * seconds)}")


def _dollars_per_second(page: CampaignMaterial) -> float | None:
    """What a second of this campaign's steps cost; None if no price is known."""
    known = [
        (step.dollars, (step.change_seconds or 0.0) + (step.run_seconds or 0.0))
        for step in page.useful_steps
        if step.dollars is not None
    ]
    seconds = sum(seconds for _, seconds in known)
    return sum(usd for usd, _ in known) / seconds if seconds else None
