"""Print what differed between runs, which no run's results have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from .output import Output
from .verdict import add_columns, listing

if TYPE_CHECKING:
    from rackrate_contract.verdicts import Difference


def print_differences(
    output: Output, differences: Sequence[Difference], run: str, others: str
) -> None:
    """Print what differed between the runs. The caller prints the verdicts after it.

    `run` and `others` are the headings of the columns.
    """
    if not differences:
        output.say("Nothing that rackrate knows of differed between the runs.")
        return
    table = listing("What differed")
    add_columns(table, "What", run, others, overflow="fold")
    for difference in differences:
        table.add_row(Text(difference.what), Text(difference.run), Text(difference.other))
    output.print(table)
