"""The figures of a test: from its trials and raw values to a chart, its words and its data."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from rackrate import conclusion
from rackrate.report.charts import canvas, dots, ecdf, heatmap, series
from rackrate.report.figure import figure, pair_of, raw_link, rows_of
from rackrate.report.markup import NOTHING, cell, count, listed, number, quantity, text
from rackrate.report.material import Json, Material, pairs
from rackrate.report.units import si


def trials_figure(material: Material, test: str, metric: str, unit: str, *, name: str) -> str:
    """Every trial over its block with each arm's distribution; failed ones apart."""
    found = material.values(test, metric)
    if not found:
        return "<p>No trial was measured.</p>"
    failed = material.failed(test)
    shown = dots.Trials(
        arms=len(material.arms),
        unit=unit,
        label=metric,
        dots=tuple(_dot(material, trial, value, unit) for trial, value in found),
        losses=tuple(
            dots.Loss(
                material.arm_number(trial["arm"]),
                trial["block"],
                f"{_where(trial)}: failed, {trial.get('reason')}",
            )
            for trial in failed
        ),
        ceilings=tuple(_ceilings(material, test, metric).items()),
        reference=_reference(material, test, metric, found),
    )
    arms = [arm for arm in material.arms if any(t["arm"] == arm for t, _ in found)]
    lost = {trial["arm"] for trial in failed}
    said = [_spread_of(material, arm, found, unit) for arm in arms]
    title = f"{subject(test, metric)}: every trial, by block."
    words = f"{'; '.join(said)}."
    notes = " ".join(_how_to_read_trials(shown, len(failed)))
    chart = dots.trials_chart(
        shown,
        name=name,
        title=title,
        description=f"{words} {notes}",
        vectors=_vectors(material),
    )
    return figure(
        "trials",
        name,
        chart,
        title=title,
        text=words,
        notes=notes,
        material=material,
        # Of an arm that lost every trial there are crosses all the same.
        legend=[arm for arm in material.arms if arm in arms or arm in lost],
        data=_trials_data(material, test, metric, unit, found, failed),
    )


def subject(test: str, metric: str) -> str:
    """The test and the metric, once where they have one name."""
    return conclusion.subject({"test": test, "metric": metric})


def _vectors(material: Material) -> int:
    """How many dots of one figure are drawn one by one."""
    share = material.detail.vectors // max(1, len(material.metrics))
    return min(canvas.MOST_VECTORS, share)


def _where(trial: Json) -> str:
    return f"{trial['arm']}, block {trial['block']}, {trial['client']} to {trial['server']}"


def _dot(material: Material, trial: Json, value: float, unit: str) -> dots.Dot:
    marks = material.marks_of(trial)
    said = [f"{_where(trial)}: {si(value, unit)}", *(m["text"] or m["mark"] for m in marks)]
    arm = material.arm_number(trial["arm"])
    return dots.Dot(arm, trial["block"], value, "; ".join(said), bool(marks))


def _ceilings(material: Material, test: str, metric: str) -> dict[int, float]:
    """The documented limit of each arm, from the verdicts."""
    found: dict[int, float] = {}
    for verdict in material.results["verdicts"]:
        bound = verdict["ceiling"] or {}
        if (verdict["test"], verdict["metric"]) == (test, metric):
            for side in ("arm", "baseline"):
                if bound.get(side) is not None and verdict[side] in material.arms:
                    found[material.arm_number(verdict[side])] = bound[side]
    return found


def _reference(
    material: Material, test: str, metric: str, found: Sequence[tuple[Json, float]]
) -> tuple[float, float] | None:
    """The baseline's median, and the share of it that does not matter; None of several."""
    about = [
        (v["baseline"], v["threshold"])
        for v in material.results["verdicts"]
        if (v["test"], v["metric"]) == (test, metric)
    ]
    if len(set(about)) != 1 or about[0][1] is None:
        return None
    values = [value for trial, value in found if trial["arm"] == about[0][0]]
    if not values or statistics.median(values) <= 0:
        return None
    return statistics.median(values), about[0][1]


def _spread_of(material: Material, arm: str, found: Sequence[tuple[Json, float]], unit: str) -> str:
    """An arm's trials in words."""
    values = [value for trial, value in found if trial["arm"] == arm]
    middle = f"{arm}: median {si(statistics.median(values), unit)}"
    if len(values) == 1:
        return f"{middle} of 1 trial"
    return f"{middle} of {len(values)} trials, {si(min(values), unit)} to {si(max(values), unit)}"


def _how_to_read_trials(shown: dots.Trials, failed: int) -> list[str]:
    said = []
    marked = sum(dot.marked for dot in shown.dots)
    if marked:
        said.append(f"Hollow: {count(marked, 'marked trial')}.")
    if failed:
        said.append(f"Crosses above: {count(failed, 'trial')} that failed and had no value.")
    if shown.limits():
        said.append("Dashed: the limit EC2 documents.")
    far = {limit for arm, limit in shown.ceilings if arm not in shown.limits()}
    if far:
        limits = listed([si(limit, shown.unit) for limit in sorted(far)])
        said.append(f"Out of the picture: the documented limit of {limits}.")
    if shown.reference:
        said.append(
            f"The band: less than {100 * shown.reference[1]:.3g} % from the baseline's median,"
            " which does not matter."
        )
    said.append("Right: median, quartiles and range.")
    if note := shown.axis.note():
        said.append(note)
    return said


def _trials_data(
    material: Material,
    test: str,
    metric: str,
    unit: str,
    found: Sequence[tuple[Json, float]],
    failed: Sequence[Json],
) -> str:
    measured = (
        (trial, quantity(value, unit), "; ".join(m["mark"] for m in material.marks_of(trial)))
        for trial, value in found
    )
    lost = ((trial, NOTHING, f"failed: {trial.get('reason')}") for trial in failed)
    rows = (
        [
            number(text(trial["block"])),
            cell(text(trial["arm"])),
            cell(pair_of(trial)),
            number(value),
            cell(text(note)),
            cell(raw_link(material, trial)),
        ]
        for trial, value, note in (*lost, *measured)
    )
    heads = ("block", "arm", "client → server", metric, "note", "output")
    return rows_of(heads, rows, f"Trials of {subject(test, metric)}", material)


def latency_figures(material: Material, test: str, *, name: str) -> list[str]:
    """An ECDF for each kind of raw values that the test has."""
    units = {metric: unit for of, metric, unit in material.metrics if of == test}
    return [
        _latency_figure(material, test, kind, units.get(kind, "s"), by_arm, f"{name}-{index}")
        for index, (kind, by_arm) in enumerate(material.samples(test).items())
    ]


def _latency_figure(
    material: Material,
    test: str,
    kind: str,
    unit: str,
    by_arm: Mapping[str, Sequence[float]],
    name: str,
) -> str:
    curves = {arm: ecdf.Curve(material.arm_number(arm), tuple(by_arm[arm])) for arm in by_arm}
    title = f"{subject(test, kind)}: raw values, all trials of an arm together."
    said = [
        f"{arm}: {', '.join(f'{p} {si(curve.at(share), unit)}' for p, share in curve.marked)}"
        f" of {len(curve.values)} values"
        for arm, curve in curves.items()
    ]
    words = f"{'; '.join(said)}."
    notes = " ".join(_about_tails(curves.values(), unit))
    chart = ecdf.ecdf_chart(
        list(curves.values()),
        unit,
        kind,
        name=name,
        title=title,
        description=f"{words} {notes}".strip(),
    )
    return figure(
        "ecdf",
        name,
        chart,
        title=title,
        text=words,
        notes=notes,
        material=material,
        legend=list(curves),
        data=_percentiles_data(material, f"{subject(test, kind)}", unit, curves),
    )


def _about_tails(curves: Iterable[ecdf.Curve], unit: str) -> list[str]:
    found = list(curves)
    said = []
    few = [curve for curve in found if len(curve.values) < ecdf.LEAST_FOR_P99]
    doubtful = [
        curve for curve in found if ecdf.LEAST_FOR_P99 <= len(curve.values) < ecdf.GOOD_FOR_P99
    ]
    if few:
        said.append(f"A p99 needs {ecdf.LEAST_FOR_P99} values at the very least.")
    if doubtful:
        said.append("A hollow p99 is uncertain: fewer than ten values lie beyond it.")
    if note := ecdf.curves_axis(found, unit).note():
        said.append(note)
    return said


_SHARES = (0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)


def _percentiles_data(
    material: Material, what: str, unit: str, curves: Mapping[str, ecdf.Curve]
) -> str:
    rows = (
        [
            cell(text(arm)),
            number(text(len(curve.values))),
            *(
                number(
                    quantity(curve.at(share), unit)
                    if min(share, 1 - share) * len(curve.values) >= 1 - 1e-9
                    else NOTHING
                )
                for share in _SHARES
            ),
            number(quantity(curve.values[-1], unit)),
        ]
        for arm, curve in curves.items()
    )
    heads = ("arm", "values", *(f"p{100 * share:g}" for share in _SHARES), "most")
    return rows_of(heads, rows, f"Percentiles of the raw values of {what}", material)


def course_figure(material: Material, test: str, *, name: str) -> str:
    """The course of a test's trials as small multiples, or nothing when none is kept."""
    found = material.series(test)
    if not found:
        return ""
    courses = [_course(material, trial, intervals) for trial, intervals in found]
    chosen = series.choose(courses)
    title = f"{test}: the rate within each trial."
    words, notes = _courses_in_words(material, courses), _about_choice(chosen)
    arms = [arm for arm in material.arms if any(trial["arm"] == arm for trial, _ in found)]
    chart = series.series_chart(chosen, name=name, title=title, description=f"{words} {notes}")
    return figure(
        "series",
        name,
        chart,
        title=title,
        text=words,
        notes=notes,
        material=material,
        legend=arms,
        data=_courses_data(material, test, found),
    )


def _course(material: Material, trial: Json, intervals: Sequence[Json]) -> series.Course:
    return series.Course(
        material.arm_number(trial["arm"]),
        trial["block"],
        tuple(float(each["start_seconds"]) for each in intervals),
        tuple(float(each["end_seconds"]) for each in intervals),
        tuple(float(each["bits_per_second"]) for each in intervals),
    )


def _courses_in_words(material: Material, courses: Sequence[series.Course]) -> str:
    said = []
    for arm in material.arms:
        rates = [
            rate for each in courses if each.arm == material.arm_number(arm) for rate in each.rates
        ]
        if rates:
            least, most = si(min(rates), "bit/s"), si(max(rates), "bit/s")
            said.append(f"{arm}: {least} to {most}")
    return f"Intervals of {'; '.join(said)}."


def _about_choice(chosen: series.Chosen) -> str:
    """Which courses are drawn, and how many are not."""
    said = "A panel for each block, all to one scale."
    if chosen.blocks > len(chosen.panels):
        said = (
            f"{len(chosen.panels)} of {chosen.blocks} blocks, evenly spread from the first to the"
            " last, all to one scale; the others are not shown."
        )
    if chosen.shown < sum(chosen.in_panels):
        said += (
            f" Of their {sum(chosen.in_panels)} trials {chosen.shown} are drawn: of each arm and"
            " block the slowest, the fastest and evenly spread ones between."
        )
    return said


_MOST_INTERVALS = 30


def _courses_data(
    material: Material, test: str, found: Sequence[tuple[Json, Sequence[Json]]]
) -> str:
    rows = (
        [
            number(text(trial["block"])),
            cell(text(trial["arm"])),
            cell(pair_of(trial)),
            number(f"{float(intervals[-1]['end_seconds']):.3g} s"),
            f'<td class="listed">{escape(_listed_rates(intervals))}</td>',
            number(text(_retransmits(intervals))),
            cell(raw_link(material, trial)),
        ]
        for trial, intervals in found
    )
    heads = ("block", "arm", "client → server", "length", "rates", "retransmits", "output")
    return rows_of(heads, rows, f"Intervals of the trials of {test}", material)


def _listed_rates(intervals: Sequence[Json]) -> str:
    rates = [si(float(each["bits_per_second"]), "bit/s") for each in intervals]
    more = len(rates) - _MOST_INTERVALS
    return ", ".join(rates[:_MOST_INTERVALS]) + (f" and {more} more" if more > 0 else "")


def _retransmits(intervals: Sequence[Json]) -> int | None:
    told = [each["retransmits"] for each in intervals if each.get("retransmits") is not None]
    return sum(told) if told else None


def matrix_figures(
    material: Material, test: str, metric: str, unit: str, *, name: str
) -> list[str]:
    """A heat map of each arm that more than one pair of nodes was measured in, to one scale."""
    medians: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial, value in material.values(test, metric):
        medians[trial["arm"]][trial["client"], trial["server"]].append(value)
    found = {
        arm: {pair: statistics.median(values) for pair, values in medians[arm].items()}
        for arm in material.arms
        if arm in medians and len(pairs({"client": c, "server": s} for c, s in medians[arm])) > 1
    }
    if not found:
        return []
    everything = [value for by_pair in found.values() for value in by_pair.values()]
    shades = heatmap.Shades(min(everything), max(everything))
    return [
        _matrix_figure(material, arm, by_pair, shades, (test, metric, unit), f"{name}-{index}")
        for index, (arm, by_pair) in enumerate(found.items())
    ]


def _matrix_figure(
    material: Material,
    arm: str,
    medians: Mapping[tuple[str, str], float],
    shades: heatmap.Shades,
    what: tuple[str, str, str],
    name: str,
) -> str:
    test, metric, unit = what
    nodes = _nodes_in_order(material, arm, medians)
    places = {node: place for place, node in enumerate(nodes)}
    matrix = heatmap.Matrix(
        tuple(nodes), {(places[c], places[s]): value for (c, s), value in medians.items()}, unit
    )
    title = f"{subject(test, metric)}, {arm}: node by node."
    possible = len(nodes) * (len(nodes) - 1)
    ordered = sorted(medians.items(), key=lambda entry: entry[1])
    low, high = ordered[0], ordered[-1]
    words = (
        f"Medians of {len(medians)} of the {possible} ways between {len(nodes)} nodes, from"
        f" {si(low[1], unit)} ({low[0][0]} to {low[0][1]}) to {si(high[1], unit)} ({high[0][0]} to"
        f" {high[0][1]})."
    )
    notes = "All arms have one scale. Hatched: not measured, which is not zero."
    chart = heatmap.heatmap_chart(
        matrix, shades, name=name, title=title, description=f"{words} {notes}"
    )
    rows = (
        [cell(text(client)), cell(text(server)), number(quantity(value, unit))]
        for (client, server), value in ordered
    )
    data = rows_of(("client", "server", "median"), rows, f"{title} Least first", material)
    return figure(
        "matrix",
        name,
        chart,
        title=title,
        text=words,
        notes=notes,
        material=material,
        data=data,
        wide=width if (width := heatmap.width_of(len(nodes))) > canvas.WIDTH else None,
    )


def _nodes_in_order(
    material: Material, arm: str, medians: Mapping[tuple[str, str], float]
) -> list[str]:
    """The arm's nodes that were measured, those of one network node side by side."""
    measured = {node for pair in medians for node in pair}
    facts = {
        node["name"]: (tuple(node.get("network_layers") or ()), str(node.get("zone") or ""))
        for each in material.results["arms"]
        if each["name"] == arm
        for node in each["node_facts"]
    }
    return sorted(measured, key=lambda node: (*facts.get(node, ((), "")), _natural(node)))


def _natural(name: str) -> list[tuple[int, str]]:
    """A name so that its numbers are in order: node-9 before node-10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]
