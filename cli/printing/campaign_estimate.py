"""Print what a campaign's dry run estimates: steps, time, cost, and the draws that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from rackrate_text.units import dollars, duration, percent
from rackrate_text.words import span

from ..reading.campaign_input import MOST_DRAWS
from ..reading.campaigns import Campaign
from .verdict import add_columns, listing, say

if TYPE_CHECKING:
    from rackrate_contract.estimates import EstimatedCampaign, Power, Span

_NOUNS = {"draws": "draws", "hunt": "draws", "sweep": "runs", "pool": "runs"}


def print_campaign_estimate(
    console: Console, campaign: Campaign, planned: EstimatedCampaign | None
) -> None:
    """Print what a dry run estimates. `planned` is None when plan.json is not in the bucket."""
    estimate = None if planned is None else planned.estimate
    if planned is None or estimate is None:
        say(console, f"Dry run {campaign.id}: nothing was changed or measured.")
        return
    steps = span(f"{estimate.steps.least}", f"{estimate.steps.most}")
    takes = span(duration(estimate.seconds.least), duration(estimate.seconds.most))
    say(
        console,
        f"Dry run {campaign.id}: {steps} {_NOUNS.get(campaign.kind, 'steps')} in about"
        f" {takes}; nothing was changed or measured.",
    )
    if estimate.assumptions:
        say(console, f"The estimate assumes that {'; '.join(estimate.assumptions)}.")
    if estimate.usd is None:
        say(console, "Cost: unknown, because a price is missing.")
    else:
        costs = span(dollars(estimate.usd.least), dollars(estimate.usd.most))
        say(console, f"Cost: about {costs}{_of_budget(campaign, estimate.usd)}.")
    if estimate.power:
        console.print(_power_table(estimate.power))
        say(
            console,
            "Variability is how much the ratio differs from draw to draw. Nobody knows yours before"
            " the first draws; the campaign stops as soon as its draws are enough.",
            style="dim",
        )
    for guard in estimate.guards_that_would_trip:
        say(console, f"A guard would trip: {guard.rstrip('.')}.", style="yellow")
    for warning in planned.warnings:
        say(console, f"Warning: {warning.rstrip('.')}.", style="yellow")


def _of_budget(campaign: Campaign, usd: Span) -> str:
    budget = campaign.budget_dollars
    if budget is None:
        return ""
    if usd.most > budget:
        return f"; the budget is {dollars(budget)}, and the campaign stops before it exceeds it"
    return f", within the budget of {dollars(budget)}"


def _power_table(power: Sequence[Power]) -> Table:
    table = listing("Draws needed for a clear answer with 80 % probability")
    variabilities = list(dict.fromkeys(each.variability for each in power))
    draws_of = {(each.ratio, each.variability): each.draws for each in power}
    table.add_column("True difference")
    add_columns(table, *(f"Variability {percent(each)}" for each in variabilities), justify="right")
    for effect in dict.fromkeys(each.ratio for each in power):
        named = "no meaningful difference" if effect == 1 else f"{effect:g} times"
        draws = [draws_of.get((effect, variability)) for variability in variabilities]
        table.add_row(named, *(f">{MOST_DRAWS}" if each is None else str(each) for each in draws))
    return table
