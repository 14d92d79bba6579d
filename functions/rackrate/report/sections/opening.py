"""The opening of the page: the run's name and status, its conclusion, and its warnings."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from html import escape
from typing import Protocol

from rackrate.report.markup import (
    cell,
    folded,
    paragraph,
    row_head,
    section,
    table,
    text,
)
from rackrate.report.material import Material
from rackrate.verdict import wording
from rackrate.verdict.model import Difference, Word
from rackrate_text.failures import lines_of
from rackrate_text.units import duration, ratio
from rackrate_text.words import counted, listed

#: The most names of a kind in the headline.
_MOST_NAMED = 4
_MOST_CLAUSES = 3
#: A conclusion with more characters is folded.
_LONG = 700


def title(page: Material) -> str:
    """The page's title, as text."""
    if page.comparison:
        return f"rackrate: {page.comparison.run} compared with {page.comparison.other_name}"
    return f"rackrate: {page.results.run.id}"


def header(page: Material) -> str:
    """The name of the run, and its status."""
    run, counts = page.results.run, page.results.trials
    facts = (
        text(run.status),
        f"started {moment(run.started_at)}",
        duration(run.seconds),
        f"{counts.measured} of {counted(counts.planned, 'trial')} measured",
        f"seed {run.seed}",
    )
    return f"<h1>{escape(title(page))}</h1>" + paragraph(" · ".join(facts), "quiet")


def moment(iso: str) -> str:
    """A time to the minute, as markup."""
    time = datetime.datetime.fromisoformat(iso).astimezone(datetime.UTC)
    return f'<time datetime="{escape(iso, quote=True)}">{time:%Y-%m-%d %H:%M} UTC</time>'


def opening(page: Material) -> str:
    """The conclusion: one sentence, then the details, then deviations from the plan."""
    cause = message(page.results.run.cause)
    return section(
        "conclusion",
        "Conclusion",
        "".join(
            [
                failure(page.results.run.error, page.results.run.cause),
                paragraph(escape(headline(page)), "headline"),
                scaled(page.scale, limits="; the documented limits below are scaled alike"),
                details(page.results.conclusion, headline(page)),
                paragraph(escape(page.stopped.text)) if page.stopped else "",
                *(
                    paragraph(escape(warning), "warning")
                    for warning in page.results.warnings
                    if warning != cause
                ),
            ]
        ),
    )


def failure(error: str | None, cause: str | None) -> str:
    """The error that ended an execution, and its cause; empty if it did not fail."""
    if not error:
        return ""
    said = escape(message(cause))
    return f'<p class="failed"><strong>{escape(error)}</strong>\n{said}</p>'


def message(cause: str | None) -> str:
    """The message of a cause. If a function raised, the cause is JSON with a stack trace."""
    return "\n".join(lines_of(cause or ""))


def details(said: str, headline: str) -> str:
    """The full conclusion, with intervals and qualifications; empty if it is the headline."""
    if said == headline:
        return ""
    full = paragraph(escape(said))
    return folded("The conclusion in full, with its intervals", full) if len(said) > _LONG else full


def scaled(scale: float | None, *, limits: str = "") -> str:
    """A warning that the lab's network is scaled; empty if it is not."""
    if scale is None:
        return ""
    return paragraph(
        f"The network of these nodes is scaled by {scale:g} on purpose{limits}. The figures are not"
        " EC2's.",
        "scale",
    )


class Judged(Protocol):
    """What a headline needs of a verdict of a run, or of an answer of a campaign."""

    @property
    def test(self) -> str:
        """The test."""

    @property
    def metric(self) -> str:
        """The metric."""

    @property
    def arm(self) -> str:
        """The arm that was compared."""

    @property
    def ratio(self) -> float | None:
        """The arm divided by the baseline."""

    @property
    def verdict(self) -> Word:
        """The word."""


def headline(page: Material) -> str:
    """The result of the run in one sentence, as text: the direction of each comparison."""
    verdicts, counts = page.results.verdicts, page.results.trials
    if counts.planned and not counts.measured:
        return (
            f"Nothing was measured: none of the {counted(counts.planned, 'trial')} has a value,"
            " so nothing can be said of any arm."
        )
    if not verdicts:
        return page.results.conclusion
    baselines = {verdict.baseline.name for verdict in verdicts}
    if len(baselines) > 1 and not page.comparison:
        return outcomes(verdicts)
    told = clauses(verdicts)
    if told is None:
        return outcomes(verdicts)
    if page.comparison:
        itself = "the same arm" if len({v.arm for v in verdicts}) == 1 else "the same arms"
        return (
            f"{_differ(page.comparison.differences)}; {told}, against {itself} in"
            f" {page.comparison.others}."
        )
    return f"Against {baselines.pop()}, {told}."


def _differ(differences: Sequence[Difference]) -> str:
    """A short phrase on the differences between runs."""
    differed = [difference.what for difference in differences]
    if len(differed) > _MOST_NAMED:
        rest = len(differed) - _MOST_NAMED + 1
        differed = [*differed[: _MOST_NAMED - 1], f"{rest} more"]
    return f"The runs differ in {listed(differed) if differed else 'nothing that they recorded'}"


def clauses(verdicts: Sequence[Judged]) -> str | None:
    """Clauses on the arms' results, one for all arms with the same result; None if too many."""
    of_arms: dict[str, list[Judged]] = {}
    for verdict in verdicts:
        of_arms.setdefault(verdict.arm, []).append(verdict)
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for arm, found in of_arms.items():
        outcome = tuple((_subject(v), v.verdict) for v in found)
        alike.setdefault(outcome, []).append(arm)
    if len(alike) > _MOST_CLAUSES:
        return None
    return "; ".join(
        f"{listed(arms)} {_clause([v for arm in arms for v in of_arms[arm]], len(arms))}"
        for arms in alike.values()
    )


def _subject(verdict: Judged) -> str:
    return wording.metric_of_test(verdict.test, verdict.metric)


_VERBS: Mapping[Word, tuple[str, str]] = {
    "better": ("is better in", "are better in"),
    "worse": ("is worse in", "are worse in"),
    "no meaningful difference": (
        "shows no meaningful difference in",
        "show no meaningful difference in",
    ),
    "inconclusive": ("is inconclusive in", "are inconclusive in"),
}


def _clause(verdicts: Sequence[Judged], arms: int) -> str:
    """A clause on arms with the same result: `is better in a (2.00 times) and shows ... in b`."""
    said = []
    for word, verbs in _VERBS.items():
        by_subject: dict[str, list[Judged]] = {}
        for verdict in verdicts:
            if verdict.verdict == word:
                by_subject.setdefault(_subject(verdict), []).append(verdict)
        if not by_subject:
            continue
        named = [_named(subject, found) for subject, found in by_subject.items()]
        if len(named) > _MOST_NAMED:
            more = len(named) - _MOST_NAMED + 1
            named = [*named[: _MOST_NAMED - 1], counted(more, "other comparison")]
        said.append(f"{verbs[arms > 1]} {listed(named)}")
    return listed(said)


def _named(subject: str, verdicts: Sequence[Judged]) -> str:
    """The compared metric, with the size of the difference if the verdict is conclusive."""
    ratios = [v.ratio for v in verdicts if v.ratio is not None]
    if not ratios or verdicts[0].verdict not in ("better", "worse"):
        return subject
    low, high = ratio(min(ratios)), ratio(max(ratios))
    return f"{subject} ({low if low == high else f'{low} to {high}'} times)"


def outcomes(verdicts: Sequence[Judged]) -> str:
    """The number of comparisons with each result, for many arms."""
    words = list(dict.fromkeys(v.verdict for v in verdicts))
    found = [f"{sum(v.verdict == w for v in verdicts)} {w}" for w in words]
    return f"Of {counted(len(verdicts), 'comparison')}: {listed(found)}."


def differences(page: Material) -> str:
    """The differences between compared runs, which precede their verdicts."""
    compared = page.comparison
    if compared is None:
        return ""
    several = f": {listed(compared.with_runs)}" if len(compared.with_runs) > 1 else ""
    intro = paragraph(
        f"{text(compared.run)} is compared with {text(compared.other_name + several)}. They were"
        " not measured at the same time, so whatever changed in between is part of every difference"
        " below, recorded or not."
    )
    found = (
        differences_table(compared.differences, compared.run, compared.others)
        if compared.differences
        else "<p>Nothing that the runs recorded: same plan, nodes alike, same versions.</p>"
    )
    return section("differences", "What differed", intro + found)


def differences_table(found: Sequence[Difference], run: str, other: str) -> str:
    """A table of the recorded differences between runs, with their names as headers."""
    rows = (
        [row_head(text(each.what)), cell(text(each.run)), cell(text(each.other))] for each in found
    )
    caption = "What was recorded differently of the runs"
    return table(("what", run, other), rows, caption=caption)
