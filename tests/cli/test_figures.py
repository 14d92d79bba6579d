"""Figures keep their value and their unit on the way to the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rackrate_cli.units import duration, quantity

FACTORS = {"Tbit/s": 1e12, "Gbit/s": 1e9, "Mbit/s": 1e6, "kbit/s": 1e3, "bit/s": 1.0}
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (987.4e6, "bit/s", "987 Mbit/s"),
        (9.5e9, "bit/s", "9.50 Gbit/s"),
        (999.7e6, "bit/s", "1.00 Gbit/s"),
        (0.000412, "s", "0.412 ms"),
        (0.0000118, "s", "0.0118 ms"),
        (1.25, "s", "1.25 s"),
        (0.0, "bit/s", "0 bit/s"),
        (None, "bit/s", "not measured"),
        (float("nan"), "s", "not measured"),
    ],
)
def test_figures_are_written_with_si_prefixes(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@given(st.floats(min_value=1, max_value=1e14))
def test_no_rate_changes_by_more_than_its_third_digit(value: float) -> None:
    number, unit = quantity(value, "bit/s").split()
    assert float(number) * FACTORS[unit] == pytest.approx(value, rel=0.0051)
    assert len(number) <= 6


@given(st.floats(min_value=1e-8, max_value=1e4))
def test_no_time_changes_by_more_than_its_third_digit(value: float) -> None:
    number, unit = quantity(value, "s").split()
    assert float(number) * SECONDS[unit] == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s"), (3780, "1 h 03 min")],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text
