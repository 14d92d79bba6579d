"""The opening of the page: the run's name and status, its conclusion, and its warnings."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from html import escape

from rackrate.report.markup import (
    cell,
    paragraph,
    row_head,
    section,
    table,
    text,
)
from rackrate.report.material import Material
from rackrate.report.tiles import Tile, strip
from rackrate.verdict import wording
from rackrate.verdict.headline import headline
from rackrate.verdict.model import Difference
from rackrate_text.failures import lines_of
from rackrate_text.units import change, took
from rackrate_text.words import counted, listed

#: The most differences between runs in the headline.
_MOST_NAMED = 4


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
        "" if page.comparison else took(run.seconds, run.waited_seconds),
        f"{counts.measured} of {counted(counts.planned, 'trial')} measured",
        f"seed {run.seed}",
    )
    return f"<h1>{escape(title(page))}</h1>" + paragraph(" · ".join(filter(None, facts)), "quiet")


def moment(iso: str) -> str:
    """A time to the minute, as markup."""
    time = datetime.datetime.fromisoformat(iso).astimezone(datetime.UTC)
    return f'<time datetime="{escape(iso, quote=True)}">{time:%Y-%m-%d %H:%M} UTC</time>'


def opening(page: Material) -> str:
    """The conclusion: one sentence, a tile for each comparison, then deviations from the plan."""
    cause = message(page.results.run.cause)
    return section(
        "conclusion",
        "Conclusion",
        "".join(
            [
                failure(page.results.run.error, page.results.run.cause),
                paragraph(escape(conclusion(page)), "headline"),
                strip(_tiles(page), "verdicts"),
                *(
                    paragraph(escape(drift), "warning")
                    for drift in wording.drifts(page.results.verdicts)
                ),
                paragraph(escape(page.stopped.text), "quiet") if page.stopped else "",
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


def conclusion(page: Material) -> str:
    """The result of the run in one sentence, as text: the direction of each comparison."""
    verdicts, counts = page.results.verdicts, page.results.trials
    if counts.planned and not counts.measured:
        return (
            f"Nothing was measured: none of the {counted(counts.planned, 'trial')} has a value,"
            " so nothing can be said of any arm."
        )
    if not verdicts:
        return page.results.conclusion
    if page.comparison is None:
        return " ".join(wording.headlines(verdicts))
    itself = "the same arm" if len({v.arm for v in verdicts}) == 1 else "the same arms"
    against = f"against {itself} in {page.comparison.others}"
    return f"{_differ(page.comparison.differences)}. {headline(against, verdicts)}"


def _differ(differences: Sequence[Difference]) -> str:
    """A short phrase on the differences between runs."""
    differed = [difference.what for difference in differences]
    if len(differed) > _MOST_NAMED:
        rest = len(differed) - _MOST_NAMED + 1
        differed = [*differed[: _MOST_NAMED - 1], f"{rest} more"]
    return f"The runs differ in {listed(differed) if differed else 'nothing that they recorded'}"


def _tiles(page: Material) -> list[Tile]:
    """The tiles; none if nothing was measured, which the sentence says."""
    verdicts = page.results.verdicts if page.results.trials.measured else ()
    several = len({wording.heading(verdict) for verdict in verdicts}) > 1
    return [
        Tile(
            anchor=page.tests[verdict.test].anchor,
            subject=wording.subject(verdict),
            sides=wording.heading(verdict) if several else "",
            change=change(verdict.ratio),
            levels=wording.levels(verdict),
            word=verdict.verdict,
            lacks=wording.more_needed(verdict),
            scope=page.scope_of(verdict),
            drifted=verdict.drift is not None,
        )
        for verdict in verdicts
    ]


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
