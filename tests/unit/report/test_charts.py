"""The charts: values stay within the frame, axes are not misleading, omissions are stated."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.report.charts import (
    canvas,
    dots,
    draws,
    ecdf,
    heatmap,
    intervals,
    series,
    tiers,
)
from rackrate.report.charts.axis import value_axis
from rackrate.verdict.percentiles import percentiles
from tests import ROOT
from tests.unit.report.pages import marks, tips

NAMED = {"name": "n", "title": "t", "description": "d"}


# -- axes


@given(st.lists(st.just(0.0) | st.floats(1e-9, 1e13), min_size=1, max_size=10))
def test_an_axis_holds_all_its_values(values):
    axis = value_axis(values, "s")
    assert axis.low <= min(values) and max(values) <= axis.high
    assert axis.low < axis.high
    assert not axis.logarithmic or axis.low > 0


def test_an_axis_that_leaves_zero_out_says_so():
    assert value_axis([990e6, 1000e6], "bit/s").note() == "The axis does not begin at zero."
    assert value_axis([500e6, 1000e6], "bit/s").note() == ""
    assert value_axis([1e-4, 1e-1], "s").note() == "The axis is logarithmic."


# -- trials


def drawn(all_dots, **others):
    trials = dots.Trials(arms=2, unit="s", label="rtt", dots=tuple(all_dots), **others)
    return ET.fromstring(dots.trials_chart(trials).svg(**NAMED))


@given(
    st.lists(
        st.builds(
            dots.Dot,
            st.integers(0, 1),
            st.integers(1, 40),
            st.just(0.0) | st.floats(1e-9, 1e12),
            st.just("a tip"),
            st.booleans(),
        ),
        min_size=1,
        max_size=60,
    )
)
@settings(max_examples=6)
def test_every_trial_has_a_mark_within_the_frame(placed):
    chart = drawn(placed)
    assert len(marks(chart)) == len(placed)
    for mark in marks(chart):
        assert 40 <= mark.x <= 330
        assert 25 <= mark.y <= 220


def test_a_failed_trial_is_above_the_values_and_never_a_zero():
    loss = dots.Loss(1, 2, "baseline, block 2: failed, refused")
    chart = drawn([dots.Dot(0, n, 0.001 * n, "measured") for n in range(1, 4)], losses=(loss,))
    (cross,) = [mark for mark in marks(chart) if "failed" in mark.tip]
    assert cross.y < 30


def test_many_trials_are_an_image_that_has_real_colours():
    many = [dots.Dot(n % 2, n % 9 + 1, 1.0 + n % 13, "tip", n % 50 == 0) for n in range(2000)]
    chart = drawn(many)
    (image, *_) = chart.iter("image")
    assert image.get("href").startswith("data:image/png;base64,")
    assert "#010" not in ET.tostring(chart, encoding="unicode")
    assert len(ET.tostring(chart)) < 200_000
    assert "tip" not in tips(chart)


@pytest.mark.parametrize(
    ("last", "ticks"), [(1, ["1"]), (6, list("123456")), (40, ["5", "10", "15", "20"])]
)
def test_blocks_are_counted_in_whole_numbers(last, ticks):
    chart = drawn([dots.Dot(0, block, 1.0 + block, "") for block in range(1, last + 1)])
    below = [text.text for text in chart.iter("text") if 225 < float(text.get("y")) < 235]
    assert [text for text in below if text.isdecimal()][: len(ticks)] == ticks


def test_a_limit_that_is_far_off_does_not_press_the_trials_flat():
    two = [dots.Dot(0, 1, 1e9, ""), dots.Dot(1, 1, 0.9e9, "")]
    near = dots.Trials(2, "bit/s", "x", tuple(two), ceilings=((0, 1.2e9), (1, 50e9)))
    assert near.limits() == {0: 1.2e9}
    assert near.axis.high < 2e9


# -- ECDF


@given(st.lists(st.floats(1e-9, 10), min_size=1, max_size=2000))
@settings(max_examples=50)
def test_the_curve_rises_to_one_and_keeps_the_tail(values):
    curve = ecdf.Curve(0, tuple(sorted(values)))
    steps = curve.steps()
    assert steps[-1] == (max(values), len(values))
    assert [rank for _, rank in steps] == sorted(rank for _, rank in steps)
    assert len(steps) <= 300
    tail = sorted(values)[-30:]
    assert [value for value, _ in steps][-len(tail) :] == tail


def test_percentiles_are_those_of_the_summaries():
    values = tuple(sorted((n * 7919 % 1009) / 1e6 for n in range(1009)))
    expected = percentiles([values])
    curve = ecdf.Curve(0, values)
    assert curve.at(0.5) == pytest.approx(expected.p50)
    assert curve.at(0.99) == pytest.approx(expected.p99)


@pytest.mark.parametrize("interval", [None, (1.9e-4, 2.1e-4)])
def test_a_p99_is_marked_with_its_interval_and_not_without_one(interval):
    curve = ecdf.Curve(0, tuple(1e-4 + n * 1e-7 for n in range(1000)), interval)
    expected = ["p50", "p99"] if interval else ["p50"]
    assert [name for name, _ in curve.marked] == expected
    chart = ET.fromstring(ecdf.ecdf_chart([curve], "s", "rtt").svg(**NAMED))
    assert [tip.split(":")[0] for tip in tips(chart)] == expected


# -- series


def course(arm: int, block: int, rate: float = 1e9) -> series.Course:
    return series.Course(arm, block, (0.0, 1.0), (1.0, 2.0), (rate, rate))


def test_a_bounded_number_of_panels_is_spread_over_all_blocks():
    chosen = series.choose([course(0, block) for block in range(1, 101)])
    blocks = [block for block, _ in chosen.panels]
    assert len(blocks) == series.MOST_PANELS
    assert (blocks[0], blocks[-1], chosen.blocks) == (1, 100, 100)


def test_of_many_trials_the_slowest_and_the_fastest_are_shown():
    chosen = series.choose([course(arm, 1, 1e9 + n) for arm in (0, 1) for n in range(50)])
    ((_, courses),) = chosen.panels
    assert (chosen.shown, chosen.in_panels) == (2 * series.MOST_LINES, (100,))
    assert {1e9, 1e9 + 49} <= {rate for each in courses for rate in each.rates}


def test_panels_share_one_scale_from_zero():
    chosen = series.choose([course(0, 1, 1e9), course(1, 2, 9e8)])
    assert series.courses_axis(chosen).from_zero
    chart = ET.fromstring(series.series_chart(chosen).svg(**NAMED))
    texts = {text.text for text in chart.iter("text")}
    assert {"block 1", "block 2", "rate, Gbit/s", "seconds"} <= texts


# -- intervals

RATIO = intervals.Ratio(1.9, (1.7, 2.1), 0.05)


@given(st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3), st.floats(0.001, 1))
@settings(max_examples=12)
def test_intervals_stay_within_their_frame(ratios, threshold):
    low, ratio, high = sorted(ratios)
    interval = intervals.Ratio(ratio, (low, high), threshold)
    reach = intervals.common_reach([interval])
    for text, width in (
        (intervals.interval_row(interval, reach).svg(**NAMED), 220),
        (intervals.interval_alone(interval).svg(**NAMED), canvas.WIDTH),
    ):
        assert "nan" not in text and "inf" not in text
        chart = ET.fromstring(text)
        for path in chart.iter("path"):
            if path.get("id") is None:  # the shape of a marker has its own center
                for x in re.findall(r"[ML] (-?[\d.]+) ", path.get("d", "")):
                    assert -1 <= float(x) <= width + 1
        assert all(0 <= float(use.get("x")) <= width for use in chart.iter("use"))


def test_a_ratio_without_a_logarithm_is_not_drawn():
    assert not intervals.Ratio(1.0, (0.0, 2.0), 0.05).drawable
    assert not intervals.Ratio(math.inf, (1.0, 2.0), 0.05).drawable
    assert RATIO.drawable


def test_rows_of_one_table_have_one_scale():
    near = intervals.Ratio(1.01, (1.0, 1.02), 0.05)
    reach = intervals.common_reach([near, RATIO])
    assert reach > math.log(2.1)
    places = {
        float(use.get("x"))
        for each in (near, near)
        for use in ET.fromstring(intervals.interval_row(each, reach).svg(**NAMED)).iter("use")
    }
    assert len(places) == 1


def test_no_difference_is_in_the_picture_unless_it_is_far_off():
    assert RATIO.shows_one
    assert not intervals.Ratio(2.0, (1.999, 2.001), 0.05).shows_one


# -- heat maps


def test_what_was_not_measured_has_no_cell():
    matrix = heatmap.Matrix(("a-1", "a-2", "a-3"), {(0, 1): 1e9, (1, 0): 2e9}, "bit/s")
    chart = ET.fromstring(heatmap.heatmap_chart(matrix, heatmap.Shades(1e9, 2e9)).svg(**NAMED))
    assert tips(chart) == ["a-1 to a-2: 1.00 Gbit/s", "a-2 to a-1: 2.00 Gbit/s"]
    assert {"1", "2", "3", "1.00 Gbit/s", "2.00 Gbit/s"} <= {t.text for t in chart.iter("text")}


def test_sixty_nodes_have_labels_and_a_thousand_are_an_image():
    for count, labels in ((60, 60), (1000, 12)):
        nodes = tuple(f"ip-10-0-{n // 250}-{n % 250}.ec2.internal" for n in range(count))
        pairs = {(n, (n + 1 + m) % count): 1e9 + n for n in range(count) for m in range(5)}
        matrix = heatmap.Matrix(nodes, pairs, "bit/s")
        text = heatmap.heatmap_chart(matrix, heatmap.Shades(1e9, 2e9)).svg(**NAMED)
        chart = ET.fromstring(text)
        assert chart.find(".//image") is not None
        assert len(text) < 250_000
        rotated = [t for t in chart.iter("text") if "rotate(-90" in t.get("transform", "")]
        assert labels <= len(rotated) <= labels + 1


def test_names_are_shortened_by_what_they_share_and_stay_apart():
    names = ["ip-10-0-32-193.ec2.internal", "ip-10-0-32-65.ec2.internal"]
    assert heatmap.short_names(names) == ["193", "65"]
    assert heatmap.short_names(["a", "b"]) == ["a", "b"]
    assert heatmap.short_names(["one"]) == ["one"]


def test_shades_are_told_apart_by_lightness_alone():
    colours = heatmap.colours([0.0, 0.25, 0.5, 0.75, 1.0], heatmap.Shades(0.0, 1.0))
    lightness = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b, _ in colours]
    assert lightness == sorted(lightness)
    assert min(b - a for a, b in pairwise(lightness)) > 0.05


# -- all charts


def test_arms_differ_in_more_than_colour():
    looks = {(canvas.marker(n), str(canvas.dashes(n))) for n in range(2 * canvas.COLOURS)}
    assert len(looks) == 6
    looks = {(canvas.colour(n), canvas.marker(n)) for n in range(12)}
    assert len(looks) == 12


def test_a_chart_takes_its_colours_from_the_page_and_no_style_leaves_it():
    text = intervals.interval_alone(RATIO).svg(**NAMED)
    assert "var(--ink)" in text and "var(--band)" in text
    assert "#010" not in text and "<style" not in text and "font-family" not in text


# -- draws of a campaign


def draws_of(*ratios, **more):
    all_draws = tuple(draws.Draw(ratio, None, f"draw {n}") for n, ratio in enumerate(ratios, 1))
    fields = {"average": ratios[0], "interval": None, "prediction": None, "threshold": 0.05}
    return draws.Draws(arm=0, draws=all_draws, **{**fields, **more})


POSITIVE = st.floats(1e-3, 1e3)
ENDS = st.tuples(POSITIVE, POSITIVE).map(lambda ends: (min(ends), max(ends)))


@given(st.lists(POSITIVE, min_size=1, max_size=30), st.none() | ENDS, st.none() | ENDS)
@settings(max_examples=8)
def test_every_draw_has_a_mark_within_the_frame_however_wide_the_intervals(ratios, mean, following):
    shown = draws_of(*ratios, interval=mean, prediction=following)
    chart = ET.fromstring(draws.draws_chart(shown).svg(**NAMED))
    assert len(marks(chart)) == len(ratios)
    for mark in marks(chart):
        assert 45 <= mark.x <= 290
        assert 25 <= mark.y <= 200


def test_draws_close_to_each_other_are_told_apart_beside_a_huge_interval():
    low, high = draws_of(1.9, 2.0, prediction=(1e-3, 1e3)).axis
    assert 1e-2 < low < 1.9 and 2.0 < high < 1e2
    assert draws_of(1.9, 2.0, prediction=(1e-3, 1e3)).cut
    assert not draws_of(1.9, 2.0, prediction=(1.8, 2.2)).cut


def test_the_axis_has_room_for_one_unless_it_is_far_from_all_draws():
    assert draws_of(1.1, 1.2).shows_one
    assert not draws_of(9.8, 9.9, threshold=0.01).shows_one


def test_a_newest_draw_that_differs_is_hollow():
    chart = ET.fromstring(draws.draws_chart(draws_of(2.0, 1.9, 1.2, changed=True)).svg(**NAMED))
    hollow = [mark.tip for mark in marks(chart) if "fill:var(--paper)" in mark.style]
    assert hollow == ["draw 3"]


# -- sweeps


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(1e-9, 1e12)), min_size=1, max_size=12))
@settings(max_examples=6)
def test_every_value_of_a_sweep_has_a_mark_within_the_frame(placed):
    shown = tiers.Tiers(
        names=tuple(f"value-{n}" for n in range(len(placed))),
        swept="nodes",
        label="rtt",
        unit="s",
        tiers=tuple(
            tiers.Tier(arm, place, value, None, "a tip")
            for place, (arm, value) in enumerate(placed)
        ),
    )
    chart = ET.fromstring(tiers.tiers_chart(shown).svg(**NAMED))
    assert len(marks(chart)) == len(placed)
    for mark in marks(chart):
        assert 45 <= mark.x <= 390
        assert 25 <= mark.y <= 200


def test_a_limit_far_above_the_values_is_not_drawn():
    near, far = (
        tiers.Tiers(("1",), "nodes", "throughput", "bit/s", (tiers.Tier(0, 0, 1e9, None, ""),), top)
        for top in (1.2e9, 1e10)
    )
    assert (near.limit, far.limit) == (1.2e9, None)
    assert far.axis.high < 2e9


def test_a_chart_is_drawn_without_a_word_where_the_home_cannot_be_written_to(tmp_path):
    """Lambda's home is read-only, and matplotlib would warn of it in every new process."""
    code = (
        "from rackrate.report.charts.canvas import Chart\n"
        "print(Chart(lambda figure: None, 100, 50).svg('n', 't')[:4])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HOME": "/dev/null", "TMPDIR": str(tmp_path), "PYTHONPATH": "functions"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    # Where the list of the fonts takes more than 5 s, matplotlib says that it makes one.
    warnings = [line for line in done.stderr.splitlines() if "building the font cache" not in line]
    assert (done.stdout.strip(), warnings) == ("<svg", [])
