"""The harness of the simulated proofs: their cases, in all CPUs, and their lines with limits."""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import time
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rackrate.verdict.draws import DrawsFinding
from rackrate.verdict.enough import LEAST_PROSPECT
from rackrate.verdict.estimator import Finding

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]

TESTS = 3  # as in the default plan
THRESHOLD = 0.05
#: The limits of a coverage of 95 %, apart from the error of the simulation.
LOW, HIGH = 0.93, 0.97


@dataclass(frozen=True)
class Line:
    """A figure of the report.

    Attributes:
        text: what was simulated.
        figure: the share of runs, or a number of `unit`.
        seed: the seed.
        low, high: the limits that the figure has to keep.
        required: whether it has to.
        limit: why the limits are not those of the other cases; empty if they are.
    """

    text: str
    figure: float
    seed: int
    low: float = 0.0
    high: float = 1.0
    required: bool = True
    limit: str = ""
    unit: str = "%"

    @property
    def good(self) -> bool:
        """Whether it keeps its limits, if it has to."""
        return not self.required or self.low <= self.figure <= self.high

    def __str__(self) -> str:
        """The line with its limits and, if it has one, their reason."""
        percent = self.unit == "%"
        low, high, figure = (
            f"{value:.1%}" if percent else f"{value:.1f}"
            for value in (self.low, self.high, self.figure)
        )
        limits = f"[{low} to {high}]" if self.required else "*"
        return (
            f"  {self.text:<66}{figure:>7} {limits:<18} seed {self.seed:<11}"
            f"{'' if percent else self.unit}{'' if self.good else ' FAIL'}"
            f"{f'  limit: {self.limit}' if self.limit else ''}"
        )


def means(
    runs: int, simulate: Callable[[np.random.Generator], Any], *case: object
) -> tuple[int, Any]:
    """A seed that follows from the case, and the mean of what so many simulated runs return."""
    seed, chance = generator(*case)
    return seed, np.mean([simulate(chance) for _ in range(runs)], axis=0)


def generator(*case: object) -> tuple[int, np.random.Generator]:
    """A seed that follows from the case, and its generator."""
    seed = zlib.crc32("/".join(map(str, case)).encode())
    return seed, np.random.default_rng(seed)


def errors(runs: int, share: float = 0.05) -> float:
    """Two standard errors of a share of the simulated runs."""
    return 2 * math.sqrt(max(share * (1 - share), 1 / runs) / runs)


def covers(interval: tuple[float, float] | None, ratio: float) -> bool:
    """Whether an interval contains the true ratio."""
    return interval is not None and interval[0] <= ratio <= interval[1]


def differs(claim: Any) -> bool:
    """Whether a finding, if there is one, is a difference."""
    return claim is not None and claim.verdict in ("better", "worse")


def equal(finding: Any) -> bool:
    """Whether a finding is the absence of a difference that matters."""
    return bool(finding.verdict == "no meaningful difference")


def until_enough[F: (Finding, DrawsFinding)](
    at: Sequence[int], find: Callable[[int], list[F]]
) -> tuple[int, list[F]]:
    """The look at which a run or campaign stops, and its findings there."""
    for number in at:
        findings = find(number)
        if all((each.prospect or 0.0) <= LEAST_PROSPECT for each in findings):
            break
    return number, findings


Lines = Callable[..., Iterator[Line]]


class Proof:
    """The questions of a proof: functions that give the lines of one of their cases."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, Lines, Sequence[Any]]] = []

    def question(self, title: str, *axes: Iterable[Any]) -> Callable[[Lines], Lines]:
        """Decorate a function of the number of runs and of a value of each axis.

        Each combination of values is a case, with a process of its own.
        """

        def decorate(lines: Lines) -> Lines:
            self._parts += [(title, lines, case) for case in itertools.product(*axes)]
            return lines

        return decorate

    def lines(self, lines: Lines, runs: int, cases: Container[Any] | None = None) -> Iterator[Line]:
        """The lines of a question's cases, or of those that are among these."""
        for _, question, case in self._parts:
            if question is lines and (cases is None or case in cases):
                yield from lines(runs, *case)

    def main(self, about: str | None, *, runs: int) -> int:
        """Print the titles and lines of the proof. Returns 1 if a figure leaves its limits.

        Args:
            about: what `--help` says.
            runs: the number of simulated runs, unless `--runs` says another.
        """
        options = argparse.ArgumentParser(description=about)
        options.add_argument("--runs", type=int, default=runs, help="simulated runs of each case")
        runs = options.parse_args().runs
        if runs < 8:
            options.error("--runs must be at least 8, of which an eighth is for some cases")
        started = time.monotonic()
        failed = 0
        with ProcessPoolExecutor() as pool:
            results = pool.map(functools.partial(_simulated, runs), *zip(*self._parts, strict=True))
            before = ""
            for title, lines in results:
                print(*([title] if title != before else []), *lines, sep="\n", flush=True)
                failed += sum(not line.good for line in lines)
                before = title
        print(f"{f'FAIL: {failed}' if failed else 'PASS'} in {time.monotonic() - started:.0f} s")
        return 1 if failed else 0


def _simulated(runs: int, title: str, lines: Lines, case: Sequence[Any]) -> tuple[str, list[Line]]:
    return title, list(lines(runs, *case))
