"""Print what a campaign's dry run estimates: steps, time, cost, and the draws that it needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackrate_text.units import dollars, duration, percent
from rackrate_text.words import span

from .campaign_input import MOST_DRAWS
from .campaigns import Campaign
from .typed import complete, read_fields, typed
from .verdict import say

_NOUNS = {"draws": "draws", "sweep": "runs", "pool": "runs"}


@dataclass(frozen=True)
class Ends:
    """A figure at least and at most."""

    least: float
    most: float


@dataclass(frozen=True)
class Power:
    """How many draws settle an answer with a probability of 80 %.

    `ratio` is the true one; 1 stands for showing that there is no meaningful difference.
    `variability` is the standard deviation of the logarithm of the ratio between draws. `draws` is
    None where no number of draws that a campaign takes is enough.
    """

    ratio: float
    variability: float
    draws: int | None


@dataclass(frozen=True)
class CampaignEstimate:
    """The estimates of a campaign's plan.json. `usd` is None when no price is known."""

    steps: Ends
    seconds: Ends
    usd: Ends | None
    power: tuple[Power, ...]
    guards: tuple[str, ...]
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]

    @classmethod
    def read(cls, text: bytes, campaign_id: str) -> Self:
        """Parse plan.json. Raises Refusal when it is incomplete."""
        with complete(f"The plan.json of {campaign_id} holds no complete estimate"):
            document = json.loads(text)
            estimate = document["estimate"]
            read = read_fields(
                cls,
                {**document, **estimate},
                guards=estimate["guards_that_would_trip"],
            )
            return typed(read)


def print_campaign_estimate(
    console: Console, campaign: Campaign, estimate: CampaignEstimate | None
) -> None:
    """Print what a dry run estimates. `estimate` is None when plan.json is not in the bucket."""
    if estimate is None:
        say(console, f"Dry run {campaign.id}: nothing was changed or measured.")
        return
    steps = span(f"{estimate.steps.least:.0f}", f"{estimate.steps.most:.0f}")
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
    for guard in estimate.guards:
        say(console, f"A guard would trip: {guard.rstrip('.')}.", style="yellow")
    for warning in estimate.warnings:
        say(console, f"Warning: {warning.rstrip('.')}.", style="yellow")


def _of_budget(campaign: Campaign, usd: Ends) -> str:
    budget = campaign.budget_dollars
    if budget is None:
        return ""
    if usd.most > budget:
        return f"; the budget is {dollars(budget)}, and the campaign stops before it exceeds it"
    return f", within the budget of {dollars(budget)}"


def _power_table(power: Sequence[Power]) -> Table:
    table = Table(
        title=Text("Draws needed for a clear answer with 80 % probability"),
        title_justify="left",
        title_style="bold",
        box=box.HORIZONTALS,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    variabilities = list(dict.fromkeys(each.variability for each in power))
    found = {(each.ratio, each.variability): each.draws for each in power}
    table.add_column("True difference")
    for variability in variabilities:
        table.add_column(f"Variability {percent(variability)}", justify="right")
    for effect in dict.fromkeys(each.ratio for each in power):
        named = "no meaningful difference" if effect == 1 else f"{effect:g} times"
        draws = [found.get((effect, variability)) for variability in variabilities]
        table.add_row(named, *(f">{MOST_DRAWS}" if each is None else str(each) for each in draws))
    return table
