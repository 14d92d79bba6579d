"""The worlds of the simulated verdicts: distributions of noise, and runs whose truth is known."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from benchmarks.simulation import Floats, Noise
from rackrate.verdict.layout import Value

Arms = tuple[list[Value], list[Value]]


def log_normal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Normal on the logarithm, so multiplicative."""
    return chance.normal(0.0, 1.0, shape)


def normal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Normal on the values with a CV of 0.1, so skewed on the logarithm."""
    return np.log(np.maximum(1 + 0.1 * chance.normal(0.0, 1.0, shape), 0.1)) / 0.1


def skewed(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Log-normal on the logarithm: a long tail on one side that no logarithm removes."""
    return (chance.lognormal(0.0, 0.6, shape) - math.exp(0.18)) / 0.78


@dataclass(frozen=True)
class TwoLevels:
    """A share of the values is on a lower level; each has normal noise besides."""

    share: float
    lower: float
    upper: float
    noise: float

    def __call__(self, chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """The noise around the levels."""
        levels = np.where(chance.random(shape) < self.share, self.lower, self.upper)
        return levels + chance.normal(0.0, self.noise, shape)


#: Two levels whose distance is ten times the noise of each.
bimodal = TwoLevels(0.5, -1.0, 1.0, 0.2)
#: One value in five is of a second, lower level. Six blocks may contain none of these.
rare = TwoLevels(0.2, -2.0, 0.5, 0.2)
#: One block in ten is on another path, 25 times the noise away. Few blocks may have none.
other_path = TwoLevels(0.1, -22.5, 2.5, 1.0)
#: Dips of 0.3 in one block of five.
dips = TwoLevels(0.2, -0.3, 0.0, 0.005)


def heavy(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Student's t with three degrees of freedom: outliers in every run."""
    return chance.standard_t(3, shape) / math.sqrt(3)


@dataclass(frozen=True)
class Drifting:
    """First-order autocorrelation from block to block (the last axis)."""

    correlation: float

    def __call__(self, chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """The noise; it is stationary from the start."""
        steps = chance.normal(0.0, math.sqrt(1 - self.correlation**2), shape)
        steps[..., 0] = chance.normal(0.0, 1.0, shape[:-1])
        for index in range(1, shape[-1]):
            steps[..., index] += self.correlation * steps[..., index - 1]
        return steps


def bursty(number: int, mean: int, chance: np.random.Generator) -> Floats:
    """Times of requests, of which about 3 % are in bursts of this mean length; none with 0."""
    logs = 0.2 * chance.normal(size=number)
    if mean:
        starts = chance.random(number) < 0.03 / mean
        left = np.zeros(number)
        for start in np.flatnonzero(starts):
            left[start : start + chance.geometric(1 / mean)] = 1.0
        logs += left * (1.0 + 0.5 * chance.normal(size=number))
    return np.exp(logs)


@dataclass(frozen=True)
class World:
    """A model of the values. Amounts and `trial` are standard deviations of the logarithm.

    Attributes:
        noise: distribution of an arm's noise from block to block, with `amount`.
        shared: the same for noise that both arms of a block share.
        luck: the same for the differences between pairs of nodes.
        trial: normal noise of each trial.
        pairs: number of pairs of nodes of each arm.
        same_nodes: whether both arms use the same pairs.
        one_way: how much larger the arm's values are in one of two alternating directions.
        required_from: the fewest blocks with which the interval has to cover.
        words_from: the fewest blocks with which the words have to be right.
    """

    name: str
    noise: Noise = log_normal
    amount: float = 0.1
    shared: Noise = log_normal
    shared_amount: float = 0.0
    luck: Noise = log_normal
    luck_amount: float = 0.0
    trial: float = 0.01
    pairs: int = 1
    same_nodes: bool = False
    one_way: float = 0.0
    required_from: int = 6
    words_from: int = 6


NEVER = 1000


WORLDS = (
    World("normal", normal),
    World("normal, and noise of both arms", normal, shared_amount=0.1),
    World("log-normal", log_normal, 0.3),
    World("bimodal", bimodal),
    World("heavy tails (t, 3 df)", heavy),
    World("autocorrelated 0.7, both arms", log_normal, shared=Drifting(0.7), shared_amount=0.2),
    World("autocorrelated 0.1, each arm", Drifting(0.1)),
    World("autocorrelated 0.2, each arm", Drifting(0.2), required_from=12),
    World("luck normal, 6 pairs", normal, 0.02, luck=normal, luck_amount=0.1, pairs=6),
    World("luck bimodal, 6 pairs", normal, 0.02, luck=bimodal, luck_amount=0.15, pairs=6),
    World("luck bimodal, 10 pairs", normal, 0.02, luck=bimodal, luck_amount=0.15, pairs=10),
    World("no luck, block noise, 6 pairs", normal, 0.05, trial=0.03, pairs=6),
    World("1 block in 10 on another path", other_path, 0.02, required_from=NEVER),
    World("skewed", skewed, required_from=NEVER),
    World("bimodal, 1 in 5", rare, required_from=NEVER),
    World(
        "luck 1 in 5, 6 pairs",
        normal,
        0.02,
        luck=rare,
        luck_amount=0.15,
        pairs=6,
        required_from=NEVER,
    ),
    World("autocorrelated 0.3, each arm", Drifting(0.3), required_from=NEVER, words_from=NEVER),
    World("autocorrelated 0.5, each arm", Drifting(0.5), required_from=NEVER, words_from=NEVER),
)


STEADY_WORLDS = (
    World("normal", normal),
    World("log-normal", log_normal, 0.3),
    World("heavy tails (t, 3 df)", heavy),
    World("1 block in 10 on another path", other_path, 0.02),
    World("bimodal", bimodal),
    World("skewed", skewed),
    World("autocorrelated 0.5", Drifting(0.5)),
)


def values(logs: Floats, arm: str, *, alternate: bool = False) -> list[Value]:
    """The values of an arm, from logarithms of shape (pairs, blocks); NaN is a lost trial."""
    arm_values = []
    for pair, block in itertools.product(*map(range, logs.shape)):
        nodes = (f"{arm}{pair}a", f"{arm}{pair}b")
        client, server = nodes[::-1] if alternate and block % 2 else nodes
        if math.isfinite(logs[pair, block]):
            arm_values.append(Value(block + 1, client, server, math.exp(logs[pair, block])))
    return arm_values


def both_arms(world: World, blocks: int, ratio: float, chance: np.random.Generator) -> Arms:
    """Simulate an arm and its baseline in the same blocks. `ratio` is the true ratio."""
    shape = (world.pairs, blocks)
    moment = world.shared_amount * world.shared(chance, (1, blocks))
    lucks = [world.luck_amount * world.luck(chance, (world.pairs, 1)) for _ in range(2)]
    if world.same_nodes:
        lucks[1] = lucks[0]
    arms = [
        np.full(shape, level)
        + luck
        + moment
        + world.amount * world.noise(chance, (1, blocks))
        + world.trial * chance.normal(0.0, 1.0, shape)
        for level, luck in zip((math.log(ratio), 0.0), lucks, strict=True)
    ]
    if world.one_way:
        # The truth is the mean of both directions.
        arms[0] += world.one_way * np.where(np.arange(blocks) % 2, 0.5, -0.5)
    names = ("x", "x" if world.same_nodes else "y")
    ours, theirs = (
        values(logs, name, alternate=world.one_way != 0)
        for logs, name in zip(arms, names, strict=True)
    )
    return ours, theirs
