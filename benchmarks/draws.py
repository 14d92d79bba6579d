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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lines import Line, main
from benchmarks.verdict import (
    HIGH,
    LOW,
    TESTS,
    THRESHOLD,
    Floats,
    Noise,
    covers,
    generator,
    heavy,
)
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
from rackrate.verdict.enough import LEAST_PROSPECT
from rackrate.verdict.model import Baseline, Verdict
from rackrate.verdict.sweeps import against_first

RUNS = 4000
DRAWS = (4, 6, 12)
VARIABILITIES = (0.02, 0.05, 0.10)
#: The standard error of each run's own ratio.
RUN_ERROR = 0.003
#: A mean at the threshold: neither better nor without a meaningful difference.
EDGE = math.log1p(THRESHOLD)
#: The error that Student's test has beside luck on one level.
STUDENT = 0.025


def normal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Normal luck."""
    return chance.normal(0.0, 1.0, shape)


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
        asked_from: the fewest draws with which the interval of the mean has to cover.
    """

    name: str
    noise: Noise
    levels: tuple[float, ...] = ()
    asked_from: int = 4

    def alike(self, draws: int) -> float:
        """The probability that all draws lie on one level."""
        return sum(share**draws for share in self.levels)

    def unseen(self, draws: int) -> float:
        """The probability of that, and that the next draw lies outside their interval."""
        return sum(share**draws * (1 - 0.95 * share) for share in self.levels)


TWO_LEVELS = Luck("two levels", two_levels, (0.5, 0.5), asked_from=6)
ONE_IN_FOUR = Luck("one in four", one_in_four, (0.75, 0.25), asked_from=12)
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


def slack(runs: int, share: float = 0.05) -> float:
    """Two standard errors of a share of so many simulated campaigns."""
    return 2 * math.sqrt(max(share * (1 - share), 1 / runs) / runs)


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


def coverage(runs: int, draws: Sequence[int] = DRAWS) -> Iterator[Line]:
    """Coverage of the mean's 95 % interval, and of the prediction interval by one more draw."""
    worlds = [(LUCKS[0], 0.0), *itertools.product(LUCKS, VARIABILITIES)]
    for (luck, variability), number in itertools.product(worlds, draws):
        seed, chance = generator("draws", luck.name, variability, number)
        held = predicted = 0
        for _ in range(runs):
            logs = campaign(luck.noise, variability, number + 1, math.log(1.1), chance)
            (found,) = decided(logs[:, :number], number, number)
            held += covers(found.ci95, 1.1)
            predicted += covers(found.prediction95, math.exp(logs[0, number]))
        text = f"{luck.name if variability else 'no luck'}, {variability:.0%}, {number} draws"
        yield _of_mean(luck, number, f"{text}: mean", held / runs, seed, runs)
        yield _of_next(luck, number, f"{text}: next draw", predicted / runs, seed, runs)


def _of_mean(luck: Luck, draws: int, text: str, figure: float, seed: int, runs: int) -> Line:
    if draws >= luck.asked_from and luck.name != "two levels, both arms":
        return Line(text, figure, seed, LOW - slack(runs), HIGH + slack(runs))
    if draws >= luck.asked_from:
        limit = "the middle level is the mean, so more than 97 % may cover it"
        return Line(text, figure, seed, LOW - slack(runs), 1.0, limit=limit)
    missed = luck.alike(draws)
    limit = f"all {draws} draws are on one level in {missed:.1%} of campaigns and hide the other"
    return Line(text, figure, seed, 1 - missed - slack(runs, missed), 1.0, limit=limit)


def _of_next(luck: Luck, draws: int, text: str, figure: float, seed: int, runs: int) -> Line:
    if not luck.levels:
        return Line(text, figure, seed, LOW - slack(runs), HIGH + slack(runs))
    low = min(LOW, 1 - luck.unseen(draws))
    limit = "an interval that holds all levels covers every draw"
    if low < LOW:
        limit = f"draws on one level hide the other, so {low:.1%} is the most to ask"
    return Line(text, figure, seed, low - slack(runs, 1 - low), 1.0, limit=limit)


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


def until_enough(logs: Floats, least: int, most: int) -> tuple[int, list[DrawsFinding]]:
    """The draws that a campaign with looks makes, and its findings."""
    for draws in looks(least, most):
        found = decided(logs[:, :draws], least, most)
        if all((each.prospect or 0.0) <= LEAST_PROSPECT for each in found):
            break
    return draws, found


def false_words(
    runs: int, ends: Sequence[tuple[int, int]] = ((4, 4), (6, 6), (12, 12), (4, 12))
) -> Iterator[Line]:
    """False words of campaigns of three tests whose true ratios lie at the threshold."""
    for case, variability, (least, most) in itertools.product(AT_THE_EDGE, VARIABILITIES, ends):
        seed, chance = generator("false words", case.luck.name, variability, least, most)
        differ = alike = 0
        number = runs // 2
        for _ in range(number):
            logs = campaign(
                case.luck.noise,
                variability,
                most,
                EDGE,
                chance,
                answers=TESTS,
                shared=case.shared,
            )
            _, found = until_enough(logs, least, most)
            differ += any(each.verdict in ("better", "worse") for each in found)
            alike += any(each.verdict == "no meaningful difference" for each in found)
        made = f"{least}" if least == most else f"{least} to {most}"
        text = f"{case.luck.name}, {variability:.0%}, {made} draws"
        high, limit = case.bound(least), ""
        if high > 0.05:
            seen = max(least, draws_near(TESTS))
            limit = f"{seen} draws are all on the frequent level in {case.deceiving**seen:.1%}"
        high += slack(number, high)
        yield Line(f"{text}: false difference", differ / number, seed, high=high, limit=limit)
        yield Line(f"{text}: false equivalence", alike / number, seed, high=high, limit=limit)


#: The draws that Student's test needs alone, for an error of 5 % (issue of campaigns).
STUDENT_ALONE = {0.02: (2, 3, 4, 4), 0.05: (2, 3, 11, 14), 0.10: (3, 4, 39, 46)}
EFFECTS = (2.0, 1.3, 1.1, 1.0)


def power(runs: int) -> Iterator[Line]:
    """The draws that one answer needs for a power of 80 %, and the power of so many."""
    for variability, plain in STUDENT_ALONE.items():
        for effect, alone in zip(EFFECTS, plain, strict=True):
            draws = draws_needed(effect, variability, threshold=THRESHOLD)
            assert draws is not None
            seed, chance = generator("power of draws", effect, variability)
            number = runs // 4
            right = 0
            for _ in range(number):
                logs = campaign(normal, variability, draws, math.log(effect), chance)
                (found,) = decided(logs, draws, draws)
                right += found.verdict == ("better" if effect > 1 else "no meaningful difference")
            text = f"x{effect:g}, {variability:.0%}"
            yield Line(
                f"{text}: draws needed (Student's test alone: {alone})",
                draws,
                seed,
                4,
                max(5, math.ceil(1.3 * alone)),
                unit="draws",
            )
            low = 0.8 - slack(number, 0.2)
            yield Line(f"{text}: right with so many", right / number, seed, low)


def stopping(runs: int) -> Iterator[Line]:
    """The draws that campaigns of 4 to 12 draws make on average, with three tests."""
    for effect, variability, most in (
        *((2.0, each, 6.0) for each in VARIABILITIES),
        *((1.3, each, 8.0) for each in VARIABILITIES),
        (1.1, 0.02, 9.0),
        (1.0, 0.02, 9.0),
        (1.0, 0.05, 12.0),
    ):
        seed, chance = generator("stopping draws", effect, variability)
        made = [
            until_enough(
                campaign(normal, variability, 12, math.log(effect), chance, answers=TESTS), 4, 12
            )
            for _ in range(runs // 8)
        ]
        settled = sum(f.verdict != "inconclusive" for _, found in made for f in found)
        share = settled / len(made) / TESTS
        text = (
            f"x{effect:g}, {variability:.0%}, 4 to 12 draws: made, {share:.0%} of answers settled"
        )
        average = float(np.mean([draws for draws, _ in made]))
        yield Line(text, round(average, 1), seed, 4, most, unit="draws")


def changes(runs: int) -> Iterator[Line]:
    """False alarms of three tests' newest draws, and the detection of one that changed."""
    lucks = (*LUCKS[:2], TWO_LEVELS, HEAVY, OUTLYING)
    for luck, before in itertools.product(lucks, (4, 6, 12, 30)):
        seed, chance = generator("changes", luck.name, before)
        alarms = 0
        for _ in range(runs):
            logs = campaign(
                luck.noise, 0.05, before + 1, 0.0, chance, answers=TESTS, shared=bool(luck.levels)
            )
            alarms += any(has_changed([question(row) for row in logs]))
        hidden = sum(share**before * (1 - share) for share in luck.levels)
        high = max(0.05, hidden + STUDENT)
        limit = ""
        if luck == OUTLYING:
            high, limit = 0.1, "such outliers are as rare as alarms are to be"
        elif high > 0.05:
            limit = f"the first draw on another level after {before} on one is a change"
        text = f"{luck.name}, 5 %, {before} draws before: false alarm"
        yield Line(text, alarms / runs, seed, high=high + slack(runs, high), limit=limit)
    for variability, change, before, low in (
        (0.02, 0.2, 6, 0.88),
        (0.02, 0.1, 12, 0.6),
        (0.02, 0.1, 30, 0.85),
        (0.05, 0.2, 30, 0.58),
    ):
        seed, chance = generator("detection", variability, change, before)
        found = 0
        number = runs // 4
        for _ in range(number):
            logs = campaign(normal, variability, before + 1, 0.0, chance, answers=TESTS)
            logs[0, -1] -= change
            found += has_changed([question(row) for row in logs])[0] is True
        text = f"{variability:.0%}, {before} draws before: a change by {change:.0%} is found"
        yield Line(text, found / number, seed, low)


def over_a_day(runs: int) -> Iterator[Line]:
    """A ratio that moves by 5 % over the day, and six draws 24 minutes or four hours apart.

    A claim over draws names their time, so it has to cover the mean of that time.
    """
    for hours in (0.4, 4.0):
        seed, chance = generator("over a day", hours)
        held = of_day = trends = 0
        for _ in range(runs):
            moved = _hours(chance.uniform(0, 24) + hours * np.arange(6))
            logs = moved + campaign(normal, 0.01, 6, 0.0, chance)[0]
            (found,) = decided(logs[np.newaxis], 6, 6)
            held += covers(found.ci95, math.exp(moved.mean()))
            of_day += covers(found.ci95, 1.0)
            trends += found.trend is not None
        text = f"six draws {hours:g} h apart"
        low = LOW - slack(runs)
        yield Line(f"{text}: the mean in these {5 * hours:g} h", held / runs, seed, low)
        limit = "not claimed before draws of four days"
        yield Line(f"{text}: the mean of the day", of_day / runs, seed, limit=limit)
        yield Line(f"{text}: marked as a trend", trends / runs, seed)
    seed, chance = generator("trend")
    steady = np.linspace(0, 0.1, 12)
    drawn = (steady + campaign(normal, 0.02, 12, 0.0, chance) for _ in range(runs // 4))
    marked = sum(decided(logs, 12, 12)[0].trend is not None for logs in drawn)
    text = "2 %, 12 draws with a trend of 10 %: marked"
    yield Line(text, marked / (runs // 4), seed, 0.8)
    for luck, number in itertools.product((*LUCKS[:3], HEAVY), (4, 6, 12)):
        seed, chance = generator("trends", luck.name, number)
        marked = 0
        for _ in range(runs // 2):
            logs = campaign(luck.noise, 0.05, number, 0.0, chance, answers=TESTS)
            marked += any(each.trend is not None for each in decided(logs, number, number))
        text = f"{luck.name}, 5 %, {number} draws without a trend: marked"
        high = 0.05 + slack(runs // 2)
        yield Line(text, marked / (runs // 2), seed, high=high)


def _hours(hours: NDArray[Any]) -> Floats:
    """The logarithm of a ratio that moves by 5 % over the day, at these hours."""
    return 0.025 * np.sin(2 * math.pi * hours / 24)


def bounds(runs: int) -> Iterator[Line]:
    """How often the bound of the variability holds, and how often its estimate is 0."""
    for number, error in itertools.product((4, 6, 12), (0.003, 0.05)):
        seed, chance = generator("bounds", number, error)
        held = zero = 0
        for _ in range(runs):
            logs = chance.normal(0.0, math.hypot(0.055, error), number)
            asked = DrawsQuestion([Draw(math.exp(log), error) for log in logs], "higher")
            (found,) = answer_draws([asked], threshold=THRESHOLD, least=number, most=number)
            held += (found.variability_at_most or 0.0) >= 0.055
            zero += found.variability == 0
        text = f"variability 5.5 %, {number} draws whose runs know {error:.1%}"
        yield Line(f"{text}: bound holds", held / runs, seed, 0.95 - slack(runs))
        yield Line(f"{text}: estimate is 0 %", zero / runs, seed)


#: Stacks, days and runs of a day, and whether their answer is about the placement group.
POOLS = ((2, 1, 4, False), (4, 1, 2, True), (5, 3, 1, True), (2, 4, 1, False))


def pools(runs: int) -> Iterator[Line]:
    """Pools of stacks that differ by 5 %, days of a stack by 2 %, and runs of a day by 1 %."""
    for stacks, days, each, is_of_group in POOLS:
        seed, chance = generator("pools", stacks, days, each)
        held = words = 0
        for _ in range(runs // 4):
            of_stack = chance.normal(0.0, 0.05, (stacks, 1, 1))
            of_day = chance.normal(0.0, 0.02, (stacks, days, 1))
            logs = of_stack + of_day + chance.normal(0.0, 0.01, (stacks, days, each))
            pooled = draws_of_runs(list(_runs(logs)))
            means = [math.log(draw.verdicts[0].ratio or 1.0) for draw in pooled]
            number = len(means)
            (found,) = decided(np.array([means]), number, number)
            # Of few stacks, the answer is about these.
            truth = 1.0 if is_of_group or number < 4 else math.exp(float(of_stack.mean()))
            held += covers(found.ci95, truth)
            words += found.verdict in ("better", "worse")
        text = f"{stacks} stacks, {days} days, {each} runs a day"
        number = runs // 4
        yield Line(f"{text}: what is claimed", held / number, seed, LOW - slack(number))
        yield Line(f"{text}: false words", words / number, seed, high=0.05 + slack(number))


def _runs(logs: Floats) -> Iterator[RunOnNodes]:
    """Runs on nodes of their own, of shape (stacks, days, runs of a day)."""
    for (stack, day, run), log in np.ndenumerate(logs):
        name = f"{stack}-{day}-{run}"
        verdict = Verdict.model_construct(
            test="t", metric="m", arm="a", baseline=Baseline("b"), ratio=math.exp(log), ci95=None
        ).model_copy(update={"blocks": 6, "arm_median": None, "baseline_median": None})
        at = f"2026-11-{day + 1:02d}T0{run}:00:00Z"
        yield RunOnNodes(name, [verdict], frozenset([name]), str(stack), at)


#: The pairs of nodes of the tiers.
TIERS = (1, 4, 16)


def sweeps(runs: int) -> Iterator[Line]:
    """The efficiency of tiers of a sweep whose pairs differ by 5 % and whose runs by 1 %."""
    for of_each in (2, 3, 4):
        seed, chance = generator("sweeps", of_each)
        held = np.zeros(len(TIERS) - 1)
        for _ in range(runs):
            logs: dict[str | int, list[float]] = {}
            for pairs in TIERS:
                luck = chance.normal(0.0, 0.05 / math.sqrt(pairs), of_each)
                logs[pairs] = list(luck + chance.normal(0.0, 0.01, of_each))
            for place, pairs in enumerate(TIERS[1:]):
                found = against_first(logs, pairs, alike=False)
                held[place] += found is not None and covers(found.interval(0.95), 1.0)
        for pairs, figure in zip(TIERS[1:], held / runs, strict=True):
            text = f"{of_each} runs, {pairs} pairs against 1"
            yield Line(text, figure, seed, 0.92 - slack(runs))


def report(runs: int) -> Iterator[str | Line]:
    """The titles and the lines of the report."""
    yield "Coverage of the 95 % intervals; asked: 93 to 97 %, and two standard errors"
    yield from coverage(runs)
    yield f"False words of {TESTS} tests at the threshold; asked: at most 5 %, and two errors"
    yield from false_words(runs)
    yield "Draws of one answer for a power of 80 %"
    yield from power(runs)
    yield f"Draws of campaigns of {TESTS} tests that stop when settled"
    yield from stopping(runs)
    yield "A new draw against those before; asked: at most 5 % false alarms"
    yield from changes(runs)
    yield "Draws of some hours: the claim is about these hours; a trend is marked"
    yield from over_a_day(runs)
    yield "The bound of the variability; asked: 95 %"
    yield from bounds(runs)
    yield "Pools: a draw is a stack and a day, of four stacks or more a stack"
    yield from pools(runs)
    yield "Sweeps over nodes: coverage of a tier's efficiency"
    yield from sweeps(runs)


if __name__ == "__main__":
    sys.exit(main(__doc__, report, runs=RUNS))
