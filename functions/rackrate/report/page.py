"""report.html: one page that needs nothing but itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rackrate.report.figures import interval_figure, si, trials_figure

Json = Mapping[str, Any]

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --quiet: #667085; --paper: #fff; --line: #e3e7ee;
  --arm-0: #c2410c; --arm-1: #1d4ed8; --arm-2: #047857; --arm-3: #7e22ce; --good: #047857;
  --bad: #b91c1c; --band: #e8eef7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --quiet: #98a2b3; --paper: #12161d;
  --line: #2a313c; --arm-0: #fb923c; --arm-1: #7aa2ff; --arm-2: #34d399; --arm-3: #c084fc;
  --good: #34d399; --bad: #f87171; --band: #1f2836; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.quiet, figcaption { color: var(--quiet); font-size: .9rem; } .lead { font-size: 1.1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; } td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.better { color: var(--good); font-weight: 600; } .worse { color: var(--bad); font-weight: 600; }
.failed { border-left: 4px solid var(--bad); padding-left: .8rem; white-space: pre-wrap; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; display: block; }
.grid { stroke: var(--line); } .tick { fill: var(--quiet); font-size: 11px; }
.band { fill: var(--band); } .interval { stroke: var(--ink); stroke-width: 3; }
.ratio { fill: var(--ink); } .ceiling { stroke-dasharray: 5 4; stroke-width: 1.5; }
circle.arm-0 { fill: var(--arm-0); } circle.arm-1 { fill: var(--arm-1); }
circle.arm-2 { fill: var(--arm-2); } circle.arm-3 { fill: var(--arm-3); }
line.arm-0 { stroke: var(--arm-0); } line.arm-1 { stroke: var(--arm-1); }
line.arm-2 { stroke: var(--arm-2); } line.arm-3 { stroke: var(--arm-3); }
.key { display: inline-block; width: .7em; height: .7em; border-radius: 50%;
  margin: 0 .3em 0 .8em; }
.key.arm-0 { background: var(--arm-0); } .key.arm-1 { background: var(--arm-1); }
.key.arm-2 { background: var(--arm-2); } .key.arm-3 { background: var(--arm-3); }
"""


def render_page(results: Json, trials: Sequence[Json]) -> str:
    """The page.

    Args:
        results: results.json.
        trials: the stored trials, for the figures.
    """
    run = results["run"]
    counts = results["trials"]
    sections = [
        f"<h1>rackrate: {escape(run['id'])}</h1>",
        f'<p class="quiet">{escape(run["status"])} · started {escape(run["started_at"])} ·'
        f" {run['seconds']:.0f} s · {counts['measured']} of {counts['planned']} trials measured"
        f" · seed {run['seed']}</p>",
        _failure(run),
        f'<p class="lead">{escape(results["conclusion"])}</p>',
        _scale(run),
        "<h2>Verdicts</h2>",
        _verdict_table(results["verdicts"]),
        *(_test_section(results, test["name"], trials) for test in results["plan"]["tests"]),
        "<h2>Lost trials</h2>",
        _lost(counts),
        "<h2>Nodes</h2>",
        _node_table(results["arms"]),
        _method(results),
    ]
    title = f"rackrate: {escape(run['id'])}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{''.join(sections)}</body></html>\n"
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


def _verdict_table(verdicts: Sequence[Json]) -> str:
    if not verdicts:
        return "<p>None.</p>"
    rows = "".join(
        f"<tr><td>{escape(v['test'])}</td><td>{escape(v['metric'])}</td><td>{escape(v['arm'])}</td>"
        f'<td class="number">{_value(v["arm_median"], v["unit"])}</td>'
        f'<td class="number">{_value(v["baseline_median"], v["unit"])}</td>'
        f'<td class="number">{_ratio(v)}</td>'
        f'<td class="{escape(v["verdict"].split()[0])}">{escape(v["verdict"])}</td></tr>'
        for v in verdicts
    )
    return (
        '<div class="scroll"><table><tr><th>test</th><th>metric</th><th>arm</th><th>median</th>'
        f"<th>baseline's</th><th>ratio (95 % interval)</th><th>verdict</th></tr>{rows}"
        "</table></div>"
    )


def _value(value: float | None, unit: str) -> str:
    return "&ndash;" if value is None else escape(si(value, unit))


def _ratio(verdict: Json) -> str:
    if verdict["ratio"] is None:
        return "&ndash;"
    if verdict["ci95"] is None:
        return f"{verdict['ratio']:.3f}"
    low, high = verdict["ci95"]
    return f"{verdict['ratio']:.3f} ({low:.3f} to {high:.3f})"


def _test_section(results: Json, test: str, trials: Sequence[Json]) -> str:
    arms = [arm["name"] for arm in results["arms"]]
    verdicts = [v for v in results["verdicts"] if v["test"] == test]
    ceilings: dict[str, float] = {}
    notes: list[str] = []
    for verdict in verdicts:
        if (bound := verdict["ceiling"]) is not None:
            ceilings |= {verdict["arm"]: bound["arm"], verdict["baseline"]: bound["baseline"]}
            notes.append(
                f"Dashed: the limit EC2 documents ({escape(bound['name'])};"
                f' <a href="{escape(bound["source"], quote=True)}">source</a>).'
            )
    measured = [t for t in trials if t["test"] == test and t["status"] == "measured"]
    unit = measured[0]["unit"] if measured else ""
    values = {arm: [(t["block"], t["value"]) for t in measured if t["arm"] == arm] for arm in arms}
    keys = "".join(f'<span class="key arm-{i}"></span>{escape(arm)}' for i, arm in enumerate(arms))
    figure = trials_figure(
        values, unit=unit, ceilings=ceilings, title=f"{test}: every trial by block"
    )
    intervals = "".join(
        f"<figure>{_interval(verdict)}<figcaption>{escape(verdict['arm'])} against"
        f" {escape(verdict['baseline'])}: ratio and 95 % interval; the band holds differences"
        f" below {verdict['threshold']:.0%}.</figcaption></figure>"
        for verdict in verdicts
        if verdict["ci95"] is not None
    )
    return (
        f"<h2>{escape(test)}</h2><figure>{figure}<figcaption>Each dot is a trial, by block."
        f"{keys}. {' '.join(dict.fromkeys(notes))}</figcaption></figure>{intervals}"
    )


def _interval(verdict: Json) -> str:
    low, high = verdict["ci95"]
    return interval_figure(
        verdict["ratio"],
        low,
        high,
        threshold=verdict["threshold"],
        title=f"ratio {verdict['ratio']:.3f}, 95 % interval {low:.3f} to {high:.3f}",
    )


def _lost(counts: Json) -> str:
    if not counts["failed"]:
        return "<p>None.</p>"
    rows = "".join(
        f"<tr><td>{f['block']}</td><td>{escape(f['test'])}</td><td>{escape(f['client'])} →"
        f" {escape(f['server'])}</td><td>{escape(f['reason'])}</td></tr>"
        for f in counts["failures"]
    )
    silent = counts["failed"] - len(counts["failures"])
    note = f"<p>{silent} trials never ran.</p>" if silent > 0 else ""
    return (
        f'<div class="scroll"><table><tr><th>block</th><th>test</th><th>pair</th><th>reason</th>'
        f"</tr>{rows}</table></div>{note}"
    )


def _setting(arm: Json) -> str:
    """What distinguishes the arm."""
    return f"{arm['placement']}, ENA Express" if arm["ena_express"] else str(arm["placement"])


def _node_table(arms: Sequence[Json]) -> str:
    facts = ("instance_type", "instance_id", "zone", "image", "kernel")
    rows = "".join(
        f"<tr><td>{escape(arm['name'])} ({escape(_setting(arm))})</td>"
        f"<td>{escape(node['name'])}</td>"
        + "".join(
            f"<td>{escape(str(node[fact])) if node.get(fact) else '&ndash;'}</td>" for fact in facts
        )
        + "</tr>"
        for arm in arms
        for node in arm["node_facts"]
    )
    heads = "".join(f"<th>{fact.replace('_', ' ')}</th>" for fact in facts)
    return (
        f'<div class="scroll"><table><tr><th>arm (placement)</th><th>node</th>{heads}</tr>{rows}'
        "</table></div>"
    )


def _method(results: Json) -> str:
    return (
        "<p class=\"quiet\">A trial's value is the receiver's mean throughput, or the median"
        " round-trip time. The ratio is that of the medians over blocks; its interval comes from"
        " 10 000 paired bootstrap resamples of blocks. Failed trials are left out, never counted"
        f" as zero. Tools: {escape(', '.join(results['versions']['tools']) or 'unknown')}; image"
        f" {escape(results['versions']['image'])}.</p>"
    )
