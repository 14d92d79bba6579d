"""Drift of one arm: a trend, a step or a dip in one arm that the other arm does not have. Pure.

A verdict's interval assumes that the blocks' differences between the arms scatter around one level.
If one arm drifts alone, the interval is too narrow, and a few blocks cannot tell by how much. So
the drift is looked for, and named where it can be seen.

There are three tests of the series of differences, each against white normal noise around one
level:

- trend: Student's t test of the slope.
- step: for each cut with two blocks or more on either side, the t test of the difference between
  the two sides. The smallest p counts, times the number of cuts (Bonferroni).
- dip (or peak) of one block: the largest studentized deleted residual, which is Grubbs' test, with
  its p times the number of blocks (Bonferroni).

All tests of all comparisons of a run together raise a false alarm in at most 5 % of runs
(Bonferroni). tests/unit/verdict/test_drift.py and benchmarks/verdict.py measure the false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import mpmath
import numpy as np
from numpy.typing import NDArray

from rackrate.plan.fields import LEAST_BLOCKS
from rackrate_text.units import percent

Kind = Literal["trend", "step", "dip"]
Floats = NDArray[np.float64]

#: How often a run is marked in which no arm drifts alone.
FALSE_ALARMS = 0.05
#: The tests of a series.
_TESTS = 3
#: A smaller change does not matter.
LEAST_CHANGE = 0.01
#: The other arm is said to have stayed where it was unless its own series contradicts that.
_OTHER_MOVED = 0.05
#: The least blocks on either side of a step. With one, a step is a dip of the first or last block.
_LEAST_SIDE = 2
#: Values without scatter leave a remainder of this share of their squares from rounding.
_ROUNDING = 1e-20


@dataclass(frozen=True)
class Drift:
    """A change of one arm against the other in the course of a run.

    Attributes:
        kind: `trend`: over all blocks. `step`: from one block on. `dip`: one block alone, which may
            also be higher than the others.
        arm: the name of the arm that moved.
        other: the name of the arm that it moved against.
        from_block: the first block that differs; for a trend the first of all.
        to_block: the last block that differs; that of a dip is `from_block`.
        ratio: the size of the change: how many times its former level the arm came to, or over a
            whole trend. Below 1 it fell.
        other_moved: whether the other arm moved too.
    """

    kind: Kind
    arm: str
    other: str
    from_block: int
    to_block: int
    ratio: float
    other_moved: bool

    @property
    def text(self) -> str:
        """A sentence without a full stop: `treatment alone fell by 12 % from block 4 on`."""
        where = {
            "trend": f"from block {self.from_block} to block {self.to_block}",
            "step": f"from block {self.from_block} on",
            "dip": f"in block {self.from_block} only",
        }[self.kind]
        moved = f"{'fell' if self.ratio < 1 else 'rose'} by {percent(abs(self.ratio - 1))}"
        if self.other_moved:
            return f"{self.arm} {moved} against {self.other} {where}"
        return f"{self.arm} alone {moved} {where}"


class Series(NamedTuple):
    """The blocks of a comparison in order.

    Attributes:
        blocks: their numbers, increasing.
        differences: the logarithm of the ratio of the arm to the baseline in each block.
        arm: the arm's level in each block, such as the mean of its values, in the metric's unit.
        baseline: the baseline's levels.
    """

    blocks: Sequence[int]
    differences: Floats
    arm: Floats
    baseline: Floats


def drift_of_one_arm(
    series: Series, *, arm: str, baseline: str, least: float = LEAST_CHANGE, family: int = 1
) -> Drift | None:
    """Find the strongest trend, step or dip of one arm against the other; None if there is none.

    Args:
        series: the blocks in which both arms were measured.
        arm: the arm's name.
        baseline: the baseline's name.
        least: the smallest change that matters, as a share of the level; at least `LEAST_CHANGE`.
        family: number of comparisons of the run, which share the false alarms.

    Raises:
        ValueError: the arrays are not of equal length.
    """
    blocks = np.asarray(series.blocks, dtype=float)
    differences = np.asarray(series.differences, dtype=float)
    ours, theirs = (np.log(levels) for levels in (series.arm, series.baseline))
    if len({len(blocks), len(differences), len(ours), len(theirs)}) > 1:
        raise ValueError("the blocks, their differences and the arms' levels differ in number")
    if len(blocks) < LEAST_BLOCKS or np.ptp(differences) == 0:
        return None
    least = math.log1p(max(LEAST_CHANGE, least))
    shape, p = min(_shapes(blocks, differences), key=lambda each: each[1])
    change = _effect(shape.values, differences)
    if _TESTS * p * family >= FALSE_ALARMS or abs(change) < least:
        return None
    moved, still = (arm, baseline), theirs
    if abs(_effect(shape.values, theirs)) > abs(_effect(shape.values, ours)):
        moved, still, change = (baseline, arm), ours, -change
    other_moved = (
        abs(_effect(shape.values, still)) >= least
        and _p_of_shape(shape.values, still) < _OTHER_MOVED
    )
    first, last = (int(series.blocks[place]) for place in shape.places)
    return Drift(
        kind=shape.kind,
        arm=moved[0],
        other=moved[1],
        from_block=first,
        to_block=last,
        ratio=math.exp(change),
        other_moved=other_moved,
    )


class _Shape(NamedTuple):
    """A possible course of a series.

    Attributes:
        kind: its kind.
        values: the course itself, which changes by 1 altogether.
        places: the first and the last place of the change.
    """

    kind: Kind
    values: Floats
    places: tuple[int, int]


def _shapes(blocks: Floats, differences: Floats) -> Iterator[tuple[_Shape, float]]:
    """The trend, the best step and the best dip, each with its p."""
    number = len(blocks)
    trend = (blocks - blocks[0]) / (blocks[-1] - blocks[0])
    yield _Shape("trend", trend, (0, number - 1)), _p_of_shape(trend, differences)
    cuts = range(_LEAST_SIDE, number - _LEAST_SIDE + 1)
    steps = [
        _Shape("step", (np.arange(number) >= cut).astype(float), (cut, number - 1)) for cut in cuts
    ]
    dips = [
        _Shape("dip", (np.arange(number) == place).astype(float), (place, place))
        for place in range(number)
    ]
    for shapes in (steps, dips):
        best = max(shapes, key=lambda shape: _explained(shape.values, differences))
        yield best, min(1.0, len(shapes) * _p_of_shape(best.values, differences))


def _explained(shape: Floats, values: Floats) -> float:
    """The share of a series' squares around its mean that a shape explains."""
    centered = shape - shape.mean()
    around = values - values.mean()
    squares = float(around @ around)
    if squares == 0:
        return 0.0
    return float(centered @ around) ** 2 / (float(centered @ centered) * squares)


def _effect(shape: Floats, values: Floats) -> float:
    """The height of a shape in a series, by least squares."""
    centered = shape - shape.mean()
    return float(centered @ values) / float(centered @ centered)


def _p_of_shape(shape: Floats, values: Floats) -> float:
    """The probability of so high a shape in noise around one level, by Student's t test.

    For the shape of one block this is the test of its studentized deleted residual.
    """
    left = 1 - _explained(shape, values)
    if left <= _ROUNDING:
        return 0.0
    # The squared t is (1 - left) / left times the degrees of freedom.
    freedom = len(values) - 2
    return float(mpmath.betainc(freedom / 2, 0.5, 0, left, regularized=True))
