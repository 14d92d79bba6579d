"""The headline: the direction of each comparison in one sentence, with the size of a change. Pure.

Runs, comparisons, campaigns and sweeps share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rackrate_contract.verdicts import Word
from rackrate_text.units import change
from rackrate_text.words import capitalized, counted, listed, metric_of_test

#: The most names of a kind in a clause.
_MOST_NAMED = 4
_MOST_CLAUSES = 3


class Judged(Protocol):
    """What a headline needs of a verdict of a run, an answer of a campaign, or a swept value."""

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


_VERBS: Mapping[Word, tuple[str, str]] = {
    "better": ("is better in", "are better in"),
    "worse": ("is worse in", "are worse in"),
    "no meaningful difference": (
        "shows no meaningful difference in",
        "show no meaningful difference in",
    ),
    "inconclusive": ("is inconclusive in", "are inconclusive in"),
}


def headline(against: str, verdicts: Sequence[Judged]) -> str:
    """The sentence, such as `Against baseline, treatment is better in rtt (+101 %).`

    Args:
        against: what the verdicts are against, such as `against baseline, on these nodes`.
        verdicts: the verdicts. Many arms that differ are counted.
    """
    clauses = _clauses(verdicts)
    opened = capitalized(against)
    return f"{opened}: {counts(verdicts)}." if clauses is None else f"{opened}, {clauses}."


def _clauses(verdicts: Sequence[Judged]) -> str | None:
    """Clauses on the arms' results, one for all arms with the same result; None if too many."""
    of_arms: dict[str, list[Judged]] = {}
    for verdict in verdicts:
        of_arms.setdefault(verdict.arm, []).append(verdict)
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for arm, of_arm in of_arms.items():
        outcome = tuple((_subject(v), v.verdict) for v in of_arm)
        alike.setdefault(outcome, []).append(arm)
    if len(alike) > _MOST_CLAUSES:
        return None
    return "; ".join(
        f"{listed(arms)} {_clause([v for arm in arms for v in of_arms[arm]], len(arms))}"
        for arms in alike.values()
    )


def counts(verdicts: Sequence[Judged]) -> str:
    """How many comparisons have each result, such as `of 9 comparisons 7 better and 2 worse`."""
    words = list(dict.fromkeys(v.verdict for v in verdicts))
    parts = [f"{sum(v.verdict == w for v in verdicts)} {w}" for w in words]
    return f"of {counted(len(verdicts), 'comparison')} {listed(parts)}"


def _subject(verdict: Judged) -> str:
    return metric_of_test(verdict.test, verdict.metric)


def _clause(verdicts: Sequence[Judged], arms: int) -> str:
    """A clause on arms with the same result: `is better in a (+101 %) and shows ... in b`."""
    clauses = []
    for word, verbs in _VERBS.items():
        by_subject: dict[str, list[Judged]] = {}
        for verdict in verdicts:
            if verdict.verdict == word:
                by_subject.setdefault(_subject(verdict), []).append(verdict)
        if not by_subject:
            continue
        named = [_named(subject, alike) for subject, alike in by_subject.items()]
        if len(named) > _MOST_NAMED:
            more = len(named) - _MOST_NAMED + 1
            named = [*named[: _MOST_NAMED - 1], counted(more, "other comparison")]
        clauses.append(f"{verbs[arms > 1]} {listed(named)}")
    return listed(clauses)


def _named(subject: str, verdicts: Sequence[Judged]) -> str:
    """The compared metric, with the size of the difference if the verdict is conclusive."""
    ratios = [v.ratio for v in verdicts if v.ratio is not None]
    if not ratios or verdicts[0].verdict not in ("better", "worse"):
        return subject
    low, high = change(min(ratios)), change(max(ratios))
    return f"{subject} ({low if low == high else f'{low} to {high}'})"
