"""The page and its figures: self-contained, escaped, and honest about units."""

from __future__ import annotations

import html.parser
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.report.figures import interval_figure, si, trials_figure
from rackrate.report.page import render_page

NASTY = "<script>alert('x')</script>&\""


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (9.5e9, "bit/s", "9.50 Gbit/s"),
        (155e-6, "s", "155 µs"),
        (0.000457, "s", "457 µs"),
        (999.96, "bit/s", "1.00 kbit/s"),
        (0, "s", "0 s"),
        (1, "s", "1.00 s"),
        (12.34, "s", "12.3 s"),
        (5e13, "bit/s", "50.0 Tbit/s"),
        (2e-10, "s", "0.200 ns"),
    ],
)
def test_values_have_si_prefixes_and_three_digits(value, unit, text):
    assert si(value, unit) == text


@given(st.floats(1e-9, 1e14))
def test_no_digit_that_matters_is_lost(value):
    number, unit = si(value, "x").split(" ")
    factor = {"T": 12, "G": 9, "M": 6, "k": 3, "": 0, "m": -3, "µ": -6, "n": -9}[unit[:-1]]
    assert float(number) * 10**factor == pytest.approx(value, rel=0.006)


def results(**changes):
    verdict = {
        "test": "tcp-1",
        "metric": "throughput",
        "unit": "bit/s",
        "better": "higher",
        "arm": "treatment",
        "baseline": "baseline",
        "arm_median": 9.5e9,
        "baseline_median": 4.94e9,
        "ratio": 1.923,
        "ci95": [1.91, 1.94],
        "verdict": "better",
        "reason": None,
        "blocks": 6,
        "threshold": 0.05,
        "ceiling": {"name": "single-flow", "arm": 1e10, "baseline": 5e9, "source": "https://x/"},
    }
    arms = [
        {
            "name": name,
            "placement": placement,
            "ena_express": name == "treatment",
            "node_facts": [{"name": f"{name}-1"}],
        }
        for name, placement in (("treatment", "cluster"), ("baseline", "none"))
    ]
    return {
        "run": {
            "id": NASTY,
            "status": "failed",
            "started_at": "2026-11-21T08:00:00Z",
            "seconds": 90.0,
            "seed": 42,
            "lab_scale": 0.15,
            "error": "TrialsLost",
            "cause": NASTY,
        },
        "conclusion": NASTY,
        "plan": {"tests": [{"name": "tcp-1"}]},
        "arms": arms,
        "trials": {
            "planned": 12,
            "measured": 9,
            "failed": 3,
            "failures": [
                {"block": 1, "test": "tcp-1", "client": "a", "server": "b", "reason": NASTY}
            ],
        },
        "verdicts": [verdict],
        "versions": {"tools": ["iperf 3.12"], "image": "tools:1"},
        **changes,
    }


TRIALS = [
    {"test": "tcp-1", "status": "measured", "unit": "bit/s", "arm": arm, "block": b, "value": v}
    for b in range(1, 7)
    for arm, v in (("treatment", 9.5e9), ("baseline", 4.9e9))
]


class Elements(html.parser.HTMLParser):
    """Collects elements and checks that they are closed in order."""

    void = frozenset({"meta"})

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_nothing_but_itself():
    elements = Elements(render_page(results(), TRIALS)).found
    assert not {"script", "img", "iframe", "link"} & {tag for tag, _ in elements}
    assert not [attrs for _, attrs in elements if "src" in attrs]
    assert "url(" not in render_page(results(), TRIALS)


def test_nothing_a_user_wrote_becomes_markup():
    assert "<script>" not in render_page(results(), TRIALS)


def test_the_page_says_what_failed_and_what_was_scaled():
    text = render_page(results(), TRIALS)
    assert "TrialsLost" in text and "9 of 12 trials" in text
    assert "scaled by 0.15" in text
    assert "2 trials never ran" in text


def test_an_arm_is_shown_with_its_placement_and_ena_express():
    text = render_page(results(), TRIALS)
    assert "treatment (cluster, ENA Express)" in text
    assert "baseline (none)" in text


def test_every_trial_is_a_dot_with_its_value():
    elements = Elements(render_page(results(), TRIALS)).found
    dots = [a for tag, a in elements if tag == "circle" and a["class"].startswith("arm-")]
    assert len(dots) == 12
    heights = {attrs["class"]: float(attrs["cy"]) for attrs in dots}
    assert heights["arm-0"] < heights["arm-1"], "more is higher"


def test_a_page_of_a_run_that_measured_nothing_is_still_a_page():
    empty = results(verdicts=[])
    assert "No trial was measured" in render_page(empty, [])


def test_a_verdict_without_an_interval_is_shown_without_one():
    bare = {**results()["verdicts"][0], "ratio": None, "ci95": None, "arm_median": None}
    assert "&ndash;" in render_page(results(verdicts=[bare]), TRIALS)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.floats(1e-6, 1e12)), min_size=1, max_size=20),
    st.lists(st.floats(0.01, 100), min_size=3, max_size=3),
)
def test_figures_stay_within_their_frame(points, ratios):
    low, ratio, high = sorted(ratios)
    text = trials_figure({"a": points}, unit="s", ceilings={}, title="t")
    text += interval_figure(ratio, low, high, threshold=0.05, title="t")
    assert "nan" not in text and "inf" not in text
    for value in re.findall(r'\b(?:x1|x2|cx)="([-0-9.]+)"', text):
        assert 0 <= float(value) <= 640
    for value in re.findall(r'\b(?:y1|y2|cy)="([-0-9.]+)"', text):
        assert 0 <= float(value) <= 220
