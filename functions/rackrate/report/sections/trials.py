"""The section on trials with notes: failed trials, marked trials, and the warm-up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rackrate.measure.trials import Trial
from rackrate.report.material import Material, pair_of
from rackrate.report.rendering import Part
from rackrate.report.tables import Table, number
from rackrate_contract.trials import Mark
from rackrate_text.failures import Loss
from rackrate_text.units import quantity


def trials_section(page: Material) -> Part:
    """All failed and marked trials, and the warm-up."""
    results, most = page.results, page.detail.rows
    # A comparison has no warm-up. The pages of its runs show theirs.
    warm_up = None if page.comparison else results.warm_up
    return Part(
        "trials",
        "Trials to know about",
        counts=results.trials,
        failed=failed_trials(page, page.failed, "Failed trials", with_test=True),
        marked=marked_trials(page, results.marks, "Marked trials", with_test=True),
        mark_notes=results.mark_notes,
        warm_up=warm_up,
        warm_up_trials=warm_up
        and Table(
            "Warm-up trials",
            [
                {
                    "arm": page.arm_title(trial.arm),
                    "test": trial.test,
                    "client → server": f"{trial.client} → {trial.server}",
                    "value": number(quantity(trial.value, trial.unit)),
                    "outcome": trial.reason or trial.status,
                }
                for trial in warm_up.trials
            ],
            most,
        ),
    )


def causes_table(causes: Iterable[Loss], caption: str) -> Table:
    """A table of the causes of lost trials."""
    rows = [
        {"trials": number(loss.count), "cause": loss.cause, "where": loss.places or None}
        for loss in causes
    ]
    return Table(caption, rows)


def failed_trials(
    page: Material, failed: Iterable[Trial], caption: str, *, with_test: bool = False
) -> Table:
    """A table of failed trials, with their tests if they are of several."""
    notes = ((t, {"attempt": number(t.attempt), "reason": t.reason}) for t in failed)
    return _table(page, notes, caption, with_test=with_test)


def marked_trials(
    page: Material, marks: Sequence[Mark], caption: str, *, with_test: bool = False
) -> Table:
    """A table of marked trials, with their tests if they are of several."""
    notes = ((page.marked_trial(m), {"mark": m.mark, "what was seen": m.text}) for m in marks)
    return _table(page, notes, caption, with_test=with_test)


def _table(
    page: Material,
    notes: Iterable[tuple[Trial, Mapping[str, object]]],
    caption: str,
    *,
    with_test: bool,
) -> Table:
    rows = [
        {
            "block": number(trial.block),
            "arm": page.arm_title(trial.arm),
            **({"test": trial.test} if with_test else {}),
            "client → server": pair_of(trial),
            **note,
            "output": page.raw_link(trial),
        }
        for trial, note in notes
    ]
    return Table(caption, rows, page.detail.rows)
