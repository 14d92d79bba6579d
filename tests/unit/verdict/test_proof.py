"""A quick part of the proof of the verdicts.

benchmarks/verdict.py is the whole of it for runs, and benchmarks/draws.py for campaigns.
"""

from __future__ import annotations

import math

import pytest

from benchmarks import draws
from benchmarks import verdict as proof

RUNS = 240
#: Three standard errors of a share of 5 % among as many simulated runs as a case has at least. The
#: cases that simulate all of their runs for each share need fewer.
SLACK = 3 * math.sqrt(0.05 * 0.95 / (RUNS // 4))
WORLDS = [world for world in proof.WORLDS if world.asked_from <= 6]
CASES = {
    "coverage": lambda: proof.coverage(RUNS // 2, WORLDS, (6,)),
    "false verdicts": lambda: proof.false_verdicts(RUNS, WORLDS[:4], (6,)),
    "false steadiness": lambda: proof.false_steadiness(RUNS, proof.STEADY_WORLDS[2:4], (8, 10)),
    "power": lambda: proof.power(RUNS // 2),
    "words": lambda: proof.words(RUNS // 2),
    "joint": lambda: proof.joint(RUNS // 2),
    "arms on the same nodes": lambda: proof.same_nodes(RUNS),
    "directions": lambda: proof.directions(RUNS),
    "placements": lambda: proof.placements(RUNS),
    "earlier runs": lambda: proof.earlier_runs(RUNS // 2),
    "one arm": lambda: proof.one_arm(RUNS),
    "no drift": lambda: proof.equal_arms_marked(RUNS),
    "lost trials": lambda: proof.lost_trials(RUNS),
    "resolution": lambda: proof.resolution(RUNS),
    "percentiles": lambda: proof.of_percentiles(RUNS),
    "looks": lambda: proof.errors_of_looks(RUNS // 2),
    "coverage over draws": lambda: draws.coverage(RUNS, (4, 12)),
    "false words over draws": lambda: draws.false_words(RUNS, [(6, 6), (4, 12)]),
    "power over draws": lambda: draws.power(RUNS),
    "changes over draws": lambda: draws.changes(RUNS),
    "draws over a day": lambda: draws.over_a_day(RUNS),
    "the bound of the variability": lambda: draws.bounds(RUNS),
    "sweeps over nodes": lambda: draws.sweeps(RUNS),
    "pools of stacks and days": lambda: draws.pools(RUNS),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdicts_keep_their_error_rates(case: str) -> None:
    beyond = [
        str(line)
        for line in CASES[case]()
        if line.asked and not line.low - SLACK <= line.figure <= line.high + SLACK
    ]
    assert beyond == []
