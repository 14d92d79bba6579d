"""The results of a sweep: a table and a figure for each metric, over the swept values."""

from __future__ import annotations

from collections.abc import Mapping

from rackrate.report.campaign_material import MOST_FIGURES, REST, CampaignMaterial, SweptMetric
from rackrate.report.charts import tiers
from rackrate.report.frame import Figure
from rackrate.report.rendering import Part
from rackrate.report.tables import Cell, Table, head, number, without_unknown
from rackrate.report.values import by_column
from rackrate_contract.campaign import SweepCell
from rackrate_text.units import change, changes, metric_column, percent, quantity
from rackrate_text.words import counted, metric_words, names_by_reason, sentence


def sweep_section(page: CampaignMaterial) -> Part | None:
    """The table and the figure of each metric; None for a campaign that is no sweep."""
    if not page.metrics:
        return None
    return Part("sweep", "The sweep", metrics=[_metric(metric) for metric in page.metrics])


def _metric(metric: SweptMetric) -> Mapping[str, object]:
    """What the template shows of a metric."""
    values = counted(len(metric.values), "value")
    return {
        "subject": metric.subject,
        "table": Table(
            f"{metric.subject}: {values} of the sweep, by arm",
            without_unknown(_columns(metric, each) for each in metric.cells),
            rest=REST,
        ),
        "figure": _figure(metric),
        "reasons": _reasons(metric),
    }


def _swept(metric: SweptMetric) -> str:
    """The name of what is swept."""
    return metric.page.results.campaign.swept or "value"


def _columns(metric: SweptMetric, each: SweepCell) -> Mapping[str, object]:
    """The figures of a cell by column; None or a dash for unknown values."""
    return {
        _swept(metric): head(each.value),
        "arm": Cell(each.arm, "number", arm=metric.page.arm_number(each.arm)),
        "runs": number(each.runs),
        "mean": number(quantity(each.mean, each.unit)),
        "share of nominal": number(percent(each.share_of_nominal)),
        "total": number(quantity(each.total, each.unit)),
        **_median_time(metric, each),
        _change_head(metric): number(_change(metric, each)),
        "95 % CI, adjusted": number(_ends(metric, each)),
        "verdict": Cell(each.verdict, "number", is_verdict=each.verdict is not None),
    }


def _median_time(metric: SweptMetric, each: SweepCell) -> Mapping[str, object]:
    """The median time of the same test, beside a rate that adds up over nodes."""
    if metric.times is None or not _adds_up(metric):
        return {}
    place = (each.value, each.arm)
    alike = (cell for cell in metric.times.cells if (cell.value, cell.arm) == place)
    mean = next((cell.mean for cell in alike), None)
    return {metric.times.metric: number(quantity(mean, metric.times.unit))}


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


def _reasons(metric: SweptMetric) -> Table:
    """Where cells have no verdict, and why: each reason once."""
    by_reason = names_by_reason((f"{each.value}, {each.arm}", each.reason) for each in metric.cells)
    rows = [{"at": "; ".join(where), "why": sentence(why)} for why, where in by_reason.items()]
    return Table(f"{metric.subject}: what is not settled, and why", rows, rest=REST)


def _figure(metric: SweptMetric) -> Figure | str:
    page = metric.page
    places = {value: place for place, value in enumerate(metric.values)}
    firsts = {each.arm: each.mean for each in metric.cells if each.value == metric.values[0]}
    measured = []
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
        measured.append(tiers.Tier(page.arm_number(each.arm), place, each.mean, ends, tip))
    if not measured:
        return "No step has a value."
    if metric.number > MOST_FIGURES:
        return "Its figure is left out: the page would be too large. The table has it."
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
        tiers=tuple(measured),
        nominal=max(nominals, default=None),
    )
    return Figure(
        "sweep",
        f"sweep-{metric.number}",
        tiers.tiers_chart(shown),
        title=f"{metric.subject}: value by value.",
        text=f"{'; '.join(_course(metric, arm) for arm in metric.arms)}.",
        notes=" ".join(_how_to_read(shown)),
        page=page,
        arms=metric.arms,
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
    values = [
        f"{quantity(each.mean, each.unit)} at {each.value}"
        for each in metric.cells
        if each.arm == arm and each.mean is not None
    ]
    return f"{arm}: {', '.join(values) if values else 'nothing measured'}"


def _how_to_read(shown: tiers.Tiers) -> list[str]:
    hints = []
    if any(tier.ends for tier in shown.tiers):
        hints.append(
            "Lines through dots: the adjusted 95 % interval of the ratio to the first value, as"
            " multiples of its mean."
        )
    if shown.limit is not None:
        hints.append("Dashed: the documented peak bandwidth of the instance type.")
    if note := shown.axis.note():
        hints.append(note)
    return hints
