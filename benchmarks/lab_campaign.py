"""Judge a campaign in the lab against the truth: six draws, and what is true over all draws.

The truth is computed from the model that places the lab's nodes (`lab.fabric.truth`). What a round
trip takes besides the spine is the machine's, and differs from run to run. So runs in a lab whose
nodes all have the same place measure it before and after the campaign, and the truth of the round
trip has an interval. Between them a campaign of exactly six draws runs in a lab that draws places
from a seed.

It holds if the adjusted intervals of all averages, which together have 95 %, contain the truth on
average or reach its interval, and if every prediction interval does so too. Run as
`make bench-campaign`, or `python -m benchmarks.lab_campaign [--seed N]` (root; 12 minutes on an
idle machine). Exit codes: 0 it holds, 1 it does not, 2 the machine is not right or a run failed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.in_lab import SHORT_TESTS, document, lab, rackrate
from benchmarks.points import ImpossibleFigure, Point, judge, positive
from lab.fabric.luck import MEAN_RACK, Luck
from lab.fabric.truth import Setting, truth
from lab.up import network_scale
from rackrate_contract.student import student_t

DRAWS = 6
SEED = 20261122
#: Runs that measure the machine, half of them before the campaign.
CALIBRATIONS = 6
#: The interval of a truth may reach from its lower end to at most this multiple of it.
WIDEST_TRUTH = 1.25
#: How often the model is drawn; the truth's own error is then far below any interval's width.
MODEL_DRAWS = 20_000
PLAN: Mapping[str, Any] = {"tests": SHORT_TESTS, "blocks": 6}
#: The model's figure for each test.
FIGURES = {"tcp-1": "one_flow", "tcp-8": "many_flows", "rtt": "round_trip"}


@dataclass(frozen=True)
class Truth:
    """A true ratio: the geometric mean over draws, and its 95 % interval.

    The interval has no width where the machine has no part in the ratio.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Self:
        """The truth from the ratios that the measurements of the machine lead to, two at least."""
        logarithms = [math.log(ratio) for ratio in ratios]
        error = statistics.stdev(logarithms) / math.sqrt(len(ratios))
        width = student_t(0.95, len(ratios) - 1) * error
        middle = statistics.fmean(logarithms)
        low, mean, high = (math.exp(middle + sign * width) for sign in (-1, 0, 1))
        return cls(mean, low, high)

    def meets(self, interval: Sequence[float]) -> bool:
        """Whether an interval contains it or reaches its own."""
        low, high = interval
        return low <= self.high and self.low <= high

    def __str__(self) -> str:
        known = f"{self.mean:.3f}"
        return known if self.low == self.high else f"{known} ({self.low:.3f} to {self.high:.3f})"


def judged(answer: Mapping[str, Any], true: Truth) -> Point:
    """Whether an answer of campaign.json meets the truth, and the next draw's interval too.

    Raises:
        ImpossibleFigure: the answer has no intervals, or the truth is too vague to judge it.
    """
    name = answer["test"]
    if true.high > WIDEST_TRUTH * true.low:
        raise ImpossibleFigure(
            f"The truth of {name}, {true}, is too vague to judge by: the machine differs too much"
            " from run to run. Measure on an idle machine."
        )
    if answer["ci_simultaneous"] is None or answer["prediction95"] is None:
        raise ImpossibleFigure(f"{name} has no interval: {answer['reason']}.")
    alone, low_high, following = (
        tuple(positive(end, f"an end of {name}") for end in answer[field])
        for field in ("ci95", "ci_simultaneous", "prediction95")
    )
    return Point(
        true.meets(low_high) and true.meets(following),
        f"{name:<6} truth {true}, average {answer['ratio']:.3f}, alone {alone[0]:.3f} to"
        f" {alone[1]:.3f}, of all answers {low_high[0]:.3f} to {low_high[1]:.3f}, next deployment"
        f" {following[0]:.3f} to {following[1]:.3f}: {answer['verdict']}",
    )


@dataclass(frozen=True)
class Machine:
    """What a round trip takes besides the spine, within a rack and between racks."""

    within_seconds: float
    between_seconds: float

    def __str__(self) -> str:
        within, between = self.within_seconds * 1e6, self.between_seconds * 1e6
        return f"  {within:.0f} µs within a rack, {between:.0f} µs between racks"


def machine_of(results: Mapping[str, Any]) -> Machine:
    """What a run says of the machine. Pure.

    Args:
        results: results.json of a run whose nodes all have the same place.
    """
    (verdict,) = (each for each in results["verdicts"] if each["test"] == "rtt")
    spine = 4 * MEAN_RACK.uplink_seconds
    within = positive(verdict["arm_median"], "a round trip within a rack")
    between = positive(verdict["baseline_median"] - spine, "a round trip without the spine")
    return Machine(within, between)


def _calibrated(when: str, out: Path, common: Sequence[str]) -> list[Machine]:
    """Measure the machine with half of the calibrating runs."""
    print("Runs in a lab whose nodes all have the same place:", flush=True)
    names = [f"{when}-{number}" for number in range(1, CALIBRATIONS // 2 + 1)]
    with lab(even=True) as status:
        for name in names:
            rackrate(status, "run", *common, "--name", name)
    return [machine_of(document(out / name / "results.json")) for name in names]


def main() -> Iterator[Point]:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="A campaign in the lab against the truth.")
    parser.add_argument("--seed", type=int, default=SEED, help="of the nodes' places")
    seed = parser.parse_args().seed
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        plan = out / "plan.json"
        plan.write_text(json.dumps(PLAN), encoding="utf-8")
        common = ("--plan", str(plan), "--out", str(out))
        machine = _calibrated("before", out, common)
        print(f"A campaign of {DRAWS} draws, places from the seed {seed}:", flush=True)
        began = time.monotonic()
        with lab(seed=seed) as status:
            up_seconds = time.monotonic() - began
            draws = ("--draws", str(DRAWS), "--name", "campaign")
            rackrate(status, "campaign", "run", *common, *draws)
        campaign = document(out / "campaign" / "campaign.json")
        machine += _calibrated("after", out, common)
    true = [
        truth(Luck(0), Setting(scale=network_scale(), **asdict(each)), MODEL_DRAWS)["ratios"]
        for each in machine
    ]
    print("\nWhat a round trip takes besides the spine, in each run before and after:")
    print(*machine, sep="\n")
    if not campaign["answers"]:
        raise ImpossibleFigure("The campaign has no answers.")
    for each in campaign["answers"]:
        figure = FIGURES[each["test"]]
        yield judged(each, Truth.of([one["cluster"][figure]["mean"] for one in true]))
    print(
        f"{len(campaign['steps'])} draws in {campaign['campaign']['seconds']:.0f} s; the lab was up"
        f" after {up_seconds:.0f} s."
    )


if __name__ == "__main__":
    sys.exit(judge(main))
