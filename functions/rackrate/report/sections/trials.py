"""The section on trials with notes: marked trials, failed trials, and the warm-up."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from rackrate.measure.trials import Trial
from rackrate.report.frame import pair_of, raw_link
from rackrate.report.markup import (
    cell,
    folded,
    items,
    number,
    paragraph,
    section,
    table,
    text,
)
from rackrate.report.material import Material, TestMaterial
from rackrate.results.schema import WarmUp
from rackrate.verdict import wording
from rackrate.verdict.model import Mark
from rackrate_text.failures import Loss
from rackrate_text.units import quantity
from rackrate_text.words import counted

#: A list of at most this many trials is not folded.
_FEW = 5


def notes_on_trials(test: TestMaterial) -> str:
    """A test's failed and marked trials, for the section with its figures."""
    return _failed_of(test) + _marked_of(test)


def _failed_of(test: TestMaterial) -> str:
    failed = test.failed
    if not failed:
        return ""
    intro = (
        f"{counted(len(failed), 'trial')} of {escape(test.name)} failed. What failed has no value"
        " and is in no median, interval or verdict; it is never counted as zero."
    )
    rows = _failure_rows(test.page, failed)
    heads = ("block", "arm", "client → server", "attempt", "reason", "output")
    caption = f"Failed trials of {test.name}"
    listed = table(heads, rows, caption=caption, most=test.page.detail.rows)
    causes = wording.losses((trial.key, trial) for trial in failed)
    return (
        f'<div class="noted">{paragraph(f"<strong>Failed.</strong> {intro}")}'
        f"{causes_table(causes, f'Why trials of {test.name} failed')}"
        f"{folded('Each of them', listed)}</div>"
    )


def causes_table(causes: Iterable[Loss], caption: str) -> str:
    """A table of the causes of lost trials."""
    rows = (
        [number(text(loss.count)), cell(text(loss.cause)), cell(text(loss.places))]
        for loss in causes
    )
    return table(("trials", "cause", "where"), rows, caption=caption)


def _failure_rows(page: Material, failed: Iterable[Trial]) -> Iterable[list[str]]:
    return (
        [
            number(text(trial.block)),
            cell(text(trial.arm)),
            cell(pair_of(trial)),
            number(text(trial.attempt)),
            cell(text(trial.reason)),
            cell(raw_link(page, trial)),
        ]
        for trial in failed
    )


def _marked_of(test: TestMaterial) -> str:
    marks = test.marks
    if not marks:
        return ""
    notes = [escape(note) for note in wording.mark_notes(marks, len(test.measured))]
    rows = _mark_rows(test.page, marks, with_test=False)
    heads = ("block", "arm", "client → server", "mark", "what was seen", "output")
    caption = f"Marked trials of {test.name}"
    listed = table(heads, rows, caption=caption, most=test.page.detail.rows)
    return (
        f'<div class="noted"><p><strong>Marked.</strong> Hollow in the figure above; they count'
        f" like any other.</p>{items(notes)}"
        f"{folded('Which, and what was seen', listed, opened=len(marks) <= _FEW)}</div>"
    )


def _mark_rows(page: Material, marks: Iterable[Mark], *, with_test: bool) -> Iterable[list[str]]:
    for mark in marks:
        trial = page.marked_trial(mark)
        yield [
            number(text(trial.block)),
            cell(text(trial.arm)),
            *([cell(text(trial.test))] if with_test else []),
            cell(pair_of(trial)),
            cell(text(mark.mark)),
            cell(text(mark.text)),
            cell(raw_link(page, trial)),
        ]


def trials_section(page: Material) -> str:
    """All marked and failed trials, and the warm-up."""
    # A comparison has no warm-up. The pages of its runs show theirs.
    warm_up = (
        ""
        if page.comparison
        else "<h3>Warm-up</h3>" + _warm_up(page.results.warm_up, page.detail.rows)
    )
    return section(
        "trials",
        "Trials to know about",
        "<h3>Failed trials</h3>"
        + _all_failed(page)
        + "<h3>Marked trials</h3>"
        + _all_marked(page)
        + warm_up,
    )


def _all_failed(page: Material) -> str:
    counts = page.results.trials
    if not counts.failed:
        return "<p>None.</p>"
    failed = page.failed
    note = paragraph('<a href="#lost">Why, and in which blocks.</a>') if counts.causes else ""
    if not failed:
        return note
    rows = (
        [cell(text(trial.test)), *cells]
        for trial, cells in zip(failed, _failure_rows(page, failed), strict=True)
    )
    heads = ("test", "block", "arm", "client → server", "attempt", "reason", "output")
    return note + folded(
        f"All {counted(len(failed), 'failed trial')}",
        table(heads, rows, caption="Failed trials", most=page.detail.rows),
    )


def _all_marked(page: Material) -> str:
    marks = page.results.marks
    if not marks:
        return "<p>None.</p>"
    heads = ("block", "arm", "test", "client → server", "mark", "what was seen", "output")
    rows = _mark_rows(page, marks, with_test=True)
    return (
        items(escape(note) for note in page.results.mark_notes)
        + '<p class="quiet">A marked trial counts like any other; the mark says what to think of'
        " when reading it.</p>"
        + folded(
            f"All {counted(len(marks), 'mark')}",
            table(heads, rows, caption="Marked trials", most=page.detail.rows),
        )
    )


def _warm_up(warm_up: WarmUp, most: int) -> str:
    trials = warm_up.trials
    if not trials:
        return "<p>There was none.</p>"
    rows = (
        [
            cell(text(trial.arm)),
            cell(text(trial.test)),
            cell(pair_of(trial)),
            number(text(quantity(trial.value, trial.unit))),
            cell(text(trial.reason or trial.status)),
        ]
        for trial in trials
    )
    failed = f", {warm_up.failed} failed" if warm_up.failed else ""
    heads = ("arm", "test", "client → server", "value", "outcome")
    return (
        f"<p>{warm_up.measured} measured{failed}. They are kept and left out of every verdict"
        " and every figure above.</p>"
        + folded("Warm-up trials", table(heads, rows, caption="Warm-up trials", most=most))
    )
