"""The harness of the benchmarks that measure: points, what a figure may be, the exit code."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from lab.errors import LabError


class ImpossibleFigure(Exception):
    """A figure that nothing in the world can have: the benchmark itself is wrong."""


class Point(NamedTuple):
    """A point of what is to hold: whether it does, and the figures that say so."""

    holds: bool
    what: str

    def __str__(self) -> str:
        return f"{'PASS' if self.holds else 'FAIL'}  {self.what}"


def positive(value: float | None, what: str) -> float:
    """The value. Raises ImpossibleFigure unless it is finite and more than zero."""
    if value is None or not (math.isfinite(value) and value > 0):
        raise ImpossibleFigure(f"{what} cannot be {value}: the benchmark measured something else.")
    return value


def share(value: float, what: str) -> float:
    """The value. Raises ImpossibleFigure unless it is from 0 to 1."""
    if not 0 <= value <= 1:
        raise ImpossibleFigure(
            f"{what} cannot be {value:.1%}: the benchmark measured something else."
        )
    return value


def judge(benchmark: Callable[[], Iterable[Point]]) -> int:
    """Run a benchmark and print its points. Returns the exit code.

    Returns:
        0 if all points hold; 1 if one does not, a figure is impossible or a part failed; 2 if the
        machine or the input is wrong.
    """
    try:
        points = []
        for point in benchmark():
            points.append(point)
            print(point, flush=True)
    except ImpossibleFigure as impossible:
        print(f"FAIL  {impossible}")
        return 1
    except subprocess.CalledProcessError as error:
        print(f"FAIL  {' '.join(map(str, error.cmd[1:4]))} ended with an error: see above")
        return 1
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if all(point.holds for point in points) else 1
