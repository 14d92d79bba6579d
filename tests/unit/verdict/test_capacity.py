"""How often the nodes of an arm came: coverage of the interval, what counts, when to stop."""

from __future__ import annotations

import functools
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.verdict.capacity import (
    UNFILLED_IN_A_ROW,
    capacities,
    interval_of_share,
    never_fills,
)
from rackrate_contract.capacity import how_they_came, sentences
from rackrate_text.launches import lacks_capacity
from tests.unit.report.campaigns import LOST, launch, step

TITLES = {"treatment": "cluster group", "baseline": "no group"}
interval = functools.cache(interval_of_share)


@pytest.mark.parametrize(
    ("successes", "number", "ends"),
    # Newcombe 1998 (doi 10.1002/(SICI)1097-0258(19980430)17:8<857::AID-SIM777>3.0.CO;2-E), table I,
    # has the first three, and 1 - 0.025 ** (1 / 12) is the end of the last.
    [
        (81, 263, (0.2527, 0.3676)),
        (15, 148, (0.0578, 0.1617)),
        (0, 20, (0.0, 0.1684)),
        (1, 29, (0.0009, 0.1776)),
        (12, 12, (0.7354, 1.0)),
    ],
)
def test_the_interval_is_clopper_and_pearsons(successes, number, ends):
    assert interval(successes, number) == pytest.approx(ends, abs=5e-5)


@given(st.integers(1, 20), st.floats(0, 1))
def test_the_interval_covers_every_true_share_in_at_least_95_percent_of_campaigns(number, share):
    held = sum(
        comb(number, filled) * share**filled * (1 - share) ** (number - filled)
        for filled in range(number + 1)
        if interval(filled, number)[0] <= share <= interval(filled, number)[1]
    )
    assert held >= 0.95 - 1e-9


@pytest.mark.parametrize("share", [0.3, 0.6, 0.615, 0.65, 0.9])
def test_four_refusals_in_a_row_as_an_end_cost_it_one_percent(share):
    most, held, going = 12, 0.0, {(0, 0): 1.0}
    for number in range(1, most + 1):
        after: dict[tuple[int, int], float] = {}
        for (filled, in_a_row), probability in going.items():
            for came, chance in ((True, share), (False, 1 - share)):
                state = (filled + came, 0 if came else in_a_row + 1)
                after[state] = after.get(state, 0.0) + probability * chance
        ended = {s: after[s] for s in after if number == most or s[1] == UNFILLED_IN_A_ROW}
        going = {state: after[state] for state in after if state not in ended}
        for (filled, _), probability in ended.items():
            low, high = interval(filled, number)
            held += probability * (low <= share <= high)
    assert held >= 0.94


def unfilled(number, got=1):
    launches = (launch(outcome="refused", got=got), launch("baseline"))
    return step(number, **LOST | {"status": "unfilled"}, launches=launches)


def filled(number, seconds=48.0):
    launches = (launch(last_seconds=seconds), launch("baseline", last_seconds=41.0))
    return step(number, launches=launches)


def test_launches_that_failed_otherwise_and_load_nodes_are_in_no_figure():
    others = step(3, launches=(launch(outcome="failed"), launch("load")))
    group, without = capacities([filled(1), unfilled(2), others], TITLES)
    assert (group.filled, group.launches, group.failed, group.share) == (1, 2, 1, 0.5)
    assert (without.filled, without.launches, without.failed) == (2, 2, 0)
    assert capacities([others], {"treatment": "cluster group"}) == ()


def test_the_sentence_has_the_share_its_interval_and_the_median_time_of_both_arms():
    steps = [*map(filled, range(1, 12)), unfilled(12)]
    assert sentences(capacities(steps, TITLES), {}) == [
        "Capacity: cluster group 11 of 12 draws filled (95 % CI 62 to 100 %), in 48 s at the"
        " median; no group 12 of 12 (74 to 100 %), in 41 s at the median."
    ]
    none = sentences(capacities([unfilled(1)], TITLES), {})[0]
    assert none.startswith("Capacity: cluster group 0 of 1 draw filled (95 % CI 0 to 98 %); no")


def test_the_values_of_a_sweep_are_told_apart():
    steps = [step(n, value=n, launches=(launch(asked=n, got=n),)) for n in (2, 15)]
    first, second = sentences(capacities(steps, TITLES), {2: "2 nodes in each arm"})
    assert first.startswith("Capacity, 2 nodes in each arm: cluster group 1 of 1 step filled")
    assert second.startswith("Capacity, 15: ")


def test_the_launches_of_a_run_are_told_in_a_sentence_without_its_load_nodes():
    refused = launch("baseline", got=1, outcome="refused")
    launches = (launch(), refused, launch("load"))
    came = "cluster group 2 of 2 nodes in 31 s to 48 s; no group 1 of 2 nodes, refused."
    assert how_they_came(launches) == f"Capacity: {came}"
    assert how_they_came(launches[2:]) == how_they_came(()) == ""


def test_equal_reasons_are_named_once_whenever_they_were_given():
    refused = [
        launch(
            outcome="refused",
            got=0,
            reasons=(f"ng-1: insufficient capacity ({at})", "ng-1 is DEGRADED"),
        )
        for at in ("2026-11-29T09:00:00Z", "2026-11-29T09:30:00Z")
    ]
    (group,) = capacities([step(n, launches=(each,)) for n, each in enumerate(refused)], TITLES)
    assert len(group.reasons) == 1 and group.reasons[0].startswith("ng-1: insufficient capacity")


@pytest.mark.parametrize(
    ("outcomes", "most", "ends"),
    [
        ("uuu", 12, False),
        ("fuuuu", 12, True),
        ("uufuu", 12, False),
        ("uu", 2, True),
        ("u", 1, True),
        ("uuu", None, False),
        ("", 1, False),
    ],
)
def test_four_launches_in_a_row_that_were_not_filled_end_a_campaign(outcomes, most, ends):
    steps = [unfilled(n) if each == "u" else filled(n) for n, each in enumerate(outcomes, 1)]
    text = never_fills(steps, most)
    assert (text is not None) is ends
    if text is not None:
        assert "of cluster group in" in text
        assert "at most 1 of 2 came. Ask for fewer nodes" in text


@pytest.mark.parametrize(
    ("words", "lacks"),
    [
        (
            "AsgInstanceLaunchFailures: Could not launch On-Demand Instances."
            " InsufficientInstanceCapacity - We currently do not have sufficient p4d.24xlarge"
            " capacity in the Availability Zone you requested (us-east-1a).",
            True,
        ),
        ("We currently do not have sufficient c5.large capacity in zones with support", True),
        ("There is no Spot capacity available that matches your request.", True),
        ("Insufficient capacity. Launching EC2 instance failed.", True),
        (
            "You have requested more vCPU capacity than your current vCPU limit of 32 allows for"
            " the instance bucket that the specified instance type belongs to.",
            False,
        ),
        ("NodeCreationFailure: Instances failed to join the kubernetes cluster", False),
        ("The specified instance type is not eligible for Free Tier.", False),
    ],
)
def test_only_ec2s_words_about_capacity_are_a_refusal_for_capacity(words, lacks):
    assert lacks_capacity(words) is lacks
