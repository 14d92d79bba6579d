"""Print what differed between runs, which no run's results have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from .output import Output

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
    table = Table(
        title=Text("What differed"),
        title_justify="left",
        title_style="bold",
        box=box.HORIZONTALS,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("What", overflow="fold")
    table.add_column(run, overflow="fold")
    table.add_column(others, overflow="fold")
    for difference in differences:
        table.add_row(Text(difference.what), Text(difference.run), Text(difference.other))
    output.print(table)
