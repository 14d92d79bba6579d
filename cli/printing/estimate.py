"""Print what a dry run estimates: time, traffic, cost and guards, within 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackrate_text.units import dollars, duration, quantity
from rackrate_text.words import span

from ..reading.runs import Run
from .verdict import add_columns, listing, say

if TYPE_CHECKING:
    from rackrate_contract.estimates import AtLeast, Cost, EstimatedRun, Estimates, Guard

NODES_SHOWN = 8


def print_estimate(console: Console, run: Run, planned: EstimatedRun | None) -> None:
    """Print what a dry run estimates. `planned` is None when plan.json is not in the bucket."""
    blocks = span(str(run.least_blocks), str(run.most_blocks))
    takes, trials = "", ""
    if planned is not None:
        estimate = planned.estimates
        least = estimate.at_least or estimate
        takes = f", about {span(duration(least.seconds), duration(estimate.seconds))}"
        trials = f"{span(str(least.trials), str(estimate.trials))} trials in "
    say(console, f"Dry run {run.id}: {trials}{blocks} blocks{takes}; nothing was measured.")
    if planned is None:
        return
    estimate = planned.estimates
    if planned.placeholder_nodes:
        say(console, "No node was awake; the plan is made for as many as the stack is to have.")
    if any(traffic.most for traffic in estimate.bytes_per_node.values()):
        console.print(_traffic_table(estimate))
        if (rest := len(estimate.bytes_per_node) - NODES_SHOWN) > 0:
            say(console, f"And {rest} more nodes with no more traffic; plan.json lists all.")
    _print_cost(console, estimate.cost, estimate.at_least)
    _print_guards(console, estimate.guards)


def _traffic_table(estimate: Estimates) -> Table:
    table = listing("Traffic of each node at most")
    table.add_column("Node", overflow="fold")
    add_columns(table, "Sends", "Receives", justify="right", no_wrap=True)
    busiest = sorted(estimate.bytes_per_node.items(), key=lambda each: -each[1].most)
    for node, traffic in busiest[:NODES_SHOWN]:
        sent, received = quantity(traffic.sent, "B"), quantity(traffic.received, "B")
        table.add_row(Text(node), sent, received)
    return table


def _print_cost(console: Console, cost: Cost, least: AtLeast | None) -> None:
    sources = list(dict.fromkeys(line.source for line in cost.lines))
    table = listing(f"Cost in {cost.region}, US dollars")
    table.add_column("What", overflow="fold", ratio=1)
    table.add_column("Amount", justify="right", overflow="fold")
    add_columns(table, "Price each", "Cost", justify="right", no_wrap=True)
    for line in cost.lines:
        table.add_row(
            Text(f"{line.what}{' *' if line.paid_anyway else ''}"),
            Text(_amount(line.quantity, line.unit)),
            f"{_price(line.usd_per_unit)} ({sources.index(line.source) + 1})",
            dollars(line.usd),
        )
    table.add_section()
    table.add_row("Total", "", "", dollars(cost.usd), style="bold")
    console.print(table)
    if least and least.usd is not None and dollars(least.usd) != dollars(cost.usd):
        fewest = f"{dollars(least.usd)} if the run stops after {least.blocks}"
        say(console, f"This is for the most blocks; it is {fewest}.")
    if any(line.paid_anyway for line in cost.lines):
        say(
            console,
            f"* paid while the stack is up, run or not; the run itself adds"
            f" {dollars(cost.usd_of_run)}.",
        )
    if cost.unknown:
        say(console, f"Not in the total, their price is unknown: {'; '.join(cost.unknown)}.")
    for number, source in enumerate(sources, 1):
        console.print(Text(f"({number}) {source}"), soft_wrap=False)
    for note in cost.notes:
        say(console, f"Note: {_sentence(note)}", style="yellow")
    if cost.not_included:
        say(console, f"Not included: {'; '.join(cost.not_included)}.", style="dim")


def _print_guards(console: Console, guards: Sequence[Guard]) -> None:
    tripped = [guard for guard in guards if guard.would_trip]
    if not tripped:
        say(console, "No guard would trip.")
    for guard in tripped:
        name = guard.guard.replace("_", " ")
        say(console, f"Guard {name} would trip: {_sentence(guard.text)}", style="yellow")
        if guard.remedy:
            say(console, f"  Remedy: {_sentence(guard.remedy)}")


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}."


def _price(usd: float | None) -> str:
    """A price per unit, unrounded, because some are millionths of a dollar."""
    if usd is None:
        return "unknown"
    if usd != 0 and not 1e-10 <= abs(usd) <= 1e9:
        return dollars(usd)
    return f"${usd:.10f}".rstrip("0").rstrip(".")


def _amount(number: float, unit: str) -> str:
    """Format a count as a whole number and a measured amount with three digits."""
    named = unit if number == 1 or not unit or unit.isupper() else f"{unit}s"
    counted = number.is_integer() and abs(number) < 1e15
    return f"{number:.0f} {named}" if counted else quantity(number, named)
