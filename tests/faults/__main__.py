"""Try the faults of the catalogue in a lab of their own, and print what each cost.

Run as `make test-faults`, or `python -m tests.faults [WORD ...]` for the faults whose names contain
one of the words (root). The last line is `faults: N tried, L trials lost, O objects left`: L counts
the trials that could have been measured again. Exit codes: 0 nothing was lost or left and every
sentence is as its fault's case says, 1 otherwise, 2 the machine or the input is not right.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab import daemon
from lab.errors import LabError
from lab.up import bring_up
from tests.faults.catalogue import CATALOGUE, ELSEWHERE, Case
from tests.faults.scene import TRIALS
from tests.faults.trying import Tried, attempt
from tests.lab.running import Lab

#: Decides the nodes' places.
SEED = 7
#: Columns of the table where the output is no terminal.
WIDTH = 200


def table_of(results: Sequence[Tried]) -> Table:
    """The table that people read."""
    table = Table(
        *("fault", "begins", "of", "planned", "measured", "lost", "left", "seconds", "it may cost"),
        "what the person reads",
        title="Faults",
    )
    for each in results:
        case = each.case
        table.add_row(
            case.name,
            f"block {case.block}" if case.block else "servers start",
            case.of,
            str(each.planned),
            str(each.measured),
            str(each.lost),
            ", ".join(each.left) or "0",
            f"{each.seconds:.0f}",
            case.cost,
            each.sentence + "".join(f" [WRONG: {why}]" for why in each.wrong),
        )
    return table


def last_line(results: Sequence[Tried]) -> str:
    """What the catalogue comes to."""
    lost, left = sum(each.lost for each in results), sum(len(each.left) for each in results)
    return f"faults: {len(results)} tried, {lost} trials lost, {left} objects left"


def passed(results: Sequence[Tried]) -> bool:
    """Whether nothing was lost, left or wrong."""
    return not any(each.lost or each.left or each.wrong for each in results)


def try_all(lab: Lab, cases: Sequence[Case], console: Console) -> list[Tried]:
    """Try one fault after the other."""
    results = []
    for number, case in enumerate(cases, 1):
        try:
            tried = attempt(lab, case, f"fault-{number:02d}")
        except Exception as error:  # The other faults are tried all the same.
            traceback.print_exc()
            tried = Tried(case, TRIALS, 0, TRIALS, (), 0.0, "", (f"not tried: {error}",))
        results.append(tried)
        console.print(
            f"{number} of {len(cases)}  {case.name}: {tried.measured} of {tried.planned} measured,"
            f" {tried.lost} lost, {len(tried.left)} left, {tried.seconds:.0f} s"
            + "".join(f"; WRONG: {why}" for why in tried.wrong)
            + (f"; {', '.join(tried.left)}" if tried.left else "")
            + (f"\n    {tried.sentence}" if tried.sentence else ""),
            soft_wrap=True,
            markup=False,
        )
    return results


def main() -> int:
    """Returns the exit code."""
    arguments = argparse.ArgumentParser(description=__doc__, usage="%(prog)s [WORD ...]")
    arguments.add_argument("words", nargs="*", help="only faults whose names contain one of these")
    words = arguments.parse_args().words
    cases = [case for case in CATALOGUE if not words or any(word in case.name for word in words)]
    if not cases:
        print(f"No fault is called like {', '.join(words)}.", file=sys.stderr)
        return 2
    # A file has no width; a narrow table would break every sentence into words.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    try:
        status = bring_up(lambda step: print(step, file=sys.stderr), tied=True, seed=SEED)
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory() as directory:
            results = try_all(Lab(status, Path(directory)), cases, console)
    finally:
        daemon.stop()
    console.print(table_of(results))
    for name, why in ELSEWHERE.items():
        console.print(f"{name}: not tried here; {why}", soft_wrap=True)
    print(last_line(results))
    return 0 if passed(results) else 1


if __name__ == "__main__":
    sys.exit(main())
