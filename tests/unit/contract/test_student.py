"""Student's t against scipy's tables, over all that plans allow."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rackrate_contract.student import _rounded_down, outside, student_t

FREEDOMS = [1, 1.5, 2, 2.3, 5, 9, 10, 42, 145, 501, 1000, 2238, 3000, 1e4, 1e6]


@pytest.mark.parametrize("freedom", FREEDOMS)
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.9975, 0.99999, 1 - 1e-9])
def test_students_t_is_that_of_the_tables(confidence, freedom):
    expected = stats.t.isf((1 - confidence) / 2, _rounded_down(freedom))
    assert student_t(confidence, freedom) == pytest.approx(expected, rel=1e-8)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.5, 1 - 1e-10), st.floats(1, 1e6))
def test_every_quantile_is_proven_or_refused(confidence, freedom):
    rounded = _rounded_down(freedom)
    expected = stats.t.isf((1 - confidence) / 2, rounded)
    assert student_t(confidence, freedom) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("freedom", [f for f in FREEDOMS if f > 1])
@pytest.mark.parametrize("t", [0.01, 1.0, 3.0, 30.0])
def test_the_probability_of_a_larger_t_is_that_of_the_tables(t, freedom):
    assert outside(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-8)
