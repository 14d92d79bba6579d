"""Read comparison.json: the differences between runs, which no run's results have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rich import box
from rich.table import Table
from rich.text import Text

from rackrate_text.units import UNKNOWN
from rackrate_text.words import several_runs

from .output import Output
from .results import Results
from .typed import complete, read_fields, typed

SCHEMA = "rackrate.comparison.v1"


@dataclass(frozen=True)
class Difference:
    """A property that differs between the runs. The values are text."""

    what: str
    run: str
    other: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison of a run with others.

    `other` is the other run's id, or what several are called. `baseline` is the name of the
    baseline that stood for them, or None.
    """

    run_id: str
    other: str
    other_ids: tuple[str, ...]
    baseline: str | None = None
    differences: tuple[Difference, ...]
    results: Results

    @classmethod
    def read(cls, text: bytes, comparison_id: str) -> Self:
        """Parse comparison.json. Raises Refusal when it has another schema or is incomplete."""
        with complete(f"The comparison.json of {comparison_id} is not a complete {SCHEMA}"):
            told = json.loads(text)["comparison"]
            read = read_fields(
                cls,
                told,
                run_id=told["run"],
                other=told["with"],
                # Comparisons of earlier versions are with one run.
                other_ids=told.get("with_runs", [told["with"]]),
                differences=read_differences(told["differences"]),
                results=Results.read(text, comparison_id, SCHEMA),
            )
            return typed(read)

    @property
    def other_name(self) -> str:
        """The other run, with its baseline name if it has one, or several by their number."""
        if len(self.other_ids) > 1:
            return several_runs(self.other, len(self.other_ids))
        return f"{self.baseline} ({self.other})" if self.baseline else self.other


def read_differences(told: Iterable[Mapping[str, Any]]) -> tuple[Difference, ...]:
    """The differences of a comparison.json or of a campaign.json of a pool."""
    return tuple(
        Difference(str(each["what"]), _words(each["run"]), _words(each["with"])) for each in told
    )


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


def _words(value: Any) -> str:
    """A value of the comparison as text for people."""
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    return json.dumps(value, ensure_ascii=False)
