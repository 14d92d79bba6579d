"""Print the ranks of an arm's nodes within 80 columns, and an affinity for the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackrate_text.units import change, changes, quantity
from rackrate_text.words import counted, host_name, listed

from .verdict import STYLES, plain_table, say

if TYPE_CHECKING:
    from rackrate_contract.ranking import RankedNode, Ranking

_SHOWN = 10
"""How many of the best nodes are shown without `--verbose`, besides those that are worse."""

_WIDTH_WITH_MEANS = 72
"""A narrower terminal shows only how nodes compare."""


def print_ranking(console: Console, ranking: Ranking, title: str, *, verbose: bool) -> None:
    """Print an arm's nodes against its median node, the best first, and what that shows."""
    shown = [
        node
        for place, node in enumerate(ranking.nodes)
        if verbose or place < _SHOWN or node.is_worse
    ]
    say(console, f"{title}: {counted(len(ranking.nodes), 'ranked node')}", style="bold")
    if shown:
        console.print(_table(shown, console.width))
    if left := len(ranking.nodes) - len(shown):
        say(console, f"{counted(left, 'more node')}: --verbose shows all.")
    for line in ranking.sentences():
        say(console, line)


def _table(nodes: Sequence[RankedNode], width: int) -> Table:
    table = plain_table(width)
    table.add_column("Node", min_width=18, overflow="fold")
    has_means = width >= _WIDTH_WITH_MEANS
    if has_means:
        table.add_column("Mean", justify="right", overflow="fold")
    table.add_column(Text("From the\nmedian"), justify="right", no_wrap=True)
    table.add_column(Text("95 % CI, adjusted\nfor all nodes"), no_wrap=True)
    table.add_column("Verdict", min_width=13)
    for node in nodes:
        overall = change(node.ratio) if len(node.figures) > 1 else ""
        name, mean = Text(host_name(node.name), style="bold"), [""] * has_means
        table.add_row(name, *mean, overall, Text(node.rank), "")
        for figure in node.figures:
            table.add_row(
                Text(f"  {figure.name}"),
                *[quantity(figure.mean, figure.unit)] * has_means,
                change(figure.ratio),
                changes(figure.ci_simultaneous),
                Text(figure.verdict, style=STYLES.get(figure.verdict, "")),
            )
    return table


def print_best(
    console: Console, ranking: Ranking, title: str, best: int
) -> dict[str, Sequence[str] | str]:
    """Print an arm's best nodes, and an affinity for them. Returns both."""
    from rackrate_contract.arms import in_arm

    names = [node.name for node in ranking.nodes[:best]]
    what = "best node" if best == 1 else f"{best} best nodes"
    say(console, f"The {what} {in_arm(title)}: {listed(map(host_name, names))}.", style="bold")
    others = [host_name(name) for name in ranking.may_be_among(best) if name not in names]
    if others:
        say(console, f"May belong to them instead: {listed(others, most=_SHOWN)}.")
    text = affinity(names)
    console.print(f"\n{text}\n", markup=False, highlight=False, soft_wrap=True)
    return {"nodes": names, "affinity": text}


def affinity(nodes: Sequence[str]) -> str:
    """The part of a pod's specification that lets it run on these nodes only, as YAML.

    A term about a node's name takes one name, and one of the terms has to hold.
    """
    head = """affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:"""
    term = """
        - matchFields:
            - key: metadata.name
              operator: In
              values: [{}]"""
    return head + "".join(map(term.format, nodes))
