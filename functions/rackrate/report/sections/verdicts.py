"""The section on verdicts: a table with the intervals drawn, and each verdict explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from rackrate.plan.ceilings import Ceiling
from rackrate.report import comparisons
from rackrate.report.charts import intervals
from rackrate.report.frame import figure
from rackrate.report.markup import items, section, text
from rackrate.report.material import Material
from rackrate.report.sections.opening import differences_table
from rackrate.report.values import Value, by_column
from rackrate.verdict import wording
from rackrate.verdict.model import Difference, Verdict, Word
from rackrate_text.units import change, changes, percent, quantity
from rackrate_text.words import capitalized, counted, interval_title, listed

_STEADINESS: Mapping[Word, str] = {
    "better": "steadier than the baseline",
    "worse": "less steady than the baseline",
    "no meaningful difference": "as steady as the baseline",
    "inconclusive": "inconclusive",
}


def verdicts_section(page: Material) -> str:
    """The verdicts of the run, with charts of their intervals and levels."""
    verdicts = page.results.verdicts
    return section(
        "verdicts",
        "Verdicts",
        verdict_table(page, verdicts, name="all", caption="Every comparison of the run")
        + about_intervals(verdicts),
    )


def regressions_section(page: Material) -> str:
    """The verdicts against earlier runs; empty without one."""
    verdicts = page.results.regressions
    if not verdicts:
        return ""
    explanations = "".join(
        explained(page, verdict, name=f"r-{index}") for index, verdict in enumerate(verdicts)
    )
    runs = verdicts[0].baseline.runs
    several = len(runs) > 1
    return section(
        "earlier",
        f"Compared with {counted(len(runs), 'earlier run')}"
        if several
        else "Compared with an earlier run",
        '<p class="quiet">Each arm now against the same arm then. The runs were not measured at'
        " the same time, so whatever changed in between is part of the difference."
        f"{f' The earlier runs: {text(listed(runs))}.' if several else ''}</p>"
        + _since(page.results.regression_differences, several=several)
        + verdict_table(page, verdicts, name="then", caption="Each arm against itself then")
        + about_intervals(verdicts)
        + explanations,
    )


def _since(found: Sequence[Difference] | None, *, several: bool) -> str:
    """A sentence on the differences from the earlier runs, where they are known."""
    if found is None:
        return ""
    if not found:
        return "<p>Nothing that the runs recorded differs but when they were.</p>"
    return differences_table(
        found, "this run", "the earlier runs" if several else "the earlier run"
    )


def verdict_table(page: Material, verdicts: Sequence[Verdict], *, name: str, caption: str) -> str:
    """A table with a row for each verdict; all intervals have the same scale."""
    if not verdicts:
        return "<p>None.</p>"
    scopes = {page.scope_of(verdict) for verdict in verdicts}
    # A column that says the same in each row says it once, in the caption.
    scope = scopes.pop() if len(scopes) == 1 else ""
    rows = [
        comparisons.Row(
            anchor=page.tests[verdict.test].anchor,
            subject=wording.subject(verdict),
            sides=wording.heading(verdict),
            word=verdict.verdict,
            drifted=verdict.drift is not None,
            ratio=comparisons.ratio_of(verdict),
            intervals=_intervals_in_words(verdict),
            cells=(
                _intervals_cell(verdict),
                _levels(page, verdict, f"{name}-{index}"),
                *([] if scope else [text(page.scope_of(verdict))]),
            ),
        )
        for index, verdict in enumerate(verdicts)
    ]
    return comparisons.table(
        rows,
        heads=(
            f"change, and its {interval_title(_adjusted_for(verdicts))}",
            "geometric means, and documented limits",
            *([] if scope else ["applies to"]),
        ),
        name=name,
        caption=f"{caption}. They apply to {scope}." if scope else caption,
    )


def _adjusted_for(verdicts: Sequence[Verdict]) -> int:
    """The number of tests that the shown intervals are adjusted for; 0 if they are not."""
    return len(verdicts) if any(verdict.ci_simultaneous for verdict in verdicts) else 0


def _intervals_cell(verdict: Verdict) -> str:
    if verdict.stack is None:
        return comparisons.change_cell(verdict)
    stack = text(changes(verdict.stack.ci_simultaneous))
    return comparisons.change_cell(verdict, f"{stack} for this stack's placement")


def _intervals_in_words(verdict: Verdict) -> str:
    """The change with its intervals."""
    said = f"Change {change(verdict.ratio)}"
    if verdict.ci_simultaneous:
        said += f", adjusted 95 % CI {changes(verdict.ci_simultaneous)}"
    if verdict.stack is not None:
        said += f", for this stack's placement {changes(verdict.stack.ci_simultaneous)}"
    return said


def _levels(page: Material, verdict: Verdict, name: str) -> str:
    """The levels of both arms as bars, with their documented limits."""
    ceiling = verdict.ceiling
    arm, baseline = wording.sides(verdict)
    sides = (
        comparisons.Side(
            verdict.arm,
            page.arm_number(verdict.arm),
            arm,
            None if ceiling is None else ceiling.arm,
            None if ceiling is None else ceiling.arm_share,
        ),
        comparisons.Side(
            "earlier" if verdict.baseline.is_earlier_run else verdict.baseline.name,
            page.baseline_number(verdict.baseline),
            baseline,
            None if ceiling is None else ceiling.baseline,
            None if ceiling is None else ceiling.baseline_share,
        ),
    )
    drawn = comparisons.levels(
        sides,
        verdict.unit,
        name=f"levels-{name}",
        title=f"{wording.subject(verdict)}, {wording.heading(verdict)}: geometric means.",
    )
    if ceiling is None:
        return drawn
    return f"{drawn}<br><span class=quiet>limit: {text(ceiling.name)}</span>"


def about_intervals(verdicts: Sequence[Verdict]) -> str:
    """A sentence that explains the adjusted interval."""
    if _adjusted_for(verdicts) < 2:
        return ""
    return (
        '<p class="quiet">An adjusted interval is wider than a 95 % interval of one test alone,'
        " so that in 95 of 100 runs like this one all of them contain the true change, and in 90"
        " or more if a true change is as large as the threshold. It ends at the threshold where"
        " the verdict excludes the other side.</p>"
    )


def explained(page: Material, verdict: Verdict, *, name: str) -> str:
    """A verdict with its figure, what it applies to, and all its qualifications."""
    lines = [
        f"This is {text(verdict.claim)}.",
        text(_sentence(verdict.reason)) if verdict.reason else "",
        _settled(verdict),
        _stack(verdict),
        _partitions(verdict),
        text(_sentence(verdict.drift)) if verdict.drift else "",
        _ceiling(verdict.ceiling),
        _steadiness(verdict),
        _marks(verdict.marks),
    ]
    subject = wording.subject(verdict)
    heading = (
        f"{text(subject)}, {text(wording.heading(verdict))}: {comparisons.word(verdict.verdict)}"
    )
    figured = _figure(page, verdict, name)
    return (
        f'<div class="verdict"><h3>{heading}</h3><div class="figures">{figured}'
        f"<div>{items(lines)}</div></div></div>"
    )


def _figure(page: Material, verdict: Verdict, name: str) -> str:
    found = comparisons.ratio_of(verdict)
    if found is None:
        return ""
    compared = f"{wording.subject(verdict)}, {wording.heading(verdict)}"
    notes = f"Band: differences below {percent(found.threshold)}, which do not matter."
    if not found.shows_one:
        notes = "0 %, which is no difference, is far out of the picture."
    return figure(
        "interval",
        f"ratio-{name}",
        lambda name, title, description: intervals.interval_alone(
            found,
            name=name,
            title=f"{compared}: the change with its interval.",
            description=description,
        ),
        title="The change with its interval.",
        text=f"{_intervals_in_words(verdict)}.",
        notes=notes,
        page=page,
        columns=by_column([_columns(verdict)]),
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
    found = wording.more_needed(verdict)
    return "" if found is None else f"{capitalized(found)}, if the difference is as estimated."


def _stack(verdict: Verdict) -> str:
    """What the pairs say about the stack's placement."""
    claim = verdict.stack
    if claim is None:
        return ""
    said = f"For this stack's placement: {claim.verdict}, {changes(claim.ci_simultaneous)}"
    if claim.reason:
        said += f". {capitalized(claim.reason)}"
    if verdict.more_pairs:
        said += f". About {counted(verdict.more_pairs, 'more pair')} of nodes in each arm would"
        said += " settle it, if the difference is as estimated"
    return text(f"{said}.")


def _partitions(verdict: Verdict) -> str:
    """The medians of pairs within a partition and across partitions."""
    if verdict.partitions is None:
        return ""
    kinds = {
        "within one partition": verdict.partitions.within,
        "across partitions": verdict.partitions.across,
    }
    said = "; ".join(
        f"{counted(kind.pairs, 'pair')} {where}"
        + (f", median {quantity(kind.median, verdict.unit)}" if kind.pairs else "")
        for where, kind in kinds.items()
    )
    return text(f"Partitions of {verdict.arm}: {said}.")


def _ceiling(ceiling: Ceiling | None) -> str:
    if ceiling is None:
        return ""
    shares = ""
    # Most texts already contain the shares.
    if "%" not in ceiling.text and None not in (ceiling.arm_share, ceiling.baseline_share):
        of = f"{percent(ceiling.arm_share)} and {percent(ceiling.baseline_share)}"
        shares = text(f" ({of} of the limits)")
    return f"{text(capitalized(ceiling.text.rstrip('.')))}{shares}.{_link(ceiling)}"


def _sentence(words: str) -> str:
    """The words as a sentence: capitalized, with one period at the end."""
    return f"{capitalized(words.rstrip('.'))}."


def _link(ceiling: Ceiling) -> str:
    """The ceiling's source: a link if it is a URL, otherwise text, such as `the plan`."""
    if not ceiling.source.startswith("https://"):
        return f" ({text(ceiling.source)})"
    where = ceiling.source.removeprefix("https://")
    said = f"Source, where AWS documents it: {ceiling.name}, {where}"
    label, href = (escape(each, quote=True) for each in (said, ceiling.source))
    return f' (<a href="{href}" aria-label="{label}">source</a>)'


def _steadiness(verdict: Verdict) -> str:
    found = verdict.steadiness
    if found is None:
        return ""
    spreads = []
    if found.arm is not None or found.baseline is not None:
        spreads.append(f"variability (CV) {percent(found.arm)} against {percent(found.baseline)}")
    if found.ratio is not None:
        spreads.append(change(found.ratio))
    if found.ci_simultaneous is not None:
        spreads.append(f"adjusted interval {changes(found.ci_simultaneous)}")
    figures = text(f" ({', '.join(spreads)})") if spreads else ""
    because = f" {text(_sentence(found.reason))}" if found.reason else ""
    return f"Steadiness: {_STEADINESS[found.verdict]}{figures}.{because}"


def _marks(marks: Mapping[str, int]) -> str:
    if not marks:
        return ""
    said = "; ".join(
        f"{counted(number, 'trial')} {escape(wording.meaning(name, singular=number == 1))}"
        for name, number in marks.items()
    )
    return f"Marks on trials that this rests on: {said}."
