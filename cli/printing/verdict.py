"""Print a run's results within 80 columns: the verdicts, and what a reader must not miss.

The rest, such as variability, is printed on demand (`--verbose`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackrate_text.grouping import grouped_by
from rackrate_text.units import UNKNOWN, change, changes, duration, percent, quantity, shift
from rackrate_text.words import counted, interval_title, listed, names_by_reason

from ..reading.requirements import Checked
from ..reading.runs import Run

if TYPE_CHECKING:
    from rackrate_contract.results import Findings
    from rackrate_contract.verdicts import Verdict

STYLES = {"better": "bold green", "worse": "bold red", "inconclusive": "yellow"}


_WIDE = 120
"""The width from which a list of runs has room for their conclusions."""

_ROOMY = 80
"""The width from which a table has room for two spaces between its columns."""

_CAUSES = 3
"""How many causes of failed trials are named without `--verbose`."""

OF_CAMPAIGN = " *"
"""Marks a run that belongs to a campaign."""

_STEADINESS = {
    "better": "steadier",
    "worse": "less steady",
    "no meaningful difference": "as steady",
}


def print_results(console: Console, results: Findings, *, verbose: bool = False) -> None:
    """Print the verdicts, warnings and counts of trials; with `verbose` also what is behind them.

    The conclusion repeats the table, so it is only printed with `verbose` or without a verdict.
    """
    for family in (results.verdicts, results.regressions):
        for verdicts in by_comparison(family):
            say(console, scope_line(results, verdicts), style="bold")
            console.print(verdict_table(verdicts, family, console.width))
            for line in why_open(
                (verdict.name, verdict.reason)
                for verdict in verdicts
                if verdict.verdict == "inconclusive" and not verdict.lacks
            ):
                say(console, line)
            for line in drifts(verdicts):
                say(console, line, style="yellow")
            for line in limits(verdicts, console.width):
                say(console, line)
            if verbose:
                _print_details(console, verdicts)
    if not results.verdicts and not results.regressions:
        if len(results.arms) > 1:
            say(console, "No verdict: too few trials were measured.")
        say(console, results.conclusion)
    elif verbose:
        say(console, results.conclusion)
    print_scale(console, results.run.lab_scale)
    _print_trials(console, results, verbose=verbose)
    for warning in results.warnings:
        say(console, f"Warning: {warning}", style="yellow")


def print_scale(console: Console, scale: float | None) -> None:
    """Say that the network was scaled, if it was."""
    if scale is not None:
        say(console, f"Network scaled by {scale:g}: figures are not EC2's.", style="yellow")


def _print_trials(console: Console, results: Findings, *, verbose: bool) -> None:
    from rackrate_contract.results import Results

    if isinstance(results, Results) and (verbose or results.woke_nodes) and results.launches:
        say(console, results.how_nodes_came)
    counts = results.trials
    trials = f"{counts.measured} of {counts.planned} trials measured"
    if counts.failed:
        end = ":" if counts.causes else "."
        say(console, f"{trials}, {counts.failed} failed{end}", style="red")
        shown = counts.causes if verbose else counts.causes[:_CAUSES]
        for cause in shown:
            say(console, f"  {cause.loss.of_trials}", style="red")
        if left := len(counts.causes) - len(shown):
            say(console, f"  {counted(left, 'more cause')}: --verbose names all.", style="red")
    else:
        say(console, f"{trials}, none failed.")
    if results.marked and not verbose:
        verb = "is" if results.marked == 1 else "are"
        marked = f"{results.marked} of {counted(counts.measured, 'trial')} {verb} marked"
        say(console, f"{marked}; --verbose names why.", style="yellow")
    if isinstance(results, Results) and (ranked := [r for r in results.rankings if r.nodes]):
        nodes = counted(sum(len(ranking.nodes) for ranking in ranked), "node")
        worse = sum(len(ranking.worse) for ranking in ranked)
        say(console, f"{nodes} ranked, {worse} worse than the rest: `rackrate nodes` names them.")
    if verbose:
        for note in results.mark_notes:
            say(console, f"Marked: {note}", style="yellow")
        if warmed_up := len(results.warm_up.trials):
            say(console, f"Warm-up trials, left out of every verdict: {warmed_up}.")
        if isinstance(results, Results) and results.stopped is not None:
            say(console, results.stopped.text)


def by_comparison(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Group the verdicts by arm and baseline."""
    return [*grouped_by(verdicts, lambda verdict: (verdict.arm, verdict.baseline.text)).values()]


def scope_line(results: Findings, verdicts: Sequence[Verdict]) -> str:
    """What is compared, and what the verdicts are about, in one line."""
    first = verdicts[0]
    ways = {arm.name: arm.way for arm in results.arms if arm.way}
    sides = first.arm, first.baseline.text
    if (shared := ways.get(sides[0], "")) != ways.get(sides[1], ""):
        shared = ""
    line = " against ".join(
        f"{title} ({ways[name]})" if name in ways and not shared else title
        for name, title in zip(sides, first.sides, strict=True)
    )
    line += f", {shared}" if shared else ""
    tests: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.scope == "these nodes":
            tests.setdefault("on these nodes", []).append(verdict.name)
        elif verdict.scope == "this stack's placement":
            tests.setdefault("for this stack's placement", []).append(verdict.name)
    for about, names in tests.items():
        line += f", {about}" + ("" if len(tests) == 1 else f" ({listed(names)})")
    # A comparison with other runs is about more than the time of this one.
    if first.span_seconds is not None and _short(first) == first.sides[1]:
        line += f", {duration(first.span_seconds)}"
    return line


def verdict_table(verdicts: Sequence[Verdict], family: Sequence[Verdict], width: int) -> Table:
    """The table of one comparison, one line for each verdict. `verdicts` must not be empty.

    `family` has the verdicts for whose number the intervals are adjusted.
    """
    table = plain_table(width)
    table.add_column("Test", min_width=10, overflow="fold")
    table.add_column("Change", justify="right", no_wrap=True)
    table.add_column(
        Text(f"{_short(verdicts[0])} \u2192\n{verdicts[0].sides[0]}"),
        min_width=18 if width >= _ROOMY else 10,
        overflow="fold",
    )
    table.add_column(
        interval_head(verdicts, family).replace("adjusted ", "adjusted\n"),
        min_width=10,
        no_wrap=width >= _ROOMY,
    )
    table.add_column("Verdict", min_width=13)
    for verdict in verdicts:
        arm, baseline = verdict.levels
        table.add_row(
            Text(verdict.name),
            change(verdict.ratio),
            shift(baseline, arm, verdict.unit),
            changes(verdict.ci_simultaneous),
            Text(marked_word(verdict), style=STYLES.get(verdict.verdict, "")),
        )
    return table


def interval_head(verdicts: Sequence[Verdict], family: Sequence[Verdict]) -> str:
    """What the intervals of a comparison are called; they are adjusted for the `family`."""
    is_adjusted = any(verdict.ci_simultaneous is not None for verdict in verdicts)
    return interval_title(len(family) if is_adjusted else 0)


def plain_table(width: int) -> Table:
    """A table with a line under its head and no other, for a terminal of so many columns."""
    gap = 1 if width >= _ROOMY else 0
    return Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, gap, 0, 0))


def listing(title: str | None = None, *, gap: int = 1) -> Table:
    """A table with lines above and below, and `gap` spaces after each column."""
    return Table(
        title=None if title is None else Text(title),
        title_justify="left",
        title_style="bold",
        box=box.HORIZONTALS,
        padding=(0, gap, 0, 0),
        pad_edge=False,
    )


def add_columns(table: Table, *headings: str, **style: Any) -> None:
    """Add columns that look alike."""
    for heading in headings:
        table.add_column(heading, **style)


def _short(verdict: Verdict) -> str:
    """The baseline's name for a column, which has no room for a run's id."""
    baseline = verdict.baseline
    if baseline.is_earlier_run:
        return "earlier"
    return "other run" if baseline.name.startswith(f"{verdict.arm} (") else verdict.sides[1]


def word(verdict: str, lacks: str) -> str:
    """The verdict. For an inconclusive one, also what a clear verdict needs, if it is known."""
    return f"{verdict}, {lacks}" if verdict == "inconclusive" and lacks else verdict


def marked_word(verdict: Verdict) -> str:
    """The verdict of a run, and whether one arm drifted alone."""
    return word(verdict.verdict, verdict.lacks) + (", drift" if verdict.drift else "")


def drifts(verdicts: Iterable[Verdict]) -> list[str]:
    """A sentence on each drift of one arm alone."""
    return [f"Drift, {verdict.name}: {verdict.drift}." for verdict in verdicts if verdict.drift]


def limits(verdicts: Iterable[Verdict], width: int) -> list[str]:
    """How near the arms came to their documented limits: a line for each throughput between arms.

    One that does not fit into `width` has a second line for the baseline.
    """
    lines = []
    for verdict in verdicts:
        ceiling = verdict.ceiling
        if ceiling is None or verdict.baseline.is_earlier_run:
            continue
        ours, theirs = (quantity(each, verdict.unit) for each in (ceiling.arm, ceiling.baseline))
        arm = f"{verdict.test} limit: {verdict.sides[0]} {percent(ceiling.arm_share)}"
        arm += "," if ours == theirs else f" of {ours},"
        baseline = f"{_short(verdict)} {percent(ceiling.baseline_share)} of {theirs}"
        lines.append(f"{arm}{' ' if len(arm + baseline) < width else '\n  '}{baseline}")
    return lines


def why_open(reasons: Iterable[tuple[str, str | None]]) -> list[str]:
    """Why verdicts are inconclusive, given the name and the reason of each: a line per reason."""
    return [
        f"Inconclusive, {listed(names)}: {reason}."
        for reason, names in names_by_reason(reasons).items()
    ]


def _print_details(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Print what is behind the verdicts of one comparison: variability, kinds of pairs."""
    table = plain_table(0)
    table.add_column("Behind the verdict", min_width=18, overflow="fold")
    table.add_column(Text(verdicts[0].sides[0]), justify="right", min_width=9, overflow="fold")
    table.add_column(Text(_short(verdicts[0])), justify="right", min_width=9, overflow="fold")
    table.add_column("", overflow="fold")
    for verdict in verdicts:
        rows = list(_details(verdict))
        if rows:
            table.add_row(Text(verdict.name), "", "", "")
        for figure, *row in rows:
            table.add_row(Text(f"  {figure}"), *map(Text, row), style="dim")
    if table.row_count:
        console.print()
        console.print(table)
        console.print()
    for claim in dict.fromkeys(v.claim for v in verdicts if v.claim):
        say(console, f"This is {claim.rstrip('.')}.")
    for verdict in verdicts:
        # What is not shown to differ, or not to differ, has nothing that a limit could explain.
        if verdict.ceiling is not None and verdict.verdict != "inconclusive":
            say(console, f"{verdict.name}: {verdict.ceiling.text.rstrip('.')}.", style="dim")


def _details(verdict: Verdict) -> Iterable[tuple[str, str, str, str]]:
    """The figures behind a verdict: their name, the arm's, the baseline's, and a remark."""
    if verdict.stack is not None:
        remark = f"{changes(verdict.stack.ci_simultaneous)}, {verdict.stack.verdict}"
        if verdict.more_pairs:
            remark += f", about {counted(verdict.more_pairs, 'more pair')}"
        yield "this stack", "", "", remark
    if verdict.partitions is not None:
        kinds = {"in one": verdict.partitions.within, "across": verdict.partitions.across}
        for kind, of_kind in kinds.items():
            pairs = f"{counted(of_kind.pairs, 'pair')} {kind}"
            yield "partition", quantity(of_kind.median, verdict.unit), "", pairs
    steadiness = verdict.steadiness
    if steadiness is not None:
        remark = _STEADINESS.get(steadiness.verdict, steadiness.verdict)
        if steadiness.ratio is not None:
            remark += f", {change(steadiness.ratio)} ({changes(steadiness.shown_interval)})"
        yield "variability (CV)", percent(steadiness.arm), percent(steadiness.baseline), remark


def print_checks(console: Console, checks: Iterable[Checked]) -> None:
    """Print each requirement, and whether the run meets it."""
    for check in checks:
        style = "yellow" if check.could_not_fail else "green" if check.is_met else "bold red"
        text = f"{check.requirement.text}: {check.word} ({check.why})"
        say(console, f"Required: {text}.", style=style)


def run_table(runs: list[Run], width: int = 80) -> Table:
    """The table of runs in the given order. Times are UTC, as the stack wrote them.

    If `width` has room, each run's conclusion is shown, cut to one line.
    """
    # Without padding, an id that rackrate made fits on one line and can be copied.
    table = listing(gap=0)
    table.add_column("Run", overflow="fold")
    add_columns(table, "Started (UTC)", "Status", no_wrap=True)
    add_columns(table, "Took", "Trials", "Failed", justify="right", no_wrap=True)
    is_wide = width >= _WIDE
    if is_wide:
        table.add_column("Conclusion", overflow="ellipsis", no_wrap=True, ratio=1)
    for run in runs:
        table.add_row(
            Text(f"{run.id}{OF_CAMPAIGN if run.campaign else ''}"),
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
