"""A quick part of the proof of the verdicts.

benchmarks/verdict.py is the whole of it for runs, and benchmarks/draws.py for campaigns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from benchmarks import draws, hunt, ranking, verdict
from benchmarks.simulation import Line

RUNS = 240
#: Three standard errors of a share of 5 % among as many simulated runs as a case has at least. The
#: cases that simulate all of their runs for each share need fewer.
SLACK = 3 * math.sqrt(0.05 * 0.95 / (RUNS // 4))


def product(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    return list(itertools.product(*axes))


WORLDS = [world for world in verdict.WORLDS if world.required_from <= 6]
#: Each question with its number of runs and, if not all, its cases.
CASES: dict[str, tuple[Callable[..., Iterator[Line]], int, list[tuple[Any, ...]] | None]] = {
    "coverage": (verdict.coverage, RUNS // 2, product(WORLDS, (6,))),
    "false verdicts": (verdict.false_verdicts, RUNS, product(WORLDS[:4], (6,))),
    "false steadiness": (
        verdict.false_steadiness,
        RUNS,
        product(verdict.STEADY_WORLDS[2:4], (8, 10)),
    ),
    "power": (verdict.power, RUNS // 2, None),
    "words": (verdict.words, RUNS // 2, None),
    "false equivalence": (verdict.false_equivalence, RUNS // 2, None),
    "joint": (verdict.joint, RUNS // 2, None),
    "arms on the same nodes": (verdict.same_nodes, RUNS, None),
    "directions": (verdict.directions, RUNS, None),
    "placements": (verdict.placements, RUNS, None),
    "earlier runs": (verdict.earlier_runs, RUNS // 2, None),
    "gate": (verdict.gate, RUNS // 2, None),
    "one arm": (verdict.one_arm, RUNS, None),
    "no drift": (verdict.equal_arms_marked, RUNS, None),
    "lost trials": (verdict.lost_trials, RUNS, None),
    "unequal losses": (verdict.unbalanced, RUNS, None),
    "resolution": (verdict.resolution, RUNS, None),
    "percentiles": (verdict.of_percentiles, RUNS, None),
    "looks": (verdict.errors_of_looks, RUNS // 2, None),
    "ranks of nodes": (ranking.ranks, RUNS, product(ranking.WORLDS, ranking.DESIGNS[1:6:2])),
    "a slow node": (ranking.slow_node, RUNS, None),
    "a shared layer": (ranking.layers, RUNS // 2, None),
    "hunts": (hunt.hunts, RUNS, product(hunt.LUCKS[::3], ("by rank", "best fifth"), (12,), (0.3,))),
    "the value of going on": (hunt.gains, RUNS, product(hunt.SMOOTH, (6,))),
    "coverage over draws": (draws.coverage, RUNS, product(draws.WORLDS, (4, 12))),
    "false words over draws": (
        draws.false_words,
        RUNS,
        product(draws.AT_THE_EDGE, draws.VARIABILITIES, [(6, 6), (4, 12)]),
    ),
    "power over draws": (draws.power, RUNS, None),
    "false alarms over draws": (draws.false_alarms, RUNS, None),
    "changes over draws": (draws.detection, RUNS, None),
    "draws over a day": (draws.over_a_day, RUNS, None),
    "a trend over draws": (draws.trend, RUNS, None),
    "no trend over draws": (draws.no_trend, RUNS, None),
    "the bound of the variability": (draws.bounds, RUNS, None),
    "sweeps over nodes": (draws.sweeps, RUNS, None),
    "pools of stacks and days": (draws.pools, RUNS, None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdicts_keep_their_error_rates(case: str) -> None:
    question, runs, cases = CASES[case]
    proofs = (verdict.proof, draws.proof, ranking.proof, hunt.proof)
    lines = [line for proof in proofs for line in proof.lines(question, runs, cases)]
    assert lines
    beyond = [
        str(line)
        for line in lines
        if line.required and not line.low - SLACK <= line.figure <= line.high + SLACK
    ]
    assert beyond == []
