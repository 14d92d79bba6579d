"""Print a campaign's answers within 80 columns: what the group buys, and what you will get."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackrate_text.units import UNKNOWN, dollars, duration, interval, percent, quantity, ratio
from rackrate_text.words import counted

from .campaign_results import Answer, CampaignResults, Cell, Step
from .campaigns import Campaign
from .runs import GOOD
from .verdict import STYLES, say

MOST_LINES = 12
"""The answers take no more lines than that; the page has all."""


def print_answers(console: Console, results: CampaignResults) -> None:
    """Print the answers or the table of the sweep, then the conclusion and what qualifies it."""
    _print_answers(console, results.answers)
    for cells in _by_metric(results.sweep):
        console.print(_sweep_table(cells))
    if not results.answers and not results.sweep:
        say(console, "No answer: too few runs have results.")
    sides = _sides(results.answers)
    for answer in results.answers:
        name = _name(answer, sides)
        if answer.verdict == "inconclusive":
            why = "; ".join(
                filter(None, (answer.reason, answer.lacks and f"{answer.lacks} needed"))
            )
            say(console, f"{name} is inconclusive{why and f': {why}'}.", style="yellow")
        if answer.changed:
            say(
                console,
                f"{name} changed: the newest draw differs from those before it.",
                style="bold red",
            )
    say(console, results.conclusion)
    if results.stopped is not None:
        say(console, results.stopped)
    for warning in results.warnings:
        say(console, f"Warning: {warning}", style="yellow")
    if results.lab_scale is not None:
        say(
            console,
            f"Network scaled by {results.lab_scale:g}: figures are not EC2's.",
            style="yellow",
        )
    for step in results.steps:
        if step.status not in GOOD:
            say(console, _failed(step), style="red")
    say(console, _summary(results))


def _print_answers(console: Console, answers: Sequence[Answer]) -> None:
    """Print as many answers as there is room for, and what they are about."""
    if not answers:
        return
    claims = [f"This is {claim.rstrip('.')}." for claim in dict.fromkeys(a.claim for a in answers)]
    for shown in range(len(answers), 0, -1):
        left = len(answers) - shown
        table = _answer_table(answers[:shown])
        notes = [f"And {counted(left, 'more answer')}: see the page."] if left else []
        notes += claims
        lines = len(console.render_lines(table, pad=False))
        lines += sum(len(Text(note).wrap(console, console.width)) for note in notes)
        if lines <= MOST_LINES:
            break
    console.print(table)
    for note in notes:
        say(console, note)


def _answer_table(answers: Sequence[Answer]) -> Table:
    sides = _sides(answers)
    draws = max(answer.draws for answer in answers)
    of_whom = f"{sides[0][0]} against" if len(sides) == 1 else "Each arm against"
    table = _table(f"{of_whom} {sides[0][1]}, over {counted(draws, 'draw')}")
    table.add_column("Test", overflow="fold")
    table.add_column("On average (95 %)", no_wrap=True)
    table.add_column("You will get (95 %)", no_wrap=True)
    table.add_column("Verdict", min_width=13)
    for answer in answers:
        table.add_row(
            Text(_name(answer, sides)),
            _with_interval(answer.ratio, answer.interval),
            interval(answer.prediction),
            Text(answer.verdict, style=STYLES.get(answer.verdict, "")),
        )
    return table


def _sides(answers: Sequence[Answer]) -> list[tuple[str, str]]:
    """The arms, each with the one that it is compared with."""
    return list(dict.fromkeys((answer.arm, answer.baseline) for answer in answers))


def _name(answer: Answer, sides: Sequence[tuple[str, str]]) -> str:
    """The answer's name, with the arm if there are several."""
    return answer.name if len(sides) == 1 else f"{answer.arm}: {answer.name}"


def _with_interval(value: float | None, ends: Sequence[float] | None) -> str:
    return ratio(value) if ends is None else f"{ratio(value)} ({interval(ends)})"


def _by_metric(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells of each arm and metric, value by value."""
    found: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.test, cell.metric, cell.arm), []).append(cell)
    return list(found.values())


def _sweep_table(cells: Sequence[Cell]) -> Table:
    table = _table(f"{cells[0].name}, {cells[0].arm}")
    # Without padding, a version of an add-on fits on one line.
    table.padding = 0
    has_total = any(cell.total is not None for cell in cells)
    has_share = any(cell.share_of_nominal is not None for cell in cells)
    table.add_column("Value", overflow="fold")
    table.add_column("Mean", justify="right", no_wrap=True)
    if has_total:
        table.add_column("All pairs", justify="right", no_wrap=True)
    if has_share:
        table.add_column("Share", justify="right", no_wrap=True)
    table.add_column("Against the first", no_wrap=True)
    table.add_column("Verdict", min_width=13)
    for cell in cells:
        word = cell.verdict or ("" if cell is cells[0] else UNKNOWN)
        table.add_row(
            Text(cell.value),
            quantity(cell.mean, cell.unit),
            *([quantity(cell.total, cell.unit)] if has_total else []),
            *([percent(cell.share_of_nominal)] if has_share else []),
            "" if cell is cells[0] else _with_interval(cell.ratio, cell.interval),
            Text(word, style=STYLES.get(word, "")),
        )
    return table


def _failed(step: Step) -> str:
    why = f": {step.reason.rstrip('.')}" if step.reason else ""
    return f"Step {step.number} ({step.change}, {step.run_id}) {step.status}{why}."


def _summary(results: CampaignResults) -> str:
    """Such as `6 steps in 42 min 10 s, about $1.26 of $5.00.`"""
    noun = "run" if results.kind == "pool" else "step"
    said = f"{counted(len(results.steps), noun)} in {duration(results.seconds)}"
    if results.dollars is not None:
        said += f", about {dollars(results.dollars)}"
        if results.budget_dollars is not None:
            said += f" of {dollars(results.budget_dollars)}"
    return f"{said}."


def campaign_table(campaigns: Sequence[Campaign]) -> Table:
    """The table of campaigns in the given order. Times are UTC, as the stack wrote them."""
    table = Table(box=box.HORIZONTALS, padding=0)
    table.add_column("Campaign", overflow="fold")
    table.add_column("Started (UTC)", no_wrap=True)
    table.add_column("Kind", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    table.add_column("Took", justify="right", no_wrap=True)
    table.add_column("Steps", justify="right", no_wrap=True)
    table.add_column("Cost", justify="right", no_wrap=True)
    for campaign in campaigns:
        table.add_row(
            Text(campaign.campaign_id),
            campaign.started_at[:16].replace("T", " "),
            Text(campaign.kind),
            campaign.status.replace("_", " "),
            duration(campaign.seconds),
            str(campaign.stopped_after or campaign.step),
            dollars(campaign.usd),
        )
    return table


def _table(title: str) -> Table:
    return Table(
        title=Text(title),
        title_justify="left",
        title_style="bold",
        box=box.HORIZONTALS,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
