"""The section on verdicts: a table with the intervals drawn, and each verdict explained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from markupsafe import Markup

from rackrate.report.charts import intervals
from rackrate.report.comparisons import Comparison, Comparisons, Explained, Side
from rackrate.report.frame import Figure
from rackrate.report.material import Material
from rackrate.report.rendering import Part
from rackrate.report.tables import Table, head, link
from rackrate.report.values import Value, by_column
from rackrate.verdict import wording
from rackrate_contract.verdicts import Ceiling, Difference, Verdict, Word
from rackrate_text.units import change, changes, percent, quantity
from rackrate_text.words import capitalized, counted, sentence

_STEADINESS: Mapping[Word, str] = {
    "better": "steadier than the baseline",
    "worse": "less steady than the baseline",
    "no meaningful difference": "as steady as the baseline",
    "inconclusive": "inconclusive",
}


def verdicts_section(page: Material) -> Part | None:
    """The verdicts of the run, with charts of their intervals and levels; None with one arm."""
    if len(page.results.arms) == 1:
        return None
    return Part(
        "verdicts",
        "Verdicts",
        caption="Every comparison of the run",
        shown=_compared(page, page.results.verdicts, "all"),
    )


def regressions_section(page: Material) -> Part | None:
    """The verdicts against earlier runs; None without one."""
    verdicts = page.results.regressions
    if not verdicts:
        return None
    runs = verdicts[0].baseline.runs
    several = len(runs) > 1
    earlier = counted(len(runs), "earlier run") if several else "an earlier run"
    differences = page.results.regression_differences
    return Part(
        "earlier",
        "Earlier run",
        heading=f"Compared with {earlier}",
        caption="Each arm against itself then",
        shown=_compared(page, verdicts, "then"),
        runs=Markup(", ").join(link(run, f"../{quote(run)}/report.html") for run in runs),
        differences=differences_table(
            differences or (), "this run", "the earlier runs" if several else "the earlier run"
        ),
        # If not even that is known, it is None.
        nothing_differs=differences == (),
        verdicts=[explained(page, v, name=f"r-{n}") for n, v in enumerate(verdicts)],
    )


def differences_table(differences: Iterable[Difference], run: str, other: str) -> Table:
    """A table of the recorded differences between runs, with their names as headers."""
    return Table(
        "What was recorded differently of the runs",
        [{"what": head(each.what), run: each.run, other: each.other} for each in differences],
    )


def _compared(page: Material, verdicts: Sequence[Verdict], name: str) -> Comparisons:
    adjusted = any(verdict.ci_simultaneous for verdict in verdicts)
    return Comparisons(
        name,
        [comparison(page, verdict) for verdict in verdicts],
        adjusted_for=len(verdicts) if adjusted else 0,
    )


def comparison(page: Material, verdict: Verdict) -> Comparison:
    """A verdict for its tile and for its row of the table."""
    return Comparison(
        anchor=page.tests[verdict.test].anchor,
        sides=wording.heading(verdict),
        of=verdict,
        drifted=verdict.drift is not None,
        lacks=wording.more_needed(verdict) or verdict.shows,
        scope=page.scope_of(verdict),
        in_words=_in_words(verdict),
        bars=_bars(page, verdict),
        limit="" if verdict.ceiling is None else verdict.ceiling.name,
        stack=None if verdict.stack is None else verdict.stack.ci_simultaneous,
    )


def _bars(page: Material, verdict: Verdict) -> Sequence[Side]:
    """The levels of both sides, with their documented limits."""
    baseline = verdict.baseline
    arm, name = verdict.sides
    name = "earlier" if baseline.is_earlier_run else name
    numbers = page.arm_number(verdict.arm), page.baseline_number(baseline)
    levels = verdict.levels
    if (ceiling := verdict.ceiling) is None:
        return Side(arm, numbers[0], levels[0]), Side(name, numbers[1], levels[1])
    return (
        Side(arm, numbers[0], levels[0], ceiling.arm, ceiling.arm_share),
        Side(name, numbers[1], levels[1], ceiling.baseline, ceiling.baseline_share),
    )


def _in_words(verdict: Verdict) -> str:
    """The change with its intervals."""
    words = f"Change {change(verdict.ratio)}"
    if verdict.ci_simultaneous:
        words += f", adjusted 95 % CI {changes(verdict.ci_simultaneous)}"
    if verdict.stack is not None:
        words += f", for this stack's placement {changes(verdict.stack.ci_simultaneous)}"
    return words


def explained(page: Material, verdict: Verdict, *, name: str) -> Explained:
    """Explain a verdict. `name` ends the ids of its figure."""
    return Explained(
        f"{verdict.name}, {wording.heading(verdict)}",
        verdict.verdict,
        _figure(page, verdict, name),
        (
            f"This is {verdict.claim}.",
            sentence(verdict.reason),
            _settled(verdict),
            _stack(verdict),
            _partitions(verdict),
            sentence(verdict.drift),
            _limit(verdict.ceiling),
            _steadiness(verdict),
            _marks(verdict.marks),
        ),
    )


def _figure(page: Material, verdict: Verdict, name: str) -> Figure | None:
    of = comparison(page, verdict)
    ratio = of.drawable
    if ratio is None:
        return None
    notes = f"Band: differences below {percent(ratio.threshold)}, which do not matter."
    if not ratio.shows_one:
        notes = "0 %, which is no difference, is far out of the picture."
    return Figure(
        "interval",
        f"ratio-{name}",
        intervals.interval_alone(ratio),
        title="The change with its interval.",
        text=f"{of.in_words}.",
        notes=notes,
        page=page,
        columns=by_column([_columns(verdict)]),
        chart_title=f"{verdict.name}, {of.sides}: the change with its interval.",
    )


def _columns(verdict: Verdict) -> Mapping[str, Value]:
    """The change with its intervals, by the names that Athena's table of verdicts has."""
    low, high = verdict.ci95 or (None, None)
    adjusted_low, adjusted_high = verdict.ci_simultaneous or (None, None)
    return {
        "test": verdict.test,
        "metric": verdict.metric,
        "arm": verdict.arm,
        "baseline": verdict.baseline.written(),
        "verdict": verdict.verdict,
        "ratio": verdict.ratio,
        "ci95_low": low,
        "ci95_high": high,
        "ci_simultaneous_low": adjusted_low,
        "ci_simultaneous_high": adjusted_high,
        "threshold": verdict.threshold,
    }


def _settled(verdict: Verdict) -> str:
    lacks = wording.more_needed(verdict)
    return "" if lacks is None else f"{capitalized(lacks)}, if the difference is as estimated."


def _stack(verdict: Verdict) -> str:
    """What the pairs say about the stack's placement."""
    claim = verdict.stack
    if claim is None:
        return ""
    text = f"For this stack's placement: {claim.verdict}, {changes(claim.ci_simultaneous)}"
    if claim.reason:
        text += f". {capitalized(claim.reason)}"
    if verdict.more_pairs:
        text += f". About {counted(verdict.more_pairs, 'more pair')} of nodes in each arm would"
        text += " settle it, if the difference is as estimated"
    return f"{text}."


def _partitions(verdict: Verdict) -> str:
    """The medians of pairs within a partition and across partitions."""
    if verdict.partitions is None:
        return ""
    kinds = {
        "within one partition": verdict.partitions.within,
        "across partitions": verdict.partitions.across,
    }
    pairs = "; ".join(
        f"{counted(kind.pairs, 'pair')} {where}"
        + (f", median {quantity(kind.median, verdict.unit)}" if kind.pairs else "")
        for where, kind in kinds.items()
    )
    return f"Partitions of {verdict.sides[0]}: {pairs}."


def _limit(ceiling: Ceiling | None) -> str:
    if ceiling is None:
        return ""
    shares = ""
    # Most texts already contain the shares.
    if "%" not in ceiling.text and None not in (ceiling.arm_share, ceiling.baseline_share):
        of = f"{percent(ceiling.arm_share)} and {percent(ceiling.baseline_share)}"
        shares = f" ({of} of the limits)"
    words = f"{capitalized(ceiling.text.rstrip('.'))}{shares}."
    return Markup("{} ({})").format(words, _source(ceiling))


def _source(ceiling: Ceiling) -> str:
    """The ceiling's source: a link if it is a URL, otherwise text, such as `the plan`."""
    if not ceiling.source.startswith("https://"):
        return ceiling.source
    where = ceiling.source.removeprefix("https://")
    label = f"Source, where AWS documents it: {ceiling.name}, {where}"
    return link("source", ceiling.source, label)


def _steadiness(verdict: Verdict) -> str:
    steadiness = verdict.steadiness
    if steadiness is None:
        return ""
    spreads = []
    if steadiness.arm is not None or steadiness.baseline is not None:
        spreads.append(
            f"variability (CV) {percent(steadiness.arm)} against {percent(steadiness.baseline)}"
        )
    if steadiness.ratio is not None:
        spreads.append(change(steadiness.ratio))
    if steadiness.ci_simultaneous is not None:
        spreads.append(f"adjusted interval {changes(steadiness.ci_simultaneous)}")
    figures = f" ({', '.join(spreads)})" if spreads else ""
    because = f" {sentence(steadiness.reason)}" if steadiness.reason else ""
    return f"Steadiness: {_STEADINESS[steadiness.verdict]}{figures}.{because}"


def _marks(marks: Mapping[str, int]) -> str:
    if not marks:
        return ""
    listed_marks = "; ".join(
        f"{counted(number, 'trial')} {wording.meaning(name, singular=number == 1)}"
        for name, number in marks.items()
    )
    return f"Marks on trials that this rests on: {listed_marks}."
