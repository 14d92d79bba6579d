"""The answers of a campaign over its draws: a table, a figure for each, and one run beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape

from rackrate.report import comparisons
from rackrate.report.campaign_material import (
    MOST_FIGURES,
    CampaignMaterial,
    first_draw_figures,
    own_intervals,
    sides_of,
)
from rackrate.report.charts import draws
from rackrate.report.frame import figure
from rackrate.report.markup import cell, items, number, row_head, section, table, text
from rackrate.report.values import Columns, Value, by_column
from rackrate.verdict import campaign as wording
from rackrate.verdict.answers import Answer, DrawRatio
from rackrate.verdict.model import Ends
from rackrate.verdict.wording import sides as levels_of
from rackrate_text.units import UNKNOWN, change, changes, metric_column, moment, percent, quantity
from rackrate_text.words import capitalized, counted, interval_title

_REST = "campaign.json lists"


def answers_section(page: CampaignMaterial) -> str:
    """The answers in a table, and each with the figure of its draws; empty for a sweep."""
    answers = page.results.answers
    if not answers:
        return ""
    scopes = {scope_of(answer) for answer in answers}
    # A column that says the same in each row says it once, in the caption.
    scope = scopes.pop() if len(scopes) == 1 else ""
    rows = [
        comparisons.Row(
            anchor=f"answer-{index}",
            subject=wording.subject(answer),
            sides=sides_of(answer),
            word=answer.verdict,
            ratio=comparisons.ratio_of(answer),
            intervals=_in_words(answer),
            cells=(
                comparisons.change_cell(answer),
                _levels(page, answer, index),
                _next_cell(answer),
                *([] if scope else [text(scope_of(answer))]),
            ),
        )
        for index, answer in enumerate(answers)
    ]
    shown = comparisons.table(
        rows,
        heads=(
            f"average change, and its {interval_title(len(answers))}",
            "geometric means" if all(answer.arm_mean for answer in answers) else "medians",
            "next deployment (95 % prediction each)",
            *([] if scope else ["applies to"]),
        ),
        name="answers",
        caption=f"Every comparison. They apply to {scope}." if scope else "Every comparison",
        rest=_REST,
    )
    each = "".join(_explained(page, answer, index) for index, answer in enumerate(answers))
    return section("answers", "Answers", shown + _about(answers) + each)


def scope_of(answer: Answer) -> str:
    """What an answer applies to, with the draws on which it rests."""
    scope = f"{answer.scope} {answer.time}".rstrip()
    return f"{scope}, {counted(len(answer.draws), 'draw')}"


def _next_cell(answer: Answer) -> str:
    if answer.prediction95 is None:
        return UNKNOWN
    varies = f"draws vary by {wording.variability(answer)}"
    return (
        f'<span class="figures-of">{text(changes(answer.prediction95))}</span>'
        f'<br><span class="quiet">{text(varies)}</span>'
    )


def _in_words(answer: Answer) -> str:
    said = f"Average change {change(answer.ratio)}"
    if answer.shown_interval:
        said += f", 95 % CI adjusted for all answers {changes(answer.shown_interval)}"
    if answer.prediction95:
        said += f"; the next deployment {changes(answer.prediction95)}"
    return said


def _levels(page: CampaignMaterial, answer: Answer, index: int) -> str:
    return comparisons.levels(
        [
            comparisons.Side(name, page.arm_number(name), level)
            for name, level in zip((answer.arm, answer.baseline), levels_of(answer), strict=True)
        ],
        answer.unit,
        name=f"levels-answers-{index}",
        title=f"{wording.subject(answer)}, {sides_of(answer)}: geometric means.",
    )


def _about(answers: Sequence[Answer]) -> str:
    """A sentence that tells the interval of the average from the prediction."""
    if not any(answer.shown_interval for answer in answers):
        return ""
    return (
        '<p class="quiet">The average is what the group buys over many deployments; its interval'
        " shrinks with every draw. The prediction is what one deployment will get; it stays as wide"
        " as placements differ. The interval is adjusted for all answers, and cut to what the"
        " verdict says.</p>"
    )


def _explained(page: CampaignMaterial, answer: Answer, index: int) -> str:
    """An answer with the figure of its draws, what it applies to, and its qualifications."""
    inside, told = own_intervals(answer)
    lines = [
        text(_sentence(answer.claim)) if answer.claim else "",
        text(_sentence(answer.reason)) if answer.reason else "",
        text(_sentence(more)) if (more := wording.more_needed(answer)) else "",
        *(text(_sentence(drift)) for drift in wording.drifts(answer)),
        f"The runs' own 95 % intervals: {inside} of {told} contain the average. A run's interval is"
        " about its nodes, so it says nothing of other placements."
        if told > 1 and answer.ratio is not None
        else "",
    ]
    heading = f"{text(wording.subject(answer))}, {text(sides_of(answer))}"
    return (
        f'<div class="verdict" id="answer-{index}"><h3>{heading}:'
        f" {comparisons.word(answer.verdict)}</h3>"
        f'<div class="figures">{_figure(page, answer, index)}<div>{items(lines)}</div></div></div>'
    )


def _sentence(words: str) -> str:
    return f"{capitalized(words.rstrip('.'))}."


def _figure(page: CampaignMaterial, answer: Answer, index: int) -> str:
    found = [draw for draw in answer.draws if draw.ratio > 0]
    if not found:
        return "<p>No draw has a ratio.</p>"
    if index >= MOST_FIGURES:
        return "<p>Its figure is left out: the page would be too large. campaign.json has it.</p>"
    shown = draws.Draws(
        arm=page.arm_number(answer.arm),
        draws=tuple(
            draws.Draw(draw.ratio, draw.ci95, _tip(place, draw))
            for place, draw in enumerate(found, 1)
        ),
        average=answer.ratio,
        interval=answer.shown_interval,
        prediction=answer.prediction95,
        threshold=answer.threshold,
        changed=bool(answer.changed),
    )
    return figure(
        "draws",
        f"draws-{index}",
        partial(draws.draws_chart, shown),
        title=f"{wording.subject(answer)}, {sides_of(answer)}: draw by draw.",
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
        known = (" ".join(draw.run_ids), draw.started_at, draw.arm_median, draw.baseline_median)
        facts = dict(zip(("run_id", "started_at", *medians), known, strict=True))
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
    said = ["Dots: draws, each with its run's own interval."]
    if shown.interval:
        said.append("Colored band: the average.")
    low, high = shown.axis
    if any(low <= end <= high for end in shown.prediction or ()):
        said.append("Dashed lines: the prediction for the next deployment.")
    if shown.changed:
        said.append("Hollow: the newest draw, which differs from those before it.")
    if shown.shows_one:
        said.append(
            f"Gray band: differences below {percent(shown.threshold)}, which do not matter."
        )
    else:
        said.append("0 %, which is no difference, is far out of the picture.")
    if shown.cut:
        said.append("Arrows: the interval goes on beyond the picture.")
    return said


def _data(page: CampaignMaterial, answer: Answer) -> str:
    rows = (
        [
            number(text(place)),
            cell(_runs_of(page, draw)),
            cell(text(draw.started_at and moment(draw.started_at))),
            number(text(change(draw.ratio))),
            number(text(changes(draw.ci95))),
            *(number(text(quantity(level, answer.unit))) for level in levels_of(draw)),
        ]
        for place, draw in enumerate(answer.draws, 1)
    )
    heads = ("draw", "run", "started", "change", "own interval", answer.arm, answer.baseline)
    caption = f"Draws of {wording.subject(answer)}, {sides_of(answer)}"
    return table(heads, rows, caption=caption, rest=_REST)


def _runs_of(page: CampaignMaterial, draw: DrawRatio) -> str:
    """The run of a draw; of a pool maybe several runs on the same nodes."""
    return ", ".join(run_name(page, run_id) for run_id in draw.run_ids)


def run_name(page: CampaignMaterial, run_id: str) -> str:
    """A run's id as markup: a link to its page, if it has one that this page can reach."""
    link = page.run_link(run_id)
    if link is None:
        return text(run_id)
    return f'<a href="{escape(link, quote=True)}">{text(run_id)}</a>'


def one_run_section(page: CampaignMaterial) -> str:
    """What the first run alone said, beside what the campaign says; empty with one draw."""
    found = first_draw_figures(page.results.answers)
    if not found:
        return ""
    sides = {sides_of(answer) for answer in found}
    rows = (
        [
            row_head(_named(answer, alone=len(sides) == 1)),
            number(_with_interval(answer.draws[0].ratio, answer.draws[0].ci95)),
            number(_with_interval(answer.ratio, answer.ci95)),
            number(text(changes(answer.prediction95))),
        ]
        for answer in found
    )
    heads = ("comparison", "one run, its nodes", "campaign, average", "next deployment")
    about = f"{next(iter(sides))}; " if len(sides) == 1 else ""
    caption = f"Changes: {about}95 % intervals, each by itself"
    lead = (
        f"<p>Run {_runs_of(page, found[0].draws[0])} was the first. Alone it would have been"
        " the answer. Its intervals are right for its nodes; they do not contain how much"
        " placements differ.</p>"
    )
    return section(
        "one-run",
        "One run beside the campaign",
        lead + table(heads, rows, caption=caption, rest=_REST),
    )


def _named(answer: Answer, *, alone: bool) -> str:
    sides = "" if alone else f"<br><span class=quiet>{text(sides_of(answer))}</span>"
    return f"{text(wording.subject(answer))}{sides}"


def _with_interval(value: float | None, ends: Ends | None) -> str:
    return f"{text(change(value))}<br><span class=quiet>{text(changes(ends))}</span>"
