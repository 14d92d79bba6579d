"""Test hunts with simulated luck whose truth is known: what they end with, and what they say.

Prints, with seeds and bounds, the regret of hunts against the best of all draws that they might
have made, how often the interval of the share of better placements holds that share, and how far
the predicted value of going on is from what it gives. Figures are in standard deviations of luck.
`*` marks figures without a limit. Run as part of `make bench-verdict`, or
`python -m benchmarks.hunt [--runs N]`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.draws import ONE_IN_FOUR, TWO_LEVELS, Luck, skewed, skewed_down
from benchmarks.simulation import LOW, Floats, Line, Proof, errors, means
from benchmarks.worlds import log_normal as normal
from lab.fabric.luck import POSITIONS
from rackrate.verdict.hunt import of_present, stop_hunt, value_of_going_on
from rackrate_contract.campaign import Hunt, HuntGoal

proof = Proof()

RUNS = 400
#: The standard deviation of luck, as a logarithm.
SIZE = 0.1
#: Of a draw's measurement, in standard deviations of luck.
ERRORS = (0.01, 0.3)
_MANY = 20_000


def of_lab(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Round trips between two racks of the lab, each at one of its positions; less is better."""
    sums = chance.integers(POSITIONS, size=(2, *shape)).sum(axis=0)
    return (POSITIONS - 1 - sums) / math.sqrt((POSITIONS**2 - 1) / 6)


SMOOTH = (Luck("normal", normal), Luck("skewed", skewed), Luck("skewed down", skewed_down))
LUCKS = (*SMOOTH, TWO_LEVELS, ONE_IN_FOUR, Luck("the lab's", of_lab, levels=(1 / POSITIONS,)))


def rule(**goal: float) -> HuntGoal:
    """What a hunt hunts for; without a goal it goes by rank."""
    nothing = dict.fromkeys(("endpoint", "target", "best_share", "dollars_per_percent"))
    names = {"test": "t", "metric": "m", "unit": "B", "better": "higher", "arm": "a"}
    return HuntGoal.from_json({**names, **nothing, **goal})


RULES = {
    "by rank": rule(),
    "target of 0.8": rule(target=math.exp(0.8 * SIZE)),
    "target of 2": rule(target=math.exp(2 * SIZE)),
    "best fifth": rule(best_share=0.2),
    # A draw that costs as much as a tenth of the luck is worth.
    "worth its cost": rule(dollars_per_percent=100.0),
}


def ended(goal: HuntGoal, levels: Floats, halves: Floats, first: int = 1) -> tuple[int, Hunt]:
    """How many draws a hunt makes of those that it may make, and what it knows then.

    It makes at least `first`.
    """
    most = levels.size
    for draws in range(first, most + 1):
        known = of_present(levels[:draws], halves[:draws], goal, most - draws, 100 * SIZE * 10)
        hunt = Hunt.model_construct(**dict(goal), **known, draws=[None] * draws)
        if stop_hunt(hunt, after=draws, most=most) is not None:
            break
    return draws, hunt


@proof.question("Hunts: regret, draws, interval of the share", LUCKS, RULES, (4, 12), ERRORS)
def hunts(runs: int, luck: Luck, name: str, most: int, error: float) -> Iterator[Line]:
    """What hunts end with, and whether their interval of the share holds the truth."""
    others = np.sort(luck.noise(np.random.default_rng(0), (_MANY,)))

    def simulate(chance: np.random.Generator) -> tuple[float, float, bool]:
        true = luck.noise(chance, (most,))
        levels = SIZE * (true + error * chance.normal(size=most))
        draws, hunt = ended(RULES[name], levels, np.full(most, 1.96 * SIZE * error))
        present = true[draws - 1]
        # Of placements that are exactly alike any may count as better.
        worse, no_better = (np.searchsorted(others, present + e) / _MANY for e in (-1e-9, 1e-9))
        low, high = hunt.better_than_ci95 or (0.0, 1.0)
        return float(true.max() - present), draws, bool(low <= no_better and worse <= high)

    seed, (regret, draws, held) = means(runs, simulate, "hunt", luck.name, name, most, error)
    text = f"{luck.name}, {name}, error {error:g}, {draws:.1f} of {most} draws"
    bound = 1.0 if name == "by rank" and luck in SMOOTH else math.inf
    yield Line(f"{text}: regret", regret, seed, high=bound, required=bound == 1, unit="luck")
    low = LOW if name in ("by rank", "best fifth") else 0.9
    limit = "" if low == LOW else "it stops by values, which are not independent of the rank"
    required = name != "target of 2"
    yield Line(f"{text}: share", held, seed, low - errors(runs), required=required, limit=limit)


@proof.question("The value of going on: predicted less real", LUCKS, (4, 6, 8))
def gains(runs: int, luck: Luck, draws: int) -> Iterator[Line]:
    """How far the value of going on is from what hunts by rank end with that go on."""

    def simulate(chance: np.random.Generator) -> float:
        levels = luck.noise(chance, (12,)) + ERRORS[0] * chance.normal(size=12)
        predicted = value_of_going_on(levels[:draws], 12 - draws)
        end, _ = ended(RULES["by rank"], levels, np.zeros(12), draws + 1)
        return predicted - float(levels[end - 1])

    seed, excess = means(runs, simulate, "gains", luck.name, draws)
    required = luck in SMOOTH
    text = f"{luck.name}, after {draws}"
    yield Line(text, excess, seed, low=-0.2, high=0.2, required=required, unit="luck")


if __name__ == "__main__":
    sys.exit(proof.main(__doc__, runs=RUNS))
