"""Print a campaign's answers within 80 columns: what the group buys, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackrate_text.grouping import grouped_by
from rackrate_text.units import UNKNOWN, change, changes, dollars, duration, percent, quantity
from rackrate_text.words import counted, host_name, listed

from ..reading.campaigns import Campaign
from ..reading.records import GOOD
from .verdict import STYLES, add_columns, listing, plain_table, print_scale, say, why_open, word

if TYPE_CHECKING:
    from rackrate_contract.campaign import Answer, CampaignResults, Hunt, Step, SweepCell

MOST_LINES = 12
"""The answers take no more lines than that; the page has all."""


def print_answers(console: Console, results: CampaignResults, *, verbose: bool = False) -> None:
    """Print the answers or the table of the sweep, and what qualifies them.

    The conclusion repeats the tables, so it is only printed with `verbose` or without one.
    """
    from rackrate_contract.capacity import sentences

    if results.pooling:
        say(console, results.pooling)
    _print_answers(console, results.answers, verbose=verbose)
    for cells in grouped_by(
        results.sweep, lambda cell: (cell.test, cell.metric, cell.arm)
    ).values():
        say(console, f"{cells[0].name}, {cells[0].arm}", style="bold")
        console.print(_sweep_table(cells, console.width))
    if (hunt := results.hunt) is not None:
        console.print(_hunt_table(hunt, console.width))
    elif not results.answers and not results.sweep:
        say(console, "No answer: too few runs have results.")
    if verbose or not (results.answers or results.sweep):
        say(console, results.conclusion)
    else:  # the conclusion has it too
        for sentence in sentences(results.capacity, {s.value: s.change for s in results.steps}):
            say(console, sentence)
    sides = _sides(results.answers)
    for answer in results.answers:
        if answer.changed:
            say(
                console,
                f"{_name(answer, sides)} changed: the newest draw differs from those before it.",
                style="bold red",
            )
        if answer.trend is not None:
            moved = f"{change(answer.trend)} from the first draw to the last"
            say(console, f"{_name(answer, sides)} has a trend: {moved}.", style="bold yellow")
    for warning in results.warnings:
        say(console, f"Warning: {warning}", style="yellow")
    print_scale(console, results.campaign.lab_scale)
    for step in results.steps:
        if step.status not in GOOD and not step.is_unfilled:
            say(console, _failed(step), style="red")
    for reason in dict.fromkeys(why for each in results.capacity for why in each.reasons):
        say(console, f"Not filled: {reason.rstrip('.')}.", style="red")
    say(console, _summary(results))
    if results.stopped is not None and (verbose or results.hunt is not None):
        say(console, results.stopped.text)


def _print_answers(console: Console, answers: Sequence[Answer], *, verbose: bool) -> None:
    """Print what is compared and the answers, without `verbose` as many as there is room for."""
    if not answers:
        return
    scope = Text(_scope(answers), style="bold")
    claims = [f"This is {claim}." for claim in dict.fromkeys(a.claim for a in answers)]
    for shown in range(len(answers), 0, -1):
        left = len(answers) - shown
        table = _answer_table(answers[:shown], _sides(answers), console.width)
        notes = [f"And {counted(left, 'more answer')}: see the page."] if left else []
        notes += why_open(
            (_name(answer, _sides(answers)), answer.reason)
            for answer in answers
            if answer.verdict == "inconclusive" and not answer.lacks
        )
        notes += claims
        lines = len(scope.wrap(console, console.width))
        lines += len(console.render_lines(table, pad=False))
        lines += sum(len(Text(note).wrap(console, console.width)) for note in notes)
        if verbose or lines <= MOST_LINES:
            break
    console.print(scope)
    console.print(table)
    for note in notes:
        say(console, note)


def _scope(answers: Sequence[Answer]) -> str:
    """What is compared, and what the answers are about, in one line."""
    sides = _sides(answers)
    draws = max(len(answer.draws) for answer in answers)
    of_whom = f"{sides[0][0]} against" if len(sides) == 1 else "Each arm against"
    is_of_group = all(a.scope == "the placement group" and not a.left_out for a in answers)
    about = ", for the placement group" if is_of_group else ""
    time = max(answers, key=lambda answer: len(answer.draws)).time
    over = f"over {counted(draws, 'draw')} {time}".rstrip()
    return f"{of_whom} {sides[0][1]}{about}, {over}"


def _answer_table(answers: Sequence[Answer], sides: Sequence[tuple[str, str]], width: int) -> Table:
    table = plain_table(width)
    table.add_column("Test", min_width=10, overflow="fold")
    table.add_column("Change on\naverage", justify="right", min_width=9)
    table.add_column("95 % CI,\nadjusted", min_width=10)
    table.add_column("Next deployment\n(95 % each)", min_width=10)
    table.add_column("Verdict", min_width=13)
    for answer in answers:
        table.add_row(
            Text(_name(answer, sides)),
            change(answer.ratio),
            changes(answer.ci_simultaneous),
            changes(answer.prediction95),
            Text(word(answer.verdict, answer.lacks), style=STYLES.get(answer.verdict, "")),
        )
    return table


def _sides(answers: Sequence[Answer]) -> list[tuple[str, str]]:
    """The arms, each with the one that it is compared with."""
    return list(dict.fromkeys(answer.sides for answer in answers))


def _name(answer: Answer, sides: Sequence[tuple[str, str]]) -> str:
    """The answer's name, with the arm if there are several."""
    return answer.name if len(sides) == 1 else f"{answer.sides[0]}: {answer.name}"


def _with_interval(value: float | None, ends: Sequence[float] | None) -> str:
    return change(value) if ends is None else f"{change(value)} ({changes(ends)})"


def _sweep_table(cells: Sequence[SweepCell], width: int) -> Table:
    table = plain_table(width)
    # Without padding, a version of an add-on fits on one line.
    table.padding = 0
    has_total = any(cell.total is not None for cell in cells)
    has_share = any(cell.share_of_nominal is not None for cell in cells)
    table.add_column("Value", overflow="fold")
    table.add_column("Mean", justify="right", no_wrap=True)
    if has_total:
        table.add_column("Total", justify="right", no_wrap=True)
    if has_share:
        table.add_column("Share", justify="right", no_wrap=True)
    table.add_column("Against the first", no_wrap=True)
    table.add_column("Verdict", min_width=13)
    for cell in cells:
        verdict = cell.verdict or ("" if cell is cells[0] else UNKNOWN)
        table.add_row(
            Text(str(cell.value)),
            quantity(cell.mean, cell.unit),
            *([quantity(cell.total, cell.unit)] if has_total else []),
            *([percent(cell.share_of_nominal)] if has_share else []),
            "" if cell is cells[0] else _with_interval(cell.ratio, cell.shown_interval),
            Text(verdict, style=STYLES.get(verdict, "")),
        )
    return table


def _hunt_table(hunt: Hunt, width: int) -> Table:
    table = plain_table(width)
    add_columns(table, "Draw", hunt.name, "95 % CI", "Nodes", overflow="fold")
    for number, draw in enumerate(hunt.draws, start=1):
        nodes = listed(map(host_name, draw.nodes), most=2)
        table.add_row(str(number), *hunt.figures(draw), Text(nodes))
    return table


def _failed(step: Step) -> str:
    why = f": {step.reason.rstrip('.')}" if step.reason else ""
    return f"Step {step.number} ({step.change}, {step.run_id}) {step.status}{why}."


def _summary(results: CampaignResults) -> str:
    """Such as `6 steps in 42 min 10 s, about $1.26 of $5.00.`"""
    facts = results.campaign
    noun = "run" if facts.kind == "pool" else "step"
    summary = counted(len(results.steps), noun)
    if facts.kind != "pool":  # which measures nothing itself
        summary += f" in {duration(facts.seconds)}"
    if facts.dollars is not None:
        summary += f", about {dollars(facts.dollars)}"
        if facts.budget_dollars is not None:
            summary += f" of {dollars(facts.budget_dollars)}"
    return f"{summary}."


def campaign_table(campaigns: Sequence[Campaign]) -> Table:
    """The table of campaigns in the given order. Times are UTC, as the stack wrote them."""
    table = listing(gap=0)
    table.add_column("Campaign", overflow="fold")
    table.add_column("Started (UTC)", no_wrap=True)
    table.add_column("Kind", no_wrap=True, max_width=5)
    table.add_column("Status", no_wrap=True, max_width=9)
    add_columns(table, "Took", "Steps", "Cost", justify="right", no_wrap=True)
    for campaign in campaigns:
        table.add_row(
            Text(campaign.id),
            campaign.started_at[:16].replace("T", " "),
            Text(campaign.kind),
            campaign.status.replace("_", " "),
            duration(campaign.seconds),
            str(campaign.stopped_after or campaign.step),
            dollars(campaign.usd),
        )
    return table
