"""Test the answers of campaigns with simulated draws whose truth is known.

Prints, with seeds and bounds, the coverage of the mean and of the prediction interval, the rates of
false words at the threshold with and without stopping, the draws that an answer needs, and the
false alarms and the detection of changes. `limit` marks cases that no interval over few draws can
hold; they have a bound of their own, and the reason is printed.
Run as `make bench-verdict`, or `python -m benchmarks.draws [--runs N]`.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulation import (
    HIGH,
    LOW,
    TESTS,
    THRESHOLD,
    Floats,
    Line,
    Noise,
    Proof,
    covers,
    differs,
    equal,
    errors,
    means,
    until_enough,
)
from benchmarks.worlds import heavy
from benchmarks.worlds import log_normal as normal
from rackrate.plan.looks import looks
from rackrate.verdict.campaign import RunOnNodes, draws_of_runs
from rackrate.verdict.draws import (
    Draw,
    DrawsFinding,
    DrawsQuestion,
    answer_draws,
    draws_near,
    draws_needed,
    has_changed,
)
from rackrate.verdict.sweeps import against_first
from rackrate_contract.verdicts import Baseline, Verdict

proof = Proof()

RUNS = 4000
DRAWS = (4, 6, 12)
VARIABILITIES = (0.02, 0.05, 0.10)
#: The standard error of each run's own ratio.
RUN_ERROR = 0.003
#: A mean at the threshold: neither better nor without a meaningful difference.
EDGE = math.log1p(THRESHOLD)
#: The error that Student's test has beside luck on one level.
STUDENT = 0.025


def skewed(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Luck with a skewness of 1: a long tail above (gamma)."""
    return (chance.gamma(4.0, 1.0, shape) - 4) / 2


def skewed_down(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """The same with a long tail below."""
    return -skewed(chance, shape)


def two_levels(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Half of all placements on one level and half on another."""
    return np.where(chance.random(shape) < 0.5, -1.0, 1.0)


def both_arms(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Two levels in each of the two arms, independently."""
    return (two_levels(chance, shape) + two_levels(chance, shape)) / math.sqrt(2)


def one_in_four(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One placement of four on another, higher level."""
    return np.where(chance.random(shape) < 0.25, math.sqrt(3), -1 / math.sqrt(3))


def outlying(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One placement of ten has luck of five times the size."""
    size = np.where(chance.random(shape) < 0.1, 5.0, 1.0) / math.sqrt(0.9 + 0.1 * 25)
    return size * chance.normal(0.0, 1.0, shape)


@dataclass(frozen=True)
class Luck:
    """A distribution of luck.

    Attributes:
        noise: the distribution, with a mean of 0 and a standard deviation of 1.
        levels: the probabilities of its levels; empty if it has none.
        required_from: the fewest draws with which the interval of the mean has to cover.
    """

    name: str
    noise: Noise
    levels: tuple[float, ...] = ()
    required_from: int = 4

    def alike(self, draws: int) -> float:
        """The probability that all draws lie on one level."""
        return sum(share**draws for share in self.levels)

    def unseen(self, draws: int) -> float:
        """The probability of that, and that the next draw lies outside their interval."""
        return sum(share**draws * (1 - 0.95 * share) for share in self.levels)


TWO_LEVELS = Luck("two levels", two_levels, (0.5, 0.5), required_from=6)
ONE_IN_FOUR = Luck("one in four", one_in_four, (0.75, 0.25), required_from=12)
HEAVY = Luck("heavy tails (t, 3 df)", heavy)
OUTLYING = Luck("one in ten of five times the size", outlying)
LUCKS = (
    Luck("normal", normal),
    Luck("skewed", skewed),
    TWO_LEVELS,
    # Its middle level is the mean, so draws that are all alike seldom miss it.
    Luck("two levels, both arms", both_arms, (0.25, 0.5, 0.25)),
    ONE_IN_FOUR,
)


def question(logs: Floats) -> DrawsQuestion:
    """The draws with these logarithms of their ratios."""
    return DrawsQuestion([Draw(math.exp(log), RUN_ERROR) for log in logs], "higher")


def campaign(
    luck: Noise,
    variability: float,
    draws: int,
    mean: float,
    chance: np.random.Generator,
    *,
    answers: int = 1,
    shared: bool = False,
) -> Floats:
    """The logarithms of a campaign's ratios, of shape (answers, draws).

    Args:
        luck: the distribution of the luck of a placement.
        variability: its standard deviation.
        draws: number of draws.
        mean: the true mean of the logarithm.
        chance: the generator.
        answers: number of answers.
        shared: whether all answers have the luck of the same placement.
    """
    lucks = luck(chance, (1 if shared else answers, draws))
    noise = RUN_ERROR * chance.normal(0.0, 1.0, (answers, draws))
    return mean + variability * lucks + noise


def decided(logs: Floats, least: int, most: int) -> list[DrawsFinding]:
    """The findings on a campaign's draws."""
    return answer_draws(
        [question(row) for row in logs], threshold=THRESHOLD, least=least, most=most
    )


#: Luck and its variability.
WORLDS = ((LUCKS[0], 0.0), *itertools.product(LUCKS, VARIABILITIES))


@proof.question(
    "Coverage of the 95 % intervals; asked: 93 to 97 %, and two standard errors", WORLDS, DRAWS
)
def coverage(runs: int, world: tuple[Luck, float], draws: int) -> Iterator[Line]:
    """Coverage of the mean's 95 % interval, and of the prediction interval by one more draw."""
    luck, variability = world

    def simulate(chance: np.random.Generator) -> tuple[bool, bool]:
        logs = campaign(luck.noise, variability, draws + 1, math.log(1.1), chance)
        (finding,) = decided(logs[:, :draws], draws, draws)
        return covers(finding.ci95, 1.1), covers(finding.prediction95, math.exp(logs[0, draws]))

    seed, (held, predicted) = means(runs, simulate, "draws", luck.name, variability, draws)
    text = f"{luck.name if variability else 'no luck'}, {variability:.0%}, {draws} draws"
    yield _of_mean(luck, draws, f"{text}: mean", held, seed, runs)
    yield _of_next(luck, draws, f"{text}: next draw", predicted, seed, runs)


def _of_mean(luck: Luck, draws: int, text: str, figure: float, seed: int, runs: int) -> Line:
    if draws >= luck.required_from and luck.name != "two levels, both arms":
        return Line(text, figure, seed, LOW - errors(runs), HIGH + errors(runs))
    if draws >= luck.required_from:
        limit = "the middle level is the mean, so more than 97 % may cover it"
        return Line(text, figure, seed, LOW - errors(runs), 1.0, limit=limit)
    missed = luck.alike(draws)
    limit = f"all {draws} draws are on one level in {missed:.1%} of campaigns and hide the other"
    return Line(text, figure, seed, 1 - missed - errors(runs, missed), 1.0, limit=limit)


def _of_next(luck: Luck, draws: int, text: str, figure: float, seed: int, runs: int) -> Line:
    if not luck.levels:
        return Line(text, figure, seed, LOW - errors(runs), HIGH + errors(runs))
    low = min(LOW, 1 - luck.unseen(draws))
    limit = "an interval that holds all levels covers every draw"
    if low < LOW:
        limit = f"draws on one level hide the other, so {low:.1%} is the most to ask"
    return Line(text, figure, seed, low - errors(runs, 1 - low), 1.0, limit=limit)


@dataclass(frozen=True)
class Wrong:
    """The luck of campaigns whose answers lie at the threshold, and what may be wrong with them.

    Attributes:
        luck: the luck.
        shared: whether a placement's luck is that of all its tests.
        deceiving: the probability that a draw lies on the level that deceives, if it is more than
            one in two.
    """

    luck: Luck
    shared: bool = False
    deceiving: float = 0.0

    def bound(self, draws: int) -> float:
        """The share of campaigns that may have a false word after so many draws or more."""
        return max(0.05, self.deceiving ** max(draws, draws_near(TESTS)) + STUDENT)


AT_THE_EDGE = (
    Wrong(Luck("normal", normal)),
    Wrong(Luck("skewed", skewed)),
    Wrong(Luck("skewed down", skewed_down)),
    Wrong(TWO_LEVELS, shared=True),
    Wrong(Luck("two levels of each test", two_levels)),
    Wrong(ONE_IN_FOUR, shared=True, deceiving=0.75),
)


@proof.question(
    f"False words of {TESTS} tests at the threshold; asked: at most 5 %, and two errors",
    AT_THE_EDGE,
    VARIABILITIES,
    ((4, 4), (6, 6), (12, 12), (4, 12)),
)
def false_words(
    runs: int, case: Wrong, variability: float, ends: tuple[int, int]
) -> Iterator[Line]:
    """False words of campaigns of three tests whose true ratios lie at the threshold."""
    luck, (least, most), number = case.luck, ends, runs // 2

    def simulate(chance: np.random.Generator) -> tuple[bool, bool]:
        logs = campaign(
            luck.noise, variability, most, EDGE, chance, answers=TESTS, shared=case.shared
        )
        _, findings = looking(logs, least, most)
        return any(map(differs, findings)), any(map(equal, findings))

    seed, (different, alike) = means(
        number, simulate, "false words", luck.name, variability, least, most
    )
    high, limit = case.bound(least), ""
    if high > 0.05:
        seen = max(least, draws_near(TESTS))
        limit = f"{seen} draws are all on the frequent level in {case.deceiving**seen:.1%}"
    high += errors(number, high)
    draws = f"{least}" if least == most else f"{least} to {most}"
    text = f"{luck.name}, {variability:.0%}, {draws} draws"
    yield Line(f"{text}: false difference", different, seed, high=high, limit=limit)
    yield Line(f"{text}: false equivalence", alike, seed, high=high, limit=limit)


def looking(logs: Floats, least: int, most: int) -> tuple[int, list[DrawsFinding]]:
    """The draws that a campaign with looks makes, and its findings."""
    return until_enough(looks(least, most), lambda at: decided(logs[:, :at], least, most))


#: The draws that Student's test needs alone, for an error of 5 %, by variability and effect.
STUDENT_ALONE = {
    0.02: {2.0: 2, 1.3: 3, 1.1: 4, 1.0: 4},
    0.05: {2.0: 2, 1.3: 3, 1.1: 11, 1.0: 14},
    0.10: {2.0: 3, 1.3: 4, 1.1: 39, 1.0: 46},
}


@proof.question("Draws of one answer for a power of 80 %", VARIABILITIES, (2.0, 1.3, 1.1, 1.0))
def power(runs: int, variability: float, effect: float) -> Iterator[Line]:
    """The draws that one answer needs for a power of 80 %, and the power of so many."""
    draws = draws_needed(effect, variability, threshold=THRESHOLD)
    assert draws is not None
    is_right = differs if effect > 1 else equal

    def simulate(chance: np.random.Generator) -> bool:
        logs = campaign(normal, variability, draws, math.log(effect), chance)
        return is_right(decided(logs, draws, draws)[0])

    seed, right = means(runs // 4, simulate, "power of draws", effect, variability)
    alone = STUDENT_ALONE[variability][effect]
    most = max(5, math.ceil(1.3 * alone))
    text = f"x{effect:g}, {variability:.0%}"
    needed = f"{text}: draws needed (Student's test alone: {alone})"
    yield Line(needed, draws, seed, 4, most, unit="draws")
    yield Line(f"{text}: right with so many", right, seed, 0.8 - errors(runs // 4, 0.2))


@proof.question(
    f"Draws of campaigns of {TESTS} tests that stop when settled",
    (
        *((2.0, each, 6.0) for each in VARIABILITIES),
        *((1.3, each, 8.0) for each in VARIABILITIES),
        (1.1, 0.02, 9.0),
        (1.0, 0.02, 9.0),
        (1.0, 0.05, 12.0),
    ),
)
def stopping(runs: int, case: tuple[float, float, float]) -> Iterator[Line]:
    """The draws that campaigns of 4 to 12 draws make on average, with three tests."""
    effect, variability, most = case

    def simulate(chance: np.random.Generator) -> tuple[float, int]:
        logs = campaign(normal, variability, 12, math.log(effect), chance, answers=TESTS)
        draws, findings = looking(logs, 4, 12)
        return sum(each.verdict != "inconclusive" for each in findings) / TESTS, draws

    seed, (settled, draws) = means(runs // 8, simulate, "stopping draws", effect, variability)
    text = f"x{effect:g}, {variability:.0%}, 4 to 12 draws: made, {settled:.0%} of answers settled"
    yield Line(text, round(draws, 1), seed, 4, most, unit="draws")


@proof.question(
    "A new draw against those before; asked: at most 5 % false alarms",
    (*LUCKS[:2], TWO_LEVELS, HEAVY, OUTLYING),
    (4, 6, 12, 30),
)
def false_alarms(runs: int, luck: Luck, before: int) -> Iterator[Line]:
    """False alarms of three tests' newest draws."""

    def is_alarm(chance: np.random.Generator) -> bool:
        logs = campaign(
            luck.noise, 0.05, before + 1, 0.0, chance, answers=TESTS, shared=bool(luck.levels)
        )
        return any(has_changed([question(row) for row in logs]))

    seed, alarms = means(runs, is_alarm, "changes", luck.name, before)
    hidden = sum(share**before * (1 - share) for share in luck.levels)
    high, limit = max(0.05, hidden + STUDENT), ""
    if luck == OUTLYING:
        high, limit = 0.1, "such outliers are as rare as alarms are to be"
    elif high > 0.05:
        limit = f"the first draw on another level after {before} on one is a change"
    text = f"{luck.name}, 5 %, {before} draws before: false alarm"
    yield Line(text, alarms, seed, high=high + errors(runs, high), limit=limit)


@proof.question(
    "A new draw that changed",
    ((0.02, 0.2, 6, 0.88), (0.02, 0.1, 12, 0.6), (0.02, 0.1, 30, 0.85), (0.05, 0.2, 30, 0.58)),
)
def detection(runs: int, case: tuple[float, float, int, float]) -> Iterator[Line]:
    """The detection of a change by one of three tests' newest draws."""
    variability, change, before, low = case

    def is_detected(chance: np.random.Generator) -> bool:
        logs = campaign(normal, variability, before + 1, 0.0, chance, answers=TESTS)
        logs[0, -1] -= change
        return has_changed([question(row) for row in logs])[0] is True

    seed, detected = means(runs // 4, is_detected, "detection", variability, change, before)
    text = f"{variability:.0%}, {before} draws before: a change by {change:.0%} is found"
    yield Line(text, detected, seed, low)


@proof.question(
    "Draws of some hours: the claim is about these hours; a trend is marked", (0.4, 4.0)
)
def over_a_day(runs: int, hours: float) -> Iterator[Line]:
    """A ratio that moves by 5 % over the day, and six draws 24 minutes or four hours apart.

    A claim over draws names their time, so it has to cover the mean of that time.
    """

    def simulate(chance: np.random.Generator) -> tuple[bool, bool, bool]:
        moved = _hours(chance.uniform(0, 24) + hours * np.arange(6))
        logs = moved + campaign(normal, 0.01, 6, 0.0, chance)[0]
        (finding,) = decided(logs[np.newaxis], 6, 6)
        held = covers(finding.ci95, math.exp(moved.mean()))
        return held, covers(finding.ci95, 1.0), finding.trend is not None

    seed, (held, of_day, trends) = means(runs, simulate, "over a day", hours)
    text = f"six draws {hours:g} h apart"
    low = LOW - errors(runs)
    yield Line(f"{text}: the mean in these {5 * hours:g} h", held, seed, low)
    limit = "not claimed before draws of four days"
    yield Line(f"{text}: the mean of the day", of_day, seed, limit=limit)
    yield Line(f"{text}: marked as a trend", trends, seed)


def _hours(hours: NDArray[Any]) -> Floats:
    """The logarithm of a ratio that moves by 5 % over the day, at these hours."""
    return 0.025 * np.sin(2 * math.pi * hours / 24)


@proof.question("A trend of 10 %; asked: 80 %")
def trend(runs: int) -> Iterator[Line]:
    """A trend that is there."""

    def is_marked(chance: np.random.Generator) -> bool:
        logs = np.linspace(0, 0.1, 12) + campaign(normal, 0.02, 12, 0.0, chance)
        return decided(logs, 12, 12)[0].trend is not None

    seed, marked = means(runs // 4, is_marked, "trend")
    yield Line("2 %, 12 draws with a trend of 10 %: marked", marked, seed, 0.8)


@proof.question("No trend; asked: marked in at most 5 %", (*LUCKS[:3], HEAVY), DRAWS)
def no_trend(runs: int, luck: Luck, draws: int) -> Iterator[Line]:
    """A trend that is not there."""

    def is_marked(chance: np.random.Generator) -> bool:
        logs = campaign(luck.noise, 0.05, draws, 0.0, chance, answers=TESTS)
        return any(each.trend is not None for each in decided(logs, draws, draws))

    seed, marked = means(runs // 2, is_marked, "trends", luck.name, draws)
    text = f"{luck.name}, 5 %, {draws} draws without a trend: marked"
    yield Line(text, marked, seed, high=0.05 + errors(runs // 2))


@proof.question("The bound of the variability; asked: 95 %", DRAWS, (0.003, 0.05))
def bounds(runs: int, draws: int, error: float) -> Iterator[Line]:
    """How often the bound of the variability holds, and how often its estimate is 0."""

    def simulate(chance: np.random.Generator) -> tuple[bool, bool]:
        logs = chance.normal(0.0, math.hypot(0.055, error), draws)
        question = DrawsQuestion([Draw(math.exp(log), error) for log in logs], "higher")
        (finding,) = answer_draws([question], threshold=THRESHOLD, least=draws, most=draws)
        return (finding.variability_at_most or 0.0) >= 0.055, finding.variability == 0

    seed, (held, zero) = means(runs, simulate, "bounds", draws, error)
    text = f"variability 5.5 %, {draws} draws whose runs know {error:.1%}"
    yield Line(f"{text}: bound holds", held, seed, 0.95 - errors(runs))
    yield Line(f"{text}: estimate is 0 %", zero, seed)


@proof.question(
    "Pools: a draw is a stack and a day, of four stacks or more a stack",
    # Stacks, days and runs of a day, and whether their answer is about the placement group.
    ((2, 1, 4, False), (4, 1, 2, True), (5, 3, 1, True), (2, 4, 1, False)),
)
def pools(runs: int, pool: tuple[int, int, int, bool]) -> Iterator[Line]:
    """Pools of stacks that differ by 5 %, days of a stack by 2 %, and runs of a day by 1 %."""
    stacks, days, each, is_of_group = pool

    def simulate(chance: np.random.Generator) -> tuple[bool, bool]:
        of_stack = chance.normal(0.0, 0.05, (stacks, 1, 1))
        of_day = chance.normal(0.0, 0.02, (stacks, days, 1))
        logs = of_stack + of_day + chance.normal(0.0, 0.01, (stacks, days, each))
        pooled = draws_of_runs(list(_runs(logs)))
        ratios = [math.log(draw.verdicts[0].ratio or 1.0) for draw in pooled]
        number = len(ratios)
        (finding,) = decided(np.array([ratios]), number, number)
        # Of few stacks, the answer is about these.
        truth = 1.0 if is_of_group or number < 4 else math.exp(float(of_stack.mean()))
        return covers(finding.ci95, truth), differs(finding)

    number = runs // 4
    seed, (held, words) = means(number, simulate, "pools", stacks, days, each)
    text = f"{stacks} stacks, {days} days, {each} runs a day"
    yield Line(f"{text}: what is claimed", held, seed, LOW - errors(number))
    yield Line(f"{text}: false words", words, seed, high=0.05 + errors(number))


def _runs(logs: Floats) -> Iterator[RunOnNodes]:
    """Runs on nodes of their own, of shape (stacks, days, runs of a day)."""
    for (stack, day, run), log in np.ndenumerate(logs):
        name = f"{stack}-{day}-{run}"
        verdict = Verdict.model_construct(
            test="t", metric="m", arm="a", baseline=Baseline("b"), ratio=math.exp(log), ci95=None
        ).model_copy(update={"blocks": 6, "arm_median": None, "baseline_median": None})
        at = f"2026-11-{day + 1:02d}T0{run}:00:00Z"
        yield RunOnNodes(name, [verdict], frozenset([name]), str(stack), at)


@proof.question("Sweeps over nodes: coverage of a tier's efficiency", (2, 3, 4))
def sweeps(runs: int, of_each: int) -> Iterator[Line]:
    """The efficiency of tiers of a sweep whose pairs differ by 5 % and whose runs by 1 %."""
    first, *others = tiers = (1, 4, 16)

    def simulate(chance: np.random.Generator) -> list[bool]:
        logs: dict[str | int, list[float]] = {}
        for pairs in tiers:
            luck = chance.normal(0.0, 0.05 / math.sqrt(pairs), of_each)
            logs[pairs] = list(luck + chance.normal(0.0, 0.01, of_each))
        findings = [against_first(logs, pairs, alike=False) for pairs in others]
        return [each is not None and covers(each.interval(0.95), 1.0) for each in findings]

    seed, held = means(runs, simulate, "sweeps", of_each)
    for pairs, figure in zip(others, held, strict=True):
        text = f"{of_each} runs, {pairs} pairs against {first}"
        yield Line(text, figure, seed, 0.92 - errors(runs))


if __name__ == "__main__":
    sys.exit(proof.main(__doc__, runs=RUNS))
