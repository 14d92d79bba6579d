"""Judge hunts in the lab against the truth of the placements that they keep, and of launches.

Each hunt runs in a lab of its own, in which a seed draws the places of nodes outside a group. The
ways between racks differ more there than usual, because the machine's load hides what is nearly
alike. A known share of launches is refused. The model that places nodes says which share of
placements is better than the kept one (`lab.fabric.luck`): each of its two nodes is in a rack of
its own, so that the sum of the racks' positions orders all placements.

It holds if no more of the 95 % intervals miss the truth than chance allows: those of the share of
worse placements, and those of the share of filled launches; if all launches together agree with
the truth; and if the kept placements are better than those of chance. The figures must follow the
places, or nothing is judged. Run as `make bench-hunt`, or
`python -m benchmarks.lab_hunt [--hunts N] [--seed N]` (root; 30 minutes on an idle machine). Exit
codes: 0 it holds, 1 it does not, 2 the machine is not right or a run failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.in_lab import document, lab, rackrate
from benchmarks.points import ImpossibleFigure, Point, judge
from lab import faults
from lab.aws.ec2.capacity import REFUSED
from lab.fabric.caps import all_places
from lab.fabric.luck import POSITIONS, fresh_seed
from rackrate.verdict.capacity import interval_of_share
from rackrate_contract.campaign import CampaignResults, Hunt
from rackrate_contract.capacity import Capacity

HUNTS = 12
MOST = 7
STRETCH = 4.0
#: The probability with which a launch is refused.
RATE = 0.2
PLAN = {"tests": [{"name": "rtt", "count": 20, "interval_seconds": 0.1}], "blocks": 3}
#: A correlation between figures and places, below which the lab tells too little of the places.
LEAST_CORRELATION = 0.8
#: The sums of the positions of two racks, each as often as placements have it.
_SUMS = np.add.outer(np.arange(POSITIONS), np.arange(POSITIONS)).ravel()


@dataclass(frozen=True)
class Ended:
    """A hunt that ended: what it knows, how its launches filled, and the places of its draws.

    `sums` has the sum of the positions of each draw's racks, in the order of `hunt.draws`.
    """

    hunt: Hunt
    fills: Sequence[Capacity]
    sums: Sequence[int]


def worse_than(positions: int) -> tuple[float, float]:
    """The share of placements that are worse than one with this sum; then with those alike."""
    return float((positions < _SUMS).mean()), float((positions <= _SUMS).mean())


def hunted(seed: int, out: Path) -> Ended:
    """Hunt in a lab of its own, and write its results to a directory that is empty."""
    plan = out / "plan.json"
    plan.write_text(json.dumps(PLAN), encoding="utf-8")
    options = ("--arm", "baseline", "--most", str(MOST), "--plan", str(plan), "--out", str(out))
    with lab(seed=seed, stretch=STRETCH, parameters={"NodeCount": "2"}) as status:
        with faults.inject(REFUSED, on="none", rate=RATE):
            rackrate(status, "campaign", "hunt", "rtt", *options)
        positions = {each.instance_id: each.place.position or 0 for each in all_places()}
    (path,) = out.glob("*/campaign.json")
    results = CampaignResults.from_json(document(path))
    if results.hunt is None:
        raise ImpossibleFigure(f"The hunt with seed {seed} has no figure.")
    placed = (draw.nodes.values() for draw in results.hunt.draws)
    sums = [sum(positions[node or ""] for node in nodes) for nodes in placed]
    return Ended(results.hunt, results.capacity, sums)


def misses_by_chance(held: Sequence[bool], what: str) -> Point:
    """Whether 95 % intervals held the truth as often as 95 % intervals do, but for chance."""
    _, most = interval_of_share(sum(held), len(held), confidence=0.98)
    return Point(most >= 0.95, f"{sum(held)} of {len(held)} intervals hold {what}")


def points(hunts: Sequence[Ended]) -> Iterator[Point]:
    """What is to hold of hunts that ended."""
    figures = np.log([draw.value for each in hunts for draw in each.hunt.draws])
    correlation = np.corrcoef(figures, [each for hunt in hunts for each in hunt.sums])[0, 1]
    print(
        f"The correlation between the figures of {figures.size} draws and places: {correlation:.2f}"
    )
    if correlation < LEAST_CORRELATION:
        raise ImpossibleFigure("The machine's load hides the places: measure on an idle machine.")
    held, kept = [], []
    for each in hunts:
        hunt = each.hunt
        if hunt.better_than is None or hunt.better_than_ci95 is None:
            continue  # its last launch was refused, so that it keeps nothing
        (low, high), true = hunt.better_than_ci95, worse_than(each.sums[-1])
        held.append(low <= true[1] and true[0] <= high)
        kept.append(sum(true) / 2)
        print(
            f"  rank {hunt.rank} of {len(hunt.draws)}, better than {hunt.better_than:.2f}"
            f" ({low:.2f} to {high:.2f}) of placements; true {true[0]:.2f} to {true[1]:.2f}"
        )
    yield misses_by_chance(held, "the true share of worse placements")
    mean = float(np.mean(kept))
    yield Point(mean > 0.5, f"kept placements are better than {mean:.2f} of all on average")
    fills = [fill for each in hunts for fill in each.fills]
    within = [fill.ci95[0] <= 1 - RATE <= fill.ci95[1] for fill in fills]
    yield misses_by_chance(within, f"the true share of filled launches, {1 - RATE:g}")
    filled, launches = (sum(getattr(each, key) for each in fills) for key in ("filled", "launches"))
    low, high = interval_of_share(filled, launches)
    yield Point(
        low <= 1 - RATE <= high,
        f"{filled} of {launches} launches were filled ({low:.2f} to {high:.2f})",
    )


def main() -> Iterator[Point]:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Hunts in the lab against the truth.")
    parser.add_argument("--hunts", type=int, default=HUNTS, help="how many, each in its own lab")
    parser.add_argument("--seed", type=int, help="of the first one's places; by default a new one")
    given = parser.parse_args()
    first = fresh_seed() if given.seed is None else given.seed
    print(f"The places are of the seeds from {first} on.", flush=True)
    hunts = []
    for seed in range(first, first + given.hunts):
        with tempfile.TemporaryDirectory() as out:
            hunts.append(hunted(seed, Path(out)))
    yield from points(hunts)


if __name__ == "__main__":
    sys.exit(judge(main))
