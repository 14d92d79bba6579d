"""Test the verdicts with simulated runs whose truth is known.

Prints, with seeds, the coverage of the intervals, the rates of false verdicts and of false
equivalence, the power, and the blocks that a run needs. `*` marks cases that need not pass, because
no method could decide them with so few values. They are printed to show the limits.
Run as `make bench-verdict`, or `python -m benchmarks.verdict [--runs N]`.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist, fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks.lines import Line, main
from rackrate.plan.looks import look_level, looks
from rackrate.verdict.drift import Series, drift_of_one_arm
from rackrate.verdict.enough import LEAST_PROSPECT
from rackrate.verdict.estimate import ERROR
from rackrate.verdict.estimator import (
    Finding,
    Question,
    RunsQuestion,
    answer,
    answer_runs,
)
from rackrate.verdict.layout import Layout, Value
from rackrate.verdict.percentiles import percentiles
from rackrate.verdict.steadiness import compare_steadiness

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]

RUNS = 2000
BLOCKS = (6, 12, 30)
TESTS = 3  # as in the default plan
THRESHOLD = 0.05
#: The limits of a coverage of 95 %, apart from the error of the simulation.
LOW, HIGH = 0.93, 0.97


def simulated(runs: int) -> tuple[float, float]:
    """The limits of a coverage with two standard errors of so many simulated runs."""
    error = 2 * math.sqrt(0.05 * 0.95 / runs)
    return LOW - error, HIGH + error


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


def other_path(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One block in ten is on another path, 25 times the noise away. Few blocks may have none."""
    return np.where(chance.random(shape) < 0.1, -22.5, 2.5) + chance.normal(0.0, 1.0, shape)


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
        same_nodes: whether both arms use the same pairs.
        one_way: how much larger the arm's values are in one of two alternating directions.
        asked_from: the fewest blocks with which the interval has to cover.
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
    asked_from: int = 6
    words_from: int = 6


NEVER = 1000

WORLDS = (
    World("normal", normal),
    World("normal, and noise of both arms", normal, shared_amount=0.1),
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
    World("1 block in 10 on another path", other_path, 0.02, asked_from=NEVER),
    World("skewed", skewed, asked_from=NEVER),
    World("bimodal, 1 in 5", rare, asked_from=NEVER),
    World(
        "luck 1 in 5, 6 pairs", normal, 0.02, luck=rare, luck_amount=0.15, pairs=6, asked_from=NEVER
    ),
    World("autocorrelated 0.3, each arm", drifting(0.3), asked_from=NEVER, words_from=NEVER),
    World("autocorrelated 0.5, each arm", drifting(0.5), asked_from=NEVER, words_from=NEVER),
)


def values(logs: Floats, arm: str, *, alternate: bool = False) -> list[Value]:
    """The values of an arm, from logarithms of shape (pairs, blocks); NaN is a lost trial."""
    found = []
    for pair, block in itertools.product(*map(range, logs.shape)):
        nodes = (f"{arm}{pair}a", f"{arm}{pair}b")
        client, server = nodes[::-1] if alternate and block % 2 else nodes
        if math.isfinite(logs[pair, block]):
            found.append(Value(block + 1, client, server, math.exp(logs[pair, block])))
    return found


def both_arms(
    world: World, blocks: int, ratio: float, chance: np.random.Generator
) -> tuple[list[Value], list[Value]]:
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


def decide(
    *arms: tuple[list[Value], list[Value]], error: float = ERROR, most: int | None = None
) -> list[Finding]:
    """The findings on the tests of one run."""
    questions = [Question(ours, theirs, "higher") for ours, theirs in arms]
    return answer(questions, threshold=THRESHOLD, error=error, most_blocks=most)


def generator(*parts: object) -> tuple[int, np.random.Generator]:
    """A seed derived from the simulated case, and its generator."""
    seed = zlib.crc32("/".join(map(str, parts)).encode())
    return seed, np.random.default_rng(seed)


def wrong(finding: Finding) -> bool:
    """Whether a finding is a difference, where there is none."""
    return finding.verdict in ("better", "worse")


def equal(finding: Finding) -> bool:
    """Whether a finding is the absence of a difference that matters."""
    return finding.verdict == "no meaningful difference"


def share(runs: Iterable[bool]) -> float:
    """The share of simulated runs for which something holds."""
    return fmean(runs)


def many(
    runs: int, world: World, ratios: Sequence[float], *case: object, blocks: int = 6
) -> tuple[int, Iterator[list[Finding]]]:
    """A case's seed, and the findings of its simulated runs, whose tests have these true ratios."""
    seed, chance = generator(*case)
    made = ([both_arms(world, blocks, ratio, chance) for ratio in ratios] for _ in range(runs))
    return seed, (decide(*arms) for arms in made)


def covers(interval: tuple[float, float] | None, ratio: float) -> bool:
    """Whether an interval contains the true ratio."""
    return interval is not None and interval[0] <= ratio <= interval[1]


def coverage(runs: int, worlds: Sequence[World], blocks: Sequence[int]) -> Iterator[Line]:
    """Coverage of the 95 % interval: of the nodes', and of the stack's where pairs differ."""
    for world, number in itertools.product(worlds, blocks):
        case = "coverage", world.name, number
        seed, found = many(runs, world, (1.1,), *case, blocks=number)
        is_wider = bool(world.luck_amount) and not world.same_nodes
        claims = ((each.stack if is_wider else None) or each for (each,) in found)
        covered = share(covers(claim.ci95, 1.1) for claim in claims)
        asked = number >= world.asked_from
        text = f"{world.name}, {number} blocks"
        yield Line(text, covered, seed, *simulated(runs), asked)


def false_verdicts(runs: int, worlds: Sequence[World], blocks: Sequence[int]) -> Iterator[Line]:
    """False verdicts of difference per run of three tests."""
    for world, number in itertools.product(worlds, blocks):
        case, ratios = ("false", world.name, number), (1.0,) * TESTS
        seed, found = many(runs // 2, world, ratios, *case, blocks=number)
        # With luck, these nodes do differ; the false claim is that about the stack.
        is_wider = bool(world.luck_amount) and not world.same_nodes
        claims = ([each.stack if is_wider else each for each in of_run] for of_run in found)
        differ = share(
            any(c is not None and c.verdict in ("better", "worse") for c in of_run)
            for of_run in claims
        )
        asked = number >= world.words_from
        text = f"{world.name}, {number} blocks"
        yield Line(text, differ, seed, high=0.05, asked=asked)


#: The worlds in which steadiness is tried, without noise that both arms share.
STEADY_BLOCKS = (6, 8, 10, 12, 20, 30)
STEADY_WORLDS = (
    World("normal", normal),
    World("log-normal", log_normal, 0.3),
    World("heavy tails (t, 3 df)", heavy),
    World("1 block in 10 on another path", other_path, 0.02),
    World("bimodal", bimodal),
    World("skewed", skewed),
    World("autocorrelated 0.5", drifting(0.5)),
)
#: Numbers of pairs, and whether their direction alternates from block to block.
STEADY_DESIGNS = ((1, False), (1, True), (3, True), (6, False), (10, True))


def steady_layout(
    world: World, shape: tuple[int, int], times: float, chance: np.random.Generator, *, turns: bool
) -> Layout:
    """An arm whose blocks vary so many times as much, alike in all its pairs, as a layout."""
    pairs, blocks = shape
    logs = times * world.amount * world.noise(chance, (1, blocks))
    logs = logs + times * world.trial * chance.normal(size=shape)
    names = [(f"{pair}a", f"{pair}b") for pair in range(pairs)]
    if turns:
        odd = np.arange(blocks) % 2 == 1
        logs = np.vstack([np.where(odd, np.nan, logs), np.where(odd, logs, np.nan)])
        names += [(server, client) for client, server in names]
    return Layout(logs, tuple(names), tuple(range(1, blocks + 1)))


def is_unsteady(
    world: World, shape: tuple[int, int], chance: np.random.Generator, *, turns: bool
) -> bool:
    """Whether any of three tests finds that one of two alike arms varies more."""
    arms = [
        [steady_layout(world, shape, 1.0, chance, turns=turns) for _ in range(2)]
        for _ in range(TESTS)
    ]
    found = [compare_steadiness(*pair, error=ERROR / TESTS).verdict for pair in arms]
    return any(word in ("better", "worse") for word in found)


def false_steadiness(runs: int, worlds: Sequence[World], blocks: Sequence[int]) -> Iterator[Line]:
    """False verdicts of steadiness per run of three tests: the worst of all designs."""
    for world, number in itertools.product(worlds, blocks):
        seed, chance = generator("unsteady", world.name, number)

        shares = {
            (pairs, turns): share(
                is_unsteady(world, (pairs, number), chance, turns=turns) for _ in range(runs // 4)
            )
            for pairs, turns in STEADY_DESIGNS
        }
        pairs, turns = max(shares, key=lambda each: shares[each])
        said = f"{world.name}, {number} blocks, worst: {pairs} pairs{', turning' if turns else ''}"
        # With two standard errors of the simulation.
        high = 0.05 + 2 * math.sqrt(0.05 * 0.95 / (runs // 4))
        yield Line(said, shares[pairs, turns], seed, high=high)


def steadiness(runs: int) -> Iterator[Line]:
    """The power to find that an arm varies two and three times as much, among three tests."""
    for world, blocks, pairs in itertools.product(STEADY_WORLDS[:4], STEADY_BLOCKS[2:], (1, 6)):
        seed, chance = generator("steadiness", world.name, blocks, pairs)
        found = {}
        for times in (2.0, 3.0):
            arms = (
                [
                    steady_layout(world, (pairs, blocks), each, chance, turns=False)
                    for each in (1.0, times)
                ]
                for _ in range(runs // 8)
            )
            found[times] = share(
                compare_steadiness(*pair, error=ERROR / TESTS).verdict == "better" for pair in arms
            )
        text = f"{world.name}, {blocks} blocks, {pairs} pairs: x2 {found[2.0]:.0%}, x3"
        yield Line(text, found[3.0], seed, asked=False)


def joint(runs: int) -> Iterator[Line]:
    """Whether all intervals of a run that looks contain their truth, each cut to its word.

    A truth next to the threshold beside clear ones is the worst case: there a word is false with
    the whole error of the run, and the other intervals are wrong besides.
    """
    edge = 1 + THRESHOLD
    cases: tuple[tuple[str, float, float], ...] = (
        ("10 % more", 1.1, ERROR),
        ("a hair within the threshold", edge * (1 - 1e-6), 2 * ERROR),
        ("a hair beyond the threshold", edge * (1 + 1e-6), 2 * ERROR),
    )
    for (text, near, most), ends in itertools.product(cases, ((6, 6), (6, 12))):
        truths = [near, 2.0, 2.0]
        said = f"{text}, two clear, {ends[0]} to {ends[1]} blocks: an interval misses its truth"
        seed = zlib.crc32(said.encode())
        missed = 0
        for number in range(runs // 4):
            found = until_enough(truths, 0.06, 0.0, ends, seed + number)[1]
            shown = [each.ci_simultaneous for each in found]
            missed += not all(map(covers, shown, truths))
        slack = 3 * math.sqrt(most / (runs // 4))
        yield Line(said, missed / (runs // 4), seed, high=most + slack)


def best_possible(pairs: int, blocks: int = 6) -> float:
    """The power of a test that knows the noise exactly. No method has more at this confidence.

    By the Neyman-Pearson lemma, for normal noise of 3 % in each trial. The interval has 2.5 %
    beyond each end and must be entirely past the threshold.
    """
    error = 0.03 * math.sqrt(2 / (pairs * blocks))
    room = math.log(1.1) - math.log1p(THRESHOLD)
    return NormalDist().cdf(room / error - NormalDist().inv_cdf(0.975))


def power(runs: int) -> Iterator[Line]:
    """The power to find a difference of 10 % with noise of 3 % in every trial, in six blocks."""
    for pairs in (1, 2, 6, 12):
        world = World("3 %", amount=0.0, shared_amount=0.05, trial=0.03, pairs=pairs)
        seed, found = many(runs, world, (1.1,), "power", pairs)
        better = share(each.verdict == "better" for (each,) in found)
        text = f"{pairs} pairs an arm (a perfect test: {best_possible(pairs):.1%})"
        yield Line(text, better, seed, low=0.95, asked=pairs >= 6)


def words(runs: int) -> Iterator[Line]:
    """The power of the words: equivalence by two one-sided tests, and Holm's order."""
    world = World("3 %", amount=0.0, shared_amount=0.05, trial=0.03)
    seed, found = many(runs, world, (1.0,) * TESTS, "words", "equal")
    text = "no difference under 3 % noise, all of three tests"
    yield Line(text, share(all(map(equal, each)) for each in found), seed, asked=False)
    seed, found = many(runs, world, (1.0, 2.0, 2.0), "words", "one of three equal")
    text = "no difference under 3 % noise, beside two clear tests"
    yield Line(text, share(equal(first) for first, *_ in found), seed, low=0.45)
    seed, found = many(runs, world, (1.1, 2.0, 2.0), "words", "ten percent")
    text = "10 % under 3 % noise, beside two clear tests"
    yield Line(text, share(first.verdict == "better" for first, *_ in found), seed, low=0.45)
    for amount in (0.02, 0.06):
        at_edge, ratios = World("edge", amount=amount), (1 + THRESHOLD,) * TESTS
        seed, found = many(runs // 2, at_edge, ratios, "words", "edge", amount)
        text = f"false equivalence at the threshold, noise {amount:.0%}, any of three tests"
        yield Line(text, share(any(map(equal, each)) for each in found), seed, high=0.06)


def same_nodes(runs: int) -> Iterator[Line]:
    """Arms on the same nodes: the luck of the pairs cancels."""
    for pairs in (5, 6):
        world = World("same", amount=0.0, luck_amount=0.1, trial=0.01, pairs=pairs, same_nodes=True)
        seed, found = many(runs // 4, world, (1.1,), "same nodes", pairs)
        held = share(
            each.verdict == "better" and each.scope == "this stack's placement" for (each,) in found
        )
        text = f"10 % luck, 1 % noise, true +10 %, {pairs} pairs: found for the stack"
        yield Line(text, held, seed, low=0.95)


def directions(runs: int) -> Iterator[Line]:
    """A pair that is 3 % better one way, with alternating directions."""
    for amount, blocks in itertools.product((0.003, 0.01), (6, 12)):
        world = World("one way", amount=amount, shared_amount=0.0, trial=0.0, pairs=1, one_way=0.03)
        seed, chance = generator("directions", amount, blocks)
        arms = [
            [both_arms(world, blocks, 1.0, chance) for _ in range(TESTS)] for _ in range(runs // 4)
        ]
        unsteady = sum(
            any(
                compare_steadiness(*pair, error=ERROR / TESTS).verdict in ("better", "worse")
                for pair in of_run
            )
            for of_run in arms
        )
        text = f"noise {amount:.1%}, {blocks} blocks: false verdict of steadiness"
        yield Line(text, unsteady / len(arms), seed, high=0.05)
        found = sum(all(map(equal, decide(*of_run))) for of_run in arms)
        text = f"noise {amount:.1%}, {blocks} blocks: no difference is found"
        asked = amount == 0.003
        yield Line(text, found / len(arms), seed, low=0.9, asked=asked)


def placements(runs: int) -> Iterator[Line]:
    """A luck that all nodes of a stack share: what the stack's interval covers and what not."""
    for amount in (0.02, 0.05, 0.10):
        seed, chance = generator("placement", amount)
        world = World("stack", amount=0.01, luck_amount=0.02, trial=0.01, pairs=6)
        of_stack = of_strategy = 0
        for _ in range(runs // 2):
            luck = math.exp(amount * chance.normal() * math.sqrt(2))
            (found,) = decide(both_arms(world, 6, luck, chance))
            assert found.stack is not None
            of_stack += covers(found.stack.ci95, luck)
            of_strategy += covers(found.stack.ci95, 1.0)
        text = f"shared luck {amount:.0%}: this stack's placement is covered"
        yield Line(text, of_stack / (runs // 2), seed, *simulated(runs))
        text = f"shared luck {amount:.0%}: the strategy's effect, which is not claimed"
        yield Line(text, of_strategy / (runs // 2), seed, asked=False)


def earlier_runs(runs: int) -> Iterator[Line]:
    """Runs that differ from run to run, compared with one earlier run and with several."""

    def run(spread: float, ratio: float, chance: np.random.Generator) -> list[Value]:
        level = math.log(ratio) + spread * chance.normal()
        return values(level + 0.01 * chance.normal(size=(1, 6)), "x")

    def compare(spread: float, ratio: float, earlier: int, chance: np.random.Generator) -> Finding:
        question = RunsQuestion(
            run(spread, ratio, chance),
            [run(spread, 1.0, chance) for _ in range(earlier)],
            "higher",
        )
        return answer_runs([question], threshold=THRESHOLD)[0]

    for spread in (0.02, 0.03, 0.05):
        for earlier in (1, 4, 8):
            seed, chance = generator("earlier", spread, earlier)
            found = [compare(spread, 1.0, earlier, chance) for _ in range(runs)]
            text = f"spread {spread:.0%} between runs, {earlier} earlier: false verdict"
            yield Line(text, sum(map(wrong, found)) / len(found), seed, high=0.05)
            if earlier == 1:
                continue  # it has no interval
            text = f"spread {spread:.0%} between runs, {earlier} earlier: coverage"
            held = sum(covers(each.ci95, 1.0) for each in found) / len(found)
            yield Line(text, held, seed, *simulated(runs))
    for spread, earlier in itertools.product((0.005, 0.01), (4, 8)):
        seed, chance = generator("gate", spread, earlier)
        found = [compare(spread, 0.9, earlier, chance) for _ in range(runs // 2)]
        text = f"spread {spread:.1%}, {earlier} earlier: 10 % less is found"
        power = sum(each.verdict == "worse" for each in found) / len(found)
        yield Line(text, power, seed, low=0.8, asked=spread == 0.005)


def one_arm(runs: int) -> Iterator[Line]:
    """A dip or a drift of one arm alone: what is wrong, and how often the run marks it."""

    def dips(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return np.where(chance.random(shape) < 0.2, -0.3, 0.0) + chance.normal(0, 0.005, shape)

    cases: tuple[tuple[str, Noise, float, float], ...] = (
        ("dips of 0.3 in one block of five", dips, 1.0, -0.06),
        ("drift, autocorrelation 0.5", drifting(0.5), 0.03, 0.0),
        ("drift, autocorrelation 0.8", drifting(0.8), 0.03, 0.0),
        ("drift, autocorrelation 0.95", drifting(0.95), 0.03, 0.0),
    )
    for name, noise, amount, truth in cases:
        for blocks in (6, 12, 24):
            seed, chance = generator("one arm", name, blocks)
            held = false = marked = 0
            for _ in range(runs // 4):
                moved = amount * noise(chance, (1, blocks))
                still = 0.005 * chance.normal(size=(1, blocks))
                (found,) = decide((values(moved, "x"), values(still, "y")))
                held += covers(found.ci95, math.exp(truth))
                false += equal(found) and abs(truth) > math.log1p(THRESHOLD)
                marked += (
                    found.series is not None
                    and drift_of_one_arm(found.series, arm="x", baseline="y") is not None
                )
            number = runs // 4
            dip = truth != 0
            text = f"{name}, {blocks} blocks: {'false equivalence' if dip else 'coverage'}"
            figure = (false if dip else held) / number
            yield Line(text, figure, seed, asked=False)
            text = f"{name}, {blocks} blocks: marked"
            yield Line(text, marked / number, seed, asked=False)


def equal_arms_marked(runs: int) -> Iterator[Line]:
    """How often a run is marked in which no arm drifts."""
    for comparisons, blocks in ((3, 6), (8, 6), (24, 6), (8, 12)):
        seed, chance = generator("no drift", comparisons, blocks)
        marked = share(
            any(
                drift_of_one_arm(
                    Series(range(1, blocks + 1), x - y, np.exp(x), np.exp(y)),
                    arm="x",
                    baseline="y",
                    family=comparisons,
                )
                for x, y in 0.02 * chance.normal(size=(comparisons, 2, blocks))
            )
            for _ in range(runs // 4)
        )
        text = f"no drift, {comparisons} comparisons, {blocks} blocks: marked"
        # 5 %, with three standard errors of the simulation.
        most = 0.05 + 3 * math.sqrt(0.05 / (runs // 4))
        yield Line(text, marked, seed, high=most)


def lost_trials(runs: int) -> Iterator[Line]:
    """Lost trials under a ramp of 10 % that both arms share."""
    ramp = np.linspace(0, 0.1, 6)
    for text, both in (
        ("a lost trial repeated at the end with its partner: settled", True),
        ("the same, repeated alone: settled", False),
    ):
        seed, chance = generator("make-up", text)
        settled = 0
        for _ in range(runs // 4):
            arms = [ramp + 0.005 * chance.normal(size=(1, 6)) for _ in range(2)]
            for arm in arms if both else arms[:1]:
                arm[0, 0] += 0.1
            found = decide((values(arms[0], "x"), values(arms[1], "y")))[0]
            settled += found.verdict != "inconclusive"
        yield Line(text, settled / (runs // 4), seed, low=0.95, asked=both)
    seed, chance = generator("unbalanced")
    biases = []
    for _ in range(runs // 4):
        arms = [ramp + 0.005 * chance.normal(size=(2, 6)) for _ in range(2)]
        arms[0][0, 3:] = np.nan
        ratio = decide((values(arms[0], "x"), values(arms[1], "y")))[0].ratio
        assert ratio is not None
        biases.append(math.log(ratio))
    text = "half of a pair's trials lost: size of the bias"
    yield Line(text, abs(float(np.mean(biases))), seed, high=0.001)


def covers_rounded(step: float, chance: np.random.Generator) -> bool:
    """Whether a run whose values are rounded to steps covers its truth."""
    level = 1.5 * math.exp(0.3 * chance.uniform())
    ratio = 1 + 0.2 * chance.uniform()
    logs = [
        np.log(np.round(level * r * np.exp(0.001 * chance.normal(size=(1, 6))) / step) * step)
        for r in (ratio, 1.0)
    ]
    question = Question(values(logs[0], "x"), values(logs[1], "y"), "higher", lambda _: step)
    return covers(answer([question], threshold=THRESHOLD)[0].ci95, ratio)


def resolution(runs: int) -> Iterator[Line]:
    """Values that the tool rounds to steps larger than their noise."""
    for step in (0.01, 0.05):
        seed, chance = generator("resolution", step)
        covered = share(covers_rounded(step, chance) for _ in range(runs // 4))
        text = f"values of about 1.7 in steps of {step}: coverage"
        yield Line(text, covered, seed, low=LOW)


def of_percentiles(runs: int) -> Iterator[Line]:
    """The coverage of a p99's interval: blocks that differ by 2 %, and values in bursts."""
    plain = math.exp(NormalDist().inv_cdf(0.99) * math.hypot(0.2, 0.02))
    for mean, number in itertools.product((0, 5, 20), (100, 200, 500, 1000, 2000)):
        seed, chance = generator("percentiles", mean, number)
        truth = plain if not mean else float(np.quantile(bursty(2_000_000, mean, chance), 0.99))
        held = given = 0
        for _ in range(runs // 4):
            blocks = [
                math.exp(0.02 * chance.normal()) * bursty(number, mean, chance) for _ in range(6)
            ]
            interval = percentiles(blocks).intervals.get("p99")
            given += interval is not None
            held += covers(interval, truth)
        how = f"bursts of {mean}" if mean else "no bursts"
        text = f"p99 of 6 blocks of {number} values, {how}: "
        if not given:
            yield Line(f"{text}no interval", 0.0, seed, high=0.0)
            continue
        # Five values beyond it are one burst or none if a burst has twenty.
        asked = mean <= 5
        yield Line(f"{text}coverage", held / given, seed, 0.88, asked=asked)


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


def until_enough(
    ratios: Sequence[float], noise: float, correlation: float, ends: tuple[int, int], seed: int
) -> tuple[int, list[Finding]]:
    """The blocks that a run with looks measures, and its findings."""
    chance = np.random.default_rng(seed)
    drift = drifting(correlation)
    arms = [
        [
            values(math.log(r) + noise / math.sqrt(2) * drift(chance, (1, ends[1])), name)
            for r, name in ((ratio, "x"), (1.0, "y"))
        ]
        for ratio in ratios
    ]
    at = looks(*ends)
    for blocks in at:
        so_far = [[[v for v in side if v.block <= blocks] for side in arm] for arm in arms]
        found = decide(
            *((ours, theirs) for ours, theirs in so_far), error=look_level(len(at)), most=ends[1]
        )
        if all((each.prospect or 0.0) <= LEAST_PROSPECT for each in found):
            break
    return blocks, found


def errors_of_looks(runs: int) -> Iterator[Line]:
    """The errors at the threshold of runs that look and stop."""
    edge = 1 + THRESHOLD
    for ends, correlation, tests in (
        ((6, 6), 0.0, 1),
        ((6, 12), 0.0, 1),
        ((6, 24), 0.0, 1),
        ((6, 12), 0.1, 1),
        ((6, 24), 0.1, 1),
        ((6, 12), 0.0, TESTS),
        ((6, 24), 0.1, TESTS),
        ((6, 24), 0.3, 1),
    ):
        seed = zlib.crc32(f"stopping/{ends}/{correlation}/{tests}".encode())
        found = [
            until_enough([edge] * tests, 0.06, correlation, ends, seed + n)[1] for n in range(runs)
        ]
        differ = sum(any(map(wrong, each)) for each in found) / runs
        alike = sum(any(map(equal, each)) for each in found) / runs
        text = f"{ends[0]} to {ends[1]} blocks, autocorrelation {correlation}, {tests} tests"
        asked = correlation <= 0.1
        # 2.5 % and 5 %, with three standard errors of the simulation.
        slack = 3 * math.sqrt(0.025 / runs)
        yield Line(
            f"{text}: false difference",
            differ,
            seed,
            high=0.025 + slack,
            asked=asked,
        )
        yield Line(f"{text}: false equivalence", alike, seed, high=0.05 + slack, asked=asked)


def blocks_of_looks(runs: int) -> Iterator[Line]:
    """The power of runs that look and stop, and the blocks that they measure."""
    for ratio, noise in ((1.0, 0.03), (1.1, 0.03), (1.2, 0.03), (2.0, 0.03), (1.1, 0.06)):
        for ends in ((6, 12), (6, 24)):
            seed = zlib.crc32(f"blocks/{ratio}/{noise}/{ends}".encode())
            each = [until_enough([ratio], noise, 0.0, ends, seed + n) for n in range(runs // 4)]
            settled = sum(f[0].verdict != "inconclusive" for _, f in each) / len(each)
            text = f"ratio {ratio}, noise {noise:.0%}, {ends[0]} to {ends[1]} blocks: settled"
            yield Line(text, settled, seed, asked=False)
            used = float(np.mean([blocks for blocks, _ in each]))
            most = ends[0] + 1.0 if ratio >= 1.2 else float(ends[1])
            text = "  blocks measured on average"
            yield Line(text, used, seed, high=most, unit="blocks")


def parts(runs: int) -> list[tuple[str, Callable[[], Iterator[Line]]]]:
    """The parts of the report by title, in its order; a title may have several."""
    of_worlds: list[tuple[str, Callable[[], Iterator[Line]]]] = [
        (
            "Coverage of the 95 % interval; asked: 93 to 97 %, and two standard errors",
            functools.partial(coverage, runs, [world], BLOCKS),
        )
        for world in WORLDS
    ]
    of_worlds += [
        (
            f"False differences per run of {TESTS} tests; asked: at most 5 %",
            functools.partial(false_verdicts, runs, [world], BLOCKS),
        )
        for world in WORLDS
    ]
    of_worlds += [
        (
            f"False steadiness per run of {TESTS} tests; asked: at most 5 %",
            functools.partial(false_steadiness, runs, [case], STEADY_BLOCKS),
        )
        for case in STEADY_WORLDS
    ]
    return of_worlds + [
        (title, functools.partial(simulate, runs))
        for title, simulate in (
            ("Variability of two and three times found among three tests", steadiness),
            ("Power: 10 % under 3 % noise, six blocks; asked of six pairs: 95 %", power),
            ("The words, six blocks", words),
            ("All intervals of a run together; asked: 5 %, next to the threshold 10 %", joint),
            ("Arms on the same nodes; asked: 95 %", same_nodes),
            ("Alternating directions, 3 % better one way; asked: at most 5 %, 90 %", directions),
            ("The placement; asked: 93 to 97 %", placements),
            ("Earlier runs; asked: at most 5 %, from four runs on 93 to 97 %", earlier_runs),
            ("One arm alone dips or drifts; nothing is asked, six values cannot tell", one_arm),
            ("No arm drifts; asked: a mark in at most 5 % of runs", equal_arms_marked),
            ("Lost trials under a shared ramp of 10 %; asked: 95 %, 0.1 %", lost_trials),
            ("Rounded values; asked: at least 93 %", resolution),
            (
                "Percentiles; asked: 88 %, or no interval; no bursts, or of five values",
                of_percentiles,
            ),
            ("Runs that look; asked: 2.5 % and 5 % at the threshold", errors_of_looks),
            ("Blocks of runs that look", blocks_of_looks),
        )
    ]


def _simulated(runs: int, place: int) -> list[Line]:
    return list(parts(runs)[place][1]())


def report(runs: int) -> Iterator[str | Line]:
    """The titles and the lines of the report, simulated by all CPUs."""
    titles = [title for title, _ in parts(runs)]
    with ProcessPoolExecutor() as pool:
        every = pool.map(functools.partial(_simulated, runs), range(len(titles)))
        for place, (title, lines) in enumerate(zip(titles, every, strict=True)):
            if place == 0 or title != titles[place - 1]:
                yield title
            yield from lines


if __name__ == "__main__":
    sys.exit(main(__doc__, report, runs=RUNS))
