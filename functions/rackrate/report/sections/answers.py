"""The answers of a campaign over its draws: a table, a figure for each, and one run beside them."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from rackrate.report.campaign_material import (
    MOST_FIGURES,
    REST,
    CampaignMaterial,
    first_draw_figures,
    own_intervals,
)
from rackrate.report.charts import draws
from rackrate.report.comparisons import Comparison, Comparisons, Explained, Side
from rackrate.report.frame import Figure
from rackrate.report.rendering import Part
from rackrate.report.tables import Cell, Table, head, number
from rackrate.report.values import Columns, Value, by_column
from rackrate.verdict import campaign as wording
from rackrate_contract.campaign import Answer, DrawRatio
from rackrate_contract.verdicts import Ends
from rackrate_text.units import change, changes, metric_column, moment, percent, quantity
from rackrate_text.words import counted, sentence


def answers_section(page: CampaignMaterial) -> Part | None:
    """The answers in a table, and each with the figure of its draws; None for a sweep."""
    answers = page.results.answers
    if not answers:
        return None
    means = all(answer.arm_mean for answer in answers)
    return Part(
        "answers",
        "Answers",
        shown=Comparisons("answers", compared(page), adjusted_for=len(answers)),
        levels_head="geometric means" if means else "medians",
        has_intervals=any(answer.shown_interval for answer in answers),
        answers=[_explained(page, answer, n) for n, answer in enumerate(answers)],
    )


def compared(page: CampaignMaterial) -> list[Comparison]:
    """The answers for their tiles and for the rows of their table."""
    return [
        Comparison(
            anchor=f"answer-{index}",
            sides=wording.heading(answer),
            of=answer,
            lacks=wording.more_needed(answer),
            scope=_scope_of(answer),
            in_words=_in_words(answer),
            bars=[
                Side(page.arm_title(name), page.arm_number(name), level)
                for name, level in zip((answer.arm, answer.baseline), answer.levels, strict=True)
            ],
            prediction=answer.prediction95,
            varies=wording.variability(answer),
        )
        for index, answer in enumerate(page.results.answers)
    ]


def _scope_of(answer: Answer) -> str:
    """What an answer applies to, with the draws on which it rests."""
    scope = f"{answer.scope} {answer.time}".rstrip()
    return f"{scope}, {counted(len(answer.draws), 'draw')}"


def _in_words(answer: Answer) -> str:
    words = f"Average change {change(answer.ratio)}"
    if answer.shown_interval:
        words += f", 95 % CI adjusted for all answers {changes(answer.shown_interval)}"
    if answer.prediction95:
        words += f"; the next deployment {changes(answer.prediction95)}"
    return words


def _explained(page: CampaignMaterial, answer: Answer, index: int) -> Explained:
    inside, draws = own_intervals(answer)
    return Explained(
        f"{answer.name}, {wording.heading(answer)}",
        answer.verdict,
        _figure(page, answer, index),
        (
            *map(sentence, (answer.claim, answer.reason, wording.more_needed(answer))),
            *map(sentence, wording.drifts(answer)),
            f"The runs' own 95 % intervals: {inside} of {draws} contain the average. A run's"
            " interval is about its nodes, so it says nothing of other placements."
            if draws > 1 and answer.ratio is not None
            else "",
        ),
        anchor=f"answer-{index}",
    )


def _figure(page: CampaignMaterial, answer: Answer, index: int) -> Figure | str:
    drawn = [draw for draw in answer.draws if draw.ratio > 0]
    if not drawn:
        return "No draw has a ratio."
    if index >= MOST_FIGURES:
        return "Its figure is left out: the page would be too large. campaign.json has it."
    shown = draws.Draws(
        arm=page.arm_number(answer.arm),
        draws=tuple(
            draws.Draw(draw.ratio, draw.ci95, _tip(place, draw))
            for place, draw in enumerate(drawn, 1)
        ),
        average=answer.ratio,
        interval=answer.shown_interval,
        prediction=answer.prediction95,
        threshold=answer.threshold,
        changed=bool(answer.changed),
    )
    return Figure(
        "draws",
        f"draws-{index}",
        draws.draws_chart(shown),
        title=f"{answer.name}, {wording.heading(answer)}: draw by draw.",
        text=f"{_in_words(answer)}.",
        notes=" ".join(_how_to_read(shown)),
        page=page,
        data=_data(page, answer),
        columns=_columns(answer),
    )


def _columns(answer: Answer) -> Columns:
    """The draws, their average with its intervals, and the prediction of the next deployment."""
    medians = [metric_column(f"{side}_median", answer.unit) for side in ("arm", "baseline")]
    rows: list[Mapping[str, Value]] = []

    def add(what: str, interval: str, ends: Ends | None, **others: Value) -> None:
        low, high = ends or (None, None)
        rows.append({"what": what, **others, "interval": interval, "low": low, "high": high})

    for place, draw in enumerate(answer.draws, 1):
        values = (" ".join(draw.run_ids), draw.started_at, draw.arm_median, draw.baseline_median)
        facts = dict(zip(("run_id", "started_at", *medians), values, strict=True))
        add("draw", "ci95", draw.ci95, draw=place, ratio=draw.ratio, **facts)
    unknown: dict[str, Value] = dict.fromkeys(("draw", "run_id", "started_at", *medians))
    for interval in ("ci95", "ci_simultaneous"):
        ends = getattr(answer, interval)
        add("average", interval, ends, ratio=answer.ratio, **unknown)
    add("next deployment", "prediction95", answer.prediction95, ratio=None, **unknown)
    sides: Mapping[str, Value] = {
        "arm": answer.arm,
        "baseline": answer.baseline,
        "threshold": answer.threshold,
    }
    return by_column({**row, **sides} for row in rows)


def _tip(place: int, draw: DrawRatio) -> str:
    own = f" ({changes(draw.ci95)} for its nodes)" if draw.ci95 else ""
    when = f", {moment(draw.started_at)}" if draw.started_at else ""
    return f"draw {place}, {draw.run_id}{when}: {change(draw.ratio)}{own}"


def _how_to_read(shown: draws.Draws) -> list[str]:
    hints = ["Dots: draws, each with its run's own interval."]
    if shown.interval:
        hints.append("Colored band: the average.")
    low, high = shown.axis
    if any(low <= end <= high for end in shown.prediction or ()):
        hints.append("Dashed lines: the prediction for the next deployment.")
    if shown.changed:
        hints.append("Hollow: the newest draw, which differs from those before it.")
    if shown.shows_one:
        hints.append(
            f"Gray band: differences below {percent(shown.threshold)}, which do not matter."
        )
    else:
        hints.append("0 %, which is no difference, is far out of the picture.")
    if shown.cut:
        hints.append("Arrows: the interval goes on beyond the picture.")
    return hints


def _data(page: CampaignMaterial, answer: Answer) -> Table:
    rows = [
        {
            "draw": number(place),
            "run": _runs_of(page, draw),
            "started": draw.started_at and moment(draw.started_at),
            "change": number(change(draw.ratio)),
            "own interval": number(changes(draw.ci95)),
            **{
                page.arm_title(name): number(quantity(level, answer.unit))
                for name, level in zip((answer.arm, answer.baseline), draw.levels, strict=True)
            },
        }
        for place, draw in enumerate(answer.draws, 1)
    ]
    return Table(f"Draws of {answer.name}, {wording.heading(answer)}", rows, rest=REST)


def _runs_of(page: CampaignMaterial, draw: DrawRatio) -> str:
    """The run of a draw; of a pool maybe several runs on the same nodes."""
    return Markup(", ").join(map(page.run_link, draw.run_ids))


def one_run_section(page: CampaignMaterial) -> Part | None:
    """What the first run alone said, beside what the campaign says; None with one draw."""
    answers = first_draw_figures(page.results.answers)
    if not answers:
        return None
    sides = {wording.heading(answer) for answer in answers}
    about = f"{next(iter(sides))}; " if len(sides) == 1 else ""
    rows = [
        {
            "comparison": head(answer.name, "" if about else wording.heading(answer)),
            "one run, its nodes": _with_interval(answer.draws[0]),
            "campaign, average": _with_interval(answer),
            "next deployment": number(changes(answer.prediction95)),
        }
        for answer in answers
    ]
    return Part(
        "one-run",
        "One run",
        heading="One run beside the campaign",
        runs=_runs_of(page, answers[0].draws[0]),
        compared=Table(f"Changes: {about}95 % intervals, each by itself", rows, rest=REST),
    )


def _with_interval(of: Answer | DrawRatio) -> Cell:
    return number(change(of.ratio), changes(of.ci95))
