"""Test the verdicts with simulated runs whose truth is known.

Prints, with seeds, the coverage of the intervals, the rates of false verdicts and of false
equivalence, the power, and the blocks that a run needs. `*` marks cases that need not pass, because
no method could decide them with so few values. They are printed to show the limits.
Run as `make bench-verdict`, or `python -m benchmarks.verdict [--runs N]`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist, fmean
from typing import Any

import numpy as np

from benchmarks.simulation import (
    HIGH,
    LOW,
    TESTS,
    THRESHOLD,
    Line,
    Noise,
    Proof,
    covers,
    differs,
    equal,
    errors,
    generator,
    means,
    until_enough,
)
from benchmarks.worlds import (
    STEADY_WORLDS,
    WORLDS,
    Arms,
    Drifting,
    World,
    both_arms,
    bursty,
    dips,
    values,
)
from rackrate.plan.looks import look_level, looks
from rackrate.verdict import estimator
from rackrate.verdict.drift import Series, drift_of_one_arm
from rackrate.verdict.estimate import ERROR
from rackrate.verdict.estimator import Finding, RunsQuestion, answer, answer_runs
from rackrate.verdict.layout import Layout, Value
from rackrate.verdict.percentiles import percentiles
from rackrate.verdict.steadiness import compare_steadiness

RUNS = 2000
BLOCKS = (6, 12, 30)

proof = Proof()


def simulated(runs: int) -> tuple[float, float]:
    """The limits of a coverage with two standard errors of so many simulated runs."""
    return LOW - errors(runs), HIGH + errors(runs)


def decide(*arms: Arms, error: float = ERROR, most: int | None = None) -> list[Finding]:
    """The findings on the tests of one run."""
    questions = [estimator.Question(ours, theirs, "higher") for ours, theirs in arms]
    return answer(questions, threshold=THRESHOLD, error=error, most_blocks=most)


def share(
    runs: int,
    holds: Callable[[list[Finding]], bool],
    world: World,
    ratios: Sequence[float],
    *case: object,
    blocks: int = 6,
) -> tuple[int, float]:
    """A case's seed, and the share of runs for whose findings something holds.

    Args:
        runs: number of simulated runs.
        holds: whether it holds for the findings of a run, one for each test.
        world: the model of the values.
        ratios: the true ratio of each test.
        case: what the seed follows from.
        blocks: number of blocks of a run.
    """

    def simulate(chance: np.random.Generator) -> bool:
        return holds(decide(*(both_arms(world, blocks, ratio, chance) for ratio in ratios)))

    return means(runs, simulate, *case)


def claim(world: World, finding: Finding) -> Any:
    """What a finding says of the stack, if pairs differ, or else of the nodes."""
    return finding.stack if world.luck_amount else finding


@proof.question(
    "Coverage of the 95 % interval; asked: 93 to 97 %, and two standard errors",
    WORLDS,
    BLOCKS,
)
def coverage(runs: int, world: World, blocks: int) -> Iterator[Line]:
    """Coverage of the 95 % interval: of the nodes', and of the stack's where pairs differ."""

    def covered(findings: list[Finding]) -> bool:
        return covers((claim(world, findings[0]) or findings[0]).ci95, 1.1)

    case = "coverage", world.name, blocks
    seed, figure = share(runs, covered, world, (1.1,), *case, blocks=blocks)
    required = blocks >= world.required_from
    yield Line(f"{world.name}, {blocks} blocks", figure, seed, *simulated(runs), required)


@proof.question(
    f"False differences per run of {TESTS} tests; asked: at most 5 %",
    WORLDS,
    BLOCKS,
)
def false_verdicts(runs: int, world: World, blocks: int) -> Iterator[Line]:
    """False verdicts of difference per run of three tests.

    With luck, these nodes do differ; the false claim is that about the stack.
    """

    case = "false", world.name, blocks
    seed, figure = share(
        runs // 2,
        lambda findings: any(differs(claim(world, each)) for each in findings),
        world,
        (1.0,) * TESTS,
        *case,
        blocks=blocks,
    )
    required = blocks >= world.words_from
    yield Line(f"{world.name}, {blocks} blocks", figure, seed, high=0.05, required=required)


#: The worlds in which steadiness is tried, without noise that both arms share.
STEADY_BLOCKS = (6, 8, 10, 12, 20, 30)
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


def is_unsteady(pairs_of_arms: Sequence[tuple[Any, Any]]) -> bool:
    """Whether any of three tests finds that one of two alike arms varies more."""
    return any(differs(compare_steadiness(*arms, error=ERROR / TESTS)) for arms in pairs_of_arms)


@proof.question(
    f"False steadiness per run of {TESTS} tests; asked: at most 5 %",
    STEADY_WORLDS,
    STEADY_BLOCKS,
)
def false_steadiness(runs: int, world: World, blocks: int) -> Iterator[Line]:
    """False verdicts of steadiness per run of three tests: the worst of all designs."""
    seed, chance = generator("unsteady", world.name, blocks)

    def unsteady(pairs: int, turns: bool) -> bool:
        def arm() -> Layout:
            return steady_layout(world, (pairs, blocks), 1.0, chance, turns=turns)

        return is_unsteady([(arm(), arm()) for _ in range(TESTS)])

    shares = {
        design: fmean(unsteady(*design) for _ in range(runs // 4)) for design in STEADY_DESIGNS
    }
    worst = max(shares, key=lambda design: shares[design])
    text = f"{world.name}, {blocks} blocks, worst: {worst[0]} pairs{', turning' * worst[1]}"
    yield Line(text, shares[worst], seed, high=0.05 + errors(runs // 4))


@proof.question(
    "Variability of two and three times found among three tests",
    STEADY_WORLDS[:4],
    STEADY_BLOCKS[2:],
    (1, 6),
)
def steadiness(runs: int, world: World, blocks: int, pairs: int) -> Iterator[Line]:
    """The power to find that an arm varies two and three times as much, among three tests."""
    seed, chance = generator("steadiness", world.name, blocks, pairs)

    def is_better(times: float) -> bool:
        usual, varying = (
            steady_layout(world, (pairs, blocks), each, chance, turns=False)
            for each in (1.0, times)
        )
        return compare_steadiness(usual, varying, error=ERROR / TESTS).verdict == "better"

    twice, thrice = (fmean(is_better(times) for _ in range(runs // 8)) for times in (2.0, 3.0))
    text = f"{world.name}, {blocks} blocks, {pairs} pairs: x2 {twice:.0%}, x3"
    yield Line(text, thrice, seed, required=False)


EDGE = 1 + THRESHOLD
#: What is true of the first of three tests, its ratio, and how often an interval may miss.
NEAR = (
    ("10 % more", 1.1, ERROR),
    ("a hair within the threshold", EDGE * (1 - 1e-6), 2 * ERROR),
    ("a hair beyond the threshold", EDGE * (1 + 1e-6), 2 * ERROR),
)


@proof.question(
    "All intervals of a run together; asked: 5 %, next to the threshold 10 %",
    NEAR,
    ((6, 6), (6, 12)),
)
def joint(runs: int, near: tuple[str, float, float], ends: tuple[int, int]) -> Iterator[Line]:
    """Whether all intervals of a run that looks contain their truth, each cut to its word.

    A truth next to the threshold beside clear ones is the worst case: there a word is false with
    the whole error of the run, and the other intervals are wrong besides.
    """
    text, ratio, most = near
    truths = [ratio, 2.0, 2.0]
    text = f"{text}, two clear, {ends[0]} to {ends[1]} blocks: an interval misses its truth"
    seed, _ = generator(text)

    def misses(findings: list[Finding]) -> bool:
        return not all(map(covers, [each.ci_simultaneous for each in findings], truths))

    number = runs // 4
    figure = fmean(misses(looking(truths, 0.06, 0.0, ends, seed + n)[1]) for n in range(number))
    yield Line(text, figure, seed, high=most + 3 * math.sqrt(most / number))


def best_possible(pairs: int, blocks: int = 6) -> float:
    """The power of a test that knows the noise exactly. No method has more at this confidence.

    By the Neyman-Pearson lemma, for normal noise of 3 % in each trial. The interval has 2.5 %
    beyond each end and must be entirely past the threshold.
    """
    error = 0.03 * math.sqrt(2 / (pairs * blocks))
    room = math.log(1.1) - math.log1p(THRESHOLD)
    return NormalDist().cdf(room / error - NormalDist().inv_cdf(0.975))


def is_better(findings: list[Finding]) -> bool:
    """Whether the first test's verdict is better."""
    return findings[0].verdict == "better"


@proof.question(
    "Power: 10 % under 3 % noise, six blocks; asked of six pairs: 95 %",
    (1, 2, 6, 12),
)
def power(runs: int, pairs: int) -> Iterator[Line]:
    """The power to find a difference of 10 % with noise of 3 % in every trial, in six blocks."""
    world = World("3 %", amount=0.0, shared_amount=0.05, trial=0.03, pairs=pairs)
    seed, figure = share(runs, is_better, world, (1.1,), "power", pairs)
    text = f"{pairs} pairs an arm (a perfect test: {best_possible(pairs):.1%})"
    yield Line(text, figure, seed, low=0.95, required=pairs >= 6)


@proof.question("The words, six blocks")
def words(runs: int) -> Iterator[Line]:
    """The power of the words: equivalence by two one-sided tests, and Holm's order."""
    world = World("3 %", amount=0.0, shared_amount=0.05, trial=0.03)

    seed, figure = share(
        runs, lambda found: all(map(equal, found)), world, (1.0,) * TESTS, "words", "equal"
    )
    yield Line("no difference under 3 % noise, all of three tests", figure, seed, required=False)
    seed, figure = share(
        runs, lambda found: equal(found[0]), world, (1.0, 2.0, 2.0), "words", "one of three equal"
    )
    yield Line("no difference under 3 % noise, beside two clear tests", figure, seed, low=0.45)
    seed, figure = share(runs, is_better, world, (1.1, 2.0, 2.0), "words", "ten percent")
    yield Line("10 % under 3 % noise, beside two clear tests", figure, seed, low=0.45)


@proof.question("The words at the threshold", (0.02, 0.06))
def false_equivalence(runs: int, amount: float) -> Iterator[Line]:
    """False equivalence at the threshold."""

    world, ratios = World("edge", amount=amount), (EDGE,) * TESTS
    seed, figure = share(
        runs // 2, lambda found: any(map(equal, found)), world, ratios, "words", "edge", amount
    )
    text = f"false equivalence at the threshold, noise {amount:.0%}, any of three tests"
    yield Line(text, figure, seed, high=0.06)


@proof.question("Arms on the same nodes; asked: 95 %", (5, 6))
def same_nodes(runs: int, pairs: int) -> Iterator[Line]:
    """Arms on the same nodes: the luck of the pairs cancels."""

    world = World("same", amount=0.0, luck_amount=0.1, trial=0.01, pairs=pairs, same_nodes=True)
    seed, figure = share(
        runs // 4,
        lambda findings: is_better(findings) and findings[0].scope == "this stack's placement",
        world,
        (1.1,),
        "same nodes",
        pairs,
    )
    text = f"10 % luck, 1 % noise, true +10 %, {pairs} pairs: found for the stack"
    yield Line(text, figure, seed, low=0.95)


@proof.question(
    "Alternating directions, 3 % better one way; asked: at most 5 %, 90 %",
    (0.003, 0.01),
    (6, 12),
)
def directions(runs: int, amount: float, blocks: int) -> Iterator[Line]:
    """A pair that is 3 % better one way, with alternating directions."""
    world = World("one way", amount=amount, shared_amount=0.0, trial=0.0, pairs=1, one_way=0.03)

    def simulate(chance: np.random.Generator) -> tuple[bool, bool]:
        arms = [both_arms(world, blocks, 1.0, chance) for _ in range(TESTS)]
        return is_unsteady(arms), all(map(equal, decide(*arms)))

    seed, (unsteady, alike) = means(runs // 4, simulate, "directions", amount, blocks)
    text = f"noise {amount:.1%}, {blocks} blocks"
    yield Line(f"{text}: false verdict of steadiness", unsteady, seed, high=0.05)
    required = amount == 0.003
    yield Line(f"{text}: no difference is found", alike, seed, low=0.9, required=required)


@proof.question("The placement; asked: 93 to 97 %", (0.02, 0.05, 0.10))
def placements(runs: int, amount: float) -> Iterator[Line]:
    """A luck that all nodes of a stack share: what the stack's interval covers and what not."""
    world = World("stack", amount=0.01, luck_amount=0.02, trial=0.01, pairs=6)

    def simulate(chance: np.random.Generator) -> tuple[bool, bool]:
        luck = math.exp(amount * chance.normal() * math.sqrt(2))
        (finding,) = decide(both_arms(world, 6, luck, chance))
        assert finding.stack is not None
        return covers(finding.stack.ci95, luck), covers(finding.stack.ci95, 1.0)

    seed, (of_stack, of_strategy) = means(runs // 2, simulate, "placement", amount)
    text = f"shared luck {amount:.0%}"
    yield Line(f"{text}: this stack's placement is covered", of_stack, seed, *simulated(runs))
    text = f"{text}: the strategy's effect, which is not claimed"
    yield Line(text, of_strategy, seed, required=False)


def against_earlier(
    spread: float, ratio: float, earlier: int, chance: np.random.Generator
) -> Finding:
    """A run compared with earlier runs that differ from run to run."""

    def run(ratio: float) -> list[Value]:
        level = math.log(ratio) + spread * chance.normal()
        return values(level + 0.01 * chance.normal(size=(1, 6)), "x")

    question = RunsQuestion(run(ratio), [run(1.0) for _ in range(earlier)], "higher")
    return answer_runs([question], threshold=THRESHOLD)[0]


@proof.question(
    "Earlier runs; asked: at most 5 %, from four runs on 93 to 97 %",
    (0.02, 0.03, 0.05),
    (1, 4, 8),
)
def earlier_runs(runs: int, spread: float, earlier: int) -> Iterator[Line]:
    """Runs that differ from run to run, compared with one earlier run and with several."""

    def simulate(chance: np.random.Generator) -> tuple[bool, bool]:
        finding = against_earlier(spread, 1.0, earlier, chance)
        return differs(finding), covers(finding.ci95, 1.0)

    seed, (wrong, covered) = means(runs, simulate, "earlier", spread, earlier)
    text = f"spread {spread:.0%} between runs, {earlier} earlier"
    yield Line(f"{text}: false verdict", wrong, seed, high=0.05)
    if earlier > 1:  # one has no interval
        yield Line(f"{text}: coverage", covered, seed, *simulated(runs))


@proof.question("A run worse than earlier ones", (0.005, 0.01), (4, 8))
def gate(runs: int, spread: float, earlier: int) -> Iterator[Line]:
    """The power to find a run worse than earlier ones."""

    def is_worse(chance: np.random.Generator) -> bool:
        return against_earlier(spread, 0.9, earlier, chance).verdict == "worse"

    seed, figure = means(runs // 2, is_worse, "gate", spread, earlier)
    text = f"spread {spread:.1%}, {earlier} earlier: 10 % less is found"
    yield Line(text, figure, seed, low=0.8, required=spread == 0.005)


#: What one arm alone does, the noise, its amount, and the truth.
ALONE: tuple[tuple[str, Noise, float, float], ...] = (
    ("dips of 0.3 in one block of five", dips, 1.0, -0.06),
    ("drift, autocorrelation 0.5", Drifting(0.5), 0.03, 0.0),
    ("drift, autocorrelation 0.8", Drifting(0.8), 0.03, 0.0),
    ("drift, autocorrelation 0.95", Drifting(0.95), 0.03, 0.0),
)


@proof.question(
    "One arm alone dips or drifts; nothing is asked, six values cannot tell",
    ALONE,
    (6, 12, 24),
)
def one_arm(runs: int, alone: tuple[str, Noise, float, float], blocks: int) -> Iterator[Line]:
    """A dip or a drift of one arm alone: what is wrong, and how often the run marks it."""
    name, noise, amount, truth = alone

    def simulate(chance: np.random.Generator) -> tuple[bool, bool, bool]:
        moved = amount * noise(chance, (1, blocks))
        still = 0.005 * chance.normal(size=(1, blocks))
        (finding,) = decide((values(moved, "x"), values(still, "y")))
        is_marked = (
            finding.series is not None
            and drift_of_one_arm(finding.series, arm="x", baseline="y") is not None
        )
        return covers(finding.ci95, math.exp(truth)), equal(finding), is_marked

    seed, (covered, alike, marked) = means(runs // 4, simulate, "one arm", name, blocks)
    text = f"{name}, {blocks} blocks"
    if truth:
        yield Line(f"{text}: false equivalence", alike, seed, required=False)
    else:
        yield Line(f"{text}: coverage", covered, seed, required=False)
    yield Line(f"{text}: marked", marked, seed, required=False)


@proof.question(
    "No arm drifts; asked: a mark in at most 5 % of runs", ((3, 6), (8, 6), (24, 6), (8, 12))
)
def equal_arms_marked(runs: int, size: tuple[int, int]) -> Iterator[Line]:
    """How often a run of so many comparisons and blocks is marked in which no arm drifts."""
    comparisons, blocks = size

    def is_marked(chance: np.random.Generator) -> bool:
        return any(
            drift_of_one_arm(
                Series(range(1, blocks + 1), x - y, np.exp(x), np.exp(y)),
                arm="x",
                baseline="y",
                family=comparisons,
            )
            for x, y in 0.02 * chance.normal(size=(comparisons, 2, blocks))
        )

    seed, marked = means(runs // 4, is_marked, "no drift", comparisons, blocks)
    text = f"no drift, {comparisons} comparisons, {blocks} blocks: marked"
    yield Line(text, marked, seed, high=0.05 + 3 * math.sqrt(0.05 / (runs // 4)))


RAMP = np.linspace(0, 0.1, 6)


@proof.question("Lost trials under a shared ramp of 10 %; asked: 95 %, 0.1 %", (True, False))
def lost_trials(runs: int, both: bool) -> Iterator[Line]:
    """A lost trial of an arm under a ramp of 10 % that both arms share."""
    text = "the same, repeated alone: settled"
    if both:
        text = "a lost trial repeated at the end with its partner: settled"

    def is_settled(chance: np.random.Generator) -> bool:
        arms = [RAMP + 0.005 * chance.normal(size=(1, 6)) for _ in range(2)]
        for arm in arms if both else arms[:1]:
            arm[0, 0] += 0.1
        (finding,) = decide((values(arms[0], "x"), values(arms[1], "y")))
        return finding.verdict != "inconclusive"

    seed, settled = means(runs // 4, is_settled, "make-up", text)
    yield Line(text, settled, seed, low=0.95, required=both)


@proof.question("Unequal losses")
def unbalanced(runs: int) -> Iterator[Line]:
    """The bias when a pair loses half of its trials under the same ramp."""

    def bias(chance: np.random.Generator) -> float:
        arms = [RAMP + 0.005 * chance.normal(size=(2, 6)) for _ in range(2)]
        arms[0][0, 3:] = np.nan
        ratio = decide((values(arms[0], "x"), values(arms[1], "y")))[0].ratio
        assert ratio is not None
        return math.log(ratio)

    seed, mean = means(runs // 4, bias, "unbalanced")
    yield Line("half of a pair's trials lost: size of the bias", abs(mean), seed, high=0.001)


@proof.question("Rounded values; asked: at least 93 %", (0.01, 0.05))
def resolution(runs: int, step: float) -> Iterator[Line]:
    """Values that the tool rounds to steps larger than their noise."""

    def covered(chance: np.random.Generator) -> bool:
        level = 1.5 * math.exp(0.3 * chance.uniform())
        ratio = 1 + 0.2 * chance.uniform()
        logs = [
            np.log(np.round(level * r * np.exp(0.001 * chance.normal(size=(1, 6))) / step) * step)
            for r in (ratio, 1.0)
        ]
        arms = values(logs[0], "x"), values(logs[1], "y")
        question = estimator.Question(*arms, "higher", lambda _: step)
        return covers(answer([question], threshold=THRESHOLD)[0].ci95, ratio)

    seed, figure = means(runs // 4, covered, "resolution", step)
    yield Line(f"values of about 1.7 in steps of {step}: coverage", figure, seed, low=LOW)


@proof.question(
    "Percentiles; asked: 88 %, or no interval; no bursts, or of five values",
    (0, 5, 20),
    (100, 200, 500, 1000, 2000),
)
def of_percentiles(runs: int, mean: int, number: int) -> Iterator[Line]:
    """The coverage of a p99's interval: blocks that differ by 2 %, and values in bursts."""
    seed, chance = generator("percentiles", mean, number)
    truth = math.exp(NormalDist().inv_cdf(0.99) * math.hypot(0.2, 0.02))
    if mean:
        truth = float(np.quantile(bursty(2_000_000, mean, chance), 0.99))

    def interval() -> tuple[float, float] | None:
        return percentiles(
            [math.exp(0.02 * chance.normal()) * bursty(number, mean, chance) for _ in range(6)]
        ).intervals.get("p99")

    intervals = [estimate for _ in range(runs // 4) if (estimate := interval()) is not None]
    how = f"bursts of {mean}" if mean else "no bursts"
    text = f"p99 of 6 blocks of {number} values, {how}: "
    if not intervals:
        yield Line(f"{text}no interval", 0.0, seed, high=0.0)
        return
    # Five values beyond it are one burst or none if a burst has twenty.
    held = fmean(covers(each, truth) for each in intervals)
    yield Line(f"{text}coverage", held, seed, 0.88, required=mean <= 5)


def looking(
    ratios: Sequence[float], noise: float, correlation: float, ends: tuple[int, int], seed: int
) -> tuple[int, list[Finding]]:
    """The blocks that a run with looks measures, and its findings."""
    chance = np.random.default_rng(seed)
    drift = Drifting(correlation)
    arms = [
        [
            values(math.log(r) + noise / math.sqrt(2) * drift(chance, (1, ends[1])), name)
            for r, name in ((ratio, "x"), (1.0, "y"))
        ]
        for ratio in ratios
    ]
    at = looks(*ends)

    def find(blocks: int) -> list[Finding]:
        so_far = (
            ([v for v in ours if v.block <= blocks], [v for v in theirs if v.block <= blocks])
            for ours, theirs in arms
        )
        return decide(*so_far, error=look_level(len(at)), most=ends[1])

    return until_enough(at, find)


@proof.question(
    "Runs that look; asked: 2.5 % and 5 % at the threshold",
    (
        ((6, 6), 0.0, 1),
        ((6, 12), 0.0, 1),
        ((6, 24), 0.0, 1),
        ((6, 12), 0.1, 1),
        ((6, 24), 0.1, 1),
        ((6, 12), 0.0, TESTS),
        ((6, 24), 0.1, TESTS),
        ((6, 24), 0.3, 1),
    ),
)
def errors_of_looks(runs: int, looked: tuple[tuple[int, int], float, int]) -> Iterator[Line]:
    """The errors at the threshold of runs that look and stop."""
    ends, correlation, tests = looked
    seed, _ = generator("stopping", ends, correlation, tests)
    findings = [looking([EDGE] * tests, 0.06, correlation, ends, seed + n)[1] for n in range(runs)]
    different = fmean(any(map(differs, each)) for each in findings)
    alike = fmean(any(map(equal, each)) for each in findings)
    text = f"{ends[0]} to {ends[1]} blocks, autocorrelation {correlation}, {tests} tests"
    required = correlation <= 0.1
    # 2.5 % and 5 %, with three standard errors of the simulation.
    slack = 3 * math.sqrt(0.025 / runs)
    yield Line(f"{text}: false difference", different, seed, high=0.025 + slack, required=required)
    yield Line(f"{text}: false equivalence", alike, seed, high=0.05 + slack, required=required)


@proof.question(
    "Blocks of runs that look",
    ((1.0, 0.03), (1.1, 0.03), (1.2, 0.03), (2.0, 0.03), (1.1, 0.06)),
    ((6, 12), (6, 24)),
)
def blocks_of_looks(runs: int, world: tuple[float, float], ends: tuple[int, int]) -> Iterator[Line]:
    """The power of runs that look and stop, and the blocks that they measure."""
    ratio, noise = world
    seed, _ = generator("blocks", ratio, noise, ends)
    ended = [looking([ratio], noise, 0.0, ends, seed + n) for n in range(runs // 4)]
    settled = fmean(findings[0].verdict != "inconclusive" for _, findings in ended)
    text = f"ratio {ratio}, noise {noise:.0%}, {ends[0]} to {ends[1]} blocks: settled"
    yield Line(text, settled, seed, required=False)
    used = fmean(blocks for blocks, _ in ended)
    most = ends[0] + 1.0 if ratio >= 1.2 else float(ends[1])
    yield Line("  blocks measured on average", used, seed, high=most, unit="blocks")


if __name__ == "__main__":
    sys.exit(proof.main(__doc__, runs=RUNS))
