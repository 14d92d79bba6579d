"""The results of a sweep: a table and a figure for each metric, over the swept values."""

from __future__ import annotations

from functools import partial

from rackrate.report import comparisons
from rackrate.report.campaign_material import MOST_FIGURES, CampaignMaterial, SweptMetric
from rackrate.report.charts import tiers
from rackrate.report.frame import figure, key
from rackrate.report.markup import cell, number, row_head, section, table, text
from rackrate.report.values import by_column
from rackrate.results.campaign import SweepCell
from rackrate_text.units import UNKNOWN, change, changes, metric_column, percent, quantity
from rackrate_text.words import capitalized, counted, metric_words

_REST = "campaign.json lists"


def sweep_section(page: CampaignMaterial) -> str:
    """The table and the figure of each metric; empty for a campaign that is no sweep."""
    if not page.metrics:
        return ""
    content = "".join(
        f'<div class="verdict"><h3>{text(metric.subject)}</h3>{_table(metric)}'
        f'<div class="figures">{_figure(metric)}{_reasons(metric)}</div></div>'
        for metric in page.metrics
    )
    about = (
        '<p class="quiet">A mean is the geometric mean of its runs\' medians. Its ratio is to the'
        " first value of the sweep, in the same arm. Steps are not measured at the same time, so"
        " whatever else changed between them is part of the ratio.</p>"
    )
    return section("sweep", "The sweep", content + about)


def _table(metric: SweptMetric) -> str:
    cells = metric.cells
    columns = [_columns(metric, each) for each in cells]
    # Leave out columns without any value.
    heads = [head for head in columns[0] if any(row[head] != UNKNOWN for row in columns)]
    rows = []
    for each, row in zip(cells, columns, strict=True):
        name = row_head(text(each.value))
        rows.append([name, *(number(row[head]) for head in heads)])
    caption = f"{metric.subject}: {counted(len(metric.values), 'value')} of the sweep, by arm"
    return table((_swept(metric), *heads), rows, caption=caption, rest=_REST)


def _swept(metric: SweptMetric) -> str:
    """The name of what is swept."""
    return metric.page.results.campaign.swept or "value"


def _columns(metric: SweptMetric, each: SweepCell) -> dict[str, str]:
    """The figures of a cell by column; a dash for unknown values."""
    word = comparisons.word(each.verdict) if each.verdict else UNKNOWN
    arm = f"{key(metric.page.arm_number(each.arm))} {text(each.arm)}"
    return {
        "arm": arm,
        "runs": text(each.runs),
        "mean": text(quantity(each.mean, each.unit)),
        "share of nominal": text(percent(each.share_of_nominal)),
        "total": text(quantity(each.total, each.unit)),
        **_median_time(metric, each),
        _change_head(metric): text(_change(metric, each)),
        "95 % CI, adjusted": text(_ends(metric, each)),
        "verdict": word,
    }


def _median_time(metric: SweptMetric, each: SweepCell) -> dict[str, str]:
    """The median time of the same test, beside a rate that adds up over nodes."""
    if metric.times is None or not _adds_up(metric):
        return {}
    place = (each.value, each.arm)
    alike = (cell for cell in metric.times.cells if (cell.value, cell.arm) == place)
    mean = next((cell.mean for cell in alike), None)
    return {metric.times.metric: text(quantity(mean, metric.times.unit))}


def _change_head(metric: SweptMetric) -> str:
    """The name of the change: of what adds up over nodes, a mean's ratio is the efficiency."""
    return "efficiency per node" if _adds_up(metric) else "change against the first"


def _adds_up(metric: SweptMetric) -> bool:
    return any(each.total is not None for each in metric.cells)


def _change(metric: SweptMetric, each: SweepCell) -> str:
    return percent(each.ratio) if _adds_up(metric) else change(each.ratio)


def _ends(metric: SweptMetric, each: SweepCell) -> str:
    if each.shown_interval is None or not _adds_up(metric):
        return changes(each.shown_interval)
    low, high = map(percent, each.shown_interval)
    return f"{low} to {high}"


def _reasons(metric: SweptMetric) -> str:
    """Why cells have no verdict, each reason once with its cells."""
    found: dict[str, list[str]] = {}
    for each in metric.cells:
        if each.reason:
            found.setdefault(each.reason, []).append(f"{each.value}, {each.arm}")
    lines = (
        [cell(text("; ".join(where))), cell(text(f"{capitalized(reason.rstrip('.'))}."))]
        for reason, where in found.items()
    )
    if not found:
        return ""
    caption = f"{metric.subject}: what is not settled, and why"
    return f"<div>{table(('at', 'why'), lines, caption=caption, rest=_REST)}</div>"


def _figure(metric: SweptMetric) -> str:
    page = metric.page
    places = {value: place for place, value in enumerate(metric.values)}
    firsts = {each.arm: each.mean for each in metric.cells if each.value == metric.values[0]}
    found = []
    for each in metric.cells:
        if each.mean is None:
            continue
        first = firsts.get(each.arm)
        ends = (
            (each.shown_interval[0] * first, each.shown_interval[1] * first)
            if each.shown_interval is not None and first is not None
            else None
        )
        tip = f"{each.value}, {each.arm}: {quantity(each.mean, each.unit)}"
        place = places[each.value]
        found.append(tiers.Tier(page.arm_number(each.arm), place, each.mean, ends, tip))
    if not found:
        return "<p>No step has a value.</p>"
    if metric.number > MOST_FIGURES:
        return "<p>Its figure is left out: the page would be too large. The table has it.</p>"
    nominals = {
        each.mean / each.share_of_nominal
        for each in metric.cells
        if each.mean and each.share_of_nominal
    }
    shown = tiers.Tiers(
        names=tuple(str(value) for value in metric.values),
        swept=_swept(metric),
        label=metric_words(metric.metric),
        unit=metric.unit,
        tiers=tuple(found),
        nominal=max(nominals, default=None),
    )
    return figure(
        "sweep",
        f"sweep-{metric.number}",
        partial(tiers.tiers_chart, shown),
        title=f"{metric.subject}: value by value.",
        text=f"{'; '.join(_course(metric, arm) for arm in metric.arms)}.",
        notes=" ".join(_how_to_read(shown)),
        page=page,
        legend=metric.arms,
        columns=by_column(
            {
                _swept(metric): each.value,
                "arm": each.arm,
                "runs": each.runs,
                metric_column(f"{metric.metric}_mean", each.unit): each.mean,
                "ratio": each.ratio,
                "ci_simultaneous_low": (each.shown_interval or (None, None))[0],
                "ci_simultaneous_high": (each.shown_interval or (None, None))[1],
                "verdict": each.verdict,
                "share_of_nominal": each.share_of_nominal,
            }
            for each in metric.cells
        ),
    )


def _course(metric: SweptMetric, arm: str) -> str:
    said = [
        f"{quantity(each.mean, each.unit)} at {each.value}"
        for each in metric.cells
        if each.arm == arm and each.mean is not None
    ]
    return f"{arm}: {', '.join(said) if said else 'nothing measured'}"


def _how_to_read(shown: tiers.Tiers) -> list[str]:
    said = []
    if any(tier.ends for tier in shown.tiers):
        said.append(
            "Lines through dots: the adjusted 95 % interval of the ratio to the first value, as"
            " multiples of its mean."
        )
    if shown.limit is not None:
        said.append("Dashed: the documented peak bandwidth of the instance type.")
    if note := shown.axis.note():
        said.append(note)
    return said
