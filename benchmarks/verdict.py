"""Test the estimator with simulated runs whose true ratio is known.

Prints, with seeds, the coverage of the 95 % interval, the false-positive rate of runs without any
difference, and the power to find a difference of 10 %. `*` marks cases that need not pass, because
no method could decide them with so few values. They are printed to show the limits.
Run as `make bench-verdict`, or `python -m benchmarks.verdict [--runs N]`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rackrate.verdict.estimator import Value, estimate, estimate_steadiness

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]

RUNS = 2000
BLOCKS = (6, 12, 30)
TESTS = 3  # as in the default plan
THRESHOLD = 0.05
#: With an exact 95 % interval and this many runs, the observed coverage is between these limits.
LOW, HIGH = 0.93, 0.97


def log_normal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Normal on the logarithm, so multiplicative."""
    return chance.normal(0.0, 1.0, shape)


def normal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Normal on the values with a CV of 0.1, so skewed on the logarithm."""
    return np.log(np.maximum(1 + 0.1 * chance.normal(0.0, 1.0, shape), 0.1)) / 0.1


def skewed(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Log-normal on the logarithm: a long tail on one side that no logarithm removes."""
    return (chance.lognormal(0.0, 0.6, shape) - math.exp(0.18)) / 0.78


def bimodal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Two levels whose distance is ten times the noise of each."""
    return np.where(chance.random(shape) < 0.5, -1.0, 1.0) + chance.normal(0.0, 0.2, shape)


def rare(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One value in five is of a second, lower level. Six blocks may contain none of these."""
    return np.where(chance.random(shape) < 0.2, -2.0, 0.5) + chance.normal(0.0, 0.2, shape)


def heavy(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Student's t with three degrees of freedom: outliers in every run."""
    return chance.standard_t(3, shape) / math.sqrt(3)


def drifting(correlation: float) -> Noise:
    """First-order autocorrelation from block to block (the last axis)."""

    def noise(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        steps = chance.normal(0.0, math.sqrt(1 - correlation**2), shape)
        steps[..., 0] = chance.normal(0.0, 1.0, shape[:-1])  # stationary from the start
        for index in range(1, shape[-1]):
            steps[..., index] += correlation * steps[..., index - 1]
        return steps

    return noise


@dataclass(frozen=True)
class World:
    """A model of the values. Amounts and `trial` are standard deviations of the logarithm.

    Attributes:
        noise: distribution of an arm's noise from block to block, with `amount`.
        shared: the same for noise that both arms of a block share.
        luck: the same for the differences between pairs of nodes.
        trial: normal noise of each trial.
        pairs: number of pairs of nodes of each arm.
        asked_from: the fewest blocks with which the case has to pass.
    """

    name: str
    noise: Noise = log_normal
    amount: float = 0.1
    shared: Noise = log_normal
    shared_amount: float = 0.1
    luck: Noise = log_normal
    luck_amount: float = 0.0
    trial: float = 0.01
    pairs: int = 1
    asked_from: int = 6


NEVER = 1000

WORLDS = (
    World("normal", normal),
    World("log-normal", log_normal, 0.3),
    World("bimodal", bimodal),
    World("heavy tails (t, 3 df)", heavy),
    World("autocorrelated 0.7, both arms", log_normal, shared=drifting(0.7), shared_amount=0.2),
    World("autocorrelated 0.1, each arm", drifting(0.1)),
    World("autocorrelated 0.2, each arm", drifting(0.2), asked_from=12),
    World("luck normal, 6 pairs", normal, 0.02, luck=normal, luck_amount=0.1, pairs=6),
    World("luck bimodal, 6 pairs", normal, 0.02, luck=bimodal, luck_amount=0.15, pairs=6),
    World("luck bimodal, 10 pairs", normal, 0.02, luck=bimodal, luck_amount=0.15, pairs=10),
    World("no luck, block noise, 6 pairs", normal, 0.05, trial=0.03, pairs=6),
    World("skewed", skewed, asked_from=NEVER),
    World("bimodal, 1 in 5", rare, asked_from=NEVER),
    World(
        "luck 1 in 5, 6 pairs", normal, 0.02, luck=rare, luck_amount=0.15, pairs=6, asked_from=NEVER
    ),
    World("autocorrelated 0.3, each arm", drifting(0.3), asked_from=NEVER),
    World("autocorrelated 0.5, each arm", drifting(0.5), asked_from=NEVER),
)


def simulate(world: World, blocks: int, ratio: float, chance: np.random.Generator) -> list[Value]:
    """Simulate one arm of a run, without the noise that both arms share."""
    pairs = world.pairs
    logs = np.full((pairs, blocks), math.log(ratio))
    logs += world.luck_amount * world.luck(chance, (pairs, 1))
    logs += world.amount * world.noise(chance, (1, blocks))
    logs += world.trial * chance.normal(0.0, 1.0, (pairs, blocks))
    return _values(logs)


def _values(logs: Floats) -> list[Value]:
    return [
        Value(block + 1, f"{pair}a", f"{pair}b", math.exp(logs[pair, block]))
        for pair in range(logs.shape[0])
        for block in range(logs.shape[1])
    ]


def both_arms(
    world: World, blocks: int, ratio: float, chance: np.random.Generator
) -> tuple[list[Value], list[Value]]:
    """Simulate an arm and its baseline in the same blocks. `ratio` is the true ratio."""
    moment = np.exp(world.shared_amount * world.shared(chance, (1, blocks)))[0]
    arms = (simulate(world, blocks, r, chance) for r in (ratio, 1.0))
    ours, theirs = ([v._replace(value=v.value * moment[v.block - 1]) for v in a] for a in arms)
    return ours, theirs


def generator(*parts: object) -> tuple[int, np.random.Generator]:
    """A seed derived from the simulated case, and its generator."""
    seed = zlib.crc32("/".join(map(str, parts)).encode())
    return seed, np.random.default_rng(seed)


def coverage(world: World, blocks: int, runs: int) -> tuple[float, int]:
    """The share of runs whose interval contains the true ratio, and the seed."""
    seed, chance = generator("coverage", world.name, blocks)
    held = 0
    for _ in range(runs):
        arm, baseline = both_arms(world, blocks, 1.1, chance)
        found = estimate(arm, baseline, better="higher", threshold=THRESHOLD)
        assert found.ci95 is not None
        held += found.ci95[0] <= 1.1 <= found.ci95[1]
    return held / runs, seed


def false_differences(world: World, blocks: int, runs: int) -> tuple[float, float, int]:
    """The false-positive rates per run of the difference and of the variability, and the seed."""
    seed, chance = generator("false", world.name, blocks)
    wrong = unsteady = 0
    for number in range(runs):
        words, spreads = [], []
        for _ in range(TESTS):
            arm, baseline = both_arms(world, blocks, 1.0, chance)
            words.append(
                estimate(arm, baseline, better="higher", threshold=THRESHOLD, family=TESTS).verdict
            )
            spreads.append(
                estimate_steadiness(arm, baseline, family=TESTS, seed=seed + number).verdict
            )
        wrong += any(word in ("better", "worse") for word in words)
        unsteady += any(word in ("better", "worse") for word in spreads)
    return wrong / runs, unsteady / runs, seed


@dataclass(frozen=True)
class Power:
    """The power to find a difference of 10 % with 3 % noise."""

    beyond_threshold: float
    beyond_none: float
    seed: int


def power(pairs: int, tests: int, runs: int, blocks: int = 6) -> Power:
    """The power to find a difference of 10 % with noise of 3 % in every trial.

    Args:
        pairs: pairs of each arm, each measured once in a block.
        tests: number of tests that the interval is adjusted for.
        runs: number of runs.
        blocks: number of blocks.
    """
    seed, chance = generator("power", pairs, tests, blocks)
    world = World("3 %", amount=0.0, shared_amount=0.05, trial=0.03, pairs=pairs)
    found = seen = 0
    for _ in range(runs):
        arm, baseline = both_arms(world, blocks, 1.1, chance)
        verdict = estimate(arm, baseline, better="higher", threshold=THRESHOLD, family=tests)
        found += verdict.verdict == "better"
        assert verdict.ci_simultaneous is not None
        seen += verdict.ci_simultaneous[0] > 1.0
    return Power(found / runs, seen / runs, seed)


def best_possible(pairs: int, blocks: int = 6) -> float:
    """The power of a test that knows the noise exactly. No method has more at this confidence.

    By the Neyman-Pearson lemma, for normal noise of 3 % in each trial. The interval has 2.5 %
    beyond each end and must be entirely past the threshold.
    """
    error = 0.03 * math.sqrt(2 / (pairs * blocks))
    room = math.log(1.1) - math.log1p(THRESHOLD)
    return NormalDist().cdf(room / error - NormalDist().inv_cdf(0.975))


def report(runs: int) -> Iterator[tuple[str, bool]]:
    """The lines of the report, each with whether it passes."""
    yield f"Coverage of the 95 % interval, {runs} runs each; asked: 93 to 97 %", True
    for world in WORLDS:
        for blocks in BLOCKS:
            share, seed = coverage(world, blocks, runs)
            asked = blocks >= world.asked_from
            good = LOW <= share <= HIGH or not asked
            note = "" if asked else "*"
            yield f"  {world.name:<32}{blocks:>3} blocks {share:7.1%}{note:<2} seed {seed}", good
    yield (
        f"False verdicts of difference per run of {TESTS} tests, and of steadiness;"
        " asked: at most 5 %",
        True,
    )
    for world in WORLDS:
        for blocks in BLOCKS:
            wrong, unsteady, seed = false_differences(world, blocks, runs // 2)
            asked = blocks >= world.asked_from
            good = max(wrong, unsteady) <= 0.05 or not asked
            note = "" if asked else "*"
            line = f"  {world.name:<32}{blocks:>3} blocks {wrong:7.1%} {unsteady:7.1%}{note:<2}"
            yield f"{line} seed {seed}", good
    yield (
        "Power: 10 % under 3 % noise of each trial, six blocks; found = interval beyond 5 %;"
        " asked of six pairs: 95 %",
        True,
    )
    for pairs in (1, 2, 4, 6, 12):
        for tests in (1, TESTS):
            found = power(pairs, tests, runs)
            asked = pairs >= 6 and tests == 1
            yield (
                f"  {pairs:>2} pairs an arm, {tests} tests: found {found.beyond_threshold:6.1%}"
                f" (a perfect test: {best_possible(pairs):.1%}), interval beyond 1"
                f" {found.beyond_none:6.1%}{'' if asked else '*':<2} seed {found.seed}",
                found.beyond_threshold >= 0.95 or not asked,
            )


def main() -> int:
    """Print the report. Returns 1 when a case that has to pass does not."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=RUNS, help="simulated runs of each case")
    runs = options.parse_args().runs
    if runs < 2:
        options.error("--runs must be at least 2, of which one half is for false verdicts")
    started = time.monotonic()
    failed = 0
    for line, good in report(runs):
        failed += not good
        print(f"{line}{'' if good else '  FAIL'}", flush=True)
    print(f"{'PASS' if failed == 0 else f'FAIL: {failed}'} in {time.monotonic() - started:.0f} s")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
