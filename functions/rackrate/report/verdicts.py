"""The page's parts about verdicts: the table, and each verdict explained. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rackrate import conclusion
from rackrate.report.figures import interval_figure
from rackrate.report.markup import (
    cell,
    interval,
    items,
    number,
    percent,
    quantity,
    ratio,
    table,
    text,
)

Json = Mapping[str, Any]

_STEADINESS = {
    "better": "steadier than the baseline",
    "worse": "less steady than the baseline",
    "no meaningful difference": "as steady as the baseline",
}


def verdict_table(verdicts: Sequence[Json]) -> str:
    """One row for each verdict."""
    if not verdicts:
        return "<p>None.</p>"
    heads = (
        *("test", "metric", "arm", "median", "baseline", "its median", "ratio"),
        *("95 % interval", "for all verdicts at once", "verdict", "said of"),
    )
    rows = (
        [
            cell(text(v["test"])),
            cell(text(v["metric"])),
            cell(text(v["arm"])),
            number(quantity(v["arm_median"], v["unit"])),
            cell(text(v["baseline"])),
            number(quantity(v["baseline_median"], v["unit"])),
            number(ratio(v["ratio"])),
            number(interval(v["ci95"])),
            number(interval(v["ci_simultaneous"])),
            f"<td>{_word(v['verdict'])}</td>",
            cell(text(v["scope"])),
        ]
        for v in verdicts
    )
    return table(heads, rows)


def _word(word: str) -> str:
    return f'<span class="{escape(word.split()[0], quote=True)}">{escape(word)}</span>'


def about_intervals(verdicts: Sequence[Json]) -> str:
    """What the two intervals are, in words."""
    decided = [v for v in verdicts if v["ci_simultaneous"]]
    if not decided:
        return ""
    level = decided[0]["confidence_simultaneous"]
    each = f" (each by itself at {100 * level:.3g} %)" if level and level > 0.9501 else ""
    return (
        '<p class="quiet">A 95 % interval holds the true ratio in 95 of 100 runs like this one.'
        " With several verdicts at once, one of many such intervals is likely to be wrong; the"
        f" intervals “for all verdicts at once”{each} are wide enough that in 95 of"
        " 100 runs none of them is. They decide the verdicts.</p>"
    )


def explained(verdict: Json) -> str:
    """A verdict with its figure, what it may be said of, and everything that qualifies it."""
    lines = [
        text(verdict["claim"]) if verdict["claim"] else "",
        _rests_on(verdict),
        f"Why: {text(verdict['reason'])}." if verdict["reason"] else "",
        _settled(verdict),
        _ceiling(verdict["ceiling"]),
        _steadiness(verdict),
        _marks(verdict["marks"]),
    ]
    heading = f"{text(verdict['arm'])} against {text(verdict['baseline'])}"
    return f"<h3>{heading}: {_word(verdict['verdict'])}</h3>{_figure(verdict)}{items(lines)}"


def _figure(verdict: Json) -> str:
    alone, wider, threshold = verdict["ci95"], verdict["ci_simultaneous"], verdict["threshold"]
    if verdict["ratio"] is None or alone is None or threshold is None:
        return ""
    said = f"ratio {verdict['ratio']:.3f}, 95 % interval {interval(alone)}"
    if wider:
        said += f", for all verdicts at once {interval(wider)}"
    drawn = interval_figure(verdict["ratio"], alone, wider, threshold=threshold, title=said)
    return (
        f"<figure>{drawn}<figcaption>{escape(said[0].upper() + said[1:])}"
        f"{' (the thin line)' if wider else ''}. The band holds differences below"
        f" {percent(threshold)}, which do not matter.</figcaption></figure>"
    )


def _rests_on(verdict: Json) -> str:
    if verdict["blocks"] is None:
        return ""
    pairs = verdict["pairs"] or {}
    of_pairs = (
        f", {text(pairs.get('arm'))} pairs of nodes in the arm and {text(pairs.get('baseline'))}"
        " in the baseline"
        if pairs
        else ""
    )
    return f"Blocks in which both arms were measured: {verdict['blocks']}{of_pairs}."


def _settled(verdict: Json) -> str:
    found = conclusion.more_blocks(verdict)
    return "" if found is None else f"{found[0].upper()}{found[1:]}, if the spread stays as it was."


def _ceiling(ceiling: Json | None) -> str:
    if ceiling is None:
        return ""
    said = text(ceiling.get("text") or f"Limit: {ceiling['name']}.")
    shares = ""
    if ceiling.get("arm_share") is not None and ceiling.get("baseline_share") is not None:
        shares = (
            f" The arm reached {percent(ceiling['arm_share'])} of its limit, the baseline"
            f" {percent(ceiling['baseline_share'])} of its own."
        )
    return f"{said}{shares}{_link(ceiling.get('source'))}"


def _link(source: str | None) -> str:
    """A link, if the source is an address; anything else might be a script."""
    if not source:
        return ""
    if not source.startswith("https://"):
        return f" ({text(source)})"
    return f' (<a href="{escape(source, quote=True)}">source</a>)'


def _steadiness(verdict: Json) -> str:
    steadiness = verdict["steadiness"]
    if not steadiness or not steadiness.get("verdict"):
        return ""
    word = steadiness["verdict"]
    spreads = (
        f" (spread {percent(steadiness.get('arm'))} against {percent(steadiness.get('baseline'))}"
    )
    if steadiness.get("ratio") is not None:
        spreads += f", ratio {ratio(steadiness['ratio'])}"
    if steadiness.get("ci95"):
        spreads += f", 95 % interval {interval(steadiness['ci95'])}"
    because = f" {text(steadiness['reason'])}." if steadiness.get("reason") else ""
    return f"Steadiness: {text(_STEADINESS.get(word, word))}{spreads}).{because}"


def _marks(marks: Mapping[str, int] | None) -> str:
    if not marks:
        return ""
    counted = "; ".join(
        f"{count} {'trial' if count == 1 else 'trials'}"
        f" {escape(conclusion.meaning(name, singular=count == 1))}"
        for name, count in marks.items()
    )
    return f"Marks on trials that this rests on: {counted}."
