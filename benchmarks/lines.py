"""The report of a simulated proof: its lines, each with a seed and limits, and its exit code."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A figure of the report.

    Attributes:
        text: what was simulated.
        figure: the share of runs, or a number of `unit`.
        seed: the seed.
        low, high: the limits that the figure has to keep.
        asked: whether it has to.
        limit: why the limits are not those of the other cases; empty if they are.
    """

    text: str
    figure: float
    seed: int
    low: float = 0.0
    high: float = 1.0
    asked: bool = True
    limit: str = ""
    unit: str = "%"

    @property
    def good(self) -> bool:
        """Whether it keeps its limits, if it has to."""
        return not self.asked or self.low <= self.figure <= self.high

    def __str__(self) -> str:
        """The line with its limits and, if it has one, their reason."""
        percent = self.unit == "%"
        low, high, figure = (
            f"{value:.1%}" if percent else f"{value:.1f}"
            for value in (self.low, self.high, self.figure)
        )
        limits = f"[{low} to {high}]" if self.asked else "*"
        return (
            f"  {self.text:<66}{figure:>7} {limits:<18} seed {self.seed:<11}"
            f"{'' if percent else self.unit}{'' if self.good else ' FAIL'}"
            f"{f'  limit: {self.limit}' if self.limit else ''}"
        )


def main(about: str | None, report: Callable[[int], Iterator[str | Line]], *, runs: int) -> int:
    """Print the titles and lines of a report. Returns 1 if a figure leaves its limits.

    Args:
        about: what `--help` says.
        report: the report of a number of simulated runs.
        runs: the number, unless `--runs` says another.
    """
    options = argparse.ArgumentParser(description=about)
    options.add_argument("--runs", type=int, default=runs, help="simulated runs of each case")
    runs = options.parse_args().runs
    if runs < 8:
        options.error("--runs must be at least 8, of which an eighth is for some cases")
    started = time.monotonic()
    failed = 0
    for line in report(runs):
        failed += isinstance(line, Line) and not line.good
        print(line, flush=True)
    print(f"{'PASS' if failed == 0 else f'FAIL: {failed}'} in {time.monotonic() - started:.0f} s")
    return 0 if failed == 0 else 1
