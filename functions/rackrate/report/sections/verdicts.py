"""The verdicts: the table with every interval drawn, and each verdict explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from rackrate import conclusion
from rackrate.report.charts import intervals
from rackrate.report.figure import figure, key, scale_note
from rackrate.report.markup import (
    MOST_ROWS,
    NOTHING,
    interval,
    items,
    percent,
    quantity,
    ratio,
    section,
    text,
)
from rackrate.report.material import Json, Material
from rackrate.report.sections.opening import differences_table
from rackrate.report.units import si

_STEADINESS = {
    "better": "steadier than the baseline",
    "worse": "less steady than the baseline",
    "no meaningful difference": "as steady as the baseline",
}


def verdicts_section(material: Material) -> str:
    """The verdicts of the run, each with its interval and its medians drawn."""
    verdicts = material.results["verdicts"]
    return section(
        "verdicts",
        "Verdicts",
        verdict_table(material, verdicts, name="all", caption="Every comparison of the run")
        + about_intervals(verdicts),
    )


def regressions_section(material: Material) -> str:
    """The same against an earlier run, or nothing."""
    verdicts = material.results.get("regressions")
    if not verdicts:
        return ""
    explanations = "".join(
        explained(material, verdict, name=f"r-{index}") for index, verdict in enumerate(verdicts)
    )
    return section(
        "earlier",
        "Compared with an earlier run",
        '<p class="quiet">Each arm now against the same arm then. The two runs were not'
        " measured at the same time, so whatever changed in between is part of the"
        " difference.</p>"
        + _since(material.results)
        + verdict_table(material, verdicts, name="then", caption="Each arm against itself then")
        + about_intervals(verdicts)
        + explanations,
    )


def _since(results: Json) -> str:
    """What differs from the earlier run, where that is known."""
    found = results.get("regression_differences")
    if found is None:
        return ""
    if not found:
        return "<p>Nothing that the two runs recorded differs but when they were.</p>"
    return differences_table(found, "this run", "the earlier run")


def verdict_table(material: Material, verdicts: Sequence[Json], *, name: str, caption: str) -> str:
    """One row for each verdict; the intervals of all have one scale.

    A narrow screen shows each row as a card: roles keep it a table for screen readers.
    """
    if not verdicts:
        return "<p>None.</p>"
    ratios = [_ratio_of(verdict) for verdict in verdicts]
    reach = intervals.common_reach(each for each in ratios if each is not None)
    scale = intervals.ratio_scale(reach, name=f"scale-{name}") if any(ratios) else ""
    heads = (
        *("comparison", "verdict", f"ratio to the baseline, and its intervals{scale}"),
        *("medians, and documented limits", "said of"),
    )
    rows = [
        _row(material, verdict, found, reach, f"{name}-{index}", scale)
        for index, (verdict, found) in enumerate(zip(verdicts, ratios, strict=True))
    ]
    shown = rows[:MOST_ROWS]
    rest = len(rows) - len(shown)
    more = f'<p class="quiet">And {rest} more, which results.json lists.</p>' if rest else ""
    head = "".join(f'<th scope="col" role="columnheader">{each}</th>' for each in heads)
    return (
        f'<table class="verdicts" role="table" id="verdicts-{name}">'
        f"<caption>{escape(caption)}</caption>"
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(shown)}</tbody></table>{scale_note(material)}{more}'
    )


def _row(
    material: Material,
    verdict: Json,
    ratio: intervals.Ratio | None,
    reach: float,
    name: str,
    scale: str,
) -> str:
    subject = conclusion.subject(verdict)
    compared = f"{subject}, {conclusion.heading(verdict)}"
    drawn = ""
    if ratio is not None:
        drawn = intervals.interval_row(
            ratio,
            reach,
            name=f"interval-{name}",
            title=f"{compared}: ratio.",
            description=_intervals_in_words(verdict),
        )
    # Where rows are cards there is no head with the scale.
    narrow = scale.replace(f"scale-{name.rsplit('-', 1)[0]}", f"scale-{name}") if drawn else ""
    cells = {
        "verdict": _word(verdict["verdict"]),
        "ratio to the baseline, and its intervals": (
            f'<div class="narrow">{narrow}</div>{drawn}{_intervals_cell(verdict)}'
        ),
        "medians, and documented limits": _levels(material, verdict, name),
        "said of": text(verdict["scope"]),
    }
    columns = "".join(
        f'<td role="cell" data-label="{label}">{content}</td>' for label, content in cells.items()
    )
    anchor = material.anchor(verdict["test"])
    named = f'<a href="#{anchor}">{text(subject)}</a>' if anchor else text(subject)
    return (
        f'<tr role="row"><th scope="row" role="rowheader">{named}'
        f'<br><span class="quiet">{text(conclusion.heading(verdict))}</span></th>{columns}</tr>'
    )


def _ratio_of(verdict: Json) -> intervals.Ratio | None:
    """What can be drawn of a verdict's ratio."""
    alone, wider, threshold = verdict["ci95"], verdict["ci_simultaneous"], verdict["threshold"]
    if verdict["ratio"] is None or alone is None or threshold is None:
        return None
    found = intervals.Ratio(
        verdict["ratio"], tuple(alone), tuple(wider) if wider else None, threshold
    )
    return found if found.drawable else None


def _intervals_cell(verdict: Json) -> str:
    if verdict["ratio"] is None:
        return NOTHING
    lines = [f"<strong>{ratio(verdict['ratio'])}</strong>"]
    if verdict["ci_simultaneous"]:
        lines.append(f"{interval(verdict['ci_simultaneous'])} for all verdicts at once")
    if verdict["ci95"]:
        lines.append(f"{interval(verdict['ci95'])} by itself")
    return f'<span class="figures-of">{"<br>".join(lines)}</span>'


def _intervals_in_words(verdict: Json) -> str:
    said = f"Ratio {ratio(verdict['ratio'])}"
    if verdict["ci95"]:
        said += f", 95 % interval {interval(verdict['ci95'])}"
    if verdict["ci_simultaneous"]:
        said += f", for all verdicts at once {interval(verdict['ci_simultaneous'])}"
    return said


def _levels(material: Material, verdict: Json, name: str) -> str:
    """The medians of both arms as bars, with their documented limits."""
    bound = verdict["ceiling"] or {}
    unit = verdict["unit"]
    sides = [
        (verdict[side], verdict[f"{side}_median"], bound.get(side), bound.get(f"{side}_share"))
        for side in ("arm", "baseline")
    ]
    said = []
    for arm, median, limit, share in sides:
        line = f"{key(material.arm_number(arm))} {quantity(median, unit)}"
        if limit is not None:
            of = f"{percent(share)} of " if share is not None else "limit "
            line += f" <span class=quiet>{of}{quantity(limit, unit)}</span>"
        said.append(f"<span class=level>{line}</span>")
    limited = f"<br><span class=quiet>limit: {text(bound['name'])}</span>" if bound else ""
    levels = [
        intervals.Level(material.arm_number(arm), median, limit)
        for arm, median, limit, _ in sides
        if median is not None
    ]
    if len(levels) < len(sides):
        return f"{'<br>'.join(said)}{limited}"
    words = "; ".join(
        f"{arm}: {si(median, unit)}" + (f", limit {si(limit, unit)}" if limit is not None else "")
        for arm, median, limit, _ in sides
    )
    chart = intervals.levels_row(
        levels,
        name=f"levels-{name}",
        title=f"{conclusion.subject(verdict)}, {conclusion.heading(verdict)}: medians.",
        description=words,
    )
    return f"{chart}{'<br>'.join(said)}{limited}"


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


def explained(material: Material, verdict: Json, *, name: str) -> str:
    """A verdict with its figure, what it may be said of, and everything that qualifies it."""
    lines = [
        _claim(verdict),
        f"{text(_capital(verdict['reason']))}." if verdict["reason"] else "",
        _settled(verdict),
        _ceiling(verdict["ceiling"]),
        _steadiness(verdict),
        _marks(verdict["marks"]),
    ]
    subject = conclusion.subject(verdict)
    heading = f"{text(subject)}, {text(conclusion.heading(verdict))}: {_word(verdict['verdict'])}"
    figured = _figure(material, verdict, name)
    return (
        f'<div class="verdict"><h3>{heading}</h3><div class="figures">{figured}'
        f"<div>{items(lines)}</div></div></div>"
    )


def _figure(material: Material, verdict: Json, name: str) -> str:
    found = _ratio_of(verdict)
    if found is None:
        return ""
    compared = f"{conclusion.subject(verdict)}, {conclusion.heading(verdict)}"
    words = f"{_intervals_in_words(verdict)}{' (the thin line)' if found.wider else ''}."
    notes = f"Band: differences below {100 * found.threshold:.3g} %, which do not matter."
    if not found.shows_one:
        notes = "Ratio 1, which is no difference, is far out of the picture."
    chart = intervals.interval_alone(
        found,
        name=f"ratio-{name}",
        title=f"{compared}: the ratio with its intervals.",
        description=f"{words} {notes}",
    )
    return figure(
        "interval",
        f"ratio-{name}",
        chart,
        title="The ratio with its intervals.",
        text=words,
        notes=notes,
        material=material,
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
    return f"{text(_capital(said))}{shares}.{_link(ceiling)}"


def _capital(words: str) -> str:
    """A sentence of words that may already end with a full stop."""
    return (words[:1].upper() + words[1:]).rstrip(".")


def _link(ceiling: Json) -> str:
    """A link, if the source is an address; anything else might be a script."""
    source = ceiling.get("source")
    if not source:
        return ""
    if not source.startswith("https://"):
        return f" ({text(source)})"
    said = f"where AWS documents it: {ceiling['name']}, {source.removeprefix('https://')}"
    label, href = (escape(each, quote=True) for each in (f"Source, {said}", source))
    return f' (<a href="{href}" aria-label="{label}">source</a>)'


def _steadiness(verdict: Json) -> str:
    steadiness = verdict["steadiness"]
    if not steadiness or not steadiness.get("verdict"):
        return ""
    word = steadiness["verdict"]
    spreads = []
    if (arm := steadiness.get("arm")) is not None or steadiness.get("baseline") is not None:
        spreads.append(f"spread {percent(arm)} against {percent(steadiness.get('baseline'))}")
    if steadiness.get("ratio") is not None:
        spreads.append(f"ratio {ratio(steadiness['ratio'])}")
    if steadiness.get("ci95"):
        spreads.append(f"95 % interval {interval(steadiness['ci95'])}")
    figures = f" ({', '.join(spreads)})" if spreads else ""
    because = f" {text(_capital(steadiness['reason']))}." if steadiness.get("reason") else ""
    return f"Steadiness: {text(_STEADINESS.get(word, word))}{figures}.{because}"


def _marks(marks: Mapping[str, int] | None) -> str:
    if not marks:
        return ""
    counted = "; ".join(
        f"{count} {'trial' if count == 1 else 'trials'}"
        f" {escape(conclusion.meaning(name, singular=count == 1))}"
        for name, count in marks.items()
    )
    return f"Marks on trials that this rests on: {counted}."
