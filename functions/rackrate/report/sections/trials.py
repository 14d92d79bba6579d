"""Trials of which something is to be known: marked ones, failed ones, and the warm-up's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rackrate import conclusion
from rackrate.report.figure import pair_of, raw_link
from rackrate.report.markup import (
    cell,
    count,
    folded,
    items,
    number,
    paragraph,
    quantity,
    section,
    table,
    text,
)
from rackrate.report.material import Json, Material

#: So few need not be unfolded.
_FEW = 5


def notes_on_trials(material: Material, test: str) -> str:
    """A test's failed and marked trials, where its figures are."""
    return _failed_of(material, test) + _marked_of(material, test)


def _failed_of(material: Material, test: str) -> str:
    failed = [f for f in material.results["trials"]["failures"] if f["test"] == test]
    if not failed:
        return ""
    intro = (
        f"{count(len(failed), 'trial')} of {escape(test)} failed. What failed has no value and is"
        " in no median, interval or verdict; it is never counted as zero."
    )
    rows = _failure_rows(material, failed)
    heads = ("block", "arm", "client → server", "attempt", "reason", "output")
    listed = table(heads, rows, caption=f"Failed trials of {test}", most=material.detail.rows)
    return (
        f'<div class="noted">{paragraph(f"<strong>Failed.</strong> {intro}")}'
        f"{folded('Which, and why', listed, opened=len(failed) <= _FEW)}</div>"
    )


def _failure_rows(material: Material, failed: Iterable[Json]) -> Iterable[list[str]]:
    return (
        [
            number(text(failure["block"])),
            cell(text(failure["arm"])),
            cell(pair_of(failure)),
            number(text(failure.get("attempt"))),
            cell(text(failure["reason"])),
            cell(raw_link(material, {**failure, **material.trial(failure)})),
        ]
        for failure in failed
    )


def _marked_of(material: Material, test: str) -> str:
    marks = material.marks_of_test(test)
    if not marks:
        return ""
    measured = len(material.measured(test))
    notes = [escape(note) for note in conclusion.mark_notes(marks, measured)]
    rows = _mark_rows(material, marks, with_test=False)
    heads = ("block", "arm", "client → server", "mark", "what was seen", "output")
    listed = table(heads, rows, caption=f"Marked trials of {test}", most=material.detail.rows)
    return (
        f'<div class="noted"><p><strong>Marked.</strong> Hollow in the figure above; they count'
        f" like any other.</p>{items(notes)}"
        f"{folded('Which, and what was seen', listed, opened=len(marks) <= _FEW)}</div>"
    )


def _mark_rows(
    material: Material, marks: Iterable[Json], *, with_test: bool
) -> Iterable[list[str]]:
    for mark in marks:
        trial = {**mark, **material.trial(mark)}
        yield [
            number(text(mark["block"])),
            cell(text(mark["arm"])),
            *([cell(text(mark["test"]))] if with_test else []),
            cell(pair_of(mark)),
            cell(text(mark["mark"])),
            cell(text(mark["text"])),
            cell(raw_link(material, trial)),
        ]


def trials_section(material: Material) -> str:
    """All marked and failed trials, and the warm-up."""
    results = material.results
    # A comparison takes no warm-up along; the pages of its runs show theirs.
    warm_up = (
        ""
        if results.get("comparison")
        else "<h3>Warm-up</h3>" + _warm_up(results.get("warm_up") or {}, material.detail.rows)
    )
    return section(
        "trials",
        "Trials to know about",
        "<h3>Failed trials</h3>"
        + _all_failed(material)
        + "<h3>Marked trials</h3>"
        + _all_marked(material)
        + warm_up,
    )


def _all_failed(material: Material) -> str:
    counts = material.results["trials"]
    if not counts["failed"]:
        return "<p>None.</p>"
    failures: Sequence[Json] = counts["failures"]
    silent = counts["failed"] - len(failures)
    note = f"<p>{count(silent, 'trial')} never ran.</p>" if silent > 0 else ""
    if not failures:
        return note
    rows = (
        [cell(text(failure["test"])), *cells]
        for failure, cells in zip(failures, _failure_rows(material, failures), strict=True)
    )
    heads = ("test", "block", "arm", "client → server", "attempt", "reason", "output")
    return note + folded(
        f"All {count(len(failures), 'failed trial')}",
        table(heads, rows, caption="Failed trials", most=material.detail.rows),
    )


def _all_marked(material: Material) -> str:
    results = material.results
    marks = results["marks"]
    if not marks:
        return "<p>None.</p>"
    heads = ("block", "arm", "test", "client → server", "mark", "what was seen", "output")
    rows = _mark_rows(material, marks, with_test=True)
    return (
        items(escape(note) for note in results["mark_notes"])
        + '<p class="quiet">A marked trial counts like any other; the mark says what to think of'
        " when reading it.</p>"
        + folded(
            f"All {count(len(marks), 'mark')}",
            table(heads, rows, caption="Marked trials", most=material.detail.rows),
        )
    )


def _warm_up(warm_up: Json, most: int) -> str:
    trials = warm_up.get("trials")
    if not trials:
        return "<p>There was none.</p>"
    rows = (
        [
            cell(text(trial["arm"])),
            cell(text(trial["test"])),
            cell(pair_of(trial)),
            number(quantity(trial["value"], trial["unit"])),
            cell(text(trial["reason"] or trial["status"])),
        ]
        for trial in trials
    )
    failed = f", {warm_up['failed']} failed" if warm_up["failed"] else ""
    heads = ("arm", "test", "client → server", "value", "outcome")
    return (
        f"<p>{warm_up['measured']} measured{failed}. They are kept and left out of every verdict"
        " and every figure above.</p>"
        + folded("Warm-up trials", table(heads, rows, caption="Warm-up trials", most=most))
    )
