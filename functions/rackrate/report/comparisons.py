"""The comparisons of two arms, for the tiles and the tables of the pages of runs and campaigns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from markupsafe import Markup

from rackrate.report.charts import intervals
from rackrate.report.frame import Figure
from rackrate.report.tables import MOST_ROWS
from rackrate.verdict import wording
from rackrate_contract.campaign import Answer
from rackrate_contract.verdicts import Ends, Verdict, Word
from rackrate_text.units import quantity
from rackrate_text.words import interval_title


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: its name.
        number: its index among the page's arms, which determines its color.
        level: its geometric mean, in the metric's unit.
        limit: its documented limit, in the same unit.
        share: the level as a share of the limit.
    """

    name: str
    number: int
    level: float | None
    limit: float | None = None
    share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison of two arms.

    Attributes:
        of: the answer or the verdict.
        anchor: the id of the section about it.
        sides: the two sides that are compared.
        drifted: whether one arm drifted alone.
        lacks: what an inconclusive one lacks, or what earlier runs could show; None if unknown.
        scope: what it applies to.
        in_words: the change and its intervals.
        bars: the levels of both sides.
        limit: the name of the documented limits of both.
        stack: the interval for the stack's placement.
        prediction: the interval of the next deployment's ratio.
        varies: how much draws vary, in words.
    """

    of: Answer | Verdict
    anchor: str
    sides: str
    drifted: bool = False
    lacks: str | None
    scope: str
    in_words: str
    bars: Sequence[Side]
    limit: str = ""
    stack: Ends | None = None
    prediction: Ends | None = None
    varies: str = ""

    @property
    def levels(self) -> str | None:
        """The levels in words, such as `488 → 980 Mbit/s`; None if one is unknown."""
        return wording.levels(self.of)

    @property
    def drawable(self) -> intervals.Ratio | None:
        """The ratio with its interval, if it can be drawn."""
        of = self.of
        if of.ratio is None or of.ci_simultaneous is None:
            return None
        ratio = intervals.Ratio(of.ratio, of.ci_simultaneous, of.threshold)
        return ratio if ratio.drawable else None


@dataclass(frozen=True)
class Explained:
    """A comparison with its figure, what it applies to, and all its qualifications.

    Attributes:
        heading: the comparison.
        verdict: its verdict.
        figure: its figure, or why there is none; None for nothing.
        lines: sentences about it; empty ones are left out.
        anchor: its id; a verdict's has none.
    """

    heading: str
    verdict: Word
    figure: Figure | str | None
    lines: Sequence[str]
    anchor: str = ""


class Row(NamedTuple):
    """A comparison with its charts: its interval, the scale for narrow screens, and its levels."""

    compared: Comparison
    interval: Markup
    scale: Markup
    levels: Markup


@dataclass(frozen=True)
class Comparisons:
    """A table of comparisons.

    Attributes:
        name: its name within the page.
        compared: the comparisons.
        adjusted_for: the number of tests for which the shown intervals are adjusted; 0 if they are
            not.
    """

    name: str
    compared: Sequence[Comparison]
    adjusted_for: int

    @property
    def interval_title(self) -> str:
        """What the shown intervals are."""
        return interval_title(self.adjusted_for)

    @property
    def scope(self) -> str:
        """What all comparisons apply to; empty if they differ, which is a column then."""
        scopes = {each.scope for each in self.compared}
        return scopes.pop() if len(scopes) == 1 else ""

    @cached_property
    def _reach(self) -> float:
        """The reach of the scale that all drawn ratios have."""
        return intervals.common_reach(filter(None, (each.drawable for each in self.compared)))

    @cached_property
    def scale(self) -> str:
        """The scale of all drawn ratios; empty without any."""
        if not any(each.drawable for each in self.compared):
            return Markup()
        return intervals.ratio_scale(self._reach).svg(f"scale-{self.name}")

    @property
    def rows(self) -> list[Row]:
        """The rows of the table."""
        return [self._row(each, n) for n, each in self._shown]

    @property
    def _shown(self) -> list[tuple[int, Comparison]]:
        return [*enumerate(self.compared[:MOST_ROWS])]

    @property
    def drawn(self) -> list[tuple[Comparison, Markup]]:
        """The comparisons that can be drawn, with their intervals on the shared scale."""
        rows = [(each, self._interval(each, n, "the change")) for n, each in self._shown]
        return [(each, interval) for each, interval in rows if interval]

    def _interval(self, compared: Comparison, number: int, what: str) -> Markup:
        if (ratio := compared.drawable) is None:
            return Markup()
        title = f"{compared.of.name}, {compared.sides}: {what}."
        row = intervals.interval_row(ratio, self._reach)
        return row.svg(f"interval-{self.name}-{number}", title, compared.in_words)

    def _row(self, compared: Comparison, number: int) -> Row:
        name = f"{self.name}-{number}"
        drawn = self._interval(compared, number, "ratio")
        # Rows shown as cards have no header, so they contain the scale themselves.
        narrow = Markup(str(self.scale).replace(f"scale-{self.name}", f"scale-{name}"))
        return Row(compared, drawn, narrow if drawn else drawn, _levels(compared, f"levels-{name}"))


def _levels(compared: Comparison, name: str) -> Markup:
    """The levels of both sides as bars; empty if one is unknown."""
    levels = [
        intervals.Level(side.number, side.level, side.limit)
        for side in compared.bars
        if side.level is not None
    ]
    if len(levels) < len(compared.bars):
        return Markup()
    words = "; ".join(
        f"{side.name}: {quantity(side.level, compared.of.unit)}"
        + (f", limit {quantity(side.limit, compared.of.unit)}" if side.limit is not None else "")
        for side in compared.bars
    )
    title = f"{compared.of.name}, {compared.sides}: geometric means."
    return intervals.levels_row(levels).svg(name, title, words)
