"""Figures keep their value and their unit, without more digits than are known."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rackrate_text.units import (
    UNITS,
    UNKNOWN,
    change,
    change_with_interval,
    changes,
    dollars,
    duration,
    moment,
    percent,
    prefixed,
    quantity,
    ratio,
    read_quantity,
    shift,
    unit_of,
)

POWERS = {"T": 12, "G": 9, "M": 6, "k": 3, "": 0, "m": -3, "µ": -6, "n": -9}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (9.5e9, "bit/s", "9.50 Gbit/s"),
        (987.4e6, "bit/s", "987 Mbit/s"),
        (155e-6, "s", "155 µs"),
        (84.54e-6, "s", "84.5 µs"),
        (999.96, "bit/s", "1.00 kbit/s"),
        (0, "s", "0 s"),
        (1, "s", "1.00 s"),
        (5e13, "bit/s", "50.0 Tbit/s"),
        (1.049e6, "B", "1.05 MB"),
        (2e-10, "s", "0.200 ns"),
        (1234, "s", "1230 s"),
        (19_840, "transactions/s", "19 800 transactions/s"),
        (1_234_567, "packets/s", "1 230 000 packets/s"),
        (0.0123, "requests/s", "0.0123 requests/s"),
        (2e15, "bit/s", ">1000 Tbit/s"),
        (1e-13, "s", "<0.001 ns"),
    ],
)
def test_values_have_three_digits_and_a_prefix_only_where_the_unit_takes_one(value, unit, text):
    assert quantity(value, unit).replace("\u202f", " ") == text


@given(st.floats(1e-12, 1e15), st.sampled_from([*UNITS, "transactions/s"]))
def test_no_digit_that_matters_is_lost(value, unit):
    number, written = quantity(value, unit).split(" ")
    if number.startswith("<"):
        assert value < 1e-3
    else:
        power = POWERS[written.removesuffix(unit)]
        assert float(number.replace("\u202f", "")) * 10**power == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.85, "0.850"),
        (1.9834, "1.98"),
        (12.04, "12.0"),
        (112.6, "113"),
        (0.01234, "0.012"),
        (1000, "1000"),
        (1000.1, ">1000"),
        (math.inf, ">1000"),
        (0.001, "0.001"),
        (0.00099, "<0.001"),
        (0, "0"),
        (-0.85, "-0.850"),
        (-0.00099, ">-0.001"),
        (-1000.1, "<-1000"),
        (-math.inf, "<-1000"),
    ],
)
def test_a_ratio_is_no_finer_than_three_decimals_and_bounded_at_both_ends(value, text):
    assert ratio(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1475, "−85.2 %"),
        (2.01, "+101 %"),
        (1.0062, "+0.6 %"),
        (1.9996, "+100 %"),
        (0.99996, "0 %"),
        (1, "0 %"),
        (12.34, "+1134 %"),
        (200, "+19 900 %"),
        (1e9, ">+99 900 %"),
        (1e-9, "<−99.9 %"),
        (0, "−100 %"),
        (math.nan, UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_a_change_has_a_sign_and_no_more_digits_than_matter(value, text):
    assert change(value).replace("\u202f", " ") == text


def test_an_interval_of_changes_has_one_unit():
    assert changes((0.128, 0.171)) == "−87.2 to −82.9 %"
    assert changes(None) == UNKNOWN


@pytest.mark.parametrize(
    ("before", "after", "unit", "text"),
    [
        (573e-6, 84.5e-6, "s", "573 → 84.5 µs"),
        (1.2e-3, 84.5e-6, "s", "1.20 ms → 84.5 µs"),
        (19_800, 20_100, "transactions/s", "19 800 → 20 100 transactions/s"),
        (None, 1, "s", "– → 1.00 s"),
        (1, None, "s", "1.00 s → –"),
    ],
)
def test_a_shift_names_its_unit_once_if_both_values_have_it(before, after, unit, text):
    assert shift(before, after, unit).replace("\u202f", " ") == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.99163, "99.2 %"),
        (0.05, "5 %"),
        (0.07, "7 %"),
        (1, "100 %"),
        (0.0042, "0.42 %"),
        (1e-7, "<0.001 %"),
        (20, ">1000 %"),
    ],
)
def test_shares_are_percentages_of_at_most_three_digits(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0, "$0.00"),
        (0.001, "<$0.01"),
        (0.03, "$0.03"),
        (12.345, "$12.35"),
        (1234.5, "$1,234.50"),
        (1e9, "$1,000,000,000.00"),
        (1.001e9, ">$1,000,000,000.00"),
        (-0.001, ">-$0.01"),
        (-12.5, "-$12.50"),
        (-2e9, "<-$1,000,000,000.00"),
    ],
)
def test_fractions_of_a_cent_are_not_nothing_and_no_amount_is_endless(usd, text):
    assert dollars(usd) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3780, "1 h 03 min"),
        (36_000_000, "10000 h 00 min"),
        (36_000_060, ">10000 h"),
        (-3780, "0 s"),
    ],
)
def test_durations_are_written_for_people(seconds, text):
    assert duration(seconds) == text


def test_a_time_is_written_to_the_second():
    assert moment("2026-11-22T06:00:03.999Z") == "2026-11-22T06:00:03Z"
    assert moment("2026-11-22T06:00:03Z") == "2026-11-22T06:00:03Z"


def test_a_change_is_told_with_its_interval_where_there_is_one():
    assert change_with_interval(1.98, (1.97, 2000)).replace("\u202f", " ") == (
        "+98 % (95 % CI +97 to >+99 900 %)"
    )
    assert change_with_interval(1.98, None) == "+98 %"
    assert change_with_interval(None, None) == change_with_interval(math.nan, None) == ""


ANY_FLOAT = [
    given(st.floats()),
    *map(example, (math.inf, -math.inf, math.nan, 0.0, -0.0)),
    *map(example, (5e-324, -5e-324, 1.795e308, -1.795e308)),
]


def of_any_float(test):
    for decorate in reversed(ANY_FLOAT):
        test = decorate(test)
    return test


@of_any_float
def test_any_number_has_a_short_figure_without_an_exponent(value):
    figures = [
        *(quantity(value, unit) for unit in [*UNITS, "transactions/s"]),
        ratio(value),
        change(value),
        percent(value),
        dollars(value),
        duration(value),
    ]
    for figure in figures:
        assert figure == UNKNOWN or re.fullmatch(r"[<>]?[-+−]?\$?[\d.,\u202f]+( .+)?", figure)
        assert not re.search(r"\de", figure)
        assert len(figure) <= 40


@of_any_float
def test_a_bound_is_on_the_right_side_of_its_value(value):
    for written, size in (
        (ratio(value), value),
        (percent(value), 100 * value),
        (dollars(value), value),
        (quantity(value, "transactions/s"), value),
    ):
        bound = float(re.sub(r"[^\d.e-]", "", written.partition(" ")[0]) or "nan")
        assert not written.startswith("<") or size < bound
        assert not written.startswith(">") or size > bound


@of_any_float
def test_any_axis_has_a_unit_to_divide_by(most):
    factor, unit = prefixed(most, "s")
    assert 1e-9 <= factor <= 1 and unit in ("ns", "µs", "ms", "s")
    assert not math.isfinite(most) or math.isfinite(most / factor)


def test_what_is_not_known_is_no_zero():
    assert {quantity(None, "s"), ratio(None), percent(None), dollars(None), duration(None)} == {
        UNKNOWN
    }


def test_an_axis_has_one_unit_for_all_its_ticks():
    assert prefixed(9.6e8, "bit/s") == (1e6, "Mbit/s")
    assert prefixed(0, "s") == (1.0, "s")
    assert prefixed(90_000, "packets/s") == (1.0, "packets/s")
    assert prefixed(2e6, "packets/s") == (1e6, "million packets/s")


def test_a_unit_that_nobody_knows_names_the_file_to_edit():
    assert unit_of("transactions/s").column == "transactions_per_second"
    with pytest.raises(ValueError, match=r"rackrate_text/units\.py"):
        unit_of("furlong")


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("90us", "s", 90e-6),
        ("90 µs", "s", 90e-6),
        ("90 \u03bcs", "s", 90e-6),
        (" 0.5 ms ", "s", 5e-4),
        ("2s", "s", 2.0),
        ("9.5 Gbit/s", "bit/s", 9.5e9),
        ("19800 transactions/s", "transactions/s", 19_800.0),
        ("19 ktransactions/s", "transactions/s", None),
        ("90", "s", None),
        ("90 Gbps", "bit/s", None),
        ("-1 ms", "s", None),
        ("0 ms", "s", None),
        ("1e-3 s", "s", None),
        ("90 xs", "s", None),
    ],
)
def test_a_quantity_is_read_with_its_unit_or_not_at_all(text, unit, value):
    read = read_quantity(text, unit)
    assert read == (None if value is None else pytest.approx(value))


@given(st.floats(1, 1e14))
def test_what_is_written_of_a_bandwidth_is_read_back(value):
    text = quantity(value, "bit/s")
    assert read_quantity(text, "bit/s") == pytest.approx(value, rel=0.006)
