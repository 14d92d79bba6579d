"""What earlier runs can show, as the documentation tells it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from rackrate_contract.gates import half_width, smallest_regression
from rackrate_text.units import percent

CI = " ".join((Path(__file__).parents[3] / "docs" / "ci.md").read_text("utf-8").split())


@pytest.mark.parametrize(
    ("runs", "comparisons", "told"),
    [
        (4, 16, "{} with four"),
        (8, 16, "{} with eight"),
        (20, 16, "{} with twenty"),
        (4, 2, "With two comparisons four runs give {}"),
    ],
)
def test_the_documented_examples_are_those_of_the_method(runs, comparisons, told):
    side = 0.02 * math.sqrt((runs - 1) / runs)
    half = half_width([side, -side] * (runs // 2), comparisons)
    shown = percent(round(smallest_regression(half, 0.05, "lower") - 1, 2))
    assert told.format(shown) in CI
    assert smallest_regression(half, 0.05, "higher") == pytest.approx(
        1 / smallest_regression(half, 0.05, "lower")
    )
