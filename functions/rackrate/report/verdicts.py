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
        *("what", "arms", "verdict", "ratio", "for all verdicts at once", "95 % interval"),
        *("median", "baseline's", "said of"),
    )
    rows = (
        [
            cell(text(conclusion.subject(v))),
            cell(text(conclusion.heading(v))),
            cell(_word(v["verdict"])),
            number(ratio(v["ratio"])),
            number(interval(v["ci_simultaneous"])),
            number(interval(v["ci95"])),
            number(quantity(v["arm_median"], v["unit"])),
            number(quantity(v["baseline_median"], v["unit"])),
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
    levels = {
        f"{100 * v['confidence_simultaneous']:.3g} %"
        for v in decided
        if v["confidence_simultaneous"]
    }
    each = f" (each by itself at {levels.pop()})" if len(levels) == 1 else ""
    return (
        '<p class="quiet">A 95 % interval holds the true ratio in 95 of 100 runs like this one.'
        " With several verdicts at once, one of many such intervals is likely to be wrong; the"
        f" intervals “for all verdicts at once”{each} are wide enough that in 95 of"
        " 100 runs none in the table above is. They decide the verdicts.</p>"
    )


def explained(verdict: Json) -> str:
    """A verdict with its figure, what it may be said of, and everything that qualifies it."""
    lines = [
        _claim(verdict),
        f"{text(_capital(verdict['reason']))}." if verdict["reason"] else "",
        _settled(verdict),
        _ceiling(verdict["ceiling"]),
        _steadiness(verdict),
        _marks(verdict["marks"]),
    ]
    heading = text(conclusion.heading(verdict))
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


def _claim(verdict: Json) -> str:
    """What the verdict may be said of, and what it rests on."""
    if verdict["claim"]:
        return f"This is {text(verdict['claim'].rstrip('.'))}."
    if verdict["blocks"] is None:
        return ""
    pairs = verdict["pairs"] or {}
    of_pairs = f", from {conclusion.pairs_of(pairs)}" if pairs else ""
    return f"Blocks in which both arms were measured: {verdict['blocks']}{text(of_pairs)}."


def _settled(verdict: Json) -> str:
    found = conclusion.more_needed(verdict)
    return "" if found is None else f"{_capital(found)}, if the difference is as estimated."


def _ceiling(ceiling: Json | None) -> str:
    if ceiling is None:
        return ""
    said = str(ceiling.get("text") or f"the limit is {ceiling['name']}")
    shares = ""
    # Most texts tell the shares themselves.
    if "%" not in said and None not in (
        arm := ceiling.get("arm_share"),
        baseline := ceiling.get("baseline_share"),
    ):
        shares = f" ({percent(arm)} and {percent(baseline)} of the limits)"
    return f"{text(_capital(said))}{shares}.{_link(ceiling.get('source'))}"


def _capital(words: str) -> str:
    """A sentence of words that may already end with a full stop."""
    return (words[:1].upper() + words[1:]).rstrip(".")


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
    because = f" {text(_capital(steadiness['reason']))}." if steadiness.get("reason") else ""
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
