"""report.html: one page that needs nothing but itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any

from rackrate.report.figures import Dot, colour, trials_figure
from rackrate.report.markup import (
    NOTHING,
    cell,
    folded,
    items,
    number,
    percent,
    quantity,
    table,
    text,
)
from rackrate.report.results import KEY
from rackrate.report.style import STYLE
from rackrate.report.verdicts import about_intervals, explained, verdict_table

Json = Mapping[str, Any]
Marks = Mapping[tuple[Any, ...], Sequence[str]]


#: What a page is drawn from when no raw values are kept.
NO_RAW: Mapping[str, Json] = MappingProxyType({})


def render_page(results: Json, trials: Sequence[Json], raw: Mapping[str, Json] = NO_RAW) -> str:
    """The page.

    Args:
        results: results.json, or a comparison.json.
        trials: the stored trials, for the figures.
        raw: for a trial's id what the store keeps of it: `samples`, by kind a list of values in SI
            units, and `series`, a list of intervals with `start_seconds`, `end_seconds` and
            `bits_per_second`. Empty when nothing is kept.
    """
    run = results["run"]
    marks: dict[tuple[Any, ...], list[str]] = {}
    for mark in results["marks"]:
        marks.setdefault(tuple(mark[name] for name in KEY), []).append(mark["text"] or mark["mark"])
    counted = [trial for trial in trials if not trial.get("warm_up")]
    sections = [
        _head(results),
        _failure(run),
        f'<p class="lead">{escape(results["conclusion"])}</p>',
        *(f'<p class="warning">{escape(warning)}</p>' for warning in results["warnings"]),
        _scale(run),
        "<h2>Verdicts</h2>",
        verdict_table(results["verdicts"]),
        about_intervals(results["verdicts"]),
        *(
            _test_section(results, test["name"], counted, marks)
            for test in results["plan"]["tests"]
        ),
        _regressions(results["regressions"]),
        "<h2>Marked trials</h2>",
        _marked(results),
        "<h2>Lost trials</h2>",
        _lost(results["trials"]),
        "<h2>Warm-up</h2>",
        _warm_up(results["warm_up"]),
        "<h2>Nodes</h2>",
        _node_table(results["arms"]),
        _counters(results["counters"]),
        "<h2>How this was computed</h2>",
        _method(results),
    ]
    title = f"rackrate: {escape(run['id'])}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>{''.join(sections)}</body></html>\n"
    )


def _head(results: Json) -> str:
    run, counts = results["run"], results["trials"]
    return (
        f"<h1>rackrate: {escape(run['id'])}</h1>"
        f'<p class="quiet">{escape(run["status"])} · started {escape(run["started_at"])} ·'
        f" {run['seconds']:.0f} s · {counts['measured']} of {counts['planned']} trials measured"
        f" · seed {run['seed']}</p>"
    )


def _failure(run: Json) -> str:
    if not run["error"]:
        return ""
    cause = escape(run["cause"] or "")
    return f'<p class="failed"><strong>{escape(run["error"])}</strong>\n{cause}</p>'


def _scale(run: Json) -> str:
    if run["lab_scale"] is None:
        return ""
    return (
        f'<p class="quiet">The network of these nodes is scaled by {run["lab_scale"]:g} on purpose;'
        " the documented limits below are scaled alike.</p>"
    )


def _test_section(results: Json, test: str, trials: Sequence[Json], marks: Marks) -> str:
    """Everything about a test: per metric the trials and the verdicts, then each arm's figures."""
    of_test = [t for t in trials if t["test"] == test and t["status"] == "measured"]
    metrics = {m["metric"]: m["unit"] for m in results["metrics"] if m["test"] == test}
    parts = [f"<h2>{escape(test)}</h2>"]
    for metric, unit in metrics.items():
        verdicts = [v for v in results["verdicts"] if (v["test"], v["metric"]) == (test, metric)]
        heading = f"{test}: {metric}" if len(metrics) > 1 else test
        parts.append(_trials(results, heading, metric, unit, of_test, verdicts, marks))
        parts += [explained(verdict) for verdict in verdicts]
    parts.append(_summaries([s for s in results["summaries"] if s["test"] == test]))
    return "".join(parts)


def _trials(
    results: Json,
    heading: str,
    metric: str,
    unit: str,
    trials: Sequence[Json],
    verdicts: Sequence[Json],
    marks: Marks,
) -> str:
    arms = [arm["name"] for arm in results["arms"]]
    dots: dict[str, list[Dot]] = {arm: [] for arm in arms}
    for trial in trials:
        values = trial.get("values") or {trial.get("metric"): trial.get("value")}
        value = values.get(metric)
        if value is not None and trial["arm"] in dots:
            noted = tuple(marks.get(tuple(trial[name] for name in KEY), ()))
            dots[trial["arm"]].append(Dot(trial["block"], value, noted))
    ceilings: dict[str, float] = {}
    for verdict in verdicts:
        bound = verdict["ceiling"] or {}
        for side, arm in (("arm", verdict["arm"]), ("baseline", verdict["baseline"])):
            if bound.get(side) is not None:
                ceilings[arm] = bound[side]
    figure = trials_figure(dots, unit=unit, ceilings=ceilings, title=f"{heading}: trials by block")
    keys = "".join(
        f'<span class="key {colour(i)}"></span>{escape(arm)}' for i, arm in enumerate(arms)
    )
    marked = any(dot.marks for arm in dots.values() for dot in arm)
    caption = (
        f"{escape(heading)}. Each dot is a trial, by block.{keys}."
        f"{' A diamond is a marked trial.' if marked else ''}"
        f"{' Dashed: the limit EC2 documents.' if ceilings else ''}"
    )
    return f"<figure>{figure}<figcaption>{caption}</figcaption></figure>"


def _summaries(summaries: Sequence[Json]) -> str:
    """Each arm by itself: percentiles, loss, and how much it scatters."""
    if not summaries:
        return ""
    note = ""
    if any(summary["percentiles"] for summary in summaries):
        note = (
            '<p class="quiet">The median is that of the trials; percentiles are of all raw values'
            " of the arm, pooled. A percentile says little where fewer than about ten raw values"
            " lie beyond it.</p>"
        )
    columns = [_summary_columns(summary) for summary in summaries]
    # A column of dashes alone tells nothing.
    heads = [head for head in columns[0] if any(row[head] != NOTHING for row in columns)]
    return table(heads, ([number(row[head]) for head in heads] for row in columns)) + note


def _summary_columns(summary: Json) -> dict[str, str]:
    """The arm's figures by column; a dash for what is not known."""
    percentiles = summary["percentiles"] or {}
    unit = summary["unit"]
    return {
        "metric": text(summary["metric"]),
        "arm": text(summary["arm"]),
        "median": quantity(summary["median"], unit),
        "trials": text(summary["trials"]),
        "blocks": text(summary["blocks"]),
        "pairs": text(summary["pairs"]),
        "p50": quantity(percentiles.get("p50"), unit),
        "p90": quantity(percentiles.get("p90"), unit),
        "p99": quantity(percentiles.get("p99"), unit),
        "p99.9": quantity(percentiles.get("p99_9"), unit),
        "raw values": text(percentiles.get("samples")),
        "loss": percent(summary["loss_ratio"]),
        "retransmits": text(summary["retransmits"]),
        "spread between blocks": percent(summary["spread_between_blocks"]),
        "between pairs": percent(summary["spread_between_pairs"]),
    }


def _regressions(verdicts: Sequence[Json]) -> str:
    if not verdicts:
        return ""
    return "".join(
        [
            "<h2>Compared with an earlier run</h2>",
            '<p class="quiet">Each arm now against the same arm then. The two runs were not'
            " measured at the same time, so whatever changed in between is part of the"
            " difference.</p>",
            verdict_table(verdicts),
            about_intervals(verdicts),
            *(explained(verdict) for verdict in verdicts),
        ]
    )


def _marked(results: Json) -> str:
    if not results["marks"]:
        return "<p>None.</p>"
    heads = ("block", "arm", "test", "pair", "mark", "what was seen")
    rows = (
        [
            number(text(mark["block"])),
            cell(text(mark["arm"])),
            cell(text(mark["test"])),
            cell(_pair(mark)),
            cell(text(mark["mark"])),
            cell(text(mark["text"])),
        ]
        for mark in results["marks"]
    )
    return (
        items(escape(note) for note in results["mark_notes"])
        + '<p class="quiet">A marked trial counts like any other; the mark says what to think of'
        " when reading it.</p>" + table(heads, rows)
    )


def _pair(trial: Json) -> str:
    return f"{text(trial['client'])} → {text(trial['server'])}"


def _lost(counts: Json) -> str:
    if not counts["failed"]:
        return "<p>None.</p>"
    rows = (
        [
            number(text(failure["block"])),
            cell(text(failure["arm"])),
            cell(text(failure["test"])),
            cell(_pair(failure)),
            cell(text(failure["reason"])),
        ]
        for failure in counts["failures"]
    )
    silent = counts["failed"] - len(counts["failures"])
    trials = "trial" if silent == 1 else "trials"
    note = f"<p>{silent} {trials} never ran.</p>" if silent > 0 else ""
    return table(("block", "arm", "test", "pair", "reason"), rows) + note


def _warm_up(warm_up: Json) -> str:
    trials = warm_up["trials"]
    if not trials:
        return "<p>There was none.</p>"
    rows = (
        [
            cell(text(trial["arm"])),
            cell(text(trial["test"])),
            cell(_pair(trial)),
            number(quantity(trial["value"], trial["unit"])),
            cell(text(trial["reason"] or trial["status"])),
        ]
        for trial in trials
    )
    failed = f", {warm_up['failed']} failed" if warm_up["failed"] else ""
    return (
        f"<p>{warm_up['measured']} measured{failed}. They are kept and left out of every verdict"
        " and every figure above.</p>"
        + folded("Warm-up trials", table(("arm", "test", "pair", "value", "outcome"), rows))
    )


def _setting(arm: Json) -> str:
    """What distinguishes the arm."""
    settings = [str(arm["placement"])]
    if arm["ena_express"]:
        settings.append("ENA Express")
    if arm["stack_arm"] != arm["name"]:
        settings.append(f"nodes of {arm['stack_arm']}")
    networks = (arm["client_network"], arm["server_network"])
    if networks != ("pod", "pod"):
        settings.append("network {} to {}".format(*networks))
    return ", ".join(settings)


def _node_table(arms: Sequence[Json]) -> str:
    facts = ("instance_type", "instance_id", "zone", "image", "kernel", "cpus")
    rows = (
        [
            cell(f"{text(arm['name'])} ({text(_setting(arm))})"),
            cell(text(node["name"])),
            *(cell(text(node.get(fact))) for fact in facts),
        ]
        for arm in arms
        for node in arm["node_facts"]
    )
    return table(("arm (placement)", "node", *(fact.replace("_", " ") for fact in facts)), rows)


def _counters(counters: Json | None) -> str:
    """What ENA counted during the run, where it counted anything."""
    if counters is None:
        return ""
    note = f"<p>{text(counters['note'])}</p>" if counters["note"] else ""
    rows = [
        [cell(text(node)), cell(text(interface)), cell(text(name)), number(text(increase))]
        for node, interfaces in counters["nodes"].items()
        for interface, increases in interfaces.items()
        for name, increase in increases.items()
        if increase != 0
    ]
    silent = "<p>Read before and after the run; none has risen.</p>" if counters["nodes"] else ""
    heads = ("node", "interface", "counter", "increase")
    return f"<h2>Counters of the interfaces</h2>{note}{table(heads, rows) if rows else silent}"


def _method(results: Json) -> str:
    values = "; ".join(
        f"{m['metric'] if m['metric'] == m['test'] else m['test'] + ' ' + m['metric']}:"
        f" {m['statistic']}"
        for m in results["metrics"]
    )
    versions = results["versions"]
    method = f"<p>{escape(results['method'])}</p>" if results["method"] else ""
    return (
        f'{method}<p class="quiet">The value of a trial: {escape(values) or NOTHING}. Failed'
        " trials are left out, never counted as zero; marked ones and outliers stay."
        f" Tools: {escape(', '.join(versions['tools']) or 'unknown')}; image"
        f" {escape(versions['image'])}.</p>"
    )
