"""The figures of a test: from its trials and raw values to charts with captions and data tables."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rackrate.measure.trials import Trial
from rackrate.report.charts import canvas, dots, ecdf, heatmap, series
from rackrate.report.frame import Figure
from rackrate.report.material import Material, MetricMaterial, TestMaterial, pair_of
from rackrate.report.tables import Cell, Table, number
from rackrate.report.values import Columns, Value, by_column
from rackrate.tools.base import Interval
from rackrate_contract.verdicts import Ends
from rackrate_text.units import UNKNOWN, duration, metric_column, percent, quantity
from rackrate_text.words import counted, listed, metric_of_test, metric_words

#: The medians of an arm by client and server.
Medians = Mapping[tuple[str, str], float]


def trials_figure(metric: MetricMaterial) -> Figure | str:
    """The figure of every trial over its block, with failed trials and each arm's distribution."""
    if not metric.values:
        return "No trial was measured."
    page, failed, by_arm = metric.page, metric.test.failed, _values_by_arm(metric)
    shown = dots.Trials(
        arms=len(page.arms),
        unit=metric.unit,
        label=metric_words(metric.name),
        dots=tuple(_dot(metric, trial, value) for trial, value in metric.values),
        losses=tuple(
            dots.Loss(
                page.arm_number(trial.arm),
                trial.block,
                f"{_where(page, trial)}: failed, {trial.reason}",
            )
            for trial in failed
        ),
        ceilings=tuple(_ceilings(metric).items()),
        reference=_reference(metric, by_arm),
    )
    lost = {trial.arm for trial in failed}
    return Figure(
        "trials",
        f"trials-{metric.id}",
        dots.trials_chart(shown, vectors=_vectors(page)),
        title=f"{metric.subject}: every trial, by block.",
        text=f"{'; '.join(_spread(page, arm, by_arm[arm], metric.unit) for arm in by_arm)}.",
        notes=" ".join(_how_to_read_trials(shown, len(failed))),
        page=page,
        # An arm that lost every trial still has crosses in the chart.
        arms=[arm for arm in page.arms if arm in by_arm or arm in lost],
        data=_trials_data(metric),
        columns=_trials_columns(metric, shown.limits()),
    )


def _trials_columns(metric: MetricMaterial, limits: Mapping[int, float]) -> Columns:
    """The trials as in trials.csv, with their arms' limits; nothing if they are too many."""
    page, failed = metric.page, metric.test.failed
    if len(metric.values) + len(failed) > page.detail.values:
        return {}
    name, limit = (metric_column(each, metric.unit) for each in (metric.name, "limit"))
    return by_column(
        {
            "block": trial.block,
            "arm": trial.arm,
            "client": trial.client_name,
            "server": trial.server_name,
            "status": trial.status,
            "reason": trial.reason,
            "marks": " ".join(mark.mark for mark in page.marks_of(trial)) or None,
            name: value,
            **({limit: limits.get(page.arm_number(trial.arm))} if limits else {}),
        }
        for trial, value in (*metric.values, *((trial, None) for trial in failed))
    )


def _values_by_arm(metric: MetricMaterial) -> dict[str, list[float]]:
    """The values by arm, for arms with values."""
    by_arm = {
        arm: [value for trial, value in metric.values if trial.arm == arm]
        for arm in metric.page.arms
    }
    return {arm: values for arm, values in by_arm.items() if values}


def _vectors(page: Material) -> int:
    """The most dots that a figure draws as vectors."""
    return min(canvas.MOST_VECTORS, page.detail.vectors // len(page.results.metrics))


def _where(page: Material, trial: Trial) -> str:
    return f"{page.arm_title(trial.arm)}, block {trial.block}, {pair_of(trial)}"


def _dot(metric: MetricMaterial, trial: Trial, value: float) -> dots.Dot:
    marks = metric.page.marks_of(trial)
    parts = [
        f"{_where(metric.page, trial)}: {quantity(value, metric.unit)}",
        *(mark.text for mark in marks),
    ]
    arm = metric.page.arm_number(trial.arm)
    return dots.Dot(arm, trial.block, value, "; ".join(parts), bool(marks))


def _ceilings(metric: MetricMaterial) -> dict[int, float]:
    """The documented limit of each arm, from the verdicts."""
    ceilings: dict[int, float] = {}
    for verdict in metric.verdicts:
        if (ceiling := verdict.ceiling) is not None:
            ceilings[metric.page.arm_number(verdict.arm)] = ceiling.arm
            ceilings[metric.page.baseline_number(verdict.baseline)] = ceiling.baseline
    return ceilings


def _reference(
    metric: MetricMaterial, by_arm: Mapping[str, Sequence[float]]
) -> tuple[float, float] | None:
    """The baseline's median and the threshold; None if there are several baselines."""
    about = {(verdict.baseline.name, verdict.threshold) for verdict in metric.verdicts}
    if len(about) != 1:
        return None
    baseline, threshold = about.pop()
    values = by_arm.get(baseline)
    if not values or statistics.median(values) <= 0:
        return None
    return statistics.median(values), threshold


def _spread(page: Material, arm: str, values: Sequence[float], unit: str) -> str:
    """A sentence on an arm's trials."""
    middle = f"{page.arm_title(arm)}: median {quantity(statistics.median(values), unit)}"
    if len(values) == 1:
        return f"{middle} of 1 trial"
    least, most = quantity(min(values), unit), quantity(max(values), unit)
    return f"{middle} of {len(values)} trials, {least} to {most}"


def _how_to_read_trials(shown: dots.Trials, failed: int) -> list[str]:
    hints = []
    marked = sum(dot.marked for dot in shown.dots)
    if marked:
        hints.append(f"Hollow: {counted(marked, 'marked trial')}.")
    if failed:
        hints.append(f"Crosses above: {counted(failed, 'trial')} that failed and had no value.")
    if shown.limits():
        hints.append("Dashed: the limit EC2 documents.")
    far = {limit for arm, limit in shown.ceilings if arm not in shown.limits()}
    if far:
        limits = listed([quantity(limit, shown.unit) for limit in sorted(far)])
        hints.append(f"Out of the picture: the documented limit of {limits}.")
    if shown.reference:
        hints.append(
            f"The band: less than {percent(shown.reference[1])} from the baseline's median,"
            " which does not matter."
        )
    hints.append("Right: median, quartiles and range.")
    if note := shown.axis.note():
        hints.append(note)
    return hints


def _trials_data(metric: MetricMaterial) -> Table:
    page, label = metric.page, metric_words(metric.name)
    lost = ((trial, UNKNOWN, f"failed: {trial.reason}") for trial in metric.test.failed)
    measured = (
        (
            trial,
            quantity(value, metric.unit),
            "; ".join(mark.mark for mark in page.marks_of(trial)) or UNKNOWN,
        )
        for trial, value in metric.values
    )
    return _data(
        page,
        f"Trials of {metric.subject}",
        (
            {
                "block": number(trial.block),
                "arm": page.arm_title(trial.arm),
                "client → server": pair_of(trial),
                label: number(value),
                "note": note,
                "output": page.raw_link(trial),
            }
            for trial, value, note in (*lost, *measured)
        ),
    )


def _data(page: Material, caption: str, rows: Iterable[Mapping[str, object]]) -> Table:
    """A figure's data as a table, limited to the page's number of rows."""
    return Table(caption, [*rows], page.detail.rows, "trials.csv has")


def latency_figures(test: TestMaterial) -> list[Figure]:
    """A figure with an ECDF for each kind of raw values of the test."""
    return [_latency_figure(test, index, kind) for index, kind in enumerate(test.samples)]


def _latency_figure(test: TestMaterial, index: int, kind: str) -> Figure:
    unit = test.unit_of(kind)
    curves = {
        arm: ecdf.Curve(test.page.arm_number(arm), values, _p99(test, kind, arm))
        for arm, values in test.samples[kind].items()
    }
    subject = metric_of_test(test.name, kind)
    parts = [
        f"{test.page.arm_title(arm)}: "
        f"{', '.join(f'{p} {quantity(curve.at(share), unit)}' for p, share in curve.marked)}"
        f" of {len(curve.values)} values"
        for arm, curve in curves.items()
    ]
    return Figure(
        "ecdf",
        f"ecdf-{test.number}-{index}",
        ecdf.ecdf_chart(list(curves.values()), unit, kind),
        title=f"{subject}: raw values, all trials of an arm together.",
        text=f"{'; '.join(parts)}.",
        notes=" ".join(_about_tails(curves.values(), unit)),
        page=test.page,
        arms=list(curves),
        data=_percentiles_data(test.page, subject, unit, curves),
        columns=by_column(
            row
            for arm, curve in curves.items()
            for row in _curve_rows(arm, curve, metric_column(kind, unit))
        ),
    )


def _curve_rows(arm: str, curve: ecdf.Curve, name: str) -> Iterable[Mapping[str, Value]]:
    """The drawn points: a raw value, its rank among all of the arm; then the marked percentiles."""
    facts: Mapping[str, Value] = {"arm": arm, "values": len(curve.values)}
    ends = f"{name}_ci95_low", f"{name}_ci95_high"
    for value, rank in curve.steps():
        yield {**facts, "point": "raw value", "rank": rank, name: value, **dict.fromkeys(ends)}
    for percentile, share in curve.marked:
        low, high = curve.p99 if share > 0.5 and curve.p99 else (None, None)
        values: Mapping[str, Value] = {name: curve.at(share), ends[0]: low, ends[1]: high}
        yield {**facts, "point": percentile, "rank": None, **values}


def _p99(test: TestMaterial, kind: str, arm: str) -> Ends | None:
    """The interval of an arm's p99, if its blocks have enough values for one."""
    of_kind = {metric.name for metric in test.test.metrics if metric.samples == kind}
    matching = (s for s in test.summaries if s.arm == arm and s.metric in of_kind)
    summary = next(matching, None)
    pooled = None if summary is None else summary.percentiles
    return None if pooled is None else pooled.intervals.get("p99")


def _about_tails(curves: Iterable[ecdf.Curve], unit: str) -> list[str]:
    shown = list(curves)
    hints = []
    if any(curve.p99 is None for curve in shown):
        hints.append(
            "A p99 is marked if each block has 100 values or more, which give an interval."
        )
    if any(curve.p99 for curve in shown):
        hints.append("The line through a p99 is its 95 % interval, from the blocks.")
    if note := ecdf.curves_axis(shown, unit).note():
        hints.append(note)
    return hints


_SHARES = (0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)


def _percentiles_data(
    page: Material, subject: str, unit: str, curves: Mapping[str, ecdf.Curve]
) -> Table:
    rows = (
        {
            "arm": page.arm_title(arm),
            "values": number(len(curve.values)),
            **{
                f"p{100 * share:g}": number(
                    quantity(curve.at(share), unit)
                    if min(share, 1 - share) * len(curve.values) >= 1 - 1e-9
                    else UNKNOWN
                )
                for share in _SHARES
            },
            "most": number(quantity(curve.values[-1], unit)),
        }
        for arm, curve in curves.items()
    )
    return _data(page, f"Percentiles of the raw values of {subject}", rows)


def course_figures(test: TestMaterial) -> Iterable[Figure]:
    """The figure of the trials' rates over time, if a series is stored."""
    if not test.series:
        return
    page = test.page
    courses = [_course(page, trial, intervals) for trial, intervals in test.series]
    chosen = series.choose(courses)
    drawn = {id(course) for _, in_panel in chosen.panels for course in in_panel}
    arms = {trial.arm for trial, _ in test.series}
    yield Figure(
        "series",
        f"series-{test.number}",
        series.series_chart(chosen),
        title=f"{test.name}: the rate within each trial.",
        text=_courses_in_words(page, courses),
        notes=_about_choice(chosen),
        page=page,
        arms=[arm for arm in page.arms if arm in arms],
        data=_courses_data(test),
        columns=by_column(
            {
                "block": trial.block,
                "arm": trial.arm,
                "client": trial.client_name,
                "server": trial.server_name,
                "start_seconds": each.start_seconds,
                "end_seconds": each.end_seconds,
                "rate_bits_per_second": each.bits_per_second,
                "retransmits": each.retransmits,
            }
            for (trial, intervals), course in zip(test.series, courses, strict=True)
            if id(course) in drawn
            for each in intervals
        ),
    )


def _course(page: Material, trial: Trial, intervals: Sequence[Interval]) -> series.Course:
    return series.Course(
        page.arm_number(trial.arm),
        trial.block,
        tuple(each.start_seconds for each in intervals),
        tuple(each.end_seconds for each in intervals),
        tuple(each.bits_per_second for each in intervals),
    )


def _courses_in_words(page: Material, courses: Sequence[series.Course]) -> str:
    ranges = []
    for place, arm in enumerate(page.arms):
        rates = [rate for each in courses if each.arm == place for rate in each.rates]
        if rates:
            least, most = quantity(min(rates), "bit/s"), quantity(max(rates), "bit/s")
            ranges.append(f"{page.arm_title(arm)}: {least} to {most}")
    return f"Intervals of {'; '.join(ranges)}."


def _about_choice(chosen: series.Chosen) -> str:
    """A sentence on which courses are drawn, and how many are not."""
    text = "A panel for each block, all to one scale."
    if chosen.blocks > len(chosen.panels):
        text = (
            f"{len(chosen.panels)} of {chosen.blocks} blocks, evenly spread from the first to the"
            " last, all to one scale; the others are not shown."
        )
    if chosen.shown < sum(chosen.in_panels):
        text += (
            f" Of their {sum(chosen.in_panels)} trials {chosen.shown} are drawn: of each arm and"
            " block the slowest, the fastest and evenly spread ones between."
        )
    return text


_MOST_INTERVALS = 30


def _courses_data(test: TestMaterial) -> Table:
    rows = (
        {
            "block": number(trial.block),
            "arm": test.page.arm_title(trial.arm),
            "client → server": pair_of(trial),
            "length": number(duration(intervals[-1].end_seconds)),
            "rates": Cell(_listed_rates(intervals), "listed"),
            "retransmits": number(_retransmits(intervals)),
            "output": test.page.raw_link(trial),
        }
        for trial, intervals in test.series
    )
    return _data(test.page, f"Intervals of the trials of {test.name}", rows)


def _listed_rates(intervals: Sequence[Interval]) -> str:
    rates = [quantity(each.bits_per_second, "bit/s") for each in intervals]
    return listed(rates, most=_MOST_INTERVALS)


def _retransmits(intervals: Sequence[Interval]) -> int | None:
    counts = [each.retransmits for each in intervals if each.retransmits is not None]
    return sum(counts) if counts else None


def matrix_figures(metric: MetricMaterial) -> list[Figure]:
    """A heat map for each arm with more than one measured pair of nodes, all on one scale."""
    values: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial, value in metric.values:
        values[trial.arm][trial.client, trial.server].append(value)
    by_arm = {
        arm: {ends: statistics.median(measured) for ends, measured in values[arm].items()}
        for arm in (each.name for each in metric.page.results.arms if not each.endpoint)
        if len(set(map(frozenset, values[arm]))) > 1
    }
    if not by_arm:
        return []
    everything = [median for medians in by_arm.values() for median in medians.values()]
    shades = heatmap.Shades(min(everything), max(everything))
    return [
        _matrix_figure(metric, index, arm, medians, shades)
        for index, (arm, medians) in enumerate(by_arm.items())
    ]


def _matrix_figure(
    metric: MetricMaterial, index: int, arm: str, medians: Medians, shades: heatmap.Shades
) -> Figure:
    unit = metric.unit
    nodes = _nodes_in_order(metric.page, arm, medians)
    places = {node: place for place, node in enumerate(nodes)}
    best, worse = _marked_nodes(metric, arm)
    matrix = heatmap.Matrix(
        tuple(nodes),
        {(places[c], places[s]): value for (c, s), value in medians.items()},
        unit,
        *(tuple(places[node] for node in of if node in places) for of in (best, worse)),
    )
    notes = ["All arms have one scale. Hatched: not measured, which is not zero."]
    notes += ["\u25b2 beside a row: may be the best node in this test."] if best else []
    notes += ["\u25bc: worse than the rest."] if worse else []
    title = f"{metric.subject}, {metric.page.arm_title(arm)}: node by node."
    possible = len(nodes) * (len(nodes) - 1)
    ordered = sorted(medians.items(), key=lambda entry: entry[1])
    low, high = ordered[0], ordered[-1]
    words = (
        f"Medians of {len(medians)} of the {possible} ways between {len(nodes)} nodes, from"
        f" {quantity(low[1], unit)} ({low[0][0]} to {low[0][1]}) to {quantity(high[1], unit)}"
        f" ({high[0][0]} to {high[0][1]})."
    )
    rows = (
        {"client": client, "server": server, "median": number(quantity(value, unit))}
        for (client, server), value in ordered
    )
    median_name = metric_column(f"{metric.name}_median", unit)
    return Figure(
        "matrix",
        f"matrix-{metric.id}-{index}",
        heatmap.heatmap_chart(matrix, shades),
        title=title,
        text=words,
        notes=" ".join(notes),
        page=metric.page,
        data=_data(metric.page, f"{title} Least first", rows),
        columns=by_column(
            {"arm": arm, "client": client, "server": server, median_name: value}
            for (client, server), value in ordered
        )
        if len(ordered) <= metric.page.detail.values
        else {},
    )


def _marked_nodes(metric: MetricMaterial, arm: str) -> tuple[list[str], list[str]]:
    """The nodes that may be the best on a metric, unless all may be, and those that are worse."""
    figures = metric.page.node_figures.get((arm, metric.test.name, metric.name), {})
    best = [node for node, figure in figures.items() if figure.among_best == 1]
    worse = [node for node, figure in figures.items() if figure.is_worse]
    return best if len(best) < len(figures) else [], worse


def _nodes_in_order(page: Material, arm: str, medians: Medians) -> list[str]:
    """The arm's measured nodes, with those on the same EC2 network node side by side."""
    measured = {node for ends in medians for node in ends}
    nodes = [
        node
        for each in page.results.arms
        if each.name == arm
        for node in each.nodes
        if node.name in measured
    ]
    nodes.sort(key=lambda node: (node.network_layers or (), node.zone or "", _natural(node.name)))
    return [node.name for node in nodes]


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that orders numbers in names by value: node-9 before node-10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]
