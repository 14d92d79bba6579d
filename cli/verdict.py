"""Print a run's results within 80 columns."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackrate_text.units import UNKNOWN, duration, interval, percent, quantity, ratio
from rackrate_text.words import counted

from .requirements import Checked
from .results import Results, Steadiness, Verdict
from .runs import Run

STYLES = {"better": "bold green", "worse": "bold red", "inconclusive": "yellow"}


_WIDE = 120
"""The width from which a list of runs has room for their conclusions."""

OF_CAMPAIGN = " *"
"""Marks a run that belongs to a campaign."""

_STEADINESS = {
    "better": "steadier",
    "worse": "less steady",
    "no meaningful difference": "as steady",
}


def print_results(console: Console, results: Results) -> None:
    """Print the verdict tables, the conclusion, warnings and counts of trials."""
    for verdicts in _by_comparison(results.verdicts):
        console.print(verdict_table(results, verdicts))
        for claim in dict.fromkeys(v.claim for v in verdicts if v.claim):
            say(console, f"This is {claim.rstrip('.')}.")
    if not results.verdicts:
        say(console, "No verdict: too few trials were measured.")
    for verdicts in _by_comparison(results.regressions):
        console.print(verdict_table(results, verdicts))
    _print_ceilings(console, results)
    every = [*results.verdicts, *results.regressions]
    at_once = len(every) > 1 and any(verdict.is_simultaneous for verdict in every)
    # Most conclusions already contain this sentence.
    if at_once and "at once" not in results.conclusion:
        say(console, "The intervals of all verdicts hold at once with 95 %.", style="dim")
    say(console, results.conclusion)
    if results.stopped is not None:
        say(console, results.stopped)
    for warning in results.warnings:
        say(console, f"Warning: {warning}", style="yellow")
    for note in results.mark_notes:
        say(console, f"Marked: {note}", style="yellow")
    if results.lab_scale is not None:
        say(
            console,
            f"Network scaled by {results.lab_scale:g}: figures are not EC2's.",
            style="yellow",
        )
    trials = f"{results.measured} of {results.planned} trials measured"
    if results.failed:
        say(console, f"{trials}, {results.failed} failed; their raw output is kept.", style="red")
        for cause in results.causes:
            say(console, f"  {cause.of_trials}", style="red")
    else:
        say(console, f"{trials}, none failed.")
    if results.warmed_up:
        say(console, f"Warm-up trials, left out of every verdict: {results.warmed_up}.")


def _by_comparison(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Group the verdicts by arm and baseline."""
    found: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault((verdict.arm, verdict.baseline), []).append(verdict)
    return list(found.values())


def _print_ceilings(console: Console, results: Results) -> None:
    for verdict in results.verdicts:
        if verdict.ceiling is not None:
            say(console, f"{verdict.name}: {verdict.ceiling.text.rstrip('.')}.", style="dim")


def verdict_table(results: Results, verdicts: list[Verdict]) -> Table:
    """The table of one comparison. `verdicts` must not be empty."""
    arm, baseline = verdicts[0].arm, verdicts[0].baseline
    scopes = {verdict.scope for verdict in verdicts}
    scope = scopes.pop() if len(scopes) == 1 else None
    of_whom = {
        "these nodes": ", on these nodes",
        "this stack's placement": ", for this stack's placement",
    }
    table = Table(
        title=Text(
            f"{_arm(results, arm)} against {_arm(results, verdicts[0].against)}"
            f"{of_whom.get(scope or '', '')}"
        ),
        title_justify="left",
        title_style="bold",
        box=box.HORIZONTALS,
        padding=0,
    )
    # A column has no room for a run's id. The title has the whole name.
    if verdicts[0].earlier_runs:
        short = "earlier"
    elif baseline.startswith(f"{arm} ("):
        short = "other run"
    else:
        short = baseline
    table.add_column("Test", min_width=10, overflow="fold")
    table.add_column(Text(arm), justify="right", min_width=11, overflow="fold")
    table.add_column(Text(short), justify="right", min_width=11, overflow="fold")
    table.add_column("Ratio", justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    table.add_column("Verdict", min_width=13)
    for verdict in verdicts:
        table.add_row(
            Text(verdict.name),
            quantity(verdict.arm_median, verdict.unit),
            quantity(verdict.baseline_median, verdict.unit),
            ratio(verdict.ratio),
            interval(verdict.interval),
            Text(_word(verdict), style=STYLES.get(verdict.verdict, "")),
        )
        _add_stack(table, verdict)
        _add_partitions(table, verdict)
        _add_ceiling(table, verdict)
        _add_steadiness(table, verdict.steadiness)
    return table


def _word(verdict: Verdict) -> str:
    """The verdict. For an inconclusive one, also what a clear verdict needs."""
    if verdict.verdict == "inconclusive" and verdict.lacks:
        return f"{verdict.verdict}, {verdict.lacks}"
    return verdict.verdict


def _add_stack(table: Table, verdict: Verdict) -> None:
    stack = verdict.stack
    if stack is None:
        return
    word = stack.verdict
    if verdict.more_pairs:
        word += f", about {counted(verdict.more_pairs, 'more pair')}"
    table.add_row("  this stack", "", "", "", interval(stack.interval), Text(word), style="dim")


def _add_partitions(table: Table, verdict: Verdict) -> None:
    """The arm's pairs within a partition and across partitions, with their medians."""
    for kind, found in verdict.partitions.items():
        pairs = f"{counted(found.pairs, 'pair')} {'in one' if kind == 'within' else kind}"
        level = quantity(found.median, verdict.unit)
        table.add_row("  partition", level, "", "", "", Text(pairs), style="dim")


def _add_ceiling(table: Table, verdict: Verdict) -> None:
    ceiling = verdict.ceiling
    if ceiling is None:
        return
    limits = quantity(ceiling.arm, verdict.unit), quantity(ceiling.baseline, verdict.unit)
    table.add_row("  ceiling", *limits, "", "", Text(ceiling.name), style="dim")
    if ceiling.arm_share is not None or ceiling.baseline_share is not None:
        shares = percent(ceiling.arm_share), percent(ceiling.baseline_share)
        table.add_row("  share of it", *shares, "", "", "", style="dim")


def _add_steadiness(table: Table, steadiness: Steadiness | None) -> None:
    if steadiness is None:
        return
    table.add_row(
        "  variability",
        percent(steadiness.arm),
        percent(steadiness.baseline),
        ratio(steadiness.ratio),
        interval(steadiness.ci95),
        Text(_STEADINESS.get(steadiness.verdict, steadiness.verdict)),
        style="dim",
    )


def print_checks(console: Console, checks: Iterable[Checked]) -> None:
    """Print each requirement, and whether the run meets it."""
    for check in checks:
        word, style = ("met", "green") if check.is_met else ("not met", "bold red")
        say(console, f"Required: {check.requirement.text}: {word} ({check.why}).", style=style)


def run_table(runs: list[Run], width: int = 80) -> Table:
    """The table of runs in the given order. Times are UTC, as the stack wrote them.

    If `width` has room, each run's conclusion is shown, cut to one line.
    """
    # Without padding, an id that rackrate made fits on one line and can be copied.
    table = Table(box=box.HORIZONTALS, padding=0)
    table.add_column("Run", overflow="fold")
    table.add_column("Started (UTC)", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    table.add_column("Took", justify="right", no_wrap=True)
    table.add_column("Trials", justify="right", no_wrap=True)
    table.add_column("Failed", justify="right", no_wrap=True)
    is_wide = width >= _WIDE
    if is_wide:
        table.add_column("Conclusion", overflow="ellipsis", no_wrap=True, ratio=1)
    for run in runs:
        table.add_row(
            Text(f"{run.run_id}{OF_CAMPAIGN if run.campaign else ''}"),
            run.started_at[:16].replace("T", " "),
            run.status.replace("_", " "),
            duration(run.seconds),
            UNKNOWN if run.trials_measured is None else str(run.trials_measured),
            UNKNOWN if run.trials_failed is None else str(run.trials_failed),
            *([Text(run.conclusion or run.error or UNKNOWN)] if is_wide else []),
        )
    return table


def say(console: Console, text: str, style: str = "") -> None:
    """Print plain text, without interpreting markup."""
    console.print(Text(text, style=style))


def _arm(results: Results, name: str) -> str:
    placement = results.placements.get(name)
    return name if placement is None else f"{name} (placement: {placement})"
