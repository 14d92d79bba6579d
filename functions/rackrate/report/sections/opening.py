"""The opening of the page: the run's name and status, its conclusion, and its warnings."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from rackrate.report.comparisons import Comparison, Comparisons
from rackrate.report.material import Material
from rackrate.report.rendering import Part
from rackrate.report.sections.meaning import unknown
from rackrate.report.sections.verdicts import comparison, differences_table
from rackrate.verdict import wording
from rackrate.verdict.headline import headline
from rackrate_contract.verdicts import Difference
from rackrate_text.failures import lines_of
from rackrate_text.grouping import grouped_by
from rackrate_text.units import took
from rackrate_text.words import capitalized, counted, listed

#: The most differences between runs in the headline.
_MOST_NAMED = 4
#: The most tiles of a page. More are not read at a glance, and the table below has all.
_MOST_TILES = 12


def title(page: Material) -> str:
    """The page's title."""
    if page.comparison:
        return f"rackrate: {page.comparison.run} compared with {page.comparison.other_name}"
    return f"rackrate: {page.results.run.id}"


def facts(page: Material) -> Sequence[str]:
    """The status of the run, for the line below the title."""
    run, counts = page.results.run, page.results.trials
    return (
        run.status,
        started(run.started_at),
        "" if page.comparison else took(run.seconds, run.waited_seconds),
        f"{counts.measured} of {counted(counts.planned, 'trial')} measured",
        f"seed {run.seed}",
    )


def started(iso: str) -> str:
    """When an execution started, to the minute."""
    return Markup("started {}").format(moment(iso))


def moment(iso: str) -> Markup:
    """A time to the minute, as an element."""
    time = datetime.datetime.fromisoformat(iso).astimezone(datetime.UTC)
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M} UTC</time>').format(iso, time)


def opening(page: Material) -> Part:
    """The conclusion in a sentence, the comparisons at a glance, then deviations from the plan.

    What changed since earlier runs comes first, because a gate asks for that.
    """
    run, verdicts = page.results.run, page.results.verdicts
    every = [*page.results.regressions, *verdicts]
    return conclusion_part(
        conclusion(page),
        # If nothing was measured, the sentence says so.
        [comparison(page, v) for v in every] if page.results.trials.measured else [],
        table="verdicts",
        scope=_scope(page),
        failure=(run.error, run.cause),
        leading=wording.drifts(verdicts),
        open_question=unknown(page)[0] if verdicts and not page.comparison else "",
        stopped=page.results.stopped.text if page.results.stopped else None,
        warnings=page.results.warnings,
    )


def conclusion_part(
    sentence: str,
    comparisons: Sequence[Comparison],
    *,
    table: str,
    scope: str = "",
    failure: tuple[str | None, str | None],
    warnings: Iterable[str],
    leading: Iterable[str] = (),
    open_question: str = "",
    about: Sequence[str] = (),
    stopped: str | None = None,
) -> Part:
    """The section with the conclusion of a run or of a campaign.

    Args:
        sentence: the conclusion.
        comparisons: the comparisons, in the order of the table.
        table: the id of the section with the table of all comparisons.
        scope: what was measured, in a line.
        failure: the error that ended the execution, and its cause; None if it did not fail.
        warnings: its warnings.
        leading: what comes first: drifts of one arm alone, or what differed between pooled runs.
        open_question: what is not known yet, with what would show it.
        about: what the conclusion is about.
        stopped: why no more was measured.
    """
    error, cause = failure[0], message(failure[1])
    tiles = grouped_by(comparisons[:_MOST_TILES], lambda each: (each.of.test, each.sides))
    return Part(
        "conclusion",
        "Conclusion",
        error=error,
        cause=cause,
        sentence=sentence,
        scope=scope,
        tiles=[*tiles.values()],
        more_tiles=len(comparisons) - _MOST_TILES,
        several_sides=len({each.sides for each in comparisons}) > 1,
        shown=Comparisons("glance", comparisons, adjusted_for=0),
        table=table,
        leading=leading,
        open_question=open_question,
        about=filter(None, about),
        stopped=stopped,
        warnings=[warning for warning in warnings if warning != cause],
    )


def _scope(page: Material) -> str:
    """What was measured: the nodes with their types and places, and for how long."""
    nodes = {node.name: node for arm in page.results.arms for node in arm.nodes}.values()
    headings = {wording.heading(verdict) for verdict in page.results.verdicts}
    compared = f"{capitalized(headings.pop())}, on" if len(headings) == 1 else "On"
    parts = [f"{compared} {counted(len(nodes), 'node')}"]
    for lead, fact in ((" of", "instance_type"), (" in", "zone"), (", Region", "region")):
        if values := sorted({value for node in nodes if (value := getattr(node, fact))}):
            parts.append(f"{lead} {listed(values, most=_MOST_NAMED)}")
    return f"{''.join(parts)}. {wording.scopes(page.results.verdicts)}"


def message(cause: str | None) -> str:
    """The message of a cause. If a function raised, the cause is JSON with a stack trace."""
    return "\n".join(lines_of(cause or ""))


def conclusion(page: Material) -> str:
    """The result of the run in one sentence: the direction of each comparison."""
    verdicts, counts = page.results.verdicts, page.results.trials
    if counts.planned and not counts.measured:
        return (
            f"Nothing was measured: none of the {counted(counts.planned, 'trial')} has a value,"
            " so nothing can be said of any arm."
        )
    if not verdicts:
        return page.results.conclusion
    if page.comparison is None:
        return " ".join(wording.headlines([*page.results.regressions, *verdicts]))
    itself = "the same arm" if len({v.arm for v in verdicts}) == 1 else "the same arms"
    against = f"against {itself} in {page.comparison.others}"
    return f"{differ(page.comparison.differences)} {headline(against, verdicts)}"


def differ(differences: Sequence[Difference]) -> str:
    """A short sentence on the differences between runs."""
    differed = [difference.what for difference in differences]
    if len(differed) > _MOST_NAMED:
        rest = len(differed) - _MOST_NAMED + 1
        differed = [*differed[: _MOST_NAMED - 1], f"{rest} more"]
    return f"The runs differ in {listed(differed) if differed else 'nothing that they recorded'}."


def differences(page: Material) -> Part | None:
    """The differences between compared runs, which precede their verdicts."""
    compared = page.comparison
    if compared is None:
        return None
    several = f": {listed(compared.with_runs)}" if len(compared.with_runs) > 1 else ""
    return Part(
        "differences",
        "What differed",
        intro=f"{compared.run} is compared with {compared.other_name}{several}. They were not"
        " measured at the same time, so whatever changed in between is part of every difference"
        " below, recorded or not.",
        differences=differences_table(compared.differences, compared.run, compared.others),
    )
