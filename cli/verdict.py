"""Print what a run found, within 80 columns."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .results import Results, Verdict
from .runs import Run
from .units import duration, quantity, ratio

_STYLES = {"better": "bold green", "worse": "bold red", "inconclusive": "yellow"}


def print_results(console: Console, results: Results, run: Run | None) -> None:
    """The verdict tables, the conclusion and whatever qualifies them."""
    for arm in dict.fromkeys(verdict.arm for verdict in results.verdicts):
        console.print(
            verdict_table(results, [verdict for verdict in results.verdicts if verdict.arm == arm])
        )
    if not results.verdicts:
        say(console, "No verdict: too few trials were measured.")
    conclusion = results.conclusion or (run.conclusion if run else None)
    if conclusion:
        say(console, conclusion)
    if results.lab_scale is not None:
        say(
            console,
            f"Network scaled by {results.lab_scale:g}: figures are not EC2's.",
            style="yellow",
        )
    trials = f"{results.measured} of {results.planned} trials measured"
    if results.failed:
        say(console, f"{trials}, {results.failed} failed; their raw output is kept.", style="red")
    else:
        say(console, f"{trials}, none failed.")


def verdict_table(results: Results, verdicts: list[Verdict]) -> Table:
    """One arm against the baseline. `verdicts` is not empty."""
    arm, baseline = verdicts[0].arm, verdicts[0].baseline
    table = Table(
        title=Text(f"{_arm(results, arm)} against {_arm(results, baseline)}"),
        title_justify="left",
        title_style="bold",
        box=box.HORIZONTALS,
        padding=0,
    )
    table.add_column("Test", min_width=10, overflow="fold")
    table.add_column(Text(arm), justify="right", min_width=11, overflow="fold")
    table.add_column(Text(baseline), justify="right", min_width=11, overflow="fold")
    table.add_column("Ratio", justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    table.add_column("Verdict", min_width=13)
    for verdict in verdicts:
        table.add_row(
            Text(_name(verdict)),
            quantity(verdict.arm_median, verdict.unit),
            quantity(verdict.baseline_median, verdict.unit),
            "-" if verdict.ratio is None else ratio(verdict.ratio),
            _interval(verdict.ci95),
            Text(verdict.verdict, style=_STYLES.get(verdict.verdict, "")),
        )
        if verdict.ceiling is not None:
            table.add_row(
                "  ceiling",
                quantity(verdict.ceiling.arm, verdict.unit),
                quantity(verdict.ceiling.baseline, verdict.unit),
                "",
                "",
                Text(verdict.ceiling.name),
                style="dim",
            )
    return table


def print_estimate(console: Console, run: Run) -> None:
    """What a dry run says."""
    takes = "" if run.expected_seconds is None else f", about {duration(run.expected_seconds)}"
    trials = "" if run.trials_planned is None else f"{run.trials_planned} trials in "
    say(console, f"Dry run {run.run_id}: {trials}{run.blocks} blocks{takes}; nothing was measured.")


def run_table(runs: list[Run]) -> Table:
    """Runs in the order given; times are UTC as the stack wrote them."""
    table = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("Run", overflow="fold")
    table.add_column("Started (UTC)", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    table.add_column("Took", justify="right", no_wrap=True)
    table.add_column("Trials", justify="right", no_wrap=True)
    table.add_column("Failed", justify="right", no_wrap=True)
    for run in runs:
        table.add_row(
            Text(run.run_id),
            run.started_at[:16].replace("T", " "),
            run.status.replace("_", " "),
            "-" if run.seconds is None else duration(run.seconds),
            "-" if run.trials_measured is None else str(run.trials_measured),
            "-" if run.trials_failed is None else str(run.trials_failed),
        )
    return table


def say(console: Console, text: str, style: str = "") -> None:
    """Plain words: nothing in them is markup."""
    console.print(Text(text, style=style))


def _arm(results: Results, name: str) -> str:
    placement = results.placements.get(name)
    return name if placement is None else f"{name} (placement: {placement})"


def _name(verdict: Verdict) -> str:
    if verdict.metric == verdict.test:
        return verdict.test
    return f"{verdict.test} {verdict.metric}"


def _interval(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return "-"
    return f"{ratio(interval[0])} to {ratio(interval[1])}"
